"""Times that a program reports and its process contradicts."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import pytest

from harness.core.observations import UNTIMED
from harness.core.records import Config, Input, Measurement, Outcome, StopReason, Timing
from harness.measure.programs.measurer import without_unshown_gain
from harness.stats.interleaved import is_shown

GIVEN = Input({"n": 1})


def measured(config: Config, samples_s: Sequence[float], process_s: Sequence[float]) -> Measurement:
    timing = Timing(tuple(samples_s), StopReason.INTERLEAVED)
    pairs = zip(process_s, samples_s, strict=True)
    observed = {UNTIMED: statistics.median(whole_s - part_s for whole_s, part_s in pairs)}
    return Measurement(config, GIVEN, Outcome.OK, timing, observed=observed)


def beside(time_s: float, process_s: float, *, scatter: float = 0.01) -> Measurement:
    """A program beside a default of 1 s in a process of 2 s."""
    factors = [1 + scatter * (number % 3 - 1) for number in range(20)]
    default, found = (
        measured(Config({"N": number}), [one_s * f for f in factors], [all_s * f for f in factors])
        for number, (one_s, all_s) in enumerate([(1.0, 2.0), (time_s, process_s)])
    )
    return without_unshown_gain(found, default)


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
def test_process_must_save_half_of_the_seconds_that_are_reported(
    time_s: float, process_s: float, is_claimed: bool
) -> None:
    found = beside(time_s, process_s)
    assert is_shown(found) == is_claimed, found.message
    assert found.timing is not None, "it may be chance"


def test_the_message_says_what_was_reported_and_what_was_seen() -> None:
    assert beside(0.2, 1.61).message.startswith(
        "the program reports that it saves 800 ms a run, but its process "
        "ends 390 ms sooner than the default's"
    )
    assert "its process ends no sooner than the default's" in beside(0.2, 2.1).message


def test_a_gain_that_may_be_chance_is_not_refused() -> None:
    found = measured(Config({"N": 1}), [0.9, 1.1, 0.8, 1.15], [2.5] * 4)
    default = measured(Config({"N": 0}), [1.0] * 4, [2.0] * 4)
    assert without_unshown_gain(found, default) is found


def test_a_process_that_is_timed_itself_needs_no_other_clock() -> None:
    found = Measurement(Config({"N": 1}), GIVEN, Outcome.OK, Timing((0.1,) * 4))
    default = Measurement(Config({"N": 0}), GIVEN, Outcome.OK, Timing((1.0,) * 4))
    assert without_unshown_gain(found, default) is found
