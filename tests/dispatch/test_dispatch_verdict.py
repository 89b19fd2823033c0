"""The verdict: what is held out, what a choice comes to, and when one is better than another."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from harness.core.arrays import Array
from harness.core.records import Config
from harness.dispatch.learners import Fixed, Static
from harness.dispatch.matrix import Matrix, make_matrix
from harness.dispatch.verdict import (
    Slowdowns,
    geometric_mean,
    held_out,
    held_out_slowdowns,
    in_hindsight,
)
from harness.models.folds import fold_count, grouped_folds

INF, NAN = math.inf, math.nan


def table(time_s: list[list[float]], **known: object) -> Matrix:
    """A matrix of these seconds; the only feature is the input's index."""
    times = np.array(time_s)
    features = pd.DataFrame({"n": range(1, len(times) + 1)})
    candidates = [Config({"BLOCK": 32 << index}) for index in range(times.shape[1])]
    return make_matrix(features, candidates, times, **known)  # type: ignore[arg-type]


def printed(logs: list[float], groups: list[int] | None = None) -> Slowdowns:
    numbers = np.array(groups if groups is not None else range(len(logs)))
    return Slowdowns("it", np.array(logs), numbers, np.zeros(len(logs), bool), np.ones(len(logs)))


def test_failure_counts_twice_the_largest_slowdown_of_its_input() -> None:
    matrix = table([[1.0, 3.0, INF], [1.0, 1.0, 1.0]])
    np.testing.assert_allclose(np.exp(matrix.log_slowdown[0]), [1.0, 3.0, 6.0])
    found = Slowdowns.of("it", matrix, np.array([2, 0]))
    assert found.failures == 1
    assert found.worst == pytest.approx(6.0)


def test_choice_that_does_not_apply_is_refused() -> None:
    matrix = table([[1.0, 2.0]], applies=np.array([[True, False]]))
    with pytest.raises(ValueError, match="BLOCK=64, which does not apply"):
        Slowdowns.of("it", matrix, np.array([1]))


def test_no_choice_is_one_that_failed() -> None:
    found = Slowdowns.of("it", table([[1.0, 3.0], [1.0, 2.0]]), np.array([-1, 1]))
    np.testing.assert_allclose(found.slowdown, [6.0, 2.0])
    assert found.failures == 1


@pytest.mark.parametrize(("count", "parts"), [(3, 3), (20, 20), (30, 16), (64, 16), (65, 5)])
def test_groups_are_held_out_whole_and_once(count: int, parts: int) -> None:
    groups = np.repeat(np.arange(count), 3)
    folds = grouped_folds(groups, fold_count(groups), seed=0)
    assert len(folds) == parts
    assert sorted(row for fold in folds for row in fold.test) == list(range(3 * count))
    for fold in folds:
        assert not set(groups[fold.fit]) & set(groups[fold.test])


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
    found = held_out_slowdowns(table([[1.0, 2.0], [2.0, 1.0], [1.0, 1.0]]), [learner])
    assert sorted(sorted(seen.tolist()) for seen in learner.seen) == [[1, 2], [1, 3], [2, 3]]
    np.testing.assert_allclose(found["peeking"].slowdown, [1.0, 2.0, 1.0])
    assert found["oracle"].worst == 1.0


def test_one_group_cannot_be_judged() -> None:
    with pytest.raises(ValueError, match="two groups"):
        held_out_slowdowns(table([[1.0], [1.0]], groups=[0, 0]), [Static()])


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
        ratio = printed(noise.tolist(), inputs.tolist()).over(printed([0.0] * len(noise))).ratio
        alarms += ratio.high < 1
    assert alarms <= 0.05 * 400


def test_better_is_what_the_whole_interval_tells() -> None:
    slow = printed([0.3, 0.2, 0.4, 0.3])
    assert printed([0.0, 0.0, 0.1, 0.1]).over(slow).is_better
    lucky = printed([0.5, 0.5, 0.5, -1.5]).over(slow)
    assert lucky.ratio.value < 1.0
    assert not lucky.is_better
    assert (lucky.wins, lucky.losses) == (1, 3)


def test_the_interval_of_single_inputs_is_students() -> None:
    logs = [0.1, 0.4, 0.2, 0.9]
    low, high = stats.ttest_1samp(logs, 0).confidence_interval(0.95)
    found = geometric_mean(np.array(logs), np.array([3, 1, 7, 5]), np.ones(4))
    wanted = np.exp([np.mean(logs), low, high])
    assert [found.value, found.low, found.high] == pytest.approx(wanted)


def test_the_interval_of_groups_is_that_of_their_sums() -> None:
    """The sums of the groups' deviations from the mean 0.3 are -0.4, 0.1 and 0.3."""
    logs, groups = np.array([0.1, 0.1, 0.4, 0.6, 0.3]), np.array([0, 0, 2, 5, 2])
    error = math.sqrt(3 / 2 * (0.4**2 + 0.1**2 + 0.3**2)) / 5
    found = geometric_mean(logs, groups, np.ones(5))
    assert found.high == pytest.approx(math.exp(0.3 + stats.t(2).ppf(0.975) * error))
    one = geometric_mean(logs, np.zeros(5, dtype=np.intp), np.ones(5))
    assert (one.low, one.high) == (0.0, INF)


def test_a_tie_is_neither_won_nor_lost() -> None:
    found = printed([0.1, 0.2 + 1e-12, 0.3, 0.5]).over(printed([0.2, 0.2, 0.2, 0.2 - 1e-12]))
    assert (found.wins, found.losses) == (1, 2)
    equal = printed([0.2 - 1e-12]).over(printed([0.2]))
    assert (equal.wins, equal.losses) == (0, 0)


def test_the_least_gain_is_that_whose_interval_reaches_highest() -> None:
    one = printed([0.0, 0.0, 0.1, 0.1])
    far, near = printed([0.9, 1.0, 0.9, 1.0]), printed([0.1, 0.2, 0.1, 0.2])
    assert one.least_gain([far, near, far]) == one.over(near)


def test_worst_and_near_are_of_the_inputs() -> None:
    found = printed([0.0, math.log(1.05), math.log(1.051), math.log(3.0)])
    assert found.near == 0.5
    assert found.worst == pytest.approx(3.0)


def test_a_percentile_is_the_first_that_99_of_100_do_not_exceed() -> None:
    assert printed([0.1 * index for index in range(100)]).percentile_99 == pytest.approx(
        math.exp(9.8)
    )
    assert printed([0.3, 0.1, 0.2]).percentile_99 == pytest.approx(math.exp(0.3))


def test_in_hindsight_a_learner_is_judged_on_what_it_learnt_from() -> None:
    matrix = table([[1.0, 2.0], [2.0, 1.0], [1.0, NAN]])
    learner = Peeking([])
    found = in_hindsight(matrix, learner, "it")
    assert [seen.tolist() for seen in learner.seen] == [[1, 2, 3]]
    np.testing.assert_allclose(found.slowdown, [1.0, 2.0, 1.0])
