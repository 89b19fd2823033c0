"""Noise of two timings."""

import numpy as np

from harness.stats.samples import SampleStatistics, within_noise


def is_within_noise(one, other, confidence=0.95):
    """Whether two timings differ by at most 0.5 %, or not significantly."""
    found = SampleStatistics.of_timings([one, other])
    return bool(within_noise(found, 0, np.array([1]), confidence)[0])
