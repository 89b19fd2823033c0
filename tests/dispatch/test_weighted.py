"""Inputs count by how often a program calls with them: in learning, in the verdict, in coverage."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from harness.core.errors import UsageError
from harness.core.records import Config, Input
from harness.dispatch.ensemble import fit_boosted
from harness.dispatch.matrix import Matrix, make_matrix
from harness.dispatch.portfolio import greedy_portfolio, static_order
from harness.dispatch.study import QUICK, Study, ratio_text
from harness.dispatch.tree import TreeLearner
from harness.dispatch.verdict import Slowdowns, geometric_mean
from harness.dispatch.weighted import weigh
from harness.space_file.workload import Workload

SIZES = [2**exponent for exponent in range(4, 20)]


def matrix() -> Matrix:
    """Of small inputs the first candidate is the fastest, of large ones the second."""
    times = np.array([[1.0, 1.3, 2.0] if n < 2**14 else [1.5, 1.0, 2.0] for n in SIZES])
    configs = [Config({"BLOCK": block}) for block in (16, 32, 64)]
    return make_matrix(pd.DataFrame({"n": SIZES}), configs, times, default=0)


def workload(calls: dict[int, int]) -> Workload:
    return Workload(Path("calls.csv"), {Input({"n": n}): k for n, k in calls.items()})


def test_calls_count_for_the_nearest_measured_input() -> None:
    weighed, coverage = weigh(matrix(), workload({16: 3, 17: 1, 30: 2, 2**20: 4}))
    np.testing.assert_allclose(weighed.weights / len(SIZES), [4 / 6, 2 / 6, *[0] * 14])
    shares = [coverage.measured, coverage.near, coverage.outside]
    assert [share.value for share in shares] == [0.3, pytest.approx(0.3), 0.4]
    assert all(0 < share.low < share.value < share.high < 1 for share in shares)
    assert list(coverage.beyond) == ["40% with n up to 1048576 (tuned to 524288)"]


def test_where_no_input_was_measured_the_error_says_so() -> None:
    nothing = make_matrix(pd.DataFrame({"n": []}), [Config({"BLOCK": 16})], np.ones((0, 1)))
    with pytest.raises(UsageError, match="no configuration was measured"):
        weigh(nothing, workload({16: 3}))


def test_words_and_both_ends_outside_of_the_tuned_range_are_named() -> None:
    features = pd.DataFrame({"n": [16.0, 64.0], "t": ["half", "float"]})
    small = make_matrix(features, [Config({"A": 1})], np.ones((2, 1)))
    calls = [("half", 32.0), ("half", 8.0), ("int", 16.0), ("half", 99.5)]
    found = {Input({"n": n, "t": word}): 1 for word, n in calls}
    _, coverage = weigh(small, Workload(Path("calls.csv"), found))
    assert list(coverage.beyond) == [
        "50% with n down to 8.0 (tuned from 16) and up to 99.5 (tuned to 64)",
        "25% with t = int",
    ]


def test_calls_outside_of_the_tuned_range_alone_are_one_error() -> None:
    with pytest.raises(UsageError, match=r"none of the 7 calls of calls.csv lies in the tuned"):
        weigh(matrix(), workload({8: 7}))


def test_calls_of_an_input_that_cannot_be_judged_count_for_the_nearest() -> None:
    """Nothing was measured on the first input."""
    whole = matrix()
    lacking = replace(whole, time_s=whole.time_s.copy(), applies=whole.applies.copy())
    lacking.time_s[0], lacking.applies[0] = np.nan, False
    with pytest.raises(UsageError, match=r"none of the 9 calls .* down to 16"):
        weigh(lacking, workload({16: 9}))
    weighed, _ = weigh(lacking, workload({16: 9, 32: 1}))
    assert weighed.weights.tolist() == [15.0, *[0.0] * 14]
    assert Study.of(weighed, QUICK).slowdowns["oracle"].worst == 1.0
    lacking.time_s[:] = np.nan
    with pytest.raises(UsageError, match=r"no call of calls\.csv counts"):
        weigh(lacking, workload({32: 1}))


def test_learning_follows_the_calls() -> None:
    assert static_order(matrix())[0] == 0
    large, _ = weigh(matrix(), workload({2**18: 5, 2**17: 5}))
    assert static_order(large)[0] == greedy_portfolio(large, 1)[0] == 1
    both = TreeLearner().fit(large, seed=0)
    assert both.portfolio[0] == 1


def test_boosted_trees_follow_the_calls() -> None:
    values = np.repeat([[0.0], [1.0]], 40, axis=0)
    logs = np.tile([[0.0], [1.0]], (40, 1))
    rare = np.where(logs[:, 0] == 1, 0.25, 1.0)
    assert fit_boosted(values, logs, 0, rare).offsets[0] == pytest.approx(0.2)


def test_the_weighted_mean_is_that_of_inputs_that_come_so_often() -> None:
    logs, often = np.array([0.1, 0.5, 0.2]), np.array([3, 1, 2])
    found = geometric_mean(logs, np.arange(3), often / 2)
    assert found.value == pytest.approx(np.exp(np.repeat(logs, often).mean()))
    alike, plain = (geometric_mean(logs, np.arange(3), np.full(3, w)) for w in (7.0, 1.0))
    assert (alike.low, alike.high) == pytest.approx((plain.low, plain.high))
    lone = geometric_mean(logs, np.arange(3), np.array([1.0, 0.0, 0.0]))
    assert (lone.low, lone.high) == (0, np.inf)  # one input says nothing about others
    assert ratio_text(lone) == "1.105x (one input gives no interval)"


def test_the_tail_and_the_worst_are_of_inputs_that_come() -> None:
    logs, weights = np.log([1.0, 2.0, 9.0]), np.array([1.0, 1.0, 0.0])
    judged = Slowdowns("it", logs, np.arange(3), np.zeros(3, dtype=bool), weights)
    assert (judged.worst, judged.near) == (pytest.approx(2), 0.5)
    assert judged.percentile_99 == pytest.approx(2)
    lone = replace(judged, weights=np.array([0.0, 1.0, 0.0]))
    assert lone.mean_text == "2.000 (one input gives no interval)"
