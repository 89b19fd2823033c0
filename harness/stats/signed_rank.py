"""Test whether paired differences lie below zero, whatever the shape of their noise."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

import numpy as np


def p_below(differences: Sequence[float]) -> float:
    """Return a one-sided p-value, which is small where the median difference is below 0.

    It is twice the smaller of the exact p-values of the sign test and of the signed-rank test: the
    first sees through bursts, the second through even noise. A difference of 0 counts as above 0,
    which is conservative. Equal sizes take their ranks in the order given. Returns 1 without
    differences. Wilcoxon, Individual comparisons by ranking methods, 1945.
    """
    values = np.asarray(differences, float)
    by_size = values[np.argsort(np.abs(values), kind="stable")]
    ranks = range(1, len(values) + 1)
    ones = list(repeat(1, len(values)))
    return min(1.0, 2 * min(_p_sum(by_size >= 0, weights) for weights in (ones, list(ranks))))


def _p_sum(is_above: np.ndarray[tuple[int], np.dtype[np.bool_]], weights: list[int]) -> float:
    """Return the probability of a sum of positive weights this small, were each sign a coin's."""
    ways = np.ones(1)  # how many signs give each sum
    for weight in weights:
        ways = np.concatenate([ways, np.zeros(weight)]) + np.concatenate([np.zeros(weight), ways])
    found = int(np.dot(is_above, weights))
    return float(ways[: found + 1].sum() / ways.sum())
