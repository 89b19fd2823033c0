"""Correct p-values for multiple comparisons (Holm, 1979; Benjamini and Hochberg, 1995).

statsmodels' `multipletests` gives the same numbers, and `scipy.stats.false_discovery_control` those
of the second. Either takes a second of processor time to load, and has no level of each step.
"""

from __future__ import annotations

import numpy as np

from harness.core.arrays import Array


def holm(p_values: Array) -> Array:
    """Adjust p-values, shape (p-values,)."""
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
