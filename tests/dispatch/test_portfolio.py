"""Portfolios, static orders and the orders of a tree's nodes, beside slow loops of these rules."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest

from harness.core.arrays import Array, Flags, Indices
from harness.core.records import Config
from harness.dispatch.growing import Grown
from harness.dispatch.matrix import Matrix, make_matrix
from harness.dispatch.portfolio import greedy_portfolio, node_orders, static_order


def table(time_s: Array, applies: Flags | None = None) -> Matrix:
    features = pd.DataFrame({"n": range(len(time_s))})
    candidates = [Config({"BLOCK": index}) for index in range(time_s.shape[1])]
    return make_matrix(features, candidates, np.array(time_s, float), applies=applies)


def test_what_does_not_apply_costs_more_than_the_worst_that_does() -> None:
    applies = np.array([[True, False], [True, True]])
    found = table(np.array([[1.0, 1.0], [1.0, 2.0]]), applies).costs
    assert found == pytest.approx(np.array([[0, 2 * math.log(2) + 1], [0, math.log(2)]]))
    alone = table(np.array([[1.0, 1.0]]), np.array([[True, False]])).costs
    assert alone == pytest.approx(np.array([[0.0, 1.0]]))


@pytest.mark.parametrize(("gain", "count"), [(0.0009, 1), (0.0011, 2)])
def test_a_member_is_worth_a_thousandth(gain: float, count: int) -> None:
    # The second is 2 * gain better on the second input alone, and as much worse on the others.
    logs = np.array([[0.0, 1.0], [2 * gain, 0.0]])
    matrix = table(np.exp(logs))
    assert greedy_portfolio(matrix) == [0, 1][:count]
    far_from_the_best = dataclasses.replace(matrix, best_s=np.array([0.5, 0.5]))
    assert greedy_portfolio(far_from_the_best) == [0, 1][:count]


def test_a_portfolio_has_16_members_at_most() -> None:
    wanted = np.where(np.eye(20, dtype=bool), 1.0, 2.0)
    assert greedy_portfolio(table(wanted)) == list(range(16))
    assert greedy_portfolio(table(wanted), most=3) == [0, 1, 2]


@pytest.mark.parametrize(("default", "first"), [(None, 2), (0, 0)])
def test_of_ties_the_default_comes_first_else_the_least_time(
    default: int | None, first: int
) -> None:
    times = np.array([[1.2, 1.1, 1.0, 3.0], [1.2, 1.1, 1.0, 3.0]])
    tied = np.array([[True, True, True, False]] * 2)
    made = dataclasses.replace(table(times), tied=tied, default=default)
    assert static_order(made)[0] == first


def test_what_is_not_significantly_slower_gives_way_to_the_first_candidate() -> None:
    """Over both inputs 1 is 2 % faster than 0. Half widths of 2 % each on two inputs show 2 %: the
    mean of two has half of sqrt(2 + 2) times that."""
    times = np.array([[1.02, 1.0, 3.0], [1.02, 1.0, 3.0]])
    for half, first in ((0.021, 0), (0.019, 1)):
        made = dataclasses.replace(table(times), half_log=np.full((2, 3), half))
        assert static_order(made) == (first, 1 - first, 2)
    negligible = dataclasses.replace(table(times / [1.016, 1, 1]), half_log=np.zeros((2, 3)))
    assert static_order(negligible)[0] == 0


def test_what_does_not_apply_wherever_the_fastest_does_is_no_tie() -> None:
    applies = np.array([[True, True], [False, True]])
    slower = table(np.array([[1.01, 1.0], [1.0, 1.0]]), applies)
    assert static_order(dataclasses.replace(slower, half_log=np.full((2, 2), 0.1)))[0] == 1


def test_the_static_order_is_that_of_the_means_and_what_applies_nowhere_comes_last() -> None:
    assert static_order(table(np.array([[3.0, 1.0, 2.0], [2.0, 4.0, 1.0]]))) == (2, 1, 0)
    applies = np.array([[False, True, True], [False, True, True]])
    times = np.array([[1.0, 3.0, 1.0], [1.0, 3.0, 1.0]])
    assert static_order(table(times, applies)) == (2, 1, 0)


def test_a_candidate_moves_to_the_front_while_that_gains() -> None:
    # By their means 1 comes first; but 0 and then 2 are better on all inputs where they apply.
    applies = np.array([[True, True, False], [False, True, True], [False, True, True]])
    times = np.array([[1.0, 1.1, 1.0], [9.0, 1.0, 1.2], [9.0, 2.0, 1.0]])
    matrix = table(times, applies)
    logs = matrix.log_slowdown
    means = [0.0, logs[:, 1].mean(), logs[1:, 2].mean()]
    assert np.argsort(means).tolist() == [0, 2, 1]
    assert static_order(matrix) == (0, 2, 1)
    worse = table(np.array([[1.0, 1.1, 1.0], [9.0, 1.0, 2.0], [9.0, 1.1, 1.0]]), applies)
    assert static_order(worse) == (0, 1, 2)


def brute_force_cost(matrix: Matrix, order: tuple[int, ...]) -> float:
    logs = matrix.log_slowdown
    rows = range(len(logs))
    return float(np.mean([next(logs[i, c] for c in order if matrix.applies[i, c]) for i in rows]))


@pytest.mark.parametrize("seed", range(20))
def test_no_move_to_the_front_lowers_the_cost_of_a_static_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    applies = rng.random((6, 5)) < 0.6
    applies[:, 2] = True
    matrix = table(np.exp(rng.random((6, 5))), applies)
    order = static_order(matrix)
    assert sorted(order) == list(range(5))
    for index in order:
        moved = (index, *(other for other in order if other != index))
        assert brute_force_cost(matrix, moved) >= brute_force_cost(matrix, order) - 1e-12


def test_an_input_without_any_candidate_has_no_static_choice() -> None:
    made = dataclasses.replace(table(np.ones((2, 1))), applies=np.array([[True], [False]]))
    with pytest.raises(ValueError, match="no candidate that applies"):
        static_order(made)


# --------------------------------------------------------------------- orders of nodes

TREE = Grown(
    low=np.array([1, -1, 3, -1, -1]),
    high=np.array([2, -1, 4, -1, -1]),
    column=np.array([0, -2, 0, -2, -2]),
    threshold=np.array([2.5, 0, 5.5, 0, 0]),
)
"""Nodes 1, 3 and 4 are leaves for values up to 2.5, up to 5.5 and above."""


def orders(logs: Array, static: Array, groups: Indices) -> list[list[int]]:
    paths = TREE.paths(np.arange(9.0)[:, None])
    return node_orders(TREE, paths, logs, static, groups, np.ones(len(logs))).tolist()


def test_a_gain_of_one_group_is_not_clear_and_one_of_two_may_be() -> None:
    logs = np.tile([1.0, 0.0], (9, 1))
    static = np.ones(9)
    assert orders(logs, static, np.zeros(9, dtype=np.intp)) == [[0, 1]] * 5
    assert orders(logs, static, np.arange(9) % 2) == [[1, 0]] * 5
    assert orders(logs, np.zeros(9), np.arange(9)) == [[0, 1]] * 5, "there is no gain"
