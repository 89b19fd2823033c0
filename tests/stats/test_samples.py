"""Statistics of many rows of samples at once, held against those of each row alone; and values with
their intervals."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

import numpy as np
import pytest

from harness.core.records import Statistic, Timing
from harness.stats import Estimate
from harness.stats import samples as module
from harness.stats.samples import Ragged, SampleStatistics, within_noise
from harness.stats.timing import mean_log, variance

ROWS = [
    [2.0, 1.0, 4.0],
    [],
    [3.0],
    [1.0, 2.0, 4.0, 8.0],
    [5.0, 5.0],
    [1.0, 1.5, 1.25],
    [5.01, 5.01],
    [5.1, 5.1],
]


def ragged(rows):
    ends = np.cumsum([len(row) for row in rows], dtype=np.intp)
    return Ragged(np.array([value for row in rows for value in row]), ends)


def test_rows_of_different_lengths_are_found_again():
    made = ragged(ROWS)
    assert [list(made.at(row)) for row in range(len(ROWS))] == ROWS
    for rows, counts, starts in (
        (made, [3, 0, 1, 4, 2, 3, 2, 2], [0, 3, 3, 4, 8, 10, 13, 15]),
        (ragged([]), [], []),
    ):
        assert (rows.counts.tolist(), rows.starts.tolist()) == (counts, starts)


@pytest.mark.parametrize("batch", [1, 2, 100_000])
def test_statistics_are_those_of_each_row(batch, monkeypatch):
    monkeypatch.setattr(module, "_BATCH", batch)
    found = SampleStatistics.of(ragged(ROWS))
    assert found.count.tolist() == [len(row) for row in ROWS]
    for index, row in enumerate(ROWS):
        columns = (found.median, found.mean, found.std, found.mean_log, found.variance_log)
        computed = [column[index] for column in columns]
        wanted = [math.nan] * 5
        if row:
            wanted[:3] = statistics.median(row), statistics.fmean(row), Timing(tuple(row)).std_s
            wanted[3:] = mean_log(row), variance(np.log(row))
        assert computed == pytest.approx(wanted, nan_ok=True)


def test_equal_samples_have_no_spread_at_all():
    found = SampleStatistics.of(ragged([[0.1, 0.1, 0.1], [0.1]]))
    assert (found.std.tolist(), found.variance_log.tolist()) == ([0.0, 0.0], [0.0, 0.0])


def test_means_are_compared_where_the_statistic_is_the_mean():
    rows = [[1.0] * 110 + [2.0] * 90, [1.0] * 110 + [3.0] * 90]  # of equal medians
    for statistic, is_noise in ((Statistic.MEDIAN, True), (Statistic.MEAN, False)):
        found = SampleStatistics.of(ragged(rows), statistic)
        assert within_noise(found, 0, np.array([1])).tolist() == [is_noise]


def test_what_the_clocks_may_hide_is_noise():
    found = SampleStatistics.of(ragged([[3.0] * 20, [2.5] * 20]))
    for error_s, is_noise in ((0.5, True), (0.1, False)):
        coarse = replace(found, clock_error_s=np.full(2, error_s))
        assert within_noise(coarse, 0, np.array([1])).tolist() == [is_noise]


def test_pairs_are_compared_like_each_pair_alone():
    found = SampleStatistics.of(ragged(ROWS))
    own, others = np.divmod(np.arange(len(ROWS) ** 2), len(ROWS))
    with np.errstate(invalid="ignore"):
        pairs = within_noise(found, own, others)
        alone = [within_noise(found, row, np.arange(len(ROWS))) for row in range(len(ROWS))]
    assert pairs.tolist() == np.concatenate(alone).tolist()
    assert 0 < pairs.sum() < len(pairs)


# -------------------------------------------------------------------------------------- estimates


def test_an_estimate_holds_its_bounds_and_is_written_with_them():
    excluded = [Estimate(2.0, 1.0, 3.0).excludes(number) for number in (0.9, 1.0, 3.0, 3.1)]
    assert excluded == [True, False, False, True]
    assert Estimate(1.123, 1.0, 1.5).text(".2f", "x") == "1.12x [1.00, 1.50]"


def test_a_ratio_is_e_to_the_power_of_its_logarithm_or_infinite():
    ratio = Estimate.from_log(0.5, 0.2)
    wanted = [math.exp(0.5), math.exp(0.3), math.exp(0.7)]
    assert [ratio.value, ratio.low, ratio.high] == pytest.approx(wanted)
    ratio = Estimate.from_log(709.0, 1.0)
    assert ratio == Estimate(math.exp(709.0), math.exp(708.0), math.inf)
    assert Estimate.from_log(0.0, math.inf) == Estimate(1.0, 0.0, math.inf)


def test_one_over_a_ratio_turns_its_interval_round():
    assert Estimate(2.0, 0.5, 4.0).inverse == Estimate(0.5, 0.25, 2.0)
    assert Estimate(2.0, 0.0, 4.0).inverse == Estimate(0.5, 0.25, math.inf)
