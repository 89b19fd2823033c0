"""Pair the results of BASE and CANDIDATE: the same kernel in the same environment.

Two databases are taken at different times, and the machine may have changed between or during
them. There are two kinds of evidence that it, not the kernel, is the cause of a difference. Where
both sides have the same sources in the same environment, a configuration's code did not change, so
what differs is the machine; the default, measured on both sides, shows by how much. And each run
measures the default of every input several times, with minutes between: in the search, among the
candidates, in the finals. If its time changed from one to the next, the machine changed during that
run, and a difference between the runs that is no larger may be nothing else.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness.compare.reading import KernelResults
from harness.compare.statistics import Change, Verdict
from harness.core.errors import UsageError

Matched = tuple[KernelResults, KernelResults]
"""The results of one kernel in BASE and in CANDIDATE."""

_SCALES = 4.0
_NORMAL = 0.954  # median of |x - y| over the standard deviation of normal x and y
_FEW = 4  # inputs; with fewer, their scatter is not known


def match(
    base: Sequence[KernelResults], candidate: Sequence[KernelResults], across_environments: bool
) -> Iterator[Matched]:
    """Pair results of the same kernel in the same environment.

    Across environments, pair those that were tuned last. Raises UsageError where a kernel has no
    environment on both sides.
    """
    for kernel in dict.fromkeys(results.kernel for results in candidate):
        old, new = ([r for r in side if r.kernel == kernel] for side in (base, candidate))
        if not old:
            continue
        pairs = [(same, results) for results in new if (same := _same(old, results))]
        if across_environments:
            pairs = [(old[0], new[0])]
        if not pairs:
            raise UsageError(_refusal(old[0], new[0]))
        for pair in pairs:
            _require_one_statistic(*pair)
            yield pair


def _require_one_statistic(base: KernelResults, candidate: KernelResults) -> None:
    old, new = base.statistic.value, candidate.statistic.value
    if old == new:
        return
    raise UsageError(
        f"{candidate.kernel} was tuned by the {new} of its samples, but BASE by the {old}. "
        f"Tune CANDIDATE again with `measure: {{statistic: {old}}}`: it uses the measurements "
        "that are there"
    )


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
    for kernel in dict.fromkeys(new.kernel for _, new in matched):
        old, last = (next(r for r in side if r.kernel == kernel) for side in (base, candidate))
        if kernel not in fresh and all(new is not last for _, new in matched):
            raise UsageError(_refusal(old, last))


def _differences(base: KernelResults, candidate: KernelResults) -> Mapping[str, tuple[str, str]]:
    """Return the fields in which the environments differ, with both values."""
    new = candidate.environment.compared
    return {n: (a, new[n]) for n, a in base.environment.compared.items() if a != new[n]}


def _refusal(base: KernelResults, candidate: KernelResults) -> str:
    differences = _differences(base, candidate)
    changes = [f"    {n}: {a} -> {b}" for n, (a, b) in differences.items()]
    same = "in this environment"
    if set(differences) == {"cache"}:
        same = f"with `measure: {{cache: {candidate.environment.cache}}}` in its space"
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
    yield from _only_in_candidate(base, candidate, matched)
    for old, new in matched:
        for name, (a, b) in _differences(old, new).items():
            yield f"{new.kernel}: {name} differs: {a} -> {b}"
        if old.program != new.program:
            yield f"{new.kernel}: sources differ, {old.program[:8]} -> {new.program[:8]}"


def _only_in_candidate(
    base: Sequence[KernelResults], candidate: Sequence[KernelResults], matched: Sequence[Matched]
) -> Iterator[str]:
    """Name the environments that BASE lacks of kernels that are compared in another one."""
    compared = [new for _, new in matched]
    for results in candidate:
        others = [other for other in base if other.kernel == results.kernel]
        is_compared = any(results is new for new in compared)
        if any(new.kernel == results.kernel for new in compared) and not (
            is_compared or _same(others, results)
        ):
            changes = _differences(others[0], results).items()
            fields = ", ".join(f"{name} {new}" for name, (_, new) in changes)
            yield f"only in CANDIDATE: {results.kernel} with {fields}"


# ------------------------------------------------------------------------------- the machine


@dataclass(frozen=True)
class MachineEvidence:
    """What is known of the machine in the two runs of a kernel.

    `drift` is the logarithm of the largest change that the default's times show inside the runs, 0
    where there is none beyond noise.
    """

    same_code: bool = False
    drift: float = 0.0

    def explanation(self, change: Change, default: Change | None, threshold: float) -> str | None:
        """Say how the machine may have caused a significant change; None if it may not.

        `default` is the change of the default, whose code is the same on both sides, if it is.
        """
        sign = 1 if change.verdict is Verdict.SLOWER else -1
        near = change.ratio.low if sign > 0 else change.ratio.high
        least = sign * math.log(near) - math.log1p(threshold)
        if default and least <= sign * math.log(default.ratio.value):
            return "the default, whose code is the same, changed as well"
        if least <= self.drift and self.drift > 0:
            return f"the default's times changed by up to {math.exp(self.drift):.3f}x during a run"
        return None


NONE = MachineEvidence()


def evidence(base: KernelResults, candidate: KernelResults, threshold: float) -> MachineEvidence:
    """Collect the evidence of two matched results; changes below the threshold do not count."""
    same = base.program == candidate.program
    return MachineEvidence(
        same and base.environment == candidate.environment,
        sum(drift(_changes(side), threshold) for side in (base, candidate)),
    )


def _changes(results: KernelResults) -> list[float]:
    """Return the largest change of each input's default, from its earlier times to its last."""
    courses = [of_input.default_course for of_input in results.inputs.values()]
    return [
        max((course[-1] - earlier for earlier in course[:-1]), key=abs)
        for course in courses
        if len(course) > 1
    ]


def drift(changes: Sequence[float], threshold: float) -> float:
    """Return the largest of changes, in the order of the inputs, that is no noise; 0 if none is.

    Noise scatters from each input to the next. Work that begins in the middle of a run makes one
    step between neighbours, which their median difference does not notice.
    """
    largest = max(map(abs, changes), default=0.0)
    steps = [abs(first - second) for first, second in pairwise(changes)]
    scale = statistics.median(steps) / _NORMAL if len(changes) >= _FEW else 0.0
    return largest if largest > max(math.log1p(threshold), _SCALES * scale) else 0.0
