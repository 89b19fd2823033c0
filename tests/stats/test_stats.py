"""A value with its interval, and ratios from logarithms."""

from __future__ import annotations

import math

import pytest

from harness.stats import Estimate


def test_an_interval_holds_its_bounds() -> None:
    estimate = Estimate(2.0, 1.0, 3.0)
    assert [estimate.excludes(number) for number in (0.9, 1.0, 2.0, 3.0, 3.1)] == [
        True, False, False, False, True
    ]  # fmt: skip


def test_an_estimate_is_written_with_its_interval() -> None:
    assert Estimate(1.123, 1.0, 1.5).text(".2f", "x") == "1.12x [1.00, 1.50]"


def test_a_ratio_is_e_to_the_power_of_its_logarithm() -> None:
    ratio = Estimate.from_log(0.5, 0.2)
    wanted = [math.exp(0.5), math.exp(0.3), math.exp(0.7)]
    assert [ratio.value, ratio.low, ratio.high] == pytest.approx(wanted)


def test_a_ratio_beyond_all_floats_is_infinite() -> None:
    ratio = Estimate.from_log(709.0, 1.0)
    assert ratio == Estimate(math.exp(709.0), math.exp(708.0), math.inf)
    assert Estimate.from_log(0.0, math.inf) == Estimate(1.0, 0.0, math.inf)


def test_one_over_a_ratio_turns_its_interval_round() -> None:
    assert Estimate(2.0, 0.5, 4.0).inverse == Estimate(0.5, 0.25, 2.0)
    assert Estimate(2.0, 0.0, 4.0).inverse == Estimate(0.5, 0.25, math.inf)
