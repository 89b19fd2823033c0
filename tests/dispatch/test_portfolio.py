"""Portfolios, static orders and the orders of a tree's nodes, beside slow loops of these rules."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from harness.analysis.inputs import InputReport
from harness.core.records import Config, Input, Measurement, Outcome, Timing
from harness.dispatch import most as module
from harness.dispatch.ensemble import EnsembleLearner
from harness.dispatch.learners import Default
from harness.dispatch.matrix import make_matrix
from harness.dispatch.most import limited, portfolio_rows, portfolios
from harness.dispatch.portfolio import greedy_portfolio, node_orders, static_order
from harness.dispatch.single import single_of
from harness.dispatch.study import STATIC, Study
from harness.dispatch.tree import TreeLearner
from harness.models.regression import NodeArrays
from tests.helpers.matrices import table


def test_what_does_not_apply_costs_more_than_the_worst_that_does():
    applies = np.array([[True, False], [True, True]])
    times = np.array([[1.0, 1.0], [1.0, 2.0]])
    wanted = [[0, 2 * math.log(2) + 1], [0, math.log(2)]]
    np.testing.assert_allclose(table(times, applies=applies).costs, wanted)
    assert table(times[:1], applies=applies[:1]).costs.tolist() == [[0.0, 1.0]]


def test_a_member_is_worth_a_thousandth():
    for gain, count in ((0.0009, 1), (0.0011, 2)):
        times = np.exp([[0.0, 1.0], [2 * gain, 0.0]])
        for best_s in (np.ones(2), np.full(2, 0.5)):
            assert greedy_portfolio(table(times, best_s=best_s)) == [0, 1][:count]


def test_a_portfolio_has_16_members_at_most():
    wanted = np.where(np.eye(20, dtype=bool), 1.0, 2.0)
    assert greedy_portfolio(table(wanted)) == list(range(16))
    assert greedy_portfolio(table(wanted), most=3) == [0, 1, 2]


def test_of_ties_the_default_is_first_else_the_least_time():
    for default, first in ((None, 2), (0, 0)):
        tied = np.array([[True, True, True, False]] * 2)
        made = table([[1.2, 1.1, 1.0, 3.0]] * 2, tied=tied, default=default)
        assert static_order(made)[0] == first


def test_what_is_not_significantly_slower_gives_way_to_the_first_candidate():
    """Over both inputs 1 is 2 % faster than 0. Half widths of 2 % each on two inputs show 2 %: the
    mean of two has half of sqrt(2 + 2) times that."""
    for half, slower, order in ((0.021, 1.02, (0, 1, 2)), (0.019, 1.02, (1, 0, 2)),
                                (0.0, 1.004, (0, 1, 2))):  # fmt: skip
        made = replace(table([[slower, 1.0, 3.0]] * 2), half_log=np.full((2, 3), half))
        assert static_order(made) == order


def test_what_does_not_apply_wherever_the_fastest_does_is_no_tie():
    applies = np.array([[True, True], [False, True]])
    slower = table([[1.01, 1.0], [1.0, 1.0]], applies=applies)
    assert static_order(replace(slower, half_log=np.full((2, 2), 0.1)))[0] == 1


def test_the_static_order_is_that_of_the_means_and_what_applies_nowhere_comes_last():
    assert static_order(table([[3.0, 1.0, 2.0], [2.0, 4.0, 1.0]])) == (2, 1, 0)
    applies = np.array([[False, True, True]] * 2)
    assert static_order(table([[1.0, 3.0, 1.0]] * 2, applies=applies)) == (2, 1, 0)


def cost(matrix, order):
    chosen = [next(c for c in order if applies[c]) for applies in matrix.applies]
    return matrix.log_slowdown[range(6), chosen].sum()


def test_no_move_to_the_front_lowers_the_cost_of_a_static_order():
    rng = np.random.default_rng(0)
    for _ in range(10):
        applies = rng.random((6, 5)) < 0.6
        applies[:, 2] = True
        matrix = table(np.exp(rng.random((6, 5))), applies=applies)
        order = static_order(matrix)
        assert sorted(order) == list(range(5))
        for index in order:
            assert cost(matrix, (index, *order)) >= cost(matrix, order) - 1e-12


def test_an_input_without_any_candidate_has_no_static_choice():
    with pytest.raises(ValueError, match="no candidate"):
        static_order(table(np.ones((2, 1)), applies=np.array([[True], [False]])))


# --------------------------------------------------------------------- orders of nodes

TREE = NodeArrays(
    low=np.array([1, -1, 3, -1, -1]),
    high=np.array([2, -1, 4, -1, -1]),
    column=np.array([0, -2, 0, -2, -2]),
    threshold=np.array([2.5, 0, 5.5, 0, 0]),
)
"""Nodes 1, 3 and 4 are leaves for values up to 2.5, up to 5.5 and above."""


def orders(logs, static, groups):
    paths = TREE.paths(np.arange(9.0)[:, None])
    return node_orders(TREE, paths, logs, static, groups, np.ones(len(logs))).tolist()


def test_a_gain_of_one_group_is_not_clear_and_one_of_two_may_be():
    logs = np.tile([1.0, 0.0], (9, 1))
    static = np.ones(9)
    assert orders(logs, static, np.zeros(9, dtype=np.intp)) == [[0, 1]] * 5
    assert orders(logs, static, np.arange(9) % 2) == [[1, 0]] * 5
    assert orders(logs, np.zeros(9), np.arange(9)) == [[0, 1]] * 5, "there is no gain"


# ---------- which configuration is advised for all inputs, and by which rounds it is judged


DEFAULT, CHOSEN, OTHER = (Config({"BLOCK": block}) for block in (256, 16, 64))


def measured(problem, config, time_s):
    return Measurement(config, problem, Outcome.OK, Timing((time_s, time_s * 1.01)))


def single(in_finals, other_s):
    """Return the advice for four inputs: CHOSEN takes 1 s in the candidates' rounds, the default
    2 s. The finals have these times."""
    time_s = np.tile([2.0, 1.0, other_s], (4, 1))
    matrix = make_matrix(pd.DataFrame({"n": range(4)}), (DEFAULT, CHOSEN, OTHER), time_s, default=0)
    finals, reports = {}, []
    for problem in [Input({"n": n}) for n in range(4)]:
        finals[problem] = [measured(problem, config, t) for config, t in in_finals.items()]
        best, baseline = measured(problem, OTHER, other_s), measured(problem, DEFAULT, 2.0)
        reports.append(InputReport(problem, best, baseline, None, 0, {Outcome.OK: 3}, 3))
    return single_of(matrix, reports, finals, DEFAULT)


def test_without_finals_the_candidates_rounds_choose():
    for in_finals, other_s, config in (
        ({}, 0.9, OTHER),
        ({}, 1.1, CHOSEN),
        ({DEFAULT: 2.0}, 0.9, OTHER),
    ):
        assert single(in_finals, other_s).config == config


# ---------- the table of times that dispatchers are learnt from


INF, NAN = math.inf, math.nan


def matrix(time_s, **more):
    features = pd.DataFrame({"n": range(10, 10 + len(time_s))})
    return table(time_s, features.set_index(features["n"] - 5), **more)


def test_slowdowns_are_logarithms_where_a_candidate_applies():
    made = matrix(
        [[2.0, 6.0, INF, NAN], [1.0, 9.0, INF, 1.0]],
        applies=np.array([[True, True, True, True], [True, False, True, True]]),
    )
    logs = [[0, math.log(3), math.log(6), NAN], [0, NAN, math.log(2), 0]]
    np.testing.assert_allclose(made.log_slowdown, logs)
    np.testing.assert_allclose(made.failed_log, [math.log(6), math.log(2)])
    assert made.best.tolist() == [0, 0]


def test_slowdown_is_over_the_best_known_and_a_tie_is_none():
    tied = np.array([[False, True, False]])
    made = matrix([[2.0, 2.02, 6.0]], best_s=np.array([1.0]), tied=tied)
    assert made.slowdown.tolist() == [[2.0, 1.0, 6.0]]


def test_rows_have_all_that_belongs_to_an_input():
    made = matrix([[1.0, 2.0], [3.0, 4.0], [6.0, 5.0]], groups=[7, 8, 7], default=1)
    rows = made.rows(np.array([2, 0]))
    assert rows.features.to_dict("index") == {0: {"n": 12}, 1: {"n": 10}}
    assert rows.time_s.tolist() == [[6, 5], [1, 2]]
    assert (rows.best_s.tolist(), rows.groups.tolist()) == ([5, 1], [0, 0])
    assert (rows.candidates, rows.default) == (made.candidates, 1)


def test_what_lacks_a_measurement_where_it_applies_cannot_be_judged():
    made = matrix(
        [[1.0, NAN, NAN], [NAN, 2.0, 1.0], [NAN, NAN, NAN]],
        applies=np.array([[True, False, True], [True, True, True], [True, False, False]]),
        best_s=np.ones(3),
    )
    assert np.argwhere(made.complete().applies).tolist() == [[1, 1]]
    judged = made.comparable()
    assert judged.features["n"].tolist() == [11]
    assert judged.applies.tolist() == [[False, True, False]]


# ---------- dispatchers of at most so many configurations


def drawn(seed, inputs=24, candidates=9):
    """Each candidate suits sizes about its own."""
    rng = np.random.default_rng(seed)
    sizes = np.sort(rng.uniform(0, 12, inputs))
    logs = 0.1 * np.abs(sizes[:, None] - np.linspace(0, 12, candidates))
    features = pd.DataFrame({"n": (2**sizes).astype(int)})
    return table(np.exp(logs + rng.normal(0, 0.02, logs.shape)), features, default=candidates // 2)


@pytest.fixture(scope="module")
def few():
    return list(portfolios(drawn(1)))


def mean_log(matrix, portfolio):
    return float(matrix.log_slowdown[:, portfolio].min(axis=1).mean())


def test_portfolio_is_the_best_of_its_size(few, monkeypatch):
    matrix = drawn(1)
    monkeypatch.setattr(module, "MOST_TRIED", 0)
    for one, exchanged in zip(few, portfolios(matrix), strict=True):
        combinations = itertools.combinations(range(9), len(one.configs))
        best = min(combinations, key=lambda p: mean_log(matrix, p))
        places, nearly = (
            sorted(map(matrix.candidates.index, made.configs)) for made in (one, exchanged)
        )
        assert places == list(best)
        assert mean_log(matrix, nearly) <= mean_log(matrix, best) * 1.05


def test_dispatcher_has_no_more_configurations():
    matrix = drawn(0)
    for learner in (TreeLearner(), EnsembleLearner()):
        assert len(learner.fit(matrix, 0).portfolio) > 2
        learnt = limited(learner, 2).fit(matrix, 0)
        assert len(learnt.portfolio) == 2
        assert set(learnt.indices(matrix.features, matrix.applies)) == set(learnt.portfolio)


def test_inputs_that_nothing_serves_are_left_to_the_caller():
    matrix = drawn(0)
    matrix.applies[0, 1:] = False
    matrix.applies[1:, 0] = False
    learnt = limited(TreeLearner(), 1).fit(matrix, 0)
    (one,) = learnt.portfolio
    assert learnt.indices(matrix.features, matrix.applies).tolist() == [-1, *[one] * 23]


def test_each_more_gains_on_held_out_inputs_until_it_gains_nothing(few):
    matrix = drawn(1)
    means = [one.slowdowns.mean.value for one in few]
    assert [len(one.configs) for one in few] == [1, 2, 3, 4, 5]
    assert means == sorted(means, reverse=True)
    assert means[-1] > 1
    assert means[0] == pytest.approx(Study.of(matrix, [STATIC]).slowdowns[STATIC.name].mean.value)
    head, *_ = portfolio_rows(few, matrix.candidates[4])
    assert (head[0], head[1].split()[0]) == ("1", f"{means[0]:.3f}")
    assert len(list(portfolios(drawn(1, candidates=1)))) == 1


def test_study_limits_its_dispatchers_alone():
    matrix = drawn(2, inputs=12, candidates=4)
    learners = (Default(), STATIC, TreeLearner())
    free, limited = Study.of(matrix, learners), Study.of(matrix, learners, most=1)
    of_tree = limited.slowdowns["tree"].mean.value
    assert of_tree == pytest.approx(limited.slowdowns["best static"].mean.value)
    assert free.slowdowns["tree"].mean.value < of_tree
    assert len(limited.learnt("tree").portfolio) == 1
    for name in ("default", "best static", "oracle"):
        assert (free.slowdowns[name].logs == limited.slowdowns[name].logs).all()
