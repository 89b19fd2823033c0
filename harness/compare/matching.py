"""Pair the results of BASE and CANDIDATE: the same kernel in the same environment."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from harness.compare.reading import KernelResults
from harness.core.errors import UsageError

Matched = tuple[KernelResults, KernelResults]
"""The results of one kernel in BASE and in CANDIDATE."""


def match(
    base: Sequence[KernelResults], candidate: Sequence[KernelResults], across_environments: bool
) -> Iterator[Matched]:
    """Pair results of the same kernel in the same environment.

    Across environments, pair those that were tuned last. Raises UsageError where a kernel has no
    environment on both sides.
    """
    for kernel in dict.fromkeys(results.kernel for results in candidate):
        old = _of_kernel(base, kernel)
        new = _of_kernel(candidate, kernel)
        if not old:
            continue
        pairs: list[Matched] = []
        for results in new:
            same = _same(old, results)
            if same is not None:
                pairs.append((same, results))
        if across_environments:
            pairs = [(old[0], new[0])]
        if not pairs:
            raise UsageError(_refusal(old[0], new[0]))
        for before, after in pairs:
            was = before.statistic.value
            now = after.statistic.value
            if was != now:
                raise UsageError(
                    f"{kernel} was tuned by the {now} of its samples, but BASE by the {was}. Tune "
                    f"CANDIDATE again with `measure: {{statistic: {was}}}`: it uses the "
                    "measurements that are there"
                )
            yield before, after


def _of_kernel(side: Sequence[KernelResults], kernel: str) -> list[KernelResults]:
    """Return the results of a kernel, those tuned last first."""
    return [results for results in side if results.kernel == kernel]


def _same(others: Sequence[KernelResults], results: KernelResults) -> KernelResults | None:
    """Return the one of the others that was measured in the same environment."""
    return next((other for other in others if not _differences(other, results)), None)


def check_last(
    base: Sequence[KernelResults],
    candidate: Sequence[KernelResults],
    matched: Sequence[Matched],
    fresh: Collection[str],
) -> None:
    """Raise UsageError where only copies of a kernel's results can be compared, though CANDIDATE
    was tuned last in an environment that BASE lacks.

    Without this check the kernel would seem as fast as before. The `fresh` kernels have more than
    copies.
    """
    compared = [new for _, new in matched]
    for kernel in dict.fromkeys(new.kernel for new in compared):
        last = _of_kernel(candidate, kernel)[0]
        if kernel not in fresh and all(new is not last for new in compared):
            raise UsageError(_refusal(_of_kernel(base, kernel)[0], last))


def _differences(base: KernelResults, candidate: KernelResults) -> Mapping[str, tuple[str, str]]:
    """Return the fields in which the environments differ, with both values."""
    new = candidate.environment.compared
    differences: dict[str, tuple[str, str]] = {}
    for name, value in base.environment.compared.items():
        if value != new[name]:
            differences[name] = value, new[name]
    return differences


def _refusal(base: KernelResults, candidate: KernelResults) -> str:
    differences = _differences(base, candidate)
    changes = [f"    {n}: {a} -> {b}" for n, (a, b) in differences.items()]
    same = "in this environment"
    if differences.keys() <= {"cache", "clock"}:
        stated = ", ".join(f"{name}: {new}" for name, (_, new) in differences.items())
        same = f"with `measure: {{{stated}}}` in its space"
    return (
        f"{candidate.kernel} was measured in another environment than BASE\n"
        + "\n".join(changes)
        + f"\nTune BASE again {same}. To compare the two environments, use "
        "--across-environments"
    )


def matching_notes(
    base: Sequence[KernelResults], candidate: Sequence[KernelResults], matched: Sequence[Matched]
) -> Iterator[str]:
    """Say what is not compared, and what differs besides the kernel."""
    both = {new.kernel for _, new in matched}
    for name, side in (("BASE", base), ("CANDIDATE", candidate)):
        alone = sorted({results.kernel for results in side} - both)
        if alone:
            yield f"only in {name}: {', '.join(alone)}"
    compared = [new for _, new in matched]
    for results in candidate:
        others = _of_kernel(base, results.kernel)
        is_compared = any(results is new for new in compared)
        if results.kernel in both and not is_compared and not _same(others, results):
            changes = _differences(others[0], results).items()
            fields = ", ".join(f"{name} {new}" for name, (_, new) in changes)
            yield f"only in CANDIDATE: {results.kernel} with {fields}"
    for old, new in matched:
        for name, (a, b) in _differences(old, new).items():
            yield f"{new.kernel}: {name} differs: {a} -> {b}"
        if old.program != new.program:
            yield f"{new.kernel}: sources differ, {old.program[:8]} -> {new.program[:8]}"
