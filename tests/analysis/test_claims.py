"""Speed-ups are claimed at the rate that they state: for one input, and over many.

Times are drawn from known noise, so equal code is equal by construction.
"""

import dataclasses
import io
import math

import numpy as np
import pytest
from rich.console import Console

from harness.analysis.inputs import InputReport, hold_discoveries, report_input
from harness.core.records import Config, Input, Measurement, Outcome, StopReason, Timing
from harness.display.inputs import print_inputs
from harness.stats.timing import TimeRatio, hold_false_discoveries, time_ratio

PROBLEM = Input({"n": 1})
DEFAULT, A, B, C = (Config({"V": value}) for value in range(4))
SIZES = (4, 4, 3, 3, 3, 3)


def timing(logs, occasions=()):
    return Timing(tuple(np.exp(logs).ravel().tolist()), StopReason.INTERLEAVED, occasions)


def measured(config, time):
    return Measurement(config, PROBLEM, Outcome.OK, time)


# --------------------------------------------------------------------- a family of ratios


def ratio_of(p_value, value=1.1):
    return TimeRatio(value, value - 0.05, value + 0.05, 20, p_value)


def test_a_ratio_that_is_clear_alone_may_be_chance_among_many():
    for ratios, is_faster in (
        ([ratio_of(0.02)], True),
        ([ratio_of(0.02), *[ratio_of(0.5, 1.0)] * 47], False),  # it may be chance among many
        ([ratio_of(0.02), *[ratio_of(0.001)] * 40, None], True),
        ([ratio_of(0.05)], True),
        ([ratio_of(0.0501)], False),
        ([ratio_of(1.0, 0.5)], False),
    ):
        first, *others = hold_false_discoveries(ratios)
        assert first.is_faster is is_faster
        assert first.may_be_chance is (first.value > 1 and not is_faster)
        assert [ratio is None for ratio in others] == [ratio is None for ratio in ratios[1:]]


# ------------------------------------------------------------------------------- one input


def test_rounds_of_a_replay_are_split_into_those_that_choose_and_that_judge():
    """A is faster in the first half and B in the second: only one half may be counted for it."""
    for last, speedup in ((3.0, 1), (2.0, 1.5)):
        halves = {DEFAULT: (3.0, 3.0), A: (1.0, last), B: (2.0, 1.0)}
        finals = [measured(c, timing(np.log(np.repeat(s, 4)))) for c, s in halves.items()]
        report = report_input(PROBLEM, {}, finals, DEFAULT, None)
        assert report.best.config == A
        assert report.speedup.value == pytest.approx(speedup)


# ---------------------------------------------------------------------- rates, by simulation


def normal(rng, *shape):
    return rng.normal(0, 0.03, shape)


def offset_by_load(rng, *shape):
    """Each load of a configuration has an offset of 1 %."""
    return rng.normal(0, 0.01, (*shape[:2], 1)) + rng.normal(0, 0.01, shape)


def drifting(rng, *shape):
    """The machine's clock wanders; the configurations of a round share it."""
    steps = rng.normal(0, 0.02, shape[1:])
    return np.cumsum(steps.ravel()).reshape(steps.shape) + rng.normal(0, 0.01, shape)


def final_report(rng, draw, faster=0.0):
    """An input whose three finalists are equal code, and as much faster than the default."""
    choosing = draw(rng, 3, 1, 7)
    judging = draw(rng, 4, 6, 4).reshape(4, -1)[:, : sum(SIZES)]
    judging[1:] -= math.log1p(faster)
    winner = 1 + choosing.mean(axis=(1, 2)).argmin()
    configs = (DEFAULT, A, B, C)
    finals = [measured(configs[n], timing(judging[n], SIZES)) for n in (winner, 0)]
    return report_input(PROBLEM, {}, finals, DEFAULT, None, has_choice=True)


def recorded_report(rng, draw):
    """As a replay has it: all finalists in the same 20 rounds of one load."""
    logs = draw(rng, 4, 1, 20)
    finals = [measured(c, timing(logs[n])) for n, c in enumerate([DEFAULT, A, B, C])]
    return report_input(PROBLEM, {}, finals, DEFAULT, None)


def claims(reports):
    """Count the inputs with a claim."""
    return sum(report.speedup.is_faster for report in reports)


def test_equal_code_is_called_faster_on_few_inputs():
    """At most 2.5 % of 200 are expected to be; 4 standard errors are 9."""
    for report, draw in (
        (final_report, normal),
        (final_report, offset_by_load),
        (final_report, drifting),
        (recorded_report, normal),
        (recorded_report, drifting),
    ):
        rng = np.random.default_rng(3)
        assert claims([report(rng, draw) for _ in range(200)]) <= 5 + 9


def test_faster_code_is_found():
    rng = np.random.default_rng(5)
    assert claims([final_report(rng, normal, faster=0.1) for _ in range(50)]) >= 47


def test_over_many_inputs_of_equal_code_there_is_seldom_a_claim():
    rng = np.random.default_rng(6)
    families = [[final_report(rng, normal) for _ in range(48)] for _ in range(20)]
    assert sum(claims(family) > 0 for family in families) > 8, "without a correction"
    corrected = [claims(hold_discoveries(family)) > 0 for family in families]
    assert sum(corrected) <= 5, "1 expected, 4 errors above"


# ------------------------------------------------------------------------------ what is said


def test_the_rate_of_false_claims_is_that_of_the_interval():
    for confidence, rate in ((0.95, "2.5 %"), (0.99, "0.50 %"), (0.999, "0.050 %"), (0.5, "5.0 %")):
        best, baseline = Timing((1.0, 1.001)), Timing((2.0, 2.1))
        clear = dataclasses.replace(time_ratio(baseline, best, confidence), low=1.5)
        measurements = measured(A, best), measured(DEFAULT, baseline)
        report = InputReport(PROBLEM, *measurements, clear, 0, {Outcome.OK: 2}, 2)
        stream = io.StringIO()
        print_inputs(Console(file=stream, width=140), hold_discoveries([report]), DEFAULT)
        assert f"at most {rate} of measurements" in " ".join(stream.getvalue().split())
