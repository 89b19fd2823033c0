"""Trees as arrays: walked one input at a time, and cut to every size."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.arrays import Array
from harness.dispatch.choice import Leaf, Split
from harness.dispatch.growing import (
    Grown,
    between,
    grow,
    grow_forest,
    parents,
    passing,
    ranked,
    reached_at,
    sums_by_node,
)

TREE = Grown(
    low=np.array([1, 3, -1, -1, -1]),
    high=np.array([2, 4, -1, -1, -1]),
    column=np.array([0, 1, -2, -2, -2]),
    threshold=np.array([5.0, 0.5, 0, 0, 0]),
)
"""Split at 5 in the first column, then the low side at 0.5 in the second."""
VALUES = np.array([[5.0, 0.5], [5.0, 0.6], [5.1, 0.0], [9.0, 9.0]])
FAR = np.iinfo(np.intp).max


def test_a_tree_of_fewer_leaves_is_the_first_nodes_of_it() -> None:
    paths = TREE.paths(VALUES)
    reached = [reached_at(paths, leaves).tolist() for leaves in (1, 2, 3)]
    assert reached == [[0, 0, 0, 0], [1, 1, 2, 2], [3, 4, 2, 2]]


def test_a_root_of_fewer_nodes_has_their_leaves() -> None:
    def root(count: int) -> object:
        return TREE.root(lambda node: Leaf((node,)), count)

    assert root(1) == Leaf((0,))
    assert root(3) == Split(0, 5.0, Leaf((1,)), Leaf((2,)))
    assert root(5) == Split(0, 5.0, Split(1, 0.5, Leaf((3,)), Leaf((4,))), Leaf((2,)))


def test_sums_and_counts_are_of_the_inputs_that_pass() -> None:
    paths = TREE.paths(VALUES)
    rows = np.array([[1.0, 10.0], [2.0, 20.0], [4.0, 40.0], [8.0, 80.0]])
    wanted = np.array([15.0, 3.0, 12.0, 1.0, 2.0])
    np.testing.assert_array_equal(
        sums_by_node(TREE, paths, rows), np.stack([wanted, 10 * wanted], axis=1)
    )
    assert passing(TREE, paths).tolist() == [4, 2, 2, 1, 1]
    assert passing(TREE, paths[:2]).tolist() == [2, 2, 0, 1, 1]
    assert sums_by_node(TREE, paths[2:], rows[2:])[:, 0].tolist() == [12, 0, 12, 0, 0]
    assert parents(TREE).tolist() == [-1, 0, 0, 1, 1]


def test_ranks_are_indices_of_distinct_values() -> None:
    ranks = ranked(np.array([[3.0, 0.1], [1.0, 0.1], [3.0, 7.0]]))
    assert ranks.indices.tolist() == [[1, 0], [0, 0], [1, 1]]
    assert [level.tolist() for level in ranks.levels] == [[1, 3], [0.1, 7]]


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
    ranks = ranked(STEPS)
    whole = grow(ranks, stairs(), leaves=9, least=2, seed=0)
    assert whole.threshold[whole.low >= 0] == pytest.approx([3, 1])
    assert (whole.low < 0).sum() == 3, "nothing is split where nothing is gained"
    assert (grow(ranks, stairs(), leaves=2, least=2, seed=0).low < 0).sum() == 2
    assert (grow(ranks, stairs(), leaves=1, least=2, seed=0).low < 0).sum() == 2


def test_a_leaf_has_the_least_number_of_inputs() -> None:
    tree = grow(ranked(STEPS), stairs(), leaves=9, least=9, seed=0)
    assert passing(tree, tree.paths(STEPS)).min() >= 9


def test_a_forest_is_as_large_as_asked_for_and_predicts_means() -> None:
    values = np.column_stack([STEPS[:, 0], np.arange(32.0) % 5])
    trees = grow_forest(ranked(values), stairs(), count=4, least=3, share=1.0, seed=0)
    assert len(trees) == 4
    for tree, means in trees:
        assert means.shape == (len(tree.low), 2)
        assert tree.threshold[0] > 0
    again = grow_forest(ranked(values), stairs(), count=4, least=3, share=1.0, seed=0)
    assert [t.threshold.tolist() for t, _ in again] == [t.threshold.tolist() for t, _ in trees]
