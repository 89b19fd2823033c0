"""What speaks for the machine, not the kernel, as the cause of a difference.

Two databases are taken at different times, and the machine may have changed between them. Where
both sides have the same sources in the same environment, a configuration's code did not change, so
what differs is the machine; the default, measured on both sides, shows by how much.
"""

from __future__ import annotations

import math

from harness.compare.reading import KernelResults
from harness.compare.statistics import Change, ChangeVerdict
from harness.core.records import Environment, Measurement


def have_same_sources(base: KernelResults, candidate: KernelResults) -> bool:
    """Say whether both sides were measured with the same sources in the same environment."""
    return base.program == candidate.program and base.environment == candidate.environment


def is_same_code(
    base: Measurement | None, candidate: Measurement | None, environment: Environment
) -> bool:
    """Say whether two measurements with the same sources are of the same code.

    The sources of a program may be incomplete, so its binaries must be equal.
    """
    if not (base and candidate and base.config == candidate.config):
        return False
    digests = {m.build.binary_sha256 if m.build else None for m in (base, candidate)}
    return environment.backend != "command" or (len(digests) == 1 and None not in digests)


def default_explains(change: Change, default: Change, threshold: float) -> bool:
    """Say whether the change of the default, whose code is the same on both sides, is as large as a
    significant change."""
    sign = 1 if change.verdict is ChangeVerdict.SLOWER else -1
    near = change.ratio.low if sign > 0 else change.ratio.high
    least = sign * math.log(near) - math.log1p(threshold)
    return least <= sign * math.log(default.ratio.value)
