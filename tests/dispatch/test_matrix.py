"""The table of times that dispatchers are learnt from."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from harness.core.records import Config
from harness.dispatch.matrix import Matrix, make_matrix

INF, NAN = math.inf, math.nan


def matrix(time_s: list[list[float]], **known: object) -> Matrix:
    times = np.array(time_s)
    features = pd.DataFrame({"n": range(10, 10 + len(times))}, index=range(5, 5 + len(times)))
    candidates = [Config({"BLOCK": index}) for index in range(times.shape[1])]
    return make_matrix(features, candidates, times, **known)  # type: ignore[arg-type]


def test_slowdowns_are_logarithms_where_a_candidate_applies() -> None:
    made = matrix(
        [[2.0, 6.0, INF, NAN], [1.0, 9.0, INF, 1.0]],
        applies=np.array([[True, True, True, True], [True, False, True, True]]),
    )
    logs = [[0, math.log(3), math.log(6), NAN], [0, NAN, math.log(2), 0]]
    np.testing.assert_allclose(made.log_slowdown, logs)
    np.testing.assert_allclose(made.failed_log, [math.log(6), math.log(2)])
    assert made.best.tolist() == [0, 0]


def test_slowdown_is_over_the_best_known_and_a_tie_is_none() -> None:
    tied = np.array([[False, True, False]])
    made = matrix([[2.0, 2.02, 6.0]], best_s=np.array([1.0]), tied=tied)
    assert made.slowdown.tolist() == [[2.0, 1.0, 6.0]]


def test_rows_keep_all_that_belongs_to_an_input() -> None:
    made = matrix([[1.0, 2.0], [3.0, 4.0], [6.0, 5.0]], groups=[7, 8, 7], default=1, note="it")
    kept = made.rows(np.array([2, 0]))
    assert kept.features.to_dict("list") == {"n": [12, 10]}
    assert kept.features.index.tolist() == [0, 1]
    assert kept.time_s.tolist() == [[6, 5], [1, 2]]
    assert (kept.best_s.tolist(), kept.groups.tolist()) == ([5, 1], [0, 0])
    assert (kept.candidates, kept.default, kept.note) == (made.candidates, 1, "it")


def test_what_lacks_a_measurement_where_it_applies_cannot_be_judged() -> None:
    made = matrix(
        [[1.0, NAN, NAN], [NAN, 2.0, 1.0], [NAN, NAN, NAN]],
        applies=np.array([[True, False, True], [True, True, True], [True, False, False]]),
        best_s=np.ones(3),
    )
    assert made.complete().applies.tolist() == [
        [False, False, False], [False, True, False], [False, False, False]
    ]  # fmt: skip
    judged = made.comparable()
    assert judged.features["n"].tolist() == [11]
    assert judged.applies.tolist() == [[False, True, False]]
