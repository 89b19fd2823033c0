"""Trees as arrays: walked one input at a time, and cut to every size."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.arrays import Array
from harness.dispatch.growing import (
    Ranks,
    between,
    grow,
    grow_forest,
)


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [
        (2.0, 8.0, 4.0), (-3.0, 1.0, -1.0), (-4.0, -2.0, -3.0), (0.5, 4.5, 2.0), (-1.5, 3.0, 0.8),
        (1024.0, 4096.0, 2048.0),  # a power of two stays
        (1024.0, 2048.0, 1400.0),
        (1.0, 2.0, 1.0), (100.0, 101.0, 100.0),  # whole
        (0.1, 0.2, 0.14),
    ],
)  # fmt: skip
def test_a_threshold_is_a_round_number_near_the_middle_by_ratio_or_by_difference(
    low: float, high: float, wanted: float
) -> None:
    assert between(low, high) == wanted


@given(st.floats(-1e12, 1e12), st.floats(1e-9, 1e12))
def test_a_threshold_separates_and_is_whole_between_whole_numbers(low: float, gap: float) -> None:
    for least, most in [(low, low + gap), (math.floor(low), math.floor(low) + math.ceil(gap))]:
        threshold = between(float(least), float(most))
        assert least <= threshold < most or least == most
    assert threshold.is_integer()


@pytest.mark.parametrize("low", [1.0, 3.0, 1e300, 1e-300, 0.0, -1.0, math.nextafter(-1.0, -2)])
def test_a_threshold_separates_neighbouring_numbers(low: float) -> None:
    high = math.nextafter(low, math.inf)
    assert between(low, high) == low


STEPS = np.repeat(np.arange(8.0), 4)[:, None]
"""Four inputs of each of eight values."""


def stairs() -> Array:
    """Two outputs: one rises at 4, the other a little at 2."""
    return np.column_stack([STEPS[:, 0] >= 4, 0.1 * (STEPS[:, 0] >= 2)]).astype(float)


def test_a_tree_has_the_best_splits_first_and_no_more_leaves_than_it_may() -> None:
    ranks = Ranks.of(STEPS)
    whole = grow(ranks, stairs(), leaves=9, least=2, seed=0)
    assert whole.threshold[whole.low >= 0] == pytest.approx([3, 1])
    assert (whole.low < 0).sum() == 3, "nothing is split where nothing is gained"
    assert (grow(ranks, stairs(), leaves=2, least=2, seed=0).low < 0).sum() == 2
    assert (grow(ranks, stairs(), leaves=1, least=2, seed=0).low < 0).sum() == 2


def test_a_leaf_has_the_least_number_of_inputs() -> None:
    tree = grow(Ranks.of(STEPS), stairs(), leaves=9, least=9, seed=0)
    assert tree.passing(tree.paths(STEPS)).min() >= 9


def test_a_forest_is_as_large_as_asked_for_and_predicts_means() -> None:
    values = np.column_stack([STEPS[:, 0], np.arange(32.0) % 5])
    weights = np.ones(len(values))
    trees = grow_forest(Ranks.of(values), stairs(), 4, 3, share=1.0, seed=0, weights=weights)
    assert len(trees) == 4
    for tree, means in trees:
        assert means.shape == (len(tree.low), 2)
        assert tree.threshold[0] > 0
    again = grow_forest(Ranks.of(values), stairs(), 4, 3, share=1.0, seed=0, weights=weights)
    assert [t.threshold.tolist() for t, _ in again] == [t.threshold.tolist() for t, _ in trees]
