"""What is learnt for many inputs at once is what a program computes for each."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.arrays import Array
from harness.core.records import Config, Value
from harness.dispatch import tree as module
from harness.dispatch.choice import DispatchProgram, LearntSelector
from harness.dispatch.ensemble import EnsembleLearner
from harness.dispatch.gadapt import GAdapt
from harness.dispatch.growing import Ranks, between, grow, grow_forest
from harness.dispatch.matrix import Matrix, make_matrix
from harness.dispatch.tree import TreeLearner
from harness.models.columns import Column, ColumnKind, column_values
from tests.helpers.dispatch_examples import column_number, order_of
from tests.helpers.matrices import table

Row = dict[str, Value]


def planted(inputs: int, seed: int, least: float = 4) -> Matrix:
    """Three candidates of which each is best for some ratio of the sizes; the last one applies to
    even `n` alone; on words it is another one."""
    random = np.random.default_rng(seed)
    sizes = 2 ** random.uniform(least, 12, size=(inputs, 2))
    m, n = sizes.astype(int).T
    kind = random.choice(["dense", "banded"], inputs)
    skew = np.log2(m / n) + 2.0 * (kind == "banded")
    logs = np.stack([0.3 * np.abs(skew - centre) for centre in (-3.0, 0.0, 3.0)], axis=1)
    logs += random.normal(0, 0.01, logs.shape)
    applies = np.ones(logs.shape, dtype=bool)
    applies[:, 2] = n % 2 == 0
    return make_matrix(
        pd.DataFrame({"m": m, "n": n, "kind": kind}),
        [Config({"BLOCK": block}) for block in (64, 128, 256)],
        1e-3 * np.exp(logs),
        applies=applies,
        default=1,
    )


@cache
def learnt(name: str) -> tuple[Matrix, LearntSelector]:
    """A dispatcher of the planted inputs."""
    matrix = planted(300 if name in ("tree", "ensemble") else 90, seed=0)
    if name == "line":  # the best of 12 blocks grows with the logarithm of m
        features = planted(90, seed=0, least=1).features
        distances = np.abs(np.log2(features["m"].to_numpy())[:, None] - np.arange(12))
        matrix = table(np.exp(0.3 * distances), features)
    learners = {"tree": TreeLearner(), "gadapt": GAdapt(), "line": GAdapt()}
    return matrix, learners.get(name, EnsembleLearner()).fit(matrix, seed=0)


def on_every_threshold(program: DispatchProgram, random: np.random.Generator) -> list[Row]:
    """Inputs of which one size is at, and next to, each threshold on a raw size."""
    rows: list[Row] = []
    for tree in program.choice.trees:
        for split in tree.root.splits():
            column = program.columns[split.column]
            if column.kind is not ColumnKind.RAW:
                continue
            for value in (
                split.threshold,
                math.nextafter(split.threshold, 0),
                math.nextafter(split.threshold, math.inf),
            ):
                row: Row = {"m": 300.0, "n": 200.0, "kind": str(random.choice(["dense", "banded"]))}
                rows.append({**row, column.features[0]: value})
    return rows


@pytest.mark.parametrize("name", ["tree", "ensemble", "forest", "gadapt", "line"])
def test_a_program_chooses_as_what_was_learnt(name: str) -> None:
    matrix, chosen = learnt(name)
    program = chosen.program(matrix.candidates)
    random = np.random.default_rng(1)
    frame = pd.concat([matrix.features, planted(200, seed=2).features], ignore_index=True)
    rows = [{str(k): v for k, v in row.items()} for row in frame.to_dict("records")]
    rows += on_every_threshold(program, random)[:300]
    table = pd.DataFrame(rows)
    indices = chosen.indices(table, np.ones((len(rows), len(matrix.candidates)), dtype=bool))
    printed = [program.portfolio[order_of(program, row)[0]] for row in rows]
    assert printed == [matrix.candidates[index] for index in indices]
    if name == "line":
        assert [column.kind for column in program.columns] == [ColumnKind.LINEAR]
        assert len(program.portfolio) == 12
        wanted = np.log2(matrix.features["m"]).round().to_numpy()
        assert (indices[: len(wanted)] == wanted).mean() > 0.85


def test_boosted_trees_predict_slowdowns_over_the_mean_of_what_applies() -> None:
    matrix, chosen = learnt("ensemble")
    logs = matrix.log_slowdown[:, chosen.portfolio]
    relative = logs - np.nanmean(logs, axis=1, keepdims=True)
    costs = chosen.choice.costs(column_values(chosen.columns, matrix.features))
    assert np.nanmean(np.abs(costs - relative)) < 0.05 < 0.5 < np.nanstd(relative)


@pytest.mark.parametrize("number", [0, 1, 12, -12, 2**53 + 2, 3 * 2.0**60, 12.75, -0.5])
def test_powers_of_two_that_divide_a_number_are_exact(number: float) -> None:
    column = Column(ColumnKind.TWOS, ("m",))
    (value,) = column_values([column], pd.DataFrame({"m": [number]}))[:, 0]
    whole = int(number)
    assert value == column_number(column, {"m": number})
    assert whole == 0 or (whole % value == 0 and (whole // int(value)) % 2 == 1)


def test_few_inputs_make_a_forest() -> None:
    owners = [
        {tree.candidate for tree in learnt(n)[1].choice.trees} for n in ("forest", "ensemble")
    ]
    assert owners == [{None}, {0, 1, 2}]


@pytest.mark.parametrize("name", ["tree", "ensemble", "forest"])
def test_what_does_not_apply_is_never_chosen(name: str) -> None:
    _, chosen = learnt(name)
    fresh = planted(500, seed=4)
    indices = chosen.indices(fresh.features, fresh.applies)
    assert fresh.applies[np.arange(500), indices].all()
    assert (indices == 2).any()


@pytest.mark.parametrize(("name", "most"), [("tree", 1.05), ("ensemble", 1.05), ("forest", 1.1)])
def test_unseen_inputs_come_near_the_oracle(name: str, most: float) -> None:
    _, chosen = learnt(name)
    fresh = planted(500, seed=5)
    assert mean_slowdown(fresh, chosen) < most < 1.3 < static_slowdown(fresh)


def mean_slowdown(matrix: Matrix, chosen: LearntSelector) -> float:
    indices = chosen.indices(matrix.features, matrix.applies)
    return float(np.exp(taken(matrix, indices).mean()))


def static_slowdown(matrix: Matrix) -> float:
    return float(np.exp(min(taken(matrix, np.full(500, index)).mean() for index in (0, 1))))


def taken(matrix: Matrix, indices: Array) -> Array:
    logs: Array = matrix.log_slowdown[np.arange(len(indices)), indices]
    return logs


@pytest.mark.parametrize("name", ["tree", "ensemble"])
def test_outside_the_tuned_range_the_best_single_one_is_taken(name: str) -> None:
    _, chosen = learnt(name)
    far = pd.DataFrame({"m": [10**7, 100], "n": [10, 100], "kind": ["dense", "sparse"]})
    indices = chosen.indices(far, np.ones((2, 3), dtype=bool))
    assert indices.tolist() == [chosen.portfolio[0]] * 2


def test_only_what_is_chosen_is_shipped() -> None:
    """The last candidate is never best, the middle one for wide inputs alone."""
    features = pd.DataFrame({"m": [2**e for e in range(16)], "n": [256] * 16})
    time_s = np.array([[1.0, 2.0, 3.0]] * 8 + [[2.0, 1.0, 3.0]] * 8)
    matrix = table(time_s, features)
    for learner in (TreeLearner(), EnsembleLearner()):
        assert sorted(learner.fit(matrix, seed=0).portfolio) == [0, 1]


def test_input_to_which_nothing_that_is_shipped_applies_gets_no_choice() -> None:
    matrix, chosen = learnt("tree")
    indices = chosen.indices(matrix.features[:1], np.zeros((1, 3), dtype=bool))
    assert indices.tolist() == [-1]


# ---------- trees as arrays: walked one input at a time, and cut to every size


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
    times = np.full((inputs, members), 3.0)
    half = inputs // 2
    times[:half, 0], times[half:, 1] = 1.0, 1.0
    return table(times)


@pytest.mark.parametrize("members", [2, 4])
def test_two_halves_have_two_leaves(members: int) -> None:
    matrix = two_sided(24, members)
    found = TreeLearner().fit(matrix, seed=0)
    assert found.choice.leaf_count == 2
    assert found.indices(matrix.features, matrix.applies).tolist() == [0] * 12 + [1] * 12
    assert TreeLearner(most_leaves=1).fit(matrix, seed=0).choice.leaf_count == 1


def test_many_inputs_are_tried_on_few_folds_and_are_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MANY", "VERY_MANY"):
        monkeypatch.setattr(module, name, 24)
        assert TreeLearner().fit(two_sided(24), seed=0).choice.leaf_count == 2


def test_noise_is_not_followed() -> None:
    noise = table(1 + np.random.default_rng(0).random((24, 20)))
    assert TreeLearner().fit(noise, seed=0).choice.leaf_count <= 2


def test_one_input_and_inputs_that_look_alike_have_one_leaf() -> None:
    alike = two_sided(24)
    alike.features["n"] = 1
    for matrix in (two_sided(1), alike):
        assert TreeLearner().fit(matrix, seed=0).choice.leaf_count == 1


def test_inputs_of_few_groups_are_one_sample_each() -> None:
    """Half of the inputs gain by a split, but all of them in one group: that may be chance."""
    matrix = two_sided(24)
    grouped = table(matrix.time_s, matrix.features, groups=[0] * 12 + [1] * 12)
    assert TreeLearner().fit(grouped, seed=0).choice.leaf_count == 1
