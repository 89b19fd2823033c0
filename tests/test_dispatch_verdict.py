"""The verdict: what is held out, what a choice comes to, and when one is better than another."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from harness.core.arrays import Array
from harness.core.records import Config
from harness.dispatch.learners import Fixed, Static
from harness.dispatch.matrix import Matrix, make_matrix
from harness.dispatch.portfolio import first_applicable, greedy_portfolio, static_order
from harness.dispatch.verdict import Judged, compare, held_out, judge, judged
from harness.models.folds import fold_count, grouped_folds

INF, NAN = math.inf, math.nan


def table(time_s: list[list[float]], **known: object) -> Matrix:
    """A matrix of these seconds; the only feature is the input's index."""
    times = np.array(time_s)
    features = pd.DataFrame({"n": range(1, len(times) + 1)})
    candidates = [Config({"BLOCK": 32 << index}) for index in range(times.shape[1])]
    return make_matrix(features, candidates, times, **known)  # type: ignore[arg-type]


def printed(logs: list[float], groups: list[int] | None = None) -> Judged:
    numbers = np.array(groups if groups is not None else range(len(logs)))
    return Judged("it", np.array(logs), numbers, np.zeros(len(logs), dtype=bool))


def test_slowdown_is_over_the_best_known_and_a_tie_is_none() -> None:
    tied = np.array([[False, True, False]])
    matrix = table([[2.0, 2.02, 6.0]], best_s=np.array([1.0]), tied=tied)
    assert matrix.slowdown.tolist() == [[2.0, 1.0, 6.0]]


def test_failure_counts_twice_the_largest_slowdown_of_its_input() -> None:
    matrix = table([[1.0, 3.0, INF], [1.0, 1.0, 1.0]])
    np.testing.assert_allclose(np.exp(matrix.log_slowdown[0]), [1.0, 3.0, 6.0])
    found = judged("it", matrix, np.array([2, 0]))
    assert found.failures == 1
    assert found.worst == pytest.approx(6.0)


def test_choice_that_does_not_apply_is_refused() -> None:
    matrix = table([[1.0, 2.0]], applies=np.array([[True, False]]))
    with pytest.raises(ValueError, match="BLOCK=64, which does not apply"):
        judged("it", matrix, np.array([1]))


def test_no_choice_is_one_that_failed() -> None:
    found = judged("it", table([[1.0, 3.0], [1.0, 2.0]]), np.array([-1, 1]))
    np.testing.assert_allclose(found.slowdown, [6.0, 2.0])
    assert found.failures == 1


def test_candidate_that_lacks_a_measurement_may_not_be_chosen() -> None:
    matrix = table([[1.0, NAN], [1.0, 0.5]])
    assert matrix.complete().applies.tolist() == [[True, False], [True, False]]
    assert matrix.best_s.tolist() == [1.0, 0.5]


@pytest.mark.parametrize(("count", "parts"), [(30, 16), (64, 16), (65, 5)])
def test_groups_are_held_out_whole_and_once(count: int, parts: int) -> None:
    groups = np.repeat(np.arange(count), 3)
    folds = grouped_folds(groups, fold_count(groups), seed=0)
    assert len(folds) == parts
    assert sorted(row for fold in folds for row in fold.test) == list(range(3 * count))
    for fold in folds:
        assert not set(groups[fold.fit]) & set(groups[fold.test])


def test_few_groups_are_held_out_one_by_one() -> None:
    groups = np.array([0, 0, 1, 2])
    assert fold_count(groups) == 3
    assert len(grouped_folds(groups, 3, seed=0)) == 3
    assert grouped_folds(np.zeros(4, dtype=np.intp), 5, seed=0) == []


def test_candidate_that_only_held_out_inputs_know_is_not_learnt_of() -> None:
    matrix = table([[1.0, 2.0, 1.5], [1.0, 2.0, 1.5], [2.0, 1.0, 1.5]], default=2)
    last = next(f for f in grouped_folds(matrix.groups, 3, 0) if f.test.tolist() == [2])
    fit, test = held_out(matrix, last)
    assert fit.applies.tolist() == [[True, False, True]] * 2
    assert test.applies.all()


@dataclass(frozen=True)
class Peeking:
    """Remembers what it was shown."""

    seen: list[Array]
    name: str = "peeking"

    def fit(self, matrix: Matrix, seed: int) -> Fixed:
        self.seen.append(matrix.features["n"].to_numpy())
        return Fixed((0, 1))


def test_nothing_is_learnt_of_the_inputs_that_judge() -> None:
    learner = Peeking([])
    found = judge(table([[1.0, 2.0], [2.0, 1.0], [1.0, 1.0]]), [learner])
    assert sorted(sorted(seen.tolist()) for seen in learner.seen) == [[1, 2], [1, 3], [2, 3]]
    np.testing.assert_allclose(found["peeking"].slowdown, [1.0, 2.0, 1.0])
    assert found["oracle"].worst == 1.0


def test_one_group_cannot_be_judged() -> None:
    with pytest.raises(ValueError, match="two groups"):
        judge(table([[1.0], [1.0]], groups=[0, 0]), [Static()])


def test_mean_is_geometric_and_its_interval_draws_groups() -> None:
    logs = [0.0, math.log(4.0)] * 50
    alone = printed(logs).mean
    assert alone.value == pytest.approx(2.0)
    assert 1.6 < alone.low < 1.9 < 2.1 < alone.high < 2.4
    few = printed(logs, [0, 1] * 50).mean  # two samples, however many inputs they have
    assert few.low == 1.0 < 100 < few.high, "no slowdown is below 1"
    assert printed(logs, [0] * 100).mean.high == math.inf


@pytest.mark.parametrize("groups", [4, 8, 16])
def test_no_gain_is_seldom_told_as_one(groups: int) -> None:
    random = np.random.default_rng(0)
    inputs = np.repeat(np.arange(groups), 2)
    alarms = 0
    for _ in range(400):
        noise = np.repeat(random.standard_normal(groups), 2) + random.standard_normal(2 * groups)
        ratio = compare(printed(noise.tolist(), inputs.tolist()), printed([0.0] * len(noise))).ratio
        alarms += ratio.high < 1
    assert alarms <= 0.05 * 400


def test_percentile_is_that_of_the_inputs() -> None:
    logs = [math.log(1 + index / 100) for index in range(100)]
    assert printed(logs).percentile_99.value == pytest.approx(1.98)


def test_better_is_what_the_whole_interval_tells() -> None:
    slow = printed([0.3, 0.2, 0.4, 0.3])
    assert compare(printed([0.0, 0.0, 0.1, 0.1]), slow).is_better
    lucky = compare(printed([0.5, 0.5, 0.5, -1.5]), slow)
    assert lucky.ratio.value < 1.0
    assert not lucky.is_better
    assert (lucky.wins, lucky.losses) == (1, 3)


def test_portfolio_adds_what_gains_most_and_ends_where_nothing_does() -> None:
    matrix = table(
        [[1.0, 9.0, 2.0, 9.0], [1.0, 9.0, 2.0, 9.0], [9.0, 1.0, 2.0, 9.0], [9.0, 1.0, 2.0, 9.0]]
    )
    assert greedy_portfolio(matrix) == [2, 0, 1]
    assert greedy_portfolio(matrix, most=1) == [2]


def test_static_order_starts_with_what_is_best_where_it_applies() -> None:
    # The second is best, but applies to one input alone; then the third.
    times = [[3.0, 1.0, 2.0], [3.0, 9.0, 1.0], [1.0, 9.0, 1.5]]
    applies = np.array([[True, True, True], [True, False, True], [True, False, True]])
    matrix = table(times, applies=applies)
    assert static_order(matrix) == (1, 2, 0)
    chosen = first_applicable(np.array([[1, 2, 0]]), applies)
    assert chosen.tolist() == [1, 2, 2]


def test_first_applicable_is_none_where_nothing_applies() -> None:
    applies = np.array([[False, True], [False, False]])
    assert first_applicable(np.array([[0, 1]]), applies).tolist() == [1, -1]
