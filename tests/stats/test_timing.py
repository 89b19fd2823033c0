"""When sampling stops, and whether one of two is faster: against scipy and by simulation."""

import math
import statistics
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from harness.core.records import Statistic, StopReason, Timing
from harness.stats.timing import (
    Sampling,
    TimeRatio,
    half_width,
    half_width_of,
    holm,
    log_difference,
    student_t,
    time_ratio,
    trimmed_ratio,
)
from tests.helpers.noise import is_within_noise


def stops_after(sampling, samples_s, best_s=None):
    """After how many of these samples sampling stops, and why; the clock is the list."""
    for count in range(1, len(samples_s) + 1):
        reason = sampling.stop(samples_s[:count], best_s)
        if reason is not None:
            return count, reason
    raise AssertionError("sampling did not stop")


NOISY = [1.0, 1.4] * 50


@pytest.mark.parametrize(
    "sampling, samples_s, best_s, stops",
    [
        (Sampling(repeats=20), NOISY, None, (20, StopReason.REPEATS)),
        (Sampling(repeats=3, min_repeats=8), [1.0] * 9, None, (3, StopReason.REPEATS)),
        (Sampling(repeats=1), [1.0], None, (1, StopReason.REPEATS)),
        (Sampling(), [1.0, 1.0001, 0.9999] * 10, None, (5, StopReason.PRECISE)),
        # With precision 0 only equal samples are precise.
        (Sampling(repeats=10, precision=0.0), [2.0] * 10, None, (5, StopReason.PRECISE)),
        (Sampling(repeats=10, precision=0.0), [2.0] * 9 + [2.1], None, (5, StopReason.PRECISE)),
        (Sampling(repeats=9, precision=0.0), [2.0] * 4 + [2.1] * 5, None, (9, StopReason.REPEATS)),
        (Sampling(), [2.1, 2.5, 2.2, 2.3], 1.0, (3, StopReason.WORSE)),
        (Sampling(), [6.1, 6.2, 6.3], 1.0, (2, StopReason.WORSE)),
        (Sampling(), [6.1, 5.9, 6.3], 1.0, (3, StopReason.WORSE)),
        # One fast sample keeps a configuration in, whichever it is.
        (Sampling(repeats=9), [9.0, 1.9] * 5, 1.0, (9, StopReason.REPEATS)),
        (Sampling(), [50.0] + [1.0] * 19, 1.0, (20, StopReason.REPEATS)),
        (Sampling(), [100.0, 300.0] * 10, None, (20, StopReason.REPEATS)),
        (Sampling(repeats=3, precision=0.0), [2.0, 2.1, 2.2], 1.0, (3, StopReason.REPEATS)),
    ],
)
def test_sampling_stops_at_its_repeats_or_where_it_knows_enough(sampling, samples_s, best_s, stops):
    assert stops_after(sampling, samples_s, best_s) == stops


def test_precision_is_the_intervals_half_width_over_the_mean():
    samples = [1.0, 1.01, 1.02, 0.99, 1.0, 1.01]
    limit = half_width(samples) / np.mean(samples)
    wide, narrow = (Sampling(min_repeats=6, precision=limit * f) for f in (1.001, 0.999))
    assert wide.stop(samples, None) is StopReason.PRECISE
    assert narrow.stop(samples, None) is None


def test_half_width_is_students_interval():
    for confidence in (0.8, 0.95, 0.999):
        samples = [1.0, 1.3, 0.9, 1.1, 1.25]
        low, high = stats.ttest_1samp(samples, 0).confidence_interval(confidence)
        assert half_width(samples, confidence) == pytest.approx((high - low) / 2)


@pytest.mark.parametrize("confidence", [0.01, 0.5, 0.9, 0.95, 0.999, 0.99999])
@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 9, 19, 99, 1000, 20_000])
def test_students_t_is_that_of_scipy(freedom, confidence):
    expected = stats.t.ppf(0.5 + confidence / 2, freedom)
    assert student_t(freedom, confidence) == pytest.approx(expected, rel=3e-7)


def test_a_timing_is_as_long_as_itself():
    for statistic in Statistic:
        samples = tuple(lognormal(3, 9))
        for occasions in ((), (4, 5)):
            one = Timing(samples, StopReason.INTERLEAVED, occasions, statistic)
            same = Timing(samples, StopReason.INTERLEAVED, occasions, statistic)
            assert time_ratio(one, one) == time_ratio(one, same)


def lognormal(seed, count, mean=1.0, spread=0.05):
    rng = np.random.default_rng(seed)
    return list(mean * np.exp(rng.normal(0, spread, count)))


def two_sided(one, other):
    more, less = log_difference(one, other), log_difference(other, one)
    return 2 * min(more.p_value_of_more(), less.p_value_of_more())


def test_times_that_are_near_or_not_significantly_different_are_within_noise():
    for one, other, is_noise in (
        (lognormal(7, 20), lognormal(8, 20, 1.01), True),
        (lognormal(7, 20), lognormal(7, 20), True),
        (lognormal(7, 20), lognormal(9, 20, 1.5), False),
        # A single sample is judged by its difference, whatever the noise of the other side.
        ([1.0], [1.004], True),
        ([1.0], [1.006], False),
        ([3.0], [3.0], True),
        ([0.5], [2.0], False),
        ([1.2], [1.0, 1.4, 0.8, 1.2], False),
        ([1.0, 1.4, 0.8, 1.2], [1.2], False),
        ([1.0, 1.4], [1.1, 1.6], True),
    ):
        assert is_within_noise(Timing(tuple(one)), Timing(tuple(other))) is is_noise


def test_samples_without_spread_differ_exactly_if_they_are_unequal():
    assert two_sided([1.0, 1.0], [1.0, 1.0]) == 1
    assert two_sided([1.0, 1.0], [1.1, 1.1]) == 0


def test_time_ratio_of_separate_samples_is_welchs_test_of_logarithms():
    for counts, confidence in (((12, 7), 0.9), ((20, 3), 0.99), ((2, 40), 0.95)):
        one, other = lognormal(3, counts[0], 2.0), lognormal(4, counts[1], 1.9, 0.2)
        ratio = time_ratio(Timing(tuple(one)), Timing(tuple(other)), confidence)
        logs = np.log(one), np.log(other)
        interval = stats.ttest_ind(*logs, equal_var=False).confidence_interval(confidence)
        assert np.log([ratio.low, ratio.high]) == pytest.approx(tuple(interval))
        assert ratio.value == pytest.approx(stats.gmean(one) / stats.gmean(other))
        test = stats.ttest_ind(*logs, equal_var=False, alternative="greater")
        assert (ratio.p_value, ratio.count) == (pytest.approx(test.pvalue), min(counts))


def test_time_ratio_of_samples_taken_interleaved_is_paired():
    drift = np.linspace(1, 3, 10)
    for factor in (0.98, 1.2):
        one = tuple(drift * lognormal(5, 10, factor, 0.01))
        other = tuple(drift * lognormal(6, 10, 1.0, 0.01))
        logs = np.log(one) - np.log(other)
        ratio = time_ratio(rounds(*one), rounds(*other))
        interval = stats.ttest_1samp(logs, 0).confidence_interval()
        assert np.log([ratio.low, ratio.high]) == pytest.approx(tuple(interval))
        test = stats.ttest_1samp(logs, 0, alternative="greater")
        assert ratio.p_value == pytest.approx(test.pvalue)
        assert ratio.is_significant
        assert not time_ratio(Timing(one), Timing(other)).is_significant, "the drift hides it"


def test_time_ratio_of_a_single_sample_has_no_bounds():
    ratio = time_ratio(Timing((2.0,)), Timing((1.0, 1.0)))
    assert (ratio.value, ratio.low, ratio.high) == (pytest.approx(2), 0, math.inf)
    assert not ratio.is_significant


def test_wild_samples_have_infinite_bounds_and_no_overflow():
    ratio = time_ratio(rounds(1.0, 9.0), rounds(1.0, 1.0), confidence=0.99999)
    assert (ratio.low, ratio.high) == (0, math.inf)
    apart = time_ratio(Timing((1.0, 9.0)), Timing((1.0, 9.0)), confidence=1 - 1e-9)
    assert apart.high == math.inf


def test_negligible_difference_is_never_significant():
    ratio = time_ratio(rounds(*[1.003] * 50), rounds(*[1.0] * 50))
    assert ratio.low > 1
    assert not ratio.is_significant
    assert is_within_noise(Timing((1.003,) * 50), Timing((1.0,) * 50))


def test_what_is_worse_is_a_multiple_of_the_best():
    for best_s in (0.01, 100.0):
        slow, near = ([best_s * (factor + step) for step in (0, 0.1, 0.2)] for factor in (2.1, 1.9))
        assert Sampling().stop(slow, best_s) is StopReason.WORSE
        assert Sampling().stop(near, best_s) is None


def test_of_many_samples_only_some_counts_are_looked_at():
    sampling = Sampling(repeats=1000)
    looked = [count for count in (99, 100, 101, 102, 150, 151, 152) if
              sampling.stop([1.0] * count, None)]  # fmt: skip
    assert looked == [99, 100, 102, 150]


def test_two_samples_have_an_interval():
    assert half_width([1.0, 3.0]) == pytest.approx(12.7062, rel=1e-5)  # t of 1 degree of freedom
    assert half_width([1.0]) == math.inf
    ratio = time_ratio(rounds(1.0, 1.2), rounds(2.0, 2.1))
    assert 0 < ratio.low < ratio.value < ratio.high < math.inf


def test_a_difference_is_noise_where_its_p_value_is_above_the_rest_of_the_confidence():
    one, other = (1.0, 1.1, 1.2), (1.15, 1.25, 1.35)
    p_value = stats.ttest_ind(np.log(one), np.log(other), equal_var=False).pvalue
    timings = Timing(one), Timing(other)
    assert is_within_noise(*timings, confidence=1 - 0.9 * p_value)
    assert not is_within_noise(*timings, confidence=1 - 1.1 * p_value)
    assert is_within_noise(*timings) == (p_value > 0.05)
    assert not is_within_noise(Timing((1.0, 1.0)), Timing((1.1, 1.1)), confidence=1.0)


def test_a_speed_up_is_significant_and_above_1_and_not_perhaps_by_chance():
    for value, low, high, may_be_chance, is_significant in (
        (1.2, 1.1, 1.3, False, True),
        (0.8, 0.7, 0.9, False, True),
        (1.2, 0.9, 1.3, False, False),
        (1.2, 1.1, 1.3, True, False),
        (1.004, 1.003, 1.005, False, False),
    ):
        ratio = TimeRatio(value, low, high, 5, may_be_chance=may_be_chance)
        assert ratio.is_significant == is_significant
        assert ratio.is_faster == (is_significant and value > 1)


def test_samples_of_the_same_occasions_are_paired_by_occasion():
    sides = [tuple(lognormal(seed, 6, 1.1, 0.2)) for seed in (22, 23)]

    def ratio(*occasions):
        both = [
            Timing(samples_s, StopReason.INTERLEAVED, of_side)
            for samples_s, of_side in zip(sides, occasions, strict=True)
        ]
        return time_ratio(*both)

    means = [
        rounds(*map(stats.gmean, (samples_s[:2], samples_s[2:3], samples_s[3:])))
        for samples_s in sides
    ]
    by_occasion, found = time_ratio(*means), ratio((2, 1, 3), (2, 1, 3))
    assert [found.low, found.high] == pytest.approx([by_occasion.low, by_occasion.high])
    assert (found.count, by_occasion.count) == (6, 3)
    by_round = ratio((), ())
    assert ratio((6,), (6,)) == ratio((2, 4), (4, 2)) == by_round
    assert ratio((2, 4), (2, 4)).high > by_round.high, "one degree of freedom"


def rounds(*samples_s):
    return Timing(samples_s, StopReason.INTERLEAVED)


def test_disturbed_rounds_do_not_decide_a_choice():
    """The numerator takes 2 % longer in each round, and a hundred times as long in one of ten."""
    turns = np.arange(20)
    other_s = (1 + 0.1 * (turns % 7)) * (1 + 0.001 * (turns % 3))
    one_s = 1.02 * (1 + 0.1 * (turns % 7)) * np.where(turns % 10 == 0, 100, 1)
    one, other = rounds(*one_s), rounds(*other_s)
    assert not time_ratio(one, other).is_significant
    ratio = trimmed_ratio(one, other)
    assert ratio.is_significant
    assert [ratio.low, ratio.value, ratio.high] == pytest.approx([1.019] * 3, abs=0.002)


def test_a_trimmed_ratio_has_yuens_interval():
    logs = [0.01 * k for k in range(9)] + [9.0]
    ratio = trimmed_ratio(rounds(*np.exp(logs)), rounds(*[1.0] * 10))
    winsorized = [0.02, 0.02, *logs[2:8], 0.07, 0.07]
    half = 2.5706 * statistics.stdev(winsorized) / (0.6 * math.sqrt(10))  # Student's t, 5 degrees
    assert math.log(ratio.value) == pytest.approx(0.045)
    assert math.log(ratio.high / ratio.value) == pytest.approx(half, rel=1e-4)


def test_few_rounds_and_means_are_not_trimmed():
    for counts, statistic in (
        ((4, 4), Statistic.MEDIAN),  # fewer than ten rounds
        ((6, 5), Statistic.MEDIAN),
        ((6, 6), Statistic.MEAN),
    ):
        both = [
            replace(rounds(*[1.0, last] * count), statistic=statistic)
            for count, last in zip(counts, (1.1, 1.2), strict=True)
        ]
        assert trimmed_ratio(*both) == time_ratio(*both)


# ---------- intervals are wider by what the clock leaves unknown of a time


def timing(seconds, error_s, **changes):
    found = Timing(tuple(seconds), StopReason.INTERLEAVED, clock_error_s=error_s)
    return replace(found, **changes)


@pytest.mark.parametrize("stopped", [StopReason.INTERLEAVED, StopReason.REPEATS])
@pytest.mark.parametrize("statistic", Statistic)
def test_ratios_are_wider_by_the_errors_of_both_clocks(stopped, statistic):
    one_s, other_s = [1.02, 1.03, 1.01, 1.02], [1.0, 1.01, 0.99, 1.0]

    def ratio(error_s):
        sides = (
            timing(seconds, error_s, stopped=stopped, statistic=statistic)
            for seconds in (one_s, other_s)
        )
        return time_ratio(*sides)

    exact, coarse = ratio(0.0), ratio(0.003)
    wider = 0.003 / np.mean(one_s) + 0.003 / np.mean(other_s)
    assert math.log(coarse.high / exact.high) == pytest.approx(wider)
    assert math.log(exact.low / coarse.low) == pytest.approx(wider)
    assert coarse.p_value > exact.p_value


def test_equal_samples_within_the_clocks_errors_are_no_difference():
    ratio = time_ratio(timing([3.0] * 20, 0.5), timing([2.5] * 20, 0.5))
    assert not ratio.is_significant
    assert ratio.p_value == 1.0
    assert time_ratio(timing([3.0] * 20, 0.1), timing([2.5] * 20, 0.1)).is_significant


def test_stated_time_is_as_uncertain_as_its_clock():
    one = timing([3.0, 3.1], 0.25)
    assert half_width_of(one) == half_width(one.samples_s) + 0.25


def test_error_of_a_clock_is_a_finite_time():
    for error_s in (-1e-9, math.inf, math.nan):
        with pytest.raises(ValueError, match="clock's error must be finite"):
            timing([1.0], error_s)


# ---------- corrections for several tests


def test_p_values_count_by_how_many_are_not_smaller():
    for p_values, adjusted in (
        ([0.01, 0.02, 0.03], [0.03, 0.04, 0.04]),
        ([0.03, 0.01], [0.03, 0.02]),
        # 2 x 0.04, 4 x 0.01, 0.6, 3 x 0.013 and no less than before
        ([0.04, 0.01, 0.6, 0.013], [0.08, 0.04, 0.6, 0.04]),
        ([0.9, 0.6, 0.4], [1.0, 1.0, 1.0]),
        ([0.01, 0.9], [0.02, 0.9]),
    ):
        assert holm(np.array(p_values)) == pytest.approx(adjusted)
