"""Which of what two places hold is compared: the same kernels in the same environments."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence

from harness.compare.reading import UNKNOWN, Held
from harness.core.errors import UsageError
from harness.core.records import Environment


def match(
    base: Sequence[Held], candidate: Sequence[Held], across: bool
) -> Iterator[tuple[Held, Held]]:
    """What to compare with what: of each kernel the same environments; across environments, those
    that were last worked on. Raises UsageError where no environment of a kernel is on both sides.
    """
    for kernel in dict.fromkeys(held.kernel for held in candidate):
        there, here = ([h for h in side if h.kernel == kernel] for side in (base, candidate))
        if there and across:
            yield there[0], here[0]
        elif there:
            pairs = [(old, held) for held in here if (old := _same(there, held))]
            if not pairs:
                raise UsageError(_refusal(there[0], here[0]))
            yield from pairs


def _same(there: Sequence[Held], held: Held) -> Held | None:
    """What was measured in the same environment."""
    return next((other for other in there if not _differences(other, held)), None)


def check_last(
    base: Sequence[Held],
    candidate: Sequence[Held],
    matched: Sequence[tuple[Held, Held]],
    fresh: Collection[str],
) -> None:
    """Raise UsageError where a kernel was last tuned in an environment that BASE lacks, and all
    that can be compared are copies: it would seem to be as fast as ever. The `fresh` kernels have
    more than copies."""
    for kernel in dict.fromkeys(new.kernel for _, new in matched):
        old, last = (next(h for h in side if h.kernel == kernel) for side in (base, candidate))
        if kernel not in fresh and all(new is not last for _, new in matched):
            raise UsageError(_refusal(old, last))


def _differences(base: Held, candidate: Held) -> Mapping[str, tuple[str, str]]:
    """Where environments differ, as far as both are known."""
    names = [f.name for f in dataclasses.fields(Environment) if f.compare]
    told = {n: (getattr(base.environment, n), getattr(candidate.environment, n)) for n in names}
    return {n: (a, b) for n, (a, b) in told.items() if a != b and UNKNOWN not in (a, b)}


def _unknown(base: Held, candidate: Held) -> Iterator[str]:
    """What an export does not tell, so that a difference would not show."""
    names = [f.name for f in dataclasses.fields(Environment) if f.compare]
    for side, held in (("BASE", base), ("CANDIDATE", candidate)):
        lacking = [name for name in names if getattr(held.environment, name) == UNKNOWN]
        if lacking:
            yield f"{held.kernel}: {side} does not tell its {', '.join(lacking)}: it may differ"


def _refusal(base: Held, candidate: Held) -> str:
    told = [f"    {n}: {a} -> {b}" for n, (a, b) in _differences(base, candidate).items()]
    return (
        f"{candidate.kernel} was measured in another environment than BASE\n"
        + "\n".join(told)
        + "\ntune BASE again in this one; or give --across-environments, if this difference is "
        "what you want to compare"
    )


def matching_notes(
    base: Sequence[Held], candidate: Sequence[Held], matched: Sequence[tuple[Held, Held]]
) -> Iterator[str]:
    """What is not compared, and what else than the kernel differs."""
    compared = [held for _, held in matched]
    both = {held.kernel for held in compared}
    for name, side in (("BASE", base), ("CANDIDATE", candidate)):
        alone = sorted({held.kernel for held in side} - both)
        if alone:
            yield f"only in {name}: {', '.join(alone)}"
    for held in candidate:
        there = [other for other in base if other.kernel == held.kernel]
        if (
            held.kernel in both
            and _same(there, held) is None
            and all(held is not new for new in compared)
        ):
            told = ", ".join(f"{n} {b}" for n, (_, b) in _differences(there[0], held).items())
            yield f"only in CANDIDATE: {held.kernel} with {told}"
    for old, new in matched:
        yield from _unknown(old, new)
        for name, (a, b) in _differences(old, new).items():
            yield f"{new.kernel}: {name} differs: {a} -> {b}"
        if old.program and new.program and old.program != new.program:
            yield f"{new.kernel}: sources differ, {old.program[:8]} -> {new.program[:8]}"
