"""Times that a program reports and its process contradicts."""

import dataclasses

import pytest

from harness.core.observations import UNTIMED
from harness.core.records import Config, Input, Measurement, Outcome, StopReason, Timing
from harness.measure.programs.measurer import without_unshown_gain
from harness.stats.interleaved import is_shown

GIVEN = Input({"n": 1})


def measured(number, time_s, process_s, scatter=0.01):
    """A program of this time, in a process of that, in 18 samples."""
    samples_s = (time_s * (1 - scatter), time_s, time_s * (1 + scatter)) * 6
    timing = Timing(samples_s, StopReason.INTERLEAVED)
    observed = {UNTIMED: process_s - time_s}
    return Measurement(Config({"N": number}), GIVEN, Outcome.OK, timing, observed=observed)


DEFAULT = measured(0, 1.0, 2.0)


@pytest.mark.parametrize(
    ("time_s", "process_s", "is_claimed"),
    [
        (0.2, 1.59, True),  # saves 0.41 s of the 0.8 s that it reports
        (0.2, 1.61, False),
        (0.565, 2.0, False),  # 1.77 times as fast
        (1.0, 2.5, True),  # no gain is reported
        (1.2, 2.0, True),
    ],
)
def test_process_must_save_half_of_the_seconds_that_are_reported(time_s, process_s, is_claimed):
    found = without_unshown_gain(measured(1, time_s, process_s), DEFAULT)
    assert is_shown(found) == is_claimed, found.message
    assert found.timing is not None, "it may be chance"


def test_a_gain_that_may_be_chance_is_not_refused():
    found = measured(1, 0.95, 2.5, scatter=0.3)
    assert without_unshown_gain(found, DEFAULT) is found


def test_a_process_that_is_timed_itself_needs_no_other_clock():
    found = dataclasses.replace(measured(1, 0.1, 2.0), observed={})
    default = dataclasses.replace(DEFAULT, observed={})
    assert without_unshown_gain(found, default) is found
