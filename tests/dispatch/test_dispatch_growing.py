"""Trees as arrays: walked one input at a time, and cut to every size."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.arrays import Array
from harness.core.records import Config
from harness.dispatch import tree as module
from harness.dispatch.growing import Ranks, between, grow, grow_forest
from harness.dispatch.matrix import Matrix, make_matrix
from harness.dispatch.tree import TreeLearner


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


# ---------- a tree that chooses is as small as is good enough on held-out inputs


def two_sided(inputs: int, members: int = 2) -> Matrix:
    """The first candidate is best for the lower half of the inputs, the second for the others."""
    features = pd.DataFrame({"n": np.arange(1, inputs + 1)})
    times = np.full((inputs, members), 3.0)
    half = inputs // 2
    times[:half, 0], times[half:, 1] = 1.0, 1.0
    candidates = [Config({"BLOCK": index}) for index in range(members)]
    return make_matrix(features, candidates, times)


@pytest.mark.parametrize("members", [2, 4])
def test_two_halves_have_two_leaves(members: int) -> None:
    matrix = two_sided(24, members)
    found = TreeLearner().fit(matrix, seed=0)
    assert found.choice.leaf_count == 2
    assert found.indices(matrix.features, matrix.applies).tolist() == [0] * 12 + [1] * 12
    assert TreeLearner(most_leaves=1).fit(matrix, seed=0).choice.leaf_count == 1


def test_many_inputs_are_tried_on_few_folds_and_are_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_MANY", "_VERY_MANY"):
        monkeypatch.setattr(module, name, 24)
        assert TreeLearner().fit(two_sided(24), seed=0).choice.leaf_count == 2


def test_noise_is_not_followed() -> None:
    times = 1 + np.random.default_rng(0).random((24, 20))
    candidates = [Config({"B": index}) for index in range(20)]
    noise = make_matrix(pd.DataFrame({"n": np.arange(24)}), candidates, times)
    assert TreeLearner().fit(noise, seed=0).choice.leaf_count <= 2


def test_one_input_and_inputs_that_look_alike_have_one_leaf() -> None:
    alike = two_sided(24)
    alike.features["n"] = 1
    for matrix in (two_sided(1), alike):
        assert TreeLearner().fit(matrix, seed=0).choice.leaf_count == 1


def test_inputs_of_few_groups_are_one_sample_each() -> None:
    """Half of the inputs gain by a split, but all of them in one group: that may be chance."""
    matrix = two_sided(24)
    grouped = make_matrix(
        matrix.features, matrix.candidates, matrix.time_s, groups=[0] * 12 + [1] * 12
    )
    assert TreeLearner().fit(grouped, seed=0).choice.leaf_count == 1
