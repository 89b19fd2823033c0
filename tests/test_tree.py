"""Trees over inputs: found where there is one to find, and judged on inputs they have not seen."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pytest

from harness.records import Config, Input
from harness.tree import (
    FEWEST_INPUTS,
    Leaf,
    Matrix,
    Node,
    Split,
    decide,
    derive_features,
    describe,
    grow,
    leave_one_out,
    make_matrix,
)

NARROW, WIDE, MIDDLE = (Config({"BLOCK": size}) for size in (16, 1024, 256))
SHAPES = [Input({"m": 2**e, "n": 2 ** (20 - e)}) for e in range(2, 19)]

Times = dict[Input, dict[Config, float]]


def by_shape(given: Input) -> dict[Config, float]:
    """Wide matrices want wide blocks, tall ones narrow blocks; the default is so-so."""
    tall = given["m"] > given["n"]  # type: ignore[operator]
    return {NARROW: 1e-3 if tall else 3e-3, WIDE: 4e-3 if tall else 1e-3, MIDDLE: 2e-3}


def times(rule: Callable[[Input], dict[Config, float]], inputs: Sequence[Input]) -> Times:
    return {given: rule(given) for given in inputs}


def matrix_of(found: Times, default: Config = MIDDLE) -> Matrix:
    return make_matrix(found, default)


def random_matrix(seed: int, failures: float = 0.0, most: int = 24) -> Matrix:
    """Random sizes; each input has a random winner among six configurations."""
    rng = random.Random(seed)
    configs = [Config({"BLOCK": 2**e}) for e in range(4, 10)]
    found: Times = {}
    for _ in range(rng.randint(6, most)):
        given = Input(
            {"m": rng.randint(1, 10**6), "n": rng.randint(1, 50), "k": rng.randint(-5, 5)}
        )
        found[given] = {
            c: math.inf if rng.random() < failures else rng.uniform(1, 9) * 1e-3 for c in configs
        }
    return make_matrix(found, configs[0])


def test_candidates_of_the_same_times_are_one() -> None:
    one, other = Input({"m": 1}), Input({"m": 2})
    # On each input another of the two that share their machine code comes first.
    found = {
        one: {NARROW: 1.0, WIDE: 1.0, MIDDLE: 2.0},
        other: {WIDE: 1.5, NARROW: 1.5, MIDDLE: 1.6},
    }
    matrix = matrix_of(found)
    assert matrix.candidates == (MIDDLE, NARROW)
    assert matrix.time_s.tolist() == [[2.0, 1.0], [1.6, 1.5]]


def leaves(node: Node) -> Iterator[Leaf]:
    if isinstance(node, Leaf):
        yield node
    else:
        yield from leaves(node.low)
        yield from leaves(node.high)


def leaf_of(node: Node, given: Input) -> Leaf:
    while isinstance(node, Split):
        node = node.low if node.feature.of(given) <= node.threshold else node.high
    return node


# ---------------------------------------------------------------------------- the matrix


def test_candidates_are_the_default_and_every_winner_once() -> None:
    matrix = matrix_of(times(by_shape, SHAPES))
    assert matrix.candidates == (MIDDLE, WIDE, NARROW)
    assert matrix.inputs == tuple(SHAPES)
    assert matrix.time_s.shape == (len(SHAPES), 3)
    assert np.array_equal(matrix.slowdown.min(axis=1), np.ones(len(SHAPES)))


def test_inputs_on_which_nothing_worked_are_left_out() -> None:
    found = times(by_shape, SHAPES)
    found[SHAPES[3]] = dict.fromkeys(found[SHAPES[3]], math.inf)
    found[SHAPES[4]] = {}
    assert matrix_of(found).inputs == (*SHAPES[:3], *SHAPES[5:])


def test_what_was_not_measured_counts_as_failed() -> None:
    found = times(by_shape, SHAPES)
    del found[SHAPES[0]][NARROW]
    matrix = matrix_of(found)
    assert math.isinf(matrix.time_s[0, matrix.candidates.index(NARROW)])


def test_slowdown_is_told_against_the_best_of_all_that_was_measured() -> None:
    rare = Config({"BLOCK": 1})
    found = {given: {**row, rare: 5.0} for given, row in times(by_shape, SHAPES).items()}
    matrix = matrix_of(found, default=rare)
    assert matrix.slowdown[0, 0] == pytest.approx(5000)
    assert set(matrix.candidates) == {rare, WIDE, NARROW}


def test_a_failure_weighs_twice_the_largest_slowdown() -> None:
    found = times(by_shape, SHAPES)
    found[SHAPES[0]][NARROW] = math.inf
    matrix = matrix_of(found)
    assert np.exp(matrix.log_slowdown).max() == pytest.approx(2 * 4.0)
    assert math.isinf(matrix.slowdown.max())


def test_an_empty_result_is_an_empty_matrix() -> None:
    assert matrix_of({}).time_s.shape == (0, 1)
    assert matrix_of({SHAPES[0]: {NARROW: math.inf}}).inputs == ()


# ------------------------------------------------------------------------------ features


def test_features_are_the_numbers_and_of_positive_ones_the_ratios_and_products() -> None:
    features = derive_features(SHAPES)
    assert [f.name for f in features] == ["m", "n", "m / n", "m * n"]
    values = {f.name: f.of(Input({"m": 6, "n": 4})) for f in features}
    assert values == {"m": 6, "n": 4, "m / n": 1.5, "m * n": 24}


def test_features_with_zero_or_below_are_used_as_they_are() -> None:
    inputs = [Input({"m": 8, "shift": shift}) for shift in (-2, 0, 3)]
    features = {f.name: f for f in derive_features(inputs)}
    assert list(features) == ["m", "shift"]
    assert features["shift"].column(inputs) == [-2, 0, 3]
    assert features["m"].column(inputs) == [3, 3, 3]


def test_texts_and_features_that_some_inputs_lack_are_no_features() -> None:
    inputs = [Input({"m": 1, "kind": "a", "n": 2}), Input({"m": 2, "kind": "b"})]
    assert [f.name for f in derive_features(inputs)] == ["m"]


# ------------------------------------------------------------------------------ the tree


def test_the_tree_finds_the_split_that_there_is() -> None:
    tree = grow(matrix_of(times(by_shape, SHAPES)))
    assert isinstance(tree, Split)
    assert isinstance(tree.low, Leaf)
    assert isinstance(tree.high, Leaf)
    assert all(decide(tree, given) == min(row, key=row.__getitem__)
               for given, row in times(by_shape, SHAPES).items())  # fmt: skip
    assert {leaf.slowdown for leaf in leaves(tree)} == {1.0}


def test_the_tree_splits_on_a_ratio_where_only_the_ratio_tells() -> None:
    inputs = [Input({"m": m, "n": n}) for m in (7, 90, 800, 6000) for n in (10, 100, 1000, 9000)]
    tree = grow(matrix_of(times(by_shape, inputs)))
    assert isinstance(tree, Split)
    assert tree.feature.name == "m / n"
    assert decide(tree, Input({"m": 10**6, "n": 1000})) == NARROW
    assert decide(tree, Input({"m": 10**6, "n": 10**9})) == WIDE


@pytest.mark.parametrize("failures", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(6))
def test_each_row_is_decided_by_the_leaf_that_it_was_counted_in(seed: int, failures: float) -> None:
    matrix = random_matrix(seed, failures)
    tree = grow(matrix)
    rows: dict[int, list[int]] = {}
    for row, given in enumerate(matrix.inputs):
        leaf = leaf_of(tree, given)
        assert decide(tree, given) == leaf.config
        rows.setdefault(id(leaf), []).append(row)
    for leaf in leaves(tree):
        members = rows[id(leaf)]
        assert len(members) == leaf.inputs
        means = matrix.log_slowdown[members].mean(axis=0)
        assert math.log(leaf.slowdown) == pytest.approx(means.min())
        assert means[matrix.candidates.index(leaf.config)] == pytest.approx(means.min())


@pytest.mark.parametrize("seed", range(6))
def test_no_split_has_two_leaves_that_choose_the_same(seed: int) -> None:
    nodes = [grow(random_matrix(seed))]
    while nodes:
        node = nodes.pop()
        if isinstance(node, Split):
            nodes += [node.low, node.high]
            if isinstance(node.low, Leaf) and isinstance(node.high, Leaf):
                assert node.low.config != node.high.config


def test_the_same_matrix_grows_the_same_tree() -> None:
    matrix = random_matrix(5)
    assert list(describe(grow(matrix))) == list(describe(grow(matrix)))


def test_one_configuration_that_is_best_everywhere_is_one_leaf() -> None:
    tree = grow(matrix_of({given: {NARROW: 1.0, MIDDLE: 2.0} for given in SHAPES}))
    assert tree == Leaf(NARROW, len(SHAPES), 1.0)


def test_a_candidate_that_fails_somewhere_is_not_chosen_there() -> None:
    def rule(given: Input) -> dict[Config, float]:
        large = given["m"] > 2**10  # type: ignore[operator]
        return {WIDE: math.inf if large else 1.0, NARROW: 1.5, MIDDLE: 3.0}

    tree = grow(matrix_of(times(rule, SHAPES)))
    assert [decide(tree, given) for given in SHAPES] == [WIDE] * 9 + [NARROW] * 8


def test_every_member_stays_on_its_side_above_the_width_of_float32() -> None:
    sizes = (-5, 3, 4, 2**24, 2**24 + 1, 2**24 + 2, 2**24 + 3, 2**24 + 4, 2**24 + 6, 2**24 + 8)
    inputs = [Input({"m": size}) for size in sizes]

    def rule(given: Input) -> dict[Config, float]:
        low = given["m"] <= 2**24 + 2  # type: ignore[operator]
        return {WIDE: 1.0 if low else 3.0, NARROW: 4.0 if low else 1.0}

    found = times(rule, inputs)
    tree = grow(make_matrix(found, WIDE))
    assert [decide(tree, given) for given in inputs] == [
        min(row, key=row.__getitem__) for row in found.values()
    ]


def test_large_sizes_are_told_apart_by_their_ratio() -> None:
    inputs = [Input({"m": 2**40 + step * 2**24}) for step in range(12)]
    border = 2**40 + 6 * 2**24

    def rule(given: Input) -> dict[Config, float]:
        low = given["m"] < border  # type: ignore[operator]
        return {WIDE: 1.0 if low else 3.0, NARROW: 4.0 if low else 1.0}

    tree = grow(make_matrix(times(rule, inputs), WIDE))
    assert [decide(tree, given) for given in inputs] == [WIDE] * 6 + [NARROW] * 6


# -------------------------------------------------------------------------------- telling


def test_a_tree_is_told_as_conditions_with_inputs_and_slowdown() -> None:
    inputs = [Input({"m": size}) for size in (1, 2, 4, 64, 128, 256)]

    def rule(given: Input) -> dict[Config, float]:
        low = given["m"] < 10  # type: ignore[operator]
        return {WIDE: 1.0 if low else 2.0, NARROW: 2.0 if low else 1.0}

    assert list(describe(grow(make_matrix(times(rule, inputs), WIDE)))) == [
        "if m <= 16:",
        "    BLOCK=1024   (3 inputs, slowdown 1.00)",
        "else:   # m > 16",
        "    BLOCK=16   (3 inputs, slowdown 1.00)",
    ]


def test_large_thresholds_are_told_without_an_exponent() -> None:
    feature = derive_features([Input({"m": 1})])[0]
    leaf = Leaf(WIDE, 1, 1.25)
    lines = list(describe(Split(feature, 2_048_154.4, leaf, leaf)))
    assert lines[:2] == ["if m <= 2,048,154:", "    BLOCK=1024   (1 input, slowdown 1.25)"]
    assert next(describe(Split(feature, 0.00390625, leaf, leaf))) == "if m <= 0.003906:"


# -------------------------------------------------------------------------------- judging


def judged(matrix: Matrix) -> Mapping[str, tuple[float, ...]]:
    return {j.name.split(",")[0].split(" ")[0]: j.slowdown for j in leave_one_out(matrix)}


def test_a_tree_beats_the_best_single_configuration_where_the_shape_decides() -> None:
    tree, single, default = leave_one_out(matrix_of(times(by_shape, SHAPES)))
    assert tree.mean < 1.1 < 1.9 < single.mean
    assert default.slowdown == (2.0,) * len(SHAPES)
    assert (default.mean, default.worst) == pytest.approx((2.0, 2.0))


def test_static_is_chosen_without_the_input_that_it_is_judged_on() -> None:
    """Each of two configurations wins on half of the inputs: without one of its own, the other
    one is the majority's, so that static always takes the wrong one."""
    inputs = [Input({"m": 2**e}) for e in range(6)]
    found = {
        given: {WIDE: 1.0 if place % 2 else 2.0, NARROW: 2.0 if place % 2 else 1.0}
        for place, given in enumerate(inputs)
    }
    assert judged(make_matrix(found, WIDE))["best"] == (2.0,) * 6


def chosen_for(matrix: Matrix, row: int, told: Sequence[float]) -> list[int]:
    """Which candidates have this slowdown on this row; times of a row are all different."""
    ratios = matrix.slowdown[row]
    return [place for place, ratio in enumerate(ratios) if ratio == told[row]]


@pytest.mark.parametrize(("seed", "failures"), [(0, 0.0), (1, 0.25), (2, 0.25), (3, 0.4)])
def test_times_of_an_input_do_not_change_what_is_chosen_for_it(seed: int, failures: float) -> None:
    matrix = random_matrix(seed, failures, most=8)
    before = judged(matrix)
    for row in range(len(matrix.inputs)):
        time_s = matrix.time_s.copy()
        # Others win now, by far, and the slowest is slower than anything else.
        time_s[row] = [1e-3 * 50 ** ((place * 5 + 2) % 7) for place in range(time_s.shape[1])]
        changed = dataclasses.replace(matrix, time_s=time_s)
        after = judged(changed)
        for name in ("tree", "best"):
            kept = set(chosen_for(matrix, row, before[name]))
            assert kept & set(chosen_for(changed, row, after[name]))


def test_a_winner_of_the_left_out_input_alone_is_no_candidate_for_it() -> None:
    found = {given: {WIDE: 1.0, MIDDLE: 3.0} for given in SHAPES[:6]}
    found[SHAPES[2]][NARROW] = 0.5
    result = judged(matrix_of(found))
    assert result["tree"][2] == result["best"][2] == 2.0


def test_a_choice_that_failed_is_told_as_infinite() -> None:
    found = {given: {WIDE: 1.0, MIDDLE: 3.0} for given in SHAPES[:6]}
    found[SHAPES[2]] = {WIDE: math.inf, MIDDLE: 3.0}
    tree, single, default = leave_one_out(matrix_of(found))
    assert math.isinf(single.worst)
    assert math.isinf(single.mean)
    assert math.isfinite(default.worst)
    assert len(tree.slowdown) == 6


def test_few_inputs_grow_one_leaf() -> None:
    few = SHAPES[:1] + SHAPES[-2:]
    assert len(few) < FEWEST_INPUTS
    assert isinstance(grow(matrix_of(times(by_shape, few))), Leaf)
