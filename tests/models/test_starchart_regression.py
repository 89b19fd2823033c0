"""Errors of a tree's predictions, and their intervals from order statistics, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from harness.models.starchart.regression import (
    ErrorSummary,
    as_plain,
    fit,
    relative_errors,
    summarize,
)
from harness.stats import Estimate


def test_the_interval_of_a_median_is_of_order_statistics() -> None:
    """Of 100, the 41st and the 60th: 50 -+ 1.96 x 5 rounded outwards."""
    errors = np.random.default_rng(0).permutation(np.arange(1.0, 101.0))
    found = summarize(errors)
    assert found.median == Estimate(50.5, 41.0, 60.0)
    assert (found.ninth_decile, found.count) == (pytest.approx(90.1), 100)


def test_the_interval_of_few_is_all_of_them() -> None:
    assert summarize(np.array([3.0, 1.0, 2.0])).median == Estimate(2.0, 1.0, 3.0)
    assert summarize(np.array([4.0])) == ErrorSummary(Estimate(4.0, 4.0, 4.0), 4.0, 1)


def test_errors_are_relative_and_those_of_a_group_count_once() -> None:
    predicted, actual = np.array([1.5, 1.0, -3.0, 9.0]), np.array([1.0, 2.0, -2.0, 0.0])
    assert relative_errors(predicted, actual).median.value == 0.5
    assert relative_errors(predicted, actual).count == 3
    grouped = relative_errors(np.array([2.0, 1.0, 5.0]), np.array([1.0, 1.0, 1.0]), ["a", "a", "b"])
    assert (grouped.median.low, grouped.median.high, grouped.count) == (0.5, 4.0, 2)


def test_sums_of_squares_and_gains_are_in_the_units_of_the_values() -> None:
    columns, values = np.array([[0.0], [0.0], [1.0], [1.0]]), np.array([10.0, 12.0, 20.0, 26.0])
    found = fit(columns, values, threshold=0.01)
    assert found.means == pytest.approx([17.0, 11.0, 23.0])
    assert found.sse == pytest.approx([164.0, 2.0, 18.0])
    assert found.gains == pytest.approx([144 / 164, 0.0, 0.0])
    assert found.predict(np.array([[1.0], [0.0]])) == pytest.approx([23.0, 11.0])
    whole = fit(columns, values, threshold=0.9)
    assert whole.means == pytest.approx([17.0]), "144 / 164 is less than the threshold"


def test_equal_values_have_one_leaf() -> None:
    found = fit(np.array([[0.0], [1.0]]), np.array([3.0, 3.0]), threshold=0.0)
    assert (found.means.tolist(), found.sse.tolist()) == ([3.0], [0.0])


def test_a_split_that_gains_just_the_threshold_is_made() -> None:
    columns, values = np.array([[0.0], [0.0], [1.0], [1.0]]), np.array([10.0, 12.0, 20.0, 26.0])
    found = fit(columns, values, threshold=0.01)
    gain = float(found.gains[0])
    thresholds = np.array([gain, np.nextafter(gain, 1.0), 0.02])
    predicted = found.predict_for(thresholds, np.array([[0.0], [1.0]]))
    assert predicted == pytest.approx(np.array([[11.0, 23.0], [17.0, 17.0], [11.0, 23.0]]))
    (at_the_least,) = found.predict_for(np.array([gain]), np.array([[0.0], [1.0]]))
    assert at_the_least == pytest.approx([11.0, 23.0])


def test_only_finite_tables_are_plain() -> None:
    plain = as_plain(np.array([[1.0, 2.0]]))
    assert plain is not None
    assert (plain.dtype, plain.tolist()) == (np.float32, [[1.0, 2.0]])
    for other in (np.array([[1.0, np.inf]]), np.array([1.0, 2.0]), np.zeros((0, 2))):
        assert as_plain(other) is None
