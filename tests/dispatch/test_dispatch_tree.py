"""One tree: which of the shapes that were tried is taken."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest

from harness.core.records import Config
from harness.dispatch import tree as module
from harness.dispatch.matrix import Matrix, make_matrix
from harness.dispatch.tree import (
    Shape,
    TrainingSet,
    TreeLearner,
    _choose_shape,
    _is_near,
    _tried,
    leaf_counts,
)


@pytest.mark.parametrize(
    ("most", "counts"),
    [
        (1, [1]),
        (2, [1, 2]),
        (5, [1, 2, 3, 4]),
        (6, [1, 2, 3, 4, 6]),
        (25, [1, 2, 3, 4, 6, 8, 12, 16, 24]),
    ],
)
def test_numbers_of_leaves_are_powers_of_two_and_halfway(most: int, counts: list[int]) -> None:
    assert leaf_counts(most) == counts


@pytest.mark.parametrize(
    ("losses", "groups", "is_near"),
    [
        ([0.0, 0.0], [0, 1], True),
        ([-1.0, -2.0], [0, 1], True),
        ([1.0, 1.0], [0, 1], False),
        ([3.0, -1.0], [0, 1], True),  # 2 against sqrt(2) * 2
        ([3.0, -0.4], [0, 1], False),  # 2.6 against sqrt(2) * 1.7
        ([3.0, -1.0], [4, 4], False),  # one sample
        ([1.5, 1.5, -1.0, 0.0], [0, 0, 7, 7], True),
    ],
)
def test_near_is_within_one_standard_error_of_the_groups(
    losses: list[float], groups: list[int], is_near: bool
) -> None:
    assert _is_near(np.array(losses), np.array(groups)) == is_near


def two_sided(inputs: int, members: int = 2) -> Matrix:
    """The first candidate is best for the lower half of the inputs, the second for the others."""
    features = pd.DataFrame({"n": np.arange(1, inputs + 1)})
    times = np.full((inputs, members), 3.0)
    half = inputs // 2
    times[:half, 0], times[half:, 1] = 1.0, 1.0
    candidates = [Config({"BLOCK": index}) for index in range(members)]
    return make_matrix(features, candidates, times)


def training(matrix: Matrix) -> TrainingSet:
    return TrainingSet(matrix, matrix.features[["n"]].to_numpy(float))


def test_the_smallest_shape_that_is_good_enough_is_taken() -> None:
    assert _choose_shape(training(two_sided(24)), 1024, seed=0) == Shape(2, 2, 5)
    assert _choose_shape(training(two_sided(24, members=4)), 1024, seed=0).leaves == 2
    assert _choose_shape(training(two_sided(24)), 1, seed=0).leaves == 1
    no_columns = TrainingSet(two_sided(24), np.empty((24, 0)))
    for nothing_to_hold_out in (training(two_sided(1)), no_columns):
        assert _choose_shape(nothing_to_hold_out, 1024, seed=0) == Shape(1, 1, 1)


def shapes(training_set: TrainingSet, most_leaves: int = 1024) -> list[Shape]:
    rows = np.arange(len(training_set.values))
    pairs = [(training_set.part(rows), training_set.part(rows))]
    return [shape for shape, _ in _tried(pairs, 2, most_leaves, seed=0)]


def test_shapes_have_as_many_leaves_as_half_of_the_inputs() -> None:
    found = shapes(training(two_sided(13)))
    assert {shape.leaves for shape in found} == {1, 2, 3, 4, 6}
    assert {shape.least for shape in found} == {2, 5, 20}
    assert {shape.members for shape in found} == {2}
    assert {shape.leaves for shape in shapes(training(two_sided(13)), most_leaves=2)} == {1, 2}
    assert {shape.leaves for shape in shapes(training(two_sided(1)))} == {1}


def test_of_very_many_inputs_leaves_of_two_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    for many, least in ((12, {5, 20}), (13, {2, 5, 20})):
        monkeypatch.setattr(module, "_MANY", many)
        assert {shape.least for shape in shapes(training(two_sided(12)))} == least


@pytest.mark.parametrize(
    ("many", "very_many", "folds"), [(25, 30, 5), (24, 30, 3), (24, 25, 3), (24, 24, 1)]
)
def test_of_many_inputs_few_folds_suffice(
    many: int, very_many: int, folds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def tried(pairs: list[object], *rest: object) -> Iterator[tuple[Shape, object]]:
        seen.append(len(pairs))
        return _tried(pairs, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "_MANY", many)
    monkeypatch.setattr(module, "_VERY_MANY", very_many)
    monkeypatch.setattr(module, "_tried", tried)
    matrix = two_sided(24)
    grouped = make_matrix(
        matrix.features, matrix.candidates, matrix.time_s, groups=(np.arange(24) % 5).tolist()
    )
    _choose_shape(training(grouped), 4, seed=0)
    assert seen == [folds]


def test_fewer_members_are_tried_only_while_they_may_cost_less() -> None:
    """Each of 24 inputs wants its own of three candidates: fewer than three cannot do as well."""
    features = pd.DataFrame({"n": np.arange(24)})
    times = np.where(np.arange(24)[:, None] * 3 // 24 == np.arange(3), 1.0, 9.0)
    matrix = make_matrix(features, [Config({"B": b}) for b in range(3)], times)
    whole = training(matrix)
    rows = np.arange(24)
    pairs = [(whole.part(rows), whole.part(rows))]
    found = [shape for shape, _ in _tried(pairs, 3, 64, seed=0)]
    assert {shape.members for shape in found} == {3}
    # Where all are alike, fewer cost no more; but nothing costs less than 0.
    alike = training(make_matrix(features, matrix.candidates, np.ones((24, 3))))
    assert shapes(alike)[0].members == 2


@pytest.mark.parametrize(
    ("portfolio", "sizes"), [(20, [20, 16, 8, 4, 2]), (16, [16, 8, 4, 2]), (2, [2])]
)
def test_where_a_tree_follows_noise_fewer_members_are_tried(
    portfolio: int, sizes: list[int]
) -> None:
    times = 1 + np.random.default_rng(0).random((24, 20))
    candidates = [Config({"B": index}) for index in range(20)]
    whole = training(make_matrix(pd.DataFrame({"n": np.arange(24)}), candidates, times))
    pairs = [(whole.part(np.arange(12)), whole.part(np.arange(12, 24)))]
    tried = [shape.members for shape, _ in _tried(pairs, portfolio, 64, seed=0)]
    counts = leaf_counts(6)
    assert tried == [size for size in sizes for _ in range(3 * len(counts))]


def test_a_tree_has_at_most_1024_leaves_and_its_members_alone() -> None:
    assert TreeLearner() == TreeLearner(most_leaves=1024, name="tree")
    matrix = two_sided(24)
    chosen = TreeLearner().fit(matrix, seed=0)
    indices = chosen.indices(matrix.features, matrix.applies)
    assert indices.tolist() == [0] * 12 + [1] * 12
