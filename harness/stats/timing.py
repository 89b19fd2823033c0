"""When to stop sampling, how two times compare, and which of several ratios may be claimed.

All intervals are Student's t, as in Georges, Buytaert and Eeckhout, "Statistically rigorous Java
performance evaluation" (OOPSLA 2007). Each is wider by what the clock's tick hides from the
samples' spread (`Timing.clock_error_s`).
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from harness.core.arrays import Array
from harness.core.records import Statistic, StopReason, Timing
from harness.stats import Estimate

_GIVE_UP_SAMPLES = 3
_FAR_WORSE = 3.0
"""Of a configuration so many times beyond `give_up_at` two samples show as much: of a good one on a
busy machine 0.7 % of two samples in a row are as slow, and 9 % of three are beyond `give_up_at`.
With the warm-up run these are as many runs as there are fills of outputs, and all are verified."""
_LOOK_EVERY = 50
_LEAST_TRIMMED = 10  # rounds


@dataclass(frozen=True)
class Sampling:
    """When to stop sampling a configuration.

    Sampling stops after `repeats` samples. It stops sooner when the mean is known to +- `precision`
    of itself at `confidence`, after at least `min_repeats` samples; or when every sample is
    `give_up_at` times slower than the best so far, after at least three, or two that are three
    times slower than that. With precision 0 only equal samples are precise. Before its samples a
    configuration runs `warmup` times untimed, and then until the device has been at work for
    `warmup_time_s`. `least_time_s` is how long it runs in all in `repeats` interleaved samples.
    """

    warmup: int = 1
    warmup_time_s: float = 0.0
    least_time_s: float = 0.0
    repeats: int = 20
    min_repeats: int = 5
    precision: float = 0.005
    confidence: float = 0.95
    give_up_at: float = 2.0
    statistic: Statistic = Statistic.MEDIAN

    def stop(self, samples_s: Sequence[float], best_s: float | None) -> StopReason | None:
        """Return why sampling should stop after these samples, or None to go on."""
        count = len(samples_s)
        if count >= self.repeats:
            return StopReason.REPEATS
        if count % max(1, count // _LOOK_EVERY):
            return None  # checking after every one of many samples would cost their square
        # The fastest sample, not the mean: one disturbed launch must not end a good one.
        slowdown = 0.0 if best_s is None else min(samples_s) / (self.give_up_at * best_s)
        needed = _GIVE_UP_SAMPLES
        if slowdown > _FAR_WORSE:
            needed -= 1
        if slowdown > 1 and count >= min(needed, self.min_repeats):
            return StopReason.WORSE
        if count >= self.min_repeats:
            precise_s = self.precision * statistics.fmean(samples_s)
            if half_width(samples_s, self.confidence) <= precise_s:
                return StopReason.PRECISE
        return None


def mean_log(samples: Sequence[float]) -> float:
    """Return the mean logarithm; differences of these are logarithms of geometric-mean ratios."""
    return statistics.fmean(map(math.log, samples))


def log_time(timing: Timing) -> float:
    """Return the logarithm of the time by which interleaved samples are compared: of their
    geometric mean or, where means are compared, of their arithmetic mean."""
    return statistics.fmean(_logs(timing.samples_s, timing.statistic))


def _logs(values_s: Sequence[float], statistic: Statistic) -> list[float]:
    """Return values whose mean is the logarithm to compare, and whose variance is its error's.

    For means these are the logarithm's linear approximation at the mean M, log M + (x - M) / M
    (the delta method): their mean is log M exactly.
    """
    if statistic is Statistic.MEDIAN:
        return [math.log(value) for value in values_s]
    mean = statistics.fmean(values_s)
    return [math.log(mean) + (value - mean) / mean for value in values_s]


def variance(values: Sequence[float]) -> float:
    """Return the unbiased variance of two or more values, exactly 0 where all are equal.

    The standard library's `variance` calculates in fractions and takes ten times as long.
    """
    if min(values) == max(values):
        return 0.0
    mean = statistics.fmean(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def half_width(samples: Sequence[float], confidence: float = 0.95) -> float:
    """Return half the confidence interval of the samples' mean; infinity for a single sample."""
    count = len(samples)
    if count < 2:
        return math.inf
    return student_t(count - 1, confidence) * math.sqrt(variance(samples) / count)


def half_width_of(timing: Timing, confidence: float = 0.95) -> float:
    """Return half the confidence interval of a timing's mean, with the error of its clock."""
    return half_width(timing.samples_s, confidence) + timing.clock_error_s


def relative_clock_error(*timings: Timing) -> float:
    """Return by how much the clock may put the logarithm of a ratio of these times off."""
    return sum(t.clock_error_s / t.mean_s for t in timings if t.clock_error_s)


@lru_cache(1000)
def student_t(freedom: int, confidence: float) -> float:
    """Return Student's t for a two-sided interval, to 5 digits up to a confidence of 0.9999.

    SciPy has it, but takes 0.3 s of CPU to load, and each process that measures needs only this.

    With t = sqrt(freedom) * tan(angle) the probability is an integral of a power of the cosine from
    0 to the angle: a smooth function, which Gauss's rule integrates. It is concave, so Newton's
    method finds the angle from any smaller one; that of the normal distribution is smaller.
    """
    points, weights = np.polynomial.legendre.leggauss(20)
    gammas = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)
    scale = 2 / math.sqrt(math.pi) * math.exp(gammas)
    normal = statistics.NormalDist().inv_cdf(0.5 + confidence / 2)
    angle = math.atan(normal / math.sqrt(freedom))
    for _ in range(20):  # of which few are needed but near a confidence of 1
        heights = np.cos(angle * (1 + points) / 2) ** (freedom - 1)
        probability = scale * angle / 2 * float(heights @ weights)
        angle += (confidence - probability) / (scale * math.cos(angle) ** (freedom - 1))
    return math.sqrt(freedom) * math.tan(angle)


@lru_cache(1000)
def _quantile(freedom: float, confidence: float) -> float:
    """Return Student's t for any degrees of freedom and any confidence.

    Many inputs ask for the same: that of as many degrees as there are occasions, less one.
    """
    from scipy.special import stdtrit  # here: processes that measure never call this

    return float(stdtrit(freedom, 0.5 + confidence / 2))


@dataclass(frozen=True)
class TimeRatio(Estimate):
    """A ratio of two times with its interval at `confidence`; `count` samples of each.

    `p_value` is one-sided: the probability of a ratio at least as large if the true one is 1.
    A ratio `may_be_chance` where it is one of several, and the rate of false discoveries among
    them does not allow to claim it (`harness.stats.timing`).
    """

    count: int
    p_value: float = 1.0
    may_be_chance: bool = False
    confidence: float = 0.95

    @property
    def is_significant(self) -> bool:
        """Whether the interval excludes 1, the difference is not negligible, and no correction for
        several ratios stands against it."""
        return self.is_clear and not self.may_be_chance

    @property
    def is_faster(self) -> bool:
        """Whether the ratio is significant and above 1, as a speed-up must be."""
        return self.value > 1 and self.is_significant

    def over(self, other: Estimate) -> TimeRatio:
        """Divide by another ratio that was measured independently: the squares of the half widths
        of the logarithms add up. The p-value stays."""
        halves = [math.log(ratio.high / ratio.value) for ratio in (self, other)]
        ratio = Estimate.from_log(math.log(self.value / other.value), math.hypot(*halves))
        return dataclasses.replace(self, value=ratio.value, low=ratio.low, high=ratio.high)


def mean_ratio(ratios: Sequence[TimeRatio]) -> TimeRatio:
    """Estimate the geometric mean of independent ratios, which its `count` counts. Its interval
    covers the noise of the measurements: the half widths of the logarithms, added as squares."""
    count = len(ratios)
    if count == 1:
        return dataclasses.replace(ratios[0], count=1)
    mean = sum(math.log(ratio.value) for ratio in ratios) / count
    halves = [math.log(ratio.high / ratio.value) for ratio in ratios]
    over_all = Estimate.from_log(mean, math.sqrt(sum(half**2 for half in halves)) / count)
    return TimeRatio(
        over_all.value, over_all.low, over_all.high, count, confidence=ratios[0].confidence
    )


def time_ratio(numerator: Timing, denominator: Timing, confidence: float = 0.95) -> TimeRatio:
    """Estimate how many times longer the numerator takes.

    The ratio is paired where both were sampled interleaved: the n-th samples share the machine's
    state, so its drift cancels in their ratio. Where both were sampled on the same occasions, two
    or more, the mean logarithms of the occasions are the pairs: occasions are a random effect, and
    Student's t has as many degrees of freedom as there are occasions, less one. So neither an
    offset of a load, nor dependence inside an occasion, nor drift looks like a difference.
    Otherwise the interval is Welch's, of the difference of mean logarithms; it is infinite where
    one of them has a single sample. All are wider by the errors of both clocks.

    Where both timings compare means, it is the ratio of arithmetic means, with the same kinds of
    interval of its logarithm. Raises ValueError where they have different statistics.
    """
    statistic = numerator.statistic
    if denominator.statistic is not statistic:
        raise ValueError("a median is not compared with a mean")
    count = min(numerator.count, denominator.count)
    interleaved = numerator.stopped is denominator.stopped is StopReason.INTERLEAVED
    if interleaved and numerator is denominator and count >= 2:
        same = LogDifference(0.0, 0.0, count - 1)  # of 10^5 winners half are the default
        return _time_ratio(same, confidence, count)
    clock_error = relative_clock_error(numerator, denominator)
    if interleaved and numerator.count == denominator.count >= 2:
        difference = LogDifference.of_pairs(_log_ratios(numerator, denominator), clock_error)
    else:
        one, other = (_logs(timing.samples_s, statistic) for timing in (numerator, denominator))
        difference = _difference(one, other, clock_error)
    return _time_ratio(difference, confidence, count)


def _log_ratios(numerator: Timing, denominator: Timing) -> list[float]:
    """Return the logarithm of the ratio of each round or, of several occasions, of each of them."""
    numerator_s, denominator_s = numerator.samples_s, denominator.samples_s
    if numerator.occasions == denominator.occasions and len(numerator.occasions) > 1:
        numerator_s, denominator_s = map(_occasion_means_s, (numerator, denominator))
    if numerator.statistic is Statistic.MEDIAN:
        return [math.log(a / b) for a, b in zip(numerator_s, denominator_s, strict=True)]
    sides = (_logs(values_s, Statistic.MEAN) for values_s in (numerator_s, denominator_s))
    return [a - b for a, b in zip(*sides, strict=True)]


def _time_ratio(difference: LogDifference, confidence: float, count: int) -> TimeRatio:
    ratio = Estimate.from_log(difference.mean, difference.half_width(confidence))
    p_value = difference.p_value_of_more()
    return TimeRatio(ratio.value, ratio.low, ratio.high, count, p_value, confidence=confidence)


def trimmed_ratio(numerator: Timing, denominator: Timing, confidence: float = 0.95) -> TimeRatio:
    """Estimate how many times longer the numerator takes, for a choice between configurations.

    Of interleaved rounds some are disturbed by other work. So a fifth of the ratios at each end
    does not count (the trimmed mean and its error of Yuen, "The two-sample trimmed t for unequal
    population variances", Biometrika 1974): on a busy machine this finds the same fastest
    configuration far more often. With few rounds, and where means are compared, it is `time_ratio`.
    """
    is_trimmed = _is_trimmed(numerator) and _is_trimmed(denominator)
    if not is_trimmed or numerator.count != denominator.count:
        return time_ratio(numerator, denominator, confidence)
    logs = _log_ratios(numerator, denominator)
    inner = _inner(logs)
    cut = (len(logs) - len(inner)) // 2
    winsorized = [inner[0]] * cut + inner + [inner[-1]] * cut
    error = math.sqrt(variance(winsorized) * len(logs)) / len(inner)
    clock_error = relative_clock_error(numerator, denominator)
    difference = LogDifference(statistics.fmean(inner), error, len(inner) - 1, clock_error)
    return _time_ratio(difference, confidence, len(logs))


def trimmed_log_time(timing: Timing) -> float:
    """Return the logarithm of the time by which `trimmed_ratio` compares, for rounds of one
    level."""
    if not _is_trimmed(timing):
        return log_time(timing)
    return statistics.fmean(_inner([math.log(sample_s) for sample_s in timing.samples_s]))


def _is_trimmed(timing: Timing) -> bool:
    is_interleaved = timing.stopped is StopReason.INTERLEAVED and len(timing.occasions) < 2
    is_median = timing.statistic is Statistic.MEDIAN
    return is_interleaved and is_median and timing.count >= _LEAST_TRIMMED


def _inner(values: Sequence[float]) -> list[float]:
    """Return the values without a fifth at each end, sorted."""
    cut = len(values) // 5
    return sorted(values)[cut : len(values) - cut]


def _occasion_means_s(timing: Timing) -> tuple[float, ...]:
    """Return the mean of each occasion's samples: the geometric one, or the arithmetic one where
    means are compared."""
    if timing.statistic is Statistic.MEAN:
        return tuple(map(statistics.fmean, timing.by_occasion))
    return tuple(math.exp(mean_log(samples_s)) for samples_s in timing.by_occasion)


@dataclass(frozen=True)
class LogDifference:
    """The difference of two mean logarithms, with its standard error and degrees of freedom
    (Welch, 1947); the error is infinite where one side has a single sample.

    The clocks may put the difference off by `clock_error`, however many samples there are.
    """

    mean: float
    error: float
    freedom: float
    clock_error: float = 0.0

    @classmethod
    def of_pairs(cls, logs: Sequence[float], clock_error: float) -> LogDifference:
        """Estimate it from the logarithms of the ratios of pairs."""
        error = math.sqrt(variance(logs) / len(logs))
        return cls(statistics.fmean(logs), error, len(logs) - 1, clock_error)

    def half_width(self, confidence: float) -> float:
        """Return half the confidence interval."""
        if not 0 < self.error < math.inf:
            return self.error + self.clock_error
        return _quantile(self.freedom, confidence) * self.error + self.clock_error

    def p_value_of_more(self) -> float:
        """Return the one-sided p-value that the difference is not above 0."""
        difference = self.mean - self.clock_error
        if self.error == 0:
            return 0.5 if difference == 0 else float(difference < 0)
        from scipy.special import stdtr  # here: see _quantile

        return float(stdtr(self.freedom, -difference / self.error))


def log_difference(one_s: Sequence[float], other_s: Sequence[float]) -> LogDifference:
    """Compare the mean logarithms of two samples that were taken independently."""
    return _difference(_logs(one_s, Statistic.MEDIAN), _logs(other_s, Statistic.MEDIAN))


def _difference(
    one: Sequence[float], other: Sequence[float], clock_error: float = 0.0
) -> LogDifference:
    logs = one, other
    mean = statistics.fmean(one) - statistics.fmean(other)
    if min(map(len, logs)) < 2:
        return LogDifference(mean, math.inf, 1.0, clock_error)
    parts = [variance(values) / len(values) for values in logs]
    squares = sum(part**2 / (len(v) - 1) for part, v in zip(parts, logs, strict=True))
    freedom = sum(parts) ** 2 / squares if squares else math.inf
    return LogDifference(mean, math.sqrt(sum(parts)), freedom, clock_error)


# ---------------------------------------------------------------------------- several ratios
#
# Of 48 inputs whose winner is as fast as the default, one would be called faster at 2.5 % each in
# most runs. Benjamini and Hochberg's procedure holds the expected share of such winners among all
# that are called faster, where the tests are independent or positively dependent. (Benjamini and
# Hochberg, "Controlling the False Discovery Rate", 1995; Benjamini and Yekutieli, 2001.) SciPy has
# no procedure of Holm.

FALSE_DISCOVERIES = 0.05
"""The expected share of chance among the ratios that are claimed, at most."""


def hold_false_discoveries(ratios: Sequence[TimeRatio | None]) -> list[TimeRatio | None]:
    """Mark ratios above 1 that may be chance among this family of ratios; None stays None.

    A ratio is claimed only if its own interval excludes 1 as well, so with a single one, or where
    most are real, the error of each is that of its interval.
    """
    from scipy.stats import false_discovery_control  # here: it takes time to load

    p_values = [ratio.p_value for ratio in ratios if ratio is not None]
    adjusted = iter(false_discovery_control(p_values).tolist())
    return [None if ratio is None else _held(ratio, next(adjusted)) for ratio in ratios]


def _held(ratio: TimeRatio, adjusted: float) -> TimeRatio:
    may_be_chance = ratio.value > 1 and adjusted > FALSE_DISCOVERIES
    if may_be_chance == ratio.may_be_chance:
        return ratio  # of 10^5 ratios most stay, and a copy takes longer than all else here
    return dataclasses.replace(ratio, may_be_chance=may_be_chance)


def holm(p_values: Array) -> Array:
    """Adjust p-values, shape (p-values,), by Holm's procedure (1979)."""
    order = np.argsort(p_values, kind="stable")
    scaled = np.minimum(1.0, p_values[order] * np.arange(len(order), 0, -1))
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.maximum.accumulate(scaled)
    return adjusted
