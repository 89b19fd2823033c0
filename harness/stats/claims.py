"""Hold the rate of false discoveries over the ratios of many inputs.

Of 48 inputs whose winner is as fast as the default, one would be called faster at 2.5 % each in
most runs. Benjamini and Hochberg's procedure holds the expected share of such winners among all
that are called faster.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from harness.stats.multiple_tests import benjamini_hochberg
from harness.stats.timing import TimeRatio

FALSE_DISCOVERIES = 0.05
"""The expected share of chance among the ratios that are claimed, at most."""


def hold_false_discoveries(ratios: Sequence[TimeRatio | None]) -> list[TimeRatio | None]:
    """Mark ratios above 1 that may be chance among this family of ratios; None stays None.

    A ratio is claimed only if its own interval excludes 1 as well, so with a single one, or where
    most are real, the error of each is that of its interval.
    """
    present = [ratio for ratio in ratios if ratio is not None]
    adjusted = iter(benjamini_hochberg(np.array([ratio.p_value for ratio in present])).tolist())
    return [None if ratio is None else _held(ratio, next(adjusted)) for ratio in ratios]


def false_claim_rate(ratio: TimeRatio) -> float:
    """Return the share of measurements, at most, in which equal code is claimed to be faster: what
    one side of the interval leaves out, and no more than the rate that is held."""
    return min((1 - ratio.confidence) / 2, FALSE_DISCOVERIES)


def _held(ratio: TimeRatio, adjusted: float) -> TimeRatio:
    may_be_chance = ratio.value > 1 and adjusted > FALSE_DISCOVERIES
    if may_be_chance == ratio.may_be_chance:
        return ratio  # of 10^5 ratios most stay, and a copy takes longer than all else here
    return dataclasses.replace(ratio, may_be_chance=may_be_chance)
