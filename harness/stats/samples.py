"""Statistics of many measurements' samples at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.core.arrays import Array, Flags, Indices
from harness.core.records import Statistic, Timing
from harness.stats import NEGLIGIBLE

_BATCH = 100_000  # rows, so that copies stay small


@dataclass(frozen=True, eq=False)
class Ragged:
    """Rows of different lengths: row k is `values[ends[k - 1]:ends[k]]`."""

    values: Array
    ends: Indices

    @classmethod
    def of(cls, values: Sequence[float], counts: Sequence[int]) -> Ragged:
        """Make rows of these lengths from the values of all rows, one after another."""
        ends = np.cumsum(np.array(counts, dtype=np.intp))
        return cls(np.array(values, dtype=np.float64), ends)

    @classmethod
    def joined(cls, parts: Sequence[Ragged]) -> Ragged:
        """Put the rows of several tables one below the other."""
        values = np.concatenate([part.values for part in parts])
        return cls(values, np.concatenate([part.counts for part in parts]).cumsum())

    def at(self, row: int) -> tuple[float, ...]:
        """Return the values of a row."""
        return tuple(self.values[self.ends[row - 1] if row else 0 : self.ends[row]].tolist())

    @property
    def starts(self) -> Indices:
        """Where rows start, shape (rows,)."""
        starts: Indices = self.ends - self.counts
        return starts

    @property
    def counts(self) -> Indices:
        """The lengths of rows, shape (rows,)."""
        counts: Indices = np.diff(self.ends, prepend=0)
        return counts


@dataclass(frozen=True, eq=False)
class SampleStatistics:
    """Of each row of samples, shape (rows,): their number, median, mean and standard deviation,
    and the mean and the variance of their logarithms.

    NaN for a row without samples; deviation and variance are 0 where all samples are equal. The
    clock may put the times off by `clock_error_s`, shape (rows,) or () where it is the same.
    """

    count: Indices
    median: Array
    mean: Array
    std: Array
    mean_log: Array
    variance_log: Array
    statistic: Statistic = Statistic.MEDIAN
    clock_error_s: Array | float = 0.0

    @property
    def relative_clock_error(self) -> Array:
        """By how much the clock may put the logarithm of each row's time off, shape (rows,)."""
        return self.clock_error_s / self.mean

    @property
    def time(self) -> Array:
        """The median or the mean of each row, by the statistic."""
        return self.mean if self.statistic is Statistic.MEAN else self.median

    @property
    def compared_log(self) -> Array:
        """The logarithms that `within_noise` compares: their mean, or that of the mean."""
        return np.log(self.mean) if self.statistic is Statistic.MEAN else self.mean_log

    @property
    def compared_variance(self) -> Array:
        """The variance of one sample's `compared_log`; for means by the delta method."""
        is_mean = self.statistic is Statistic.MEAN
        return np.square(self.std / self.mean) if is_mean else self.variance_log

    @classmethod
    def of(cls, samples: Ragged, statistic: Statistic = Statistic.MEDIAN) -> SampleStatistics:
        """Compute the statistics, for all rows of one length together."""
        counts, starts = samples.counts, samples.starts
        columns = np.full((5, len(counts)), np.nan)
        for count in np.unique(counts[counts > 0]).tolist():
            rows = np.flatnonzero(counts == count)
            for first in range(0, len(rows), _BATCH):
                part = rows[first : first + _BATCH]
                values = samples.values[starts[part][:, None] + np.arange(count)]
                columns[:, part] = _statistics(values)
        median, mean, std, mean_log, variance_log = columns
        return cls(counts, median, mean, std, mean_log, variance_log, statistic)

    @classmethod
    def of_timings(cls, timings: Sequence[Timing]) -> SampleStatistics:
        """Compute the statistics of timings, one or more, with the same statistic."""
        samples = Ragged.of([s for t in timings for s in t.samples_s], [t.count for t in timings])
        clock_error_s = np.array([timing.clock_error_s for timing in timings])
        return replace(cls.of(samples, timings[0].statistic), clock_error_s=clock_error_s)


def _statistics(values: Array) -> Array:
    """Compute the statistics of rows of equal length, shape (5, rows)."""
    with np.errstate(invalid="ignore", divide="ignore"):  # a reader refuses such samples
        logs = np.log(values)
    is_equal = (values == values[:, :1]).all(axis=1)
    lost = min(1, values.shape[1] - 1)  # degrees of freedom
    return np.stack(
        [
            np.median(values, axis=1),
            values.mean(axis=1),
            np.where(is_equal, 0.0, values.std(axis=1, ddof=lost)),
            logs.mean(axis=1),
            np.where(is_equal, 0.0, logs.var(axis=1, ddof=lost)),
        ]
    )


def within_noise(
    statistics: SampleStatistics, own: int | Indices, others: Indices, confidence: float = 0.95
) -> Flags:
    """Say which of the others' times differ from a row's own, or from that of a row for each, by at
    most 0.5 %, or not significantly (Welch's t-test), shape (others,).

    The test compares mean logarithms, the 0.5 % medians; where means are compared, both compare
    these. A single sample has no known variance; it is judged by the difference alone. What the
    clocks may hide counts as no difference.
    """
    if not len(others):
        return np.zeros(0, dtype=np.bool_)
    from scipy.special import stdtr  # here: it takes time to load

    own = np.atleast_1d(own)
    logs, variances = statistics.compared_log, statistics.compared_variance
    mean = logs[own] - logs[others]
    own_count, count = (np.asarray(statistics.count[rows], np.float64) for rows in (own, others))
    error_of = statistics.relative_clock_error
    clock_error = error_of[own] + error_of[others]
    own_part, part = variances[own] / own_count, variances[others] / count
    error = np.sqrt(own_part + part)
    with np.errstate(invalid="ignore", divide="ignore"):
        squares = own_part**2 / (own_count - 1) + part**2 / (count - 1)
        freedom = (own_part + part) ** 2 / squares
        excess = np.abs(mean) - clock_error
        p_values = np.minimum(1, 2 * stdtr(freedom, -excess / error))
        difference = np.abs(np.log(statistics.time[own] / statistics.time[others]))
        is_near = difference <= np.maximum(NEGLIGIBLE, clock_error)
    p_values = np.where(error == 0, excess <= 0, p_values)
    is_known = (own_count > 1) & (count > 1)
    flags: Flags = is_near | (is_known & (p_values > 1 - confidence))
    return flags & (count > 0)
