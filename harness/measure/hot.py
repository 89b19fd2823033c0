"""The hot time of a kernel: launches one right after the other, as in an application's loop.

Nothing is restored, emptied or verified between the launches, and each may overlap the end of the
one before. So hot times are an observation, on which no choice and no claim depends.
"""

from __future__ import annotations

import math
import statistics

from harness.core.program import Launch
from harness.measure.backends.base import MOST_HOT, Device
from harness.measure.clock_tick import ENOUGH_TICKS

HOT_TIME = "hot_time_s"
"""The observation of a launch's time among others of its kind."""

_LEAST_S = 1e-3
_BATCHES = 5


def hot_time(device: Device, module: object, launch: Launch, run_s: float) -> float:
    """Return the median time of a launch over some batches of launches; one takes some `run_s`."""
    batch_s = max(ENOUGH_TICKS * device.tick_s, _LEAST_S)
    times = min(MOST_HOT, max(2, math.ceil(batch_s / run_s)))
    return statistics.median(device.launch_hot(module, launch, times) for _ in range(_BATCHES))
