"""What the tick of a device's clock may hide of the ratio of two measurements."""

from __future__ import annotations

from harness.core.observations import RUNS_PER_SAMPLE
from harness.core.records import Measurement


def clock_error(*sides: Measurement | None) -> float:
    """Return by how much the clocks may put the logarithm of a ratio of these measurements off.

    A measurement by an older version does not state its part, and its samples are single runs. If
    the other side states its own, the tick is known: each of these runs may be half a tick off.
    """
    timed = [side for side in sides if side and side.timing]
    tick_s = max(map(_tick_s, timed), default=0.0)
    return sum(_error_s(side, tick_s) / side.timing.mean_s for side in timed if side.timing)


def _tick_s(side: Measurement) -> float:
    """Return the tick of the clock, 0 where the measurement does not state an error."""
    error_s = side.timing.clock_error_s if side.timing else 0.0
    return 2 * side.observed.get(RUNS_PER_SAMPLE, 1.0) * error_s


def _error_s(side: Measurement, tick_s: float) -> float:
    stated_s = side.timing.clock_error_s if side.timing else 0.0
    return stated_s if stated_s or RUNS_PER_SAMPLE in side.observed else tick_s / 2
