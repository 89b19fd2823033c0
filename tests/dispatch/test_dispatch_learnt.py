"""What is learnt for many inputs at once is what a program computes for each."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.records import Value
from harness.dispatch import tree as module
from harness.dispatch.ensemble import EnsembleLearner
from harness.dispatch.gadapt import GAdapt
from harness.dispatch.growing import Ranks, between, grow, grow_forest
from harness.dispatch.tree import TreeLearner
from harness.models.columns import Column, ColumnKind, column_values
from tests.helpers.dispatch_examples import column_number, order_of
from tests.helpers.matrices import table

Row = dict[str, Value]


def planted(inputs, seed, least=4):
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
    features = pd.DataFrame({"m": m, "n": n, "kind": kind})
    return table(1e-3 * np.exp(logs), features, applies=applies, default=1)


@cache
def learnt(name):
    """A dispatcher of the planted inputs."""
    matrix = planted(300 if name in ("tree", "ensemble") else 90, seed=0)
    if name == "line":  # the best of 12 blocks grows with the logarithm of m
        features = planted(90, seed=0, least=1).features
        distances = np.abs(np.log2(features[["m"]].to_numpy()) - np.arange(12))
        matrix = table(np.exp(0.3 * distances), features)
    learners = {"tree": TreeLearner(), "gadapt": GAdapt(), "line": GAdapt()}
    return matrix, learners.get(name, EnsembleLearner()).fit(matrix, seed=0)


def on_every_threshold(program, random):
    """Inputs of which one size is at, and next to, each threshold on a raw size."""
    rows: list[Row] = []
    for tree in program.choice.trees:
        for split in tree.root.splits():
            column, at = program.columns[split.column], split.threshold
            if column.kind is not ColumnKind.RAW:
                continue
            for value in (at, math.nextafter(at, 0), math.nextafter(at, math.inf)):
                kind = str(random.choice(["dense", "banded"]))
                row: Row = {"m": 300.0, "n": 200.0, "kind": kind}
                row[column.features[0]] = value
                rows.append(row)
    return rows


def test_a_program_chooses_as_what_was_learnt():
    for name in ("tree", "ensemble", "forest", "gadapt", "line"):
        matrix, chosen = learnt(name)
        program = chosen.program(matrix.candidates)
        random = np.random.default_rng(1)
        frame = pd.concat([matrix.features[:60], planted(60, seed=2).features], ignore_index=True)
        rows = frame.to_dict("records") + on_every_threshold(program, random)[:120]
        everywhere = np.ones((len(rows), len(matrix.candidates)), dtype=bool)
        indices = chosen.indices(pd.DataFrame(rows), everywhere)
        selected = [program.portfolio[order_of(program, row)[0]] for row in rows]
        assert selected == [matrix.candidates[index] for index in indices]
        if name == "line":
            assert [column.kind for column in program.columns] == [ColumnKind.LINEAR]
            assert len(program.portfolio) == 12
            wanted = np.log2(matrix.features["m"]).round()[:60]
            assert (indices[:60] == wanted).mean() > 0.85


def test_boosted_trees_predict_slowdowns_over_the_mean_of_what_applies():
    matrix, chosen = learnt("ensemble")
    logs = matrix.log_slowdown[:, chosen.portfolio]
    relative = logs - np.nanmean(logs, axis=1, keepdims=True)
    costs = chosen.choice.costs(column_values(chosen.columns, matrix.features))
    assert np.nanmean(np.abs(costs - relative)) < 0.05 < 0.5 < np.nanstd(relative)


def test_powers_of_two_that_divide_a_number_are_exact():
    for number in (0, 1, 12, -12, 2**53 + 2, 3 * 2.0**60, 12.75, -0.5):
        column = Column(ColumnKind.TWOS, ("m",))
        ((value,),) = column_values([column], pd.DataFrame({"m": [number]}))
        assert value == column_number(column, {"m": number})


def test_few_inputs_make_a_forest():
    for name, owners in (("forest", {None}), ("ensemble", {0, 1, 2})):
        _, chosen = learnt(name)
        assert {tree.candidate for tree in chosen.choice.trees} == owners


def test_unseen_inputs_come_near_the_oracle_by_what_applies():
    for name, most in (("tree", 1.05), ("ensemble", 1.05), ("forest", 1.1)):
        _, chosen = learnt(name)
        fresh = planted(500, seed=5)
        rows, indices = np.arange(500), chosen.indices(fresh.features, fresh.applies)
        assert fresh.applies[rows, indices].all()
        assert (indices == 2).any()
        static = fresh.log_slowdown[:, :2].mean(axis=0).min()
        assert fresh.log_slowdown[rows, indices].mean() < math.log(most) < math.log(1.3) < static


def test_outside_the_tuned_range_the_best_single_one_is_taken():
    for name in ("tree", "ensemble"):
        _, chosen = learnt(name)
        far = pd.DataFrame({"m": [10**7, 100], "n": [10, 100], "kind": ["dense", "sparse"]})
        indices = chosen.indices(far, np.ones((2, 3), dtype=bool))
        assert indices.tolist() == [chosen.portfolio[0]] * 2


def test_only_what_is_chosen_is_shipped():
    """The last candidate is never best, the middle one for wide inputs alone."""
    features = pd.DataFrame({"m": [2**e for e in range(16)], "n": [256] * 16})
    time_s = np.array([[1.0, 2.0, 3.0]] * 8 + [[2.0, 1.0, 3.0]] * 8)
    matrix = table(time_s, features)
    for learner in (TreeLearner(), EnsembleLearner()):
        assert sorted(learner.fit(matrix, seed=0).portfolio) == [0, 1]


def test_input_to_which_nothing_that_is_shipped_applies_gets_no_choice():
    matrix, chosen = learnt("tree")
    indices = chosen.indices(matrix.features[:1], np.zeros((1, 3), dtype=bool))
    assert indices.tolist() == [-1]


# ---------- trees as arrays: walked one input at a time, and cut to every size


def test_a_threshold_is_a_round_number_near_the_middle_by_ratio_or_by_difference():
    for low, high, wanted in (
        (2.0, 8.0, 4.0),
        (-3.0, 1.0, -1.0),
        (-4.0, -2.0, -3.0),
        (0.5, 4.5, 2.0),
        (-1.5, 3.0, 0.8),
        (1024.0, 4096.0, 2048.0),  # a power of two stays
        (1024.0, 2048.0, 1400.0),
        (1.0, 2.0, 1.0),
        (100.0, 101.0, 100.0),  # whole
        (0.1, 0.2, 0.14),
    ):
        assert between(low, high) == wanted


@given(st.floats(-1e12, 1e12), st.floats(1e-9, 1e12))
def test_a_threshold_separates_and_is_whole_between_whole_numbers(low, gap):
    for least, most in [(low, low + gap), (math.floor(low), math.floor(low) + math.ceil(gap))]:
        threshold = between(float(least), float(most))
        assert least <= threshold < most or least == most
    assert threshold.is_integer()


def test_a_threshold_separates_neighbouring_numbers():
    for low in (1.0, 1e300, 1e-300, 0.0, -1.0):
        assert between(low, math.nextafter(low, math.inf)) == low


STEPS = np.repeat(np.arange(8.0), 4)[:, None]
"""Four inputs of each of eight values."""


def stairs():
    """Two outputs: one rises at 4, the other a little at 2."""
    return np.column_stack([STEPS[:, 0] >= 4, 0.1 * (STEPS[:, 0] >= 2)]).astype(float)


def test_a_tree_has_the_best_splits_first_and_no_more_leaves_than_it_may():
    whole = grown(leaves=9)
    assert whole.threshold[whole.low >= 0] == pytest.approx([3, 1])
    # Nothing is split where nothing is gained.
    assert [(grown(leaves).low < 0).sum() for leaves in (9, 2, 1)] == [3, 2, 2]


def grown(leaves, least=2):
    return grow(Ranks.of(STEPS), stairs(), leaves=leaves, least=least, seed=0)


def test_a_leaf_has_the_least_number_of_inputs():
    tree = grown(leaves=9, least=9)
    assert tree.passing(tree.paths(STEPS)).min() >= 9


def test_a_forest_is_as_large_as_asked_for_and_predicts_means():
    values = np.column_stack([STEPS[:, 0], np.arange(32.0) % 5])
    trees, again = (
        grow_forest(Ranks.of(values), stairs(), 4, 3, share=1.0, seed=0, weights=np.ones(32))
        for _ in range(2)
    )
    assert len(trees) == 4
    for tree, means in trees:
        assert means.shape == (len(tree.low), 2)
        assert tree.threshold[0] > 0
    assert [t.threshold.tolist() for t, _ in again] == [t.threshold.tolist() for t, _ in trees]


# ---------- a tree that chooses is as small as is good enough on held-out inputs


def two_sided(inputs, members=2):
    """The first candidate is best for the lower half of the inputs, the second for the others."""
    times = np.full((inputs, members), 3.0)
    half = inputs // 2
    times[:half, 0] = times[half:, 1] = 1.0
    return table(times)


def leaves(matrix):
    return TreeLearner().fit(matrix, seed=0).choice.leaf_count


def test_two_halves_have_two_leaves():
    for members in (2, 4):
        matrix = two_sided(24, members)
        chosen = TreeLearner().fit(matrix, seed=0)
        assert chosen.choice.leaf_count == 2
        assert chosen.indices(matrix.features, matrix.applies).tolist() == [0] * 12 + [1] * 12
        assert TreeLearner(most_leaves=1).fit(matrix, seed=0).choice.leaf_count == 1


def test_many_inputs_are_tried_on_few_folds_and_are_alike(monkeypatch):
    for name in ("MANY", "VERY_MANY"):
        monkeypatch.setattr(module, name, 24)
        assert leaves(two_sided(24)) == 2


def test_noise_is_not_followed():
    assert leaves(table(1 + np.random.default_rng(0).random((24, 20)))) <= 2


def test_one_input_and_inputs_that_look_alike_have_one_leaf():
    alike = two_sided(24)
    alike.features["n"] = 1
    assert leaves(two_sided(1)) == leaves(alike) == 1


def test_inputs_of_few_groups_are_one_sample_each():
    """Half of the inputs gain by a split, but all of them in one group: that may be chance."""
    assert leaves(table(two_sided(24).time_s, groups=[0] * 12 + [1] * 12)) == 1
