"""The verdict: what is held out, what a choice comes to, and when one is better than another."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from harness.core.arrays import Array
from harness.core.errors import UsageError
from harness.core.records import Input
from harness.dispatch.ensemble import EnsembleLearner
from harness.dispatch.learners import Fixed, Static
from harness.dispatch.portfolio import greedy_portfolio, static_order
from harness.dispatch.study import Study
from harness.dispatch.tree import TreeLearner
from harness.dispatch.verdict import Slowdowns, geometric_mean, held_out, held_out_slowdowns
from harness.dispatch.weighted import weigh
from harness.models.folds import fold_count, grouped_folds
from harness.space_file.workload import Workload
from tests.helpers.matrices import table

INF = math.inf


def printed(logs, groups=()):
    numbers = np.array(groups or range(len(logs)))
    return Slowdowns("it", np.array(logs), numbers, np.zeros(len(logs), bool), np.ones(len(logs)))


def test_failure_and_no_choice_count_twice_the_largest_slowdown_of_their_input():
    matrix = table([[1.0, 3.0, INF], [1.0, 2.0, 2.0]])
    np.testing.assert_allclose(np.exp(matrix.log_slowdown[0]), [1.0, 3.0, 6.0])
    for choice in (2, -1):
        judged = Slowdowns.of("it", matrix, np.array([choice, 1]))
        assert judged.slowdown.tolist() == pytest.approx([6.0, 2.0])
        assert judged.failures == 1


def test_groups_are_held_out_whole_and_once():
    for count, parts in ((3, 3), (20, 20), (30, 16), (64, 16), (65, 5)):
        groups = np.repeat(np.arange(count), 3)
        folds = grouped_folds(groups, fold_count(groups), seed=0)
        assert len(folds) == parts
        assert sorted(row for fold in folds for row in fold.test) == list(range(3 * count))
        for fold in folds:
            assert not set(groups[fold.fit]) & set(groups[fold.test])


def test_candidate_that_only_held_out_inputs_know_is_not_learnt_of():
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

    def fit(self, matrix, seed):
        self.seen.append(matrix.features["n"].to_numpy())
        return Fixed((0, 1))


def test_nothing_is_learnt_of_the_inputs_that_judge():
    learner = Peeking([])
    judged = held_out_slowdowns(table([[1.0, 2.0], [2.0, 1.0], [1.0, 1.0]]), [learner])
    assert sorted(sorted(seen.tolist()) for seen in learner.seen) == [[1, 2], [1, 3], [2, 3]]
    np.testing.assert_allclose(judged["peeking"].slowdown, [1.0, 2.0, 1.0])
    assert judged["oracle"].worst == 1.0
    with pytest.raises(ValueError, match="two groups"):
        held_out_slowdowns(table([[1.0], [1.0]], groups=[0, 0]), [learner])


def test_no_mean_slowdown_is_below_1():
    few = printed([0.0, math.log(4.0)] * 50, [0, 1] * 50).mean
    assert few.low == 1.0 < 100 < few.high


def test_no_gain_is_seldom_told_as_one():
    for groups in (4, 8, 16):
        random = np.random.default_rng(0)
        inputs = [*range(groups)] * 2
        alarms = 0
        for _ in range(400):
            noise = np.tile(random.standard_normal(groups), 2) + random.standard_normal(2 * groups)
            alarms += printed(noise, inputs).over(printed([0.0] * len(noise))).ratio.high < 1
        assert alarms <= 0.05 * 400


def test_better_is_what_the_whole_interval_tells():
    slow = printed([0.3, 0.2, 0.4, 0.3])
    assert printed([0.0, 0.0, 0.1, 0.1]).over(slow).is_better
    lucky = printed([0.5, 0.5, 0.5, -1.5]).over(slow)
    assert lucky.ratio.value < 1.0
    assert not lucky.is_better
    assert (lucky.wins, lucky.losses) == (1, 3)


def test_the_interval_of_single_inputs_is_students():
    logs = np.array([0.1, 0.4, 0.2, 0.9])
    low, high = stats.ttest_1samp(logs, 0).confidence_interval(0.95)
    mean = geometric_mean(logs, np.array([3, 1, 7, 5]), np.ones(4))
    assert np.log([mean.value, mean.low, mean.high]) == pytest.approx([logs.mean(), low, high])


def test_the_interval_of_groups_is_that_of_their_sums():
    """The sums of the groups' deviations from the mean 0.3 are -0.4, 0.1 and 0.3."""
    logs, groups = np.array([0.1, 0.1, 0.4, 0.6, 0.3]), np.array([0, 0, 2, 5, 2])
    error = math.sqrt(3 / 2 * (0.4**2 + 0.1**2 + 0.3**2)) / 5
    mean = geometric_mean(logs, groups, np.ones(5))
    assert mean.high == pytest.approx(math.exp(0.3 + stats.t(2).ppf(0.975) * error))
    one = geometric_mean(logs, np.zeros(5, dtype=np.intp), np.ones(5))
    assert (one.low, one.high) == (0.0, INF)


def test_a_tie_is_neither_won_nor_lost():
    gain = printed([0.1, 0.2 + 1e-12, 0.2 - 1e-12, 0.3, 0.5]).over(printed([0.2] * 5))
    assert (gain.wins, gain.losses) == (1, 2)


def test_the_least_gain_is_that_whose_interval_reaches_highest():
    one = printed([0.0, 0.0, 0.1, 0.1])
    far, near = printed([0.9, 1.0, 0.9, 1.0]), printed([0.1, 0.2, 0.1, 0.2])
    assert one.least_gain([far, near, far]) == one.over(near)


def test_worst_and_near_are_of_the_inputs():
    judged = printed(np.log([1.0, 1.05, 1.051, 3.0]))
    assert (judged.near, judged.worst) == (0.5, pytest.approx(3.0))


def test_a_percentile_is_the_first_that_99_of_100_do_not_exceed():
    for logs, last in ((np.arange(100) / 10, 9.8), ([0.3, 0.1, 0.2], 0.3)):
        assert printed(logs).percentile_99 == pytest.approx(math.exp(last))


# ---------- inputs count by how often a program calls with them


SIZES = [2**exponent for exponent in range(4, 20)]


def matrix():
    """Of small inputs the first candidate is the fastest, of large ones the second."""
    times = np.array([[1.0, 1.3, 2.0] if n < 2**14 else [1.5, 1.0, 2.0] for n in SIZES])
    return table(times, pd.DataFrame({"n": SIZES}), default=0)


def workload(calls):
    return Workload(Path("calls.csv"), {Input({"n": n}): k for n, k in calls.items()})


def test_calls_count_for_the_nearest_measured_input():
    weighed, coverage = weigh(matrix(), workload({16: 3, 17: 1, 30: 2, 2**20: 4}))
    np.testing.assert_allclose(weighed.weights / len(SIZES), [4 / 6, 2 / 6, *[0] * 14])
    shares = [coverage.measured, coverage.near, coverage.outside]
    assert shares == pytest.approx([0.3, 0.3, 0.4])
    assert list(coverage.beyond) == ["40% with n up to 1048576 (tuned to 524288)"]


def test_words_and_both_ends_outside_of_the_tuned_range_are_named():
    features = pd.DataFrame({"n": [16.0, 64.0], "t": ["half", "float"]})
    calls = [("half", 32.0), ("half", 8.0), ("int", 16.0), ("half", 99.5)]
    counts = {Input({"n": n, "t": word}): 1 for word, n in calls}
    _, coverage = weigh(table(np.ones((2, 1)), features), Workload(Path("calls.csv"), counts))
    assert list(coverage.beyond) == [
        "50% with n down to 8.0 (tuned from 16) and up to 99.5 (tuned to 64)",
        "25% with t = int",
    ]


def test_calls_that_no_measured_input_stands_for_are_one_error():
    for made, calls, message in (
        (table(np.ones((0, 1))), {16: 3}, "no configuration was measured"),
        (matrix(), {8: 7}, "none of the 7 calls"),
    ):
        with pytest.raises(UsageError, match=message):
            weigh(made, workload(calls))


def test_calls_of_an_input_that_cannot_be_judged_count_for_the_nearest():
    """Nothing was measured on the first input."""
    lacking = matrix()
    lacking.time_s[0], lacking.applies[0] = np.nan, False
    with pytest.raises(UsageError, match="9 calls"):
        weigh(lacking, workload({16: 9}))
    weighed, _ = weigh(lacking, workload({16: 9, 32: 1}))
    assert weighed.weights.tolist() == [15.0, *[0.0] * 14]
    assert Study.of(weighed, [Static()]).slowdowns["oracle"].worst == 1.0
    lacking.time_s[:] = np.nan
    with pytest.raises(UsageError, match="no call of"):
        weigh(lacking, workload({32: 1}))


def test_learning_follows_the_calls():
    assert static_order(matrix())[0] == 0
    large, _ = weigh(matrix(), workload({2**18: 5, 2**17: 5}))
    assert static_order(large)[0] == greedy_portfolio(large, 1)[0] == 1
    assert TreeLearner().fit(large, seed=0).portfolio[0] == 1


def test_boosted_trees_follow_the_calls():
    """The first half of the inputs comes a quarter as often as the second."""
    half = np.repeat([True, False], 60)
    times = np.stack([np.where(half, 4.0, 1.0), np.where(half, 1.0, 4.0)], axis=1)
    made = replace(table(times), weights=np.where(half, 0.4, 1.6))
    first, other = EnsembleLearner().fit(made, 0).choice.offsets
    assert first == -other == pytest.approx(math.log(2) * (0.46 - 1.54) / 2)


def test_the_weighted_mean_is_that_of_inputs_that_come_so_often():
    logs, often = np.array([0.1, 0.5, 0.2]), np.array([3, 1, 2])

    def mean(weights):
        return geometric_mean(logs, np.arange(3), weights)

    assert mean(often / 2).value == pytest.approx(np.exp(np.repeat(logs, often).mean()))
    alike, plain = mean(np.full(3, 7.0)), mean(np.ones(3))
    assert (alike.low, alike.high) == pytest.approx((plain.low, plain.high))
    lone = mean(np.array([1.0, 0.0, 0.0]))
    assert (lone.low, lone.high) == (0, np.inf)  # one input says nothing about others


def test_the_tail_and_the_worst_are_of_inputs_that_come():
    judged = replace(printed(np.log([1.0, 2.0, 9.0])), weights=np.array([1.0, 1.0, 0.0]))
    assert (judged.worst, judged.percentile_99) == (pytest.approx(2), pytest.approx(2))
    assert judged.near == 0.5
    lone = replace(judged, weights=np.array([0.0, 1.0, 0.0]))
    assert lone.mean.text(".3f") == "2.000 [1.000, inf]"
