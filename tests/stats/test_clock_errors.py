"""Intervals are wider by what the clock leaves unknown of a time."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from harness.core.records import Statistic, StopReason, Timing
from harness.stats.timing import half_width, half_width_of, time_ratio


def timing(seconds: list[float], error_s: float, **changes: object) -> Timing:
    found = Timing(tuple(seconds), StopReason.INTERLEAVED, clock_error_s=error_s)
    return dataclasses.replace(found, **changes)


@pytest.mark.parametrize("stopped", [StopReason.INTERLEAVED, StopReason.REPEATS])
@pytest.mark.parametrize("statistic", Statistic)
def test_ratios_are_wider_by_the_errors_of_both_clocks(
    stopped: StopReason, statistic: Statistic
) -> None:
    one_s, other_s = [1.02, 1.03, 1.01, 1.02], [1.0, 1.01, 0.99, 1.0]

    def ratio(error_s: float):
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


def test_equal_samples_within_the_clocks_errors_are_no_difference() -> None:
    ratio = time_ratio(timing([3.0] * 20, 0.5), timing([2.5] * 20, 0.5))
    assert not ratio.is_significant
    assert ratio.p_value == 1.0
    assert time_ratio(timing([3.0] * 20, 0.1), timing([2.5] * 20, 0.1)).is_significant


def test_stated_time_is_as_uncertain_as_its_clock() -> None:
    one = timing([3.0, 3.1], 0.25)
    assert half_width_of(one) == half_width(one.samples_s) + 0.25


def test_error_of_a_clock_is_a_finite_time() -> None:
    for error_s in (-1e-9, math.inf, math.nan):
        with pytest.raises(ValueError, match="clock's error must be finite"):
            timing([1.0], error_s)
