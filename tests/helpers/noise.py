"""Noise of two timings."""

from __future__ import annotations

import numpy as np

from harness.core.records import Timing
from harness.stats.samples import SampleStatistics, within_noise


def is_within_noise(one: Timing, other: Timing, confidence: float = 0.95) -> bool:
    """Whether two timings differ by at most 0.5 %, or not significantly."""
    found = SampleStatistics.of_timings([one, other])
    return bool(within_noise(found, 0, np.array([1]), confidence)[0])
