"""Correct p-values for multiple comparisons, and mark the ratios that may be claimed.

Of 48 inputs whose winner is as fast as the default, one would be called faster at 2.5 % each in
most runs. Benjamini and Hochberg's procedure holds the expected share of such winners among all
that are called faster.

statsmodels' `multipletests` gives the same numbers as the procedures here, and
`scipy.stats.false_discovery_control` those of Benjamini and Hochberg. Either takes a second of
processor time to load, and has no level of each step.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from harness.core.arrays import Array
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


def _held(ratio: TimeRatio, adjusted: float) -> TimeRatio:
    may_be_chance = ratio.value > 1 and adjusted > FALSE_DISCOVERIES
    if may_be_chance == ratio.may_be_chance:
        return ratio  # of 10^5 ratios most stay, and a copy takes longer than all else here
    return dataclasses.replace(ratio, may_be_chance=may_be_chance)


def holm(p_values: Array) -> Array:
    """Adjust p-values, shape (p-values,), by Holm's procedure (1979)."""
    order = np.argsort(p_values, kind="stable")
    scaled = np.minimum(1.0, p_values[order] * np.arange(len(order), 0, -1))
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.maximum.accumulate(scaled)
    return adjusted


def holm_levels(p_values: Array, level: float) -> Array:
    """Return the level at which Holm's procedure judged each p-value, shape (p-values,)."""
    count = len(p_values)
    rejected = int((holm(p_values) <= level).sum())
    steps = np.empty(count)
    steps[np.argsort(p_values, kind="stable")] = np.arange(count)
    return level / (count - np.minimum(steps, rejected))


def benjamini_hochberg(p_values: Array) -> Array:
    """Adjust p-values, shape (p-values,), for the rate of false discoveries.

    Of the tests whose adjusted p-value is at most q, a share of at most q is expected to be
    chance, where the tests are independent or positively dependent (Benjamini and Hochberg,
    "Controlling the False Discovery Rate", 1995; Benjamini and Yekutieli, 2001).
    """
    count = len(p_values)
    order = np.argsort(p_values, kind="stable")[::-1]
    scaled = p_values[order] * count / np.arange(count, 0, -1)
    adjusted = np.empty(count)
    adjusted[order] = np.minimum.accumulate(scaled)
    return adjusted
