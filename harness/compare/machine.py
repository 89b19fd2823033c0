"""What speaks for the machine, not the kernel, as the cause of a difference.

Two databases are taken at different times, and the machine may have changed between or during
them. There are two kinds of evidence. Where both sides have the same sources in the same
environment, a configuration's code did not change, so what differs is the machine; the default,
measured on both sides, shows by how much. And each run measures the default of every input several
times, with minutes between: in the search, among the candidates, in the finals. If its time changed
from one to the next, the machine changed during that run, and a difference between the runs that is
no larger may be nothing else.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness.compare.reading import KernelResults
from harness.compare.statistics import Change, ChangeVerdict
from harness.core.records import Environment, Measurement

_SCALES = 4.0
_NORMAL = 0.954  # median of |x - y| over the standard deviation of normal x and y
_FEW = 4  # inputs; with fewer, their scatter is not known


@dataclass(frozen=True)
class MachineEvidence:
    """What is known of the machine in the two runs of a kernel.

    `drift` is the logarithm of the largest change that the default's times show inside the runs, 0
    where there is none beyond noise.
    """

    same_code: bool = False
    drift: float = 0.0

    def is_same(
        self, base: Measurement | None, candidate: Measurement | None, environment: Environment
    ) -> bool:
        """Say whether two measurements are of the same code.

        The sources of a program may be incomplete, so its binaries must be equal.
        """
        if not (self.same_code and base and candidate and base.config == candidate.config):
            return False
        digests = {m.build.binary_sha256 if m.build else None for m in (base, candidate)}
        return environment.backend != "command" or (len(digests) == 1 and None not in digests)

    def explanation(self, change: Change, default: Change | None, threshold: float) -> str | None:
        """Say how the machine may have caused a significant change; None if it may not.

        `default` is the change of the default, whose code is the same on both sides, if it is.
        """
        sign = 1 if change.verdict is ChangeVerdict.SLOWER else -1
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
