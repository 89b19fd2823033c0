"""A tree that chooses is as small as is good enough on held-out inputs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from harness.core.records import Config
from harness.dispatch import tree as module
from harness.dispatch.matrix import Matrix, make_matrix
from harness.dispatch.tree import TreeLearner


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


def test_many_inputs_are_tried_on_few_folds_and_choose_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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
