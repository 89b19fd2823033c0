"""Pure statistics of samples: when to stop sampling, and which of two is faster.

All intervals are Student's t; the paper behind the choices is Georges, Buytaert and Eeckhout,
"Statistically rigorous Java performance evaluation" (OOPSLA 2007).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.core.records import StopReason, Timing
from harness.stats.estimate import Estimate

_GIVE_UP_SAMPLES = 3
_LOOK_EVERY = 50
NEGLIGIBLE = 0.005
"""Differences under 0.5 % are not real without many samples, even on a GPU with locked clocks."""


@dataclass(frozen=True)
class Sampling:
    """When to stop: `repeats` at most, sooner when the mean is known to +- `precision` of itself
    at `confidence`, or when surely `give_up_at` times slower than the best so far.

    `min_repeats` samples at least come before precision ends it, and three before slowness does;
    `repeats` bounds them both. With precision 0 only equal samples are precise.
    """

    warmup: int = 1
    repeats: int = 20
    min_repeats: int = 5
    precision: float = 0.005
    confidence: float = 0.95
    give_up_at: float = 2.0

    def stop(self, samples_s: Sequence[float], best_s: float | None) -> StopReason | None:
        """Why sampling should end after these samples, or None to go on."""
        count = len(samples_s)
        if count >= self.repeats:
            return StopReason.REPEATS
        if count % max(1, count // _LOOK_EVERY):
            return None  # many samples are looked at now and then, else it costs their square
        # The fastest sample, not the mean: one disturbed launch must not end a good one.
        worse = best_s is not None and min(samples_s) > self.give_up_at * best_s
        if worse and count >= min(_GIVE_UP_SAMPLES, self.min_repeats):
            return StopReason.WORSE
        if count >= self.min_repeats and self._is_precise(samples_s):
            return StopReason.PRECISE
        return None

    def _is_precise(self, samples_s: Sequence[float]) -> bool:
        mean = statistics.fmean(samples_s)
        return half_width(samples_s, self.confidence) <= self.precision * mean


def mean_log(samples: Sequence[float]) -> float:
    """The mean of the logarithms, of which differences are ratios of geometric means."""
    return statistics.fmean(map(math.log, samples))


def half_width(samples: Sequence[float], confidence: float = 0.95) -> float:
    """Half the confidence interval of the samples' mean; infinity for a single sample."""
    count = len(samples)
    if count < 2:
        return math.inf
    from scipy.special import stdtrit  # builders, which load this module, need none of it

    quantile = float(stdtrit(count - 1, 0.5 + confidence / 2))
    return quantile * statistics.stdev(samples) / math.sqrt(count)


@dataclass(frozen=True)
class TimeRatio(Estimate):
    """A ratio of two times with its confidence interval; `count` samples of each."""

    count: int

    @property
    def is_significant(self) -> bool:
        """Whether the interval excludes 1 and the difference is not negligible."""
        return self.excludes(1) and abs(math.log(self.value)) > NEGLIGIBLE


def paired_ratio(
    numerator_s: Sequence[float], denominator_s: Sequence[float], confidence: float = 0.95
) -> TimeRatio:
    """The geometric mean of numerator over denominator, of samples taken in turn.

    Rounds share the machine's state, so that its drift cancels in each ratio; the interval is
    that of the mean of the logarithms. Both need the same number of samples, at least two.
    """
    pairs = zip(numerator_s, denominator_s, strict=True)
    logs = [math.log(numerator / denominator) for numerator, denominator in pairs]
    if len(logs) < 2:
        raise ValueError(f"a ratio with an interval needs two rounds or more, but got {len(logs)}")
    mean, half = statistics.fmean(logs), half_width(logs, confidence)
    return _time_ratio(mean, half, len(logs))


def is_within_noise(one: Timing, other: Timing, confidence: float = 0.95) -> bool:
    """Whether two timings do not differ for certain: Welch's t-test on the logarithms, and a
    difference of medians above 0.5 %. A timing with one sample has no known spread, and is
    judged by the difference alone."""
    if abs(math.log(one.median_s / other.median_s)) <= NEGLIGIBLE:
        return True
    if one.count < 2 or other.count < 2:
        return False
    return welch_p_value(one.samples_s, other.samples_s) > 1 - confidence


def welch_p_value(one: Sequence[float], other: Sequence[float]) -> float:
    """Two-sided p-value that the means of the samples' logarithms are equal (Welch, 1947)."""
    logs = [[math.log(sample) for sample in samples] for samples in (one, other)]
    parts = [statistics.variance(values) / len(values) for values in logs]
    difference = statistics.fmean(logs[0]) - statistics.fmean(logs[1])
    if sum(parts) == 0:
        return 1.0 if difference == 0 else 0.0
    freedom = sum(parts) ** 2 / sum(
        part**2 / (len(values) - 1) for part, values in zip(parts, logs, strict=True)
    )
    from scipy.special import stdtr  # see half_width

    return float(2 * stdtr(freedom, -abs(difference) / math.sqrt(sum(parts))))


def count_within_noise(best: Timing, others: Iterable[Timing], confidence: float = 0.95) -> int:
    """How many of the others do not differ from the best for certain."""
    return sum(is_within_noise(best, other, confidence) for other in others)


def time_ratio(numerator: Timing, denominator: Timing, confidence: float = 0.95) -> TimeRatio:
    """How many times longer the numerator takes, with its confidence interval.

    Paired where both were sampled in turn; else Welch's interval of the difference of the mean
    logarithms, which is infinite where one of them has a single sample.
    """
    in_turn = numerator.stopped is denominator.stopped is StopReason.INTERLEAVED
    if in_turn and numerator.count == denominator.count >= 2:
        return paired_ratio(numerator.samples_s, denominator.samples_s, confidence)
    logs = [[math.log(s) for s in timing.samples_s] for timing in (numerator, denominator)]
    difference = statistics.fmean(logs[0]) - statistics.fmean(logs[1])
    half = _welch_half_width(logs[0], logs[1], confidence)
    count = min(numerator.count, denominator.count)
    return _time_ratio(difference, half, count)


def _time_ratio(mean: float, half: float, count: int) -> TimeRatio:
    ratio = Estimate.from_log(mean, half)
    return TimeRatio(ratio.value, ratio.low, ratio.high, count)


def _welch_half_width(one: Sequence[float], other: Sequence[float], confidence: float) -> float:
    if min(len(one), len(other)) < 2:
        return math.inf
    parts = [statistics.variance(values) / len(values) for values in (one, other)]
    if sum(parts) == 0:
        return 0.0
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / (len(one) - 1) + parts[1] ** 2 / (len(other) - 1))
    from scipy.special import stdtrit  # see half_width

    return float(stdtrit(freedom, 0.5 + confidence / 2)) * math.sqrt(sum(parts))
