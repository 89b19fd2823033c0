"""The hot time of a kernel: launches one right after the other, as in an application's loop.

Nothing is restored, emptied or verified between the launches, and each may overlap the end of the
one before. So hot times are an observation, on which no choice and no claim depends.
"""

from __future__ import annotations

import math
import statistics

from harness.core.observations import HOT_SPREAD, HOT_TIME
from harness.core.program import Launch
from harness.measure.backends.base import MOST_HOT, Device
from harness.measure.clock_tick import ENOUGH_TICKS
from harness.stats.timing import half_width

_LEAST_S = 1e-3
_BATCHES = 5


def hot_time(device: Device, module: object, launch: Launch, run_s: float) -> dict[str, float]:
    """Return the median time of a launch over some batches of launches, with its spread, as
    observations; one launch takes some `run_s`."""
    batch_s = max(ENOUGH_TICKS * device.tick_s, _LEAST_S)
    times = min(MOST_HOT, max(2, math.ceil(batch_s / run_s)))
    found_s = [device.launch_hot(module, launch, times) for _ in range(_BATCHES)]
    return {HOT_TIME: statistics.median(found_s), HOT_SPREAD: half_width(found_s)}
