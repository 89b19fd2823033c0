"""Speed-ups are claimed at the rate that they state: for one input, and over many.

Times are drawn from known noise, so equal code is equal by construction.
"""

from __future__ import annotations

import dataclasses
import io
import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pytest
from rich.console import Console
from scipy import stats

from harness.analysis.inputs import InputReport, hold_discoveries, report_input
from harness.core.records import Config, Input, Measurement, Outcome, StopReason, Timing
from harness.display.inputs import print_inputs
from harness.stats.timing import TimeRatio, hold_false_discoveries, time_ratio

Logs = npt.NDArray[np.float64]
"""Logarithms of times, shape (configurations, occasions, rounds)."""

Draw = Callable[[np.random.Generator, int, int, int], Logs]

PROBLEM = Input({"n": 1})
DEFAULT, A, B, C = (Config({"V": value}) for value in range(4))
SIZES = (4, 4, 3, 3, 3, 3)


def timing(logs: Logs, occasions: tuple[int, ...] = ()) -> Timing:
    return Timing(tuple(np.exp(logs).ravel().tolist()), StopReason.INTERLEAVED, occasions)


def measured(config: Config, time: Timing) -> Measurement:
    return Measurement(config, PROBLEM, Outcome.OK, time)


# --------------------------------------------------------------------- a family of ratios


def ratio_of(p_value: float, value: float = 1.1) -> TimeRatio:
    return TimeRatio(value, value - 0.05, value + 0.05, 20, p_value)


def test_one_ratio_that_is_clear_alone_may_be_chance_among_many() -> None:
    clear = ratio_of(0.02)
    assert hold_false_discoveries([clear]) == [clear]
    assert clear.is_faster
    among = hold_false_discoveries([clear, *[ratio_of(0.5, 1.0)] * 47])
    assert among[0] is not None
    assert not among[0].is_faster


def test_ratios_that_are_nearly_all_clear_stay_so() -> None:
    held = hold_false_discoveries([*[ratio_of(0.001)] * 40, ratio_of(0.02), None])
    assert all(ratio.is_faster for ratio in held[:-1] if ratio)
    assert held[-1] is None


def test_a_claim_whose_adjusted_p_value_is_the_rate_stands() -> None:
    (at, above) = (
        hold_false_discoveries([TimeRatio(1.2, 1.1, 1.3, 5, p_value)])[0]
        for p_value in (0.05, 0.0501)
    )
    assert (at.may_be_chance, above.may_be_chance) == (False, True)


def test_a_ratio_below_one_is_no_claim_and_is_not_marked() -> None:
    slower = TimeRatio(0.5, 0.4, 0.6, 20, 1.0)
    assert hold_false_discoveries([slower]) == [slower]
    assert slower.is_significant
    assert not slower.is_faster


# -------------------------------------------------------------------------------- one ratio


def test_ratio_over_occasions_is_students_test_of_their_mean_logarithms() -> None:
    rng = np.random.default_rng(1)
    logs = rng.normal(0, 0.05, (2, 3, 4)) + np.array([0.1, 0.0]).reshape(2, 1, 1)
    ratio = time_ratio(timing(logs[0], (4, 4, 4)), timing(logs[1], (4, 4, 4)))
    test = stats.ttest_1samp((logs[0] - logs[1]).mean(axis=1), 0, alternative="greater")
    low, high = np.exp(stats.ttest_1samp((logs[0] - logs[1]).mean(axis=1), 0).confidence_interval())
    assert (ratio.low, ratio.high) == (pytest.approx(low), pytest.approx(high))
    assert ratio.p_value == pytest.approx(test.pvalue)
    assert ratio.count == 12


@pytest.mark.parametrize("one", [0.03, -0.03])
def test_p_value_of_a_ratio_is_one_sided(one: float) -> None:
    logs = np.array([one, one + 0.02, one - 0.02])
    expected = stats.ttest_1samp(logs, 0, alternative="greater").pvalue
    assert time_ratio(timing(logs), timing(0 * logs)).p_value == pytest.approx(expected)
    welch = time_ratio(Timing(timing(logs).samples_s), Timing((1.0, 1.01, 0.99)))
    assert (welch.p_value < 0.5) == (one > 0)


# ------------------------------------------------------------------------------- one input


def test_rounds_of_a_replay_are_split_into_those_that_choose_and_that_judge() -> None:
    """A is faster in the first half and B in the second: only one half may be counted for it."""
    halves = {DEFAULT: (3.0, 3.0), A: (1.0, 3.0), B: (2.0, 1.0)}
    finals = [
        measured(config, Timing((one,) * 4 + (other,) * 4, StopReason.INTERLEAVED))
        for config, (one, other) in halves.items()
    ]
    report = report_input(PROBLEM, {}, finals, DEFAULT, None)
    assert report.speedup.value == 1
    finals[1] = measured(A, Timing((1.0,) * 4 + (2.0,) * 4, StopReason.INTERLEAVED))
    report = report_input(PROBLEM, {}, finals, DEFAULT, None)
    assert report.best is finals[1]
    assert report.speedup.value == pytest.approx(1.5)


def test_a_single_sample_is_no_claim() -> None:
    finals = [
        measured(c, Timing((t,), StopReason.INTERLEAVED))
        for c, t in ((DEFAULT, 9.0), (A, 1.0), (B, 2.0))
    ]
    report = report_input(PROBLEM, {}, finals, DEFAULT, None)
    assert (report.speedup.value, report.speedup.is_faster) == (pytest.approx(9.0), False)


# ---------------------------------------------------------------------- rates, by simulation


def normal(rng: np.random.Generator, *shape: int) -> Logs:
    return rng.normal(0, 0.03, shape)


def offset_by_load(rng: np.random.Generator, *shape: int) -> Logs:
    """Each load of a configuration has an offset of 1 %."""
    return rng.normal(0, 0.01, (*shape[:2], 1)) + rng.normal(0, 0.01, shape)


def drifting(rng: np.random.Generator, *shape: int) -> Logs:
    """The machine's clock wanders; the configurations of a round share it."""
    steps = rng.normal(0, 0.02, shape[1:])
    return np.cumsum(steps.ravel()).reshape(steps.shape) + rng.normal(0, 0.01, shape)


def final_report(rng: np.random.Generator, draw: Draw, faster: float = 0.0) -> InputReport:
    """An input whose three finalists are equal code, and as much faster than the default."""
    effect = math.log1p(faster) * np.array([0, 1, 1, 1]).reshape(4, 1, 1)
    choosing = draw(rng, 4, 1, 7) - effect
    judging = (draw(rng, 4, 6, 4) - effect).reshape(4, -1)[:, : sum(SIZES)]
    configs = (DEFAULT, A, B, C)
    choices = [measured(c, timing(choosing[n])) for n, c in enumerate(configs) if n]
    winner = 1 + int(choosing[1:].mean(axis=(1, 2)).argmin())
    finals = [measured(configs[n], timing(judging[n], SIZES)) for n in (winner, 0)]
    return report_input(PROBLEM, {}, finals, DEFAULT, None, has_choice=bool(choices))


def recorded_report(rng: np.random.Generator, draw: Draw) -> InputReport:
    """As a replay has it: all finalists in the same 20 rounds of one load."""
    logs = draw(rng, 4, 1, 20)
    finals = [measured(c, timing(logs[n])) for n, c in enumerate([DEFAULT, A, B, C])]
    return report_input(PROBLEM, {}, finals, DEFAULT, None)


def claimed(reports: Sequence[InputReport]) -> float:
    """The share of inputs with a claim; four standard errors of 0.025 among 600 are 0.026."""
    return sum(r.speedup is not None and r.speedup.is_faster for r in reports) / len(reports)


@pytest.mark.parametrize(
    ("report", "draw"),
    [
        (final_report, normal),
        (final_report, offset_by_load),
        (final_report, drifting),
        (recorded_report, normal),
        (recorded_report, drifting),
    ],
)
def test_equal_code_is_called_faster_on_few_inputs(
    report: Callable[[np.random.Generator, Draw], InputReport], draw: Draw
) -> None:
    rng = np.random.default_rng(3)
    assert claimed([report(rng, draw) for _ in range(600)]) <= 0.025 + 0.026


def test_faster_code_is_found() -> None:
    rng = np.random.default_rng(5)
    assert claimed([final_report(rng, normal, faster=0.1) for _ in range(100)]) >= 0.95


def test_over_many_inputs_of_equal_code_there_is_seldom_a_claim() -> None:
    rng = np.random.default_rng(6)
    reports = [final_report(rng, normal) for _ in range(2400)]
    families = [hold_discoveries(reports[n : n + 48]) for n in range(0, len(reports), 48)]
    uncorrected = [any(claimed([r]) for r in reports[n : n + 48]) for n in range(0, 2400, 48)]
    assert sum(uncorrected) > 20, "of 50 families, without a correction"
    assert sum(claimed(family) > 0 for family in families) <= 8, "2.5 expected, 4 errors above"


# ------------------------------------------------------------------------------ what is said


def printed(speedups: Sequence[TimeRatio]) -> str:
    best, baseline = measured(A, Timing((1.0, 1.0))), measured(DEFAULT, Timing((2.0, 2.0)))
    reports = [
        InputReport(PROBLEM, best, baseline, speedup, 0, {Outcome.OK: 2}, 2) for speedup in speedups
    ]
    stream = io.StringIO()
    print_inputs(Console(file=stream, width=140), hold_discoveries(reports), DEFAULT)
    return " ".join(stream.getvalue().split())


@pytest.mark.parametrize(
    ("confidence", "rate"), [(0.95, "2.5 %"), (0.99, "0.50 %"), (0.999, "0.050 %"), (0.5, "5.0 %")]
)
def test_the_rate_of_false_claims_is_that_of_the_interval(confidence: float, rate: str) -> None:
    ratio = time_ratio(Timing((2.0, 2.1)), Timing((1.0, 1.001)), confidence)
    clear = dataclasses.replace(ratio, low=1.5)
    assert f"equal code looks so in at most {rate} of measurements" in printed([clear])
