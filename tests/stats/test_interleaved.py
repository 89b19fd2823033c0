"""Interleaved measurements of one input that were made at different times become one."""

from __future__ import annotations

import itertools

import pytest

from harness.core.records import Config, Input, Measurement, Outcome, StopReason, Timing
from harness.stats.interleaved import merge_sessions, refuted

GIVEN = Input({"n": 8})


def block(value):
    return Config({"BLOCK": value})


def ok(size, *samples_s):
    return Measurement(block(size), GIVEN, Outcome.OK, Timing(samples_s))


def failing(size):
    return Measurement(block(size), GIVEN, Outcome.LAUNCH_FAILED, message="lost")


def seconds(found):
    return {int(str(config["BLOCK"])): m.time_s for config, m in found.items()}


def test_sessions_merge_on_the_scale_of_the_last():
    first = [ok(16, 1.0), ok(32, 4.0), ok(64, 8.0)]
    last = [ok(32, 2.0), ok(64, 4.0), ok(128, 3.0)]
    other = [ok(256, 0.1)]
    expected = {16: 0.5, 32: 2.0, 64: 4.0, 128: 3.0}
    for sessions in ([first, last], [other, first, last]):  # with the other there is nothing common
        assert seconds(merge_sessions(sessions)) == pytest.approx(expected)
    crashed = failing(16)
    assert merge_sessions([first, [crashed, *last]])[block(16)] is crashed, "as it last ended"
    lost = merge_sessions([first, [failing(32), crashed]])
    assert seconds(lost) == {16: 1.0, 32: 4.0, 64: 8.0}
    chain = [[ok(1, 1.0), ok(2, 2.0)], [ok(2, 4.0), ok(3, 6.0)]]
    for turns in (chain, chain[::-1]):
        linked = seconds(merge_sessions([*turns, [ok(1, 10.0)]]))
        assert linked == pytest.approx({1: 10.0, 2: 20.0, 3: 30.0})
    assert merge_sessions([]) == {}


def test_drift_is_taken_out_of_rounds():
    first = [ok(16, 1.0, 3.0), ok(32, 2.0, 6.0)]
    last = [ok(32, 8.0, 2.0), ok(64, 12.0, 3.0)]
    merged = merge_sessions([first, last])
    for size, time_s in ((16, 2.0), (32, 4.0), (64, 6.0)):
        assert merged[block(size)].timing.samples_s == pytest.approx((time_s, time_s))
    unlike = merge_sessions([[ok(16, 1.0, 1.0, 1.0), ok(32, 2.0)], last])
    assert seconds(unlike)[16] == pytest.approx(2.0), "rounds that do not match"


def test_a_later_session_that_none_links_leaves_earlier_ones_to_their_scale():
    """The middle one shares 32 with the last alone, the first 16 with the middle one alone."""
    first = [ok(16, 1.0), ok(8, 3.0)]
    middle = [ok(16, 10.0), ok(32, 20.0)]
    last = [ok(32, 5.0), ok(64, 7.0)]
    found = seconds(merge_sessions([first, middle, last]))
    assert found == pytest.approx({8: 7.5, 16: 2.5, 32: 5.0, 64: 7.0})


def test_scale_is_that_of_all_configurations_that_both_sessions_have():
    first = [ok(1, 1.0), ok(2, 1.0), ok(3, 1.0)]
    last = [ok(1, 4.0), ok(2, 9.0)]
    assert seconds(merge_sessions([first, last]))[3] == pytest.approx(6.0), "sqrt(4 x 9)"


def test_a_failed_configuration_links_nothing():
    first, last = [ok(16, 1.0), ok(32, 4.0)], [failing(32), ok(64, 8.0)]
    assert seconds(merge_sessions([first, last])) == pytest.approx({32: float("inf"), 64: 8.0})


def test_why_sampling_stopped_and_its_occasions_stay():
    timing = Timing((1.0, 2.0, 3.0), StopReason.INTERLEAVED, occasions=(1, 2))
    measured = Measurement(block(16), GIVEN, Outcome.OK, timing)
    (merged,) = merge_sessions([[measured]]).values()
    assert merged.timing.samples_s == pytest.approx((6 ** (1 / 3),) * 3)
    assert (merged.timing.stopped, merged.timing.occasions) == (timing.stopped, timing.occasions)


def test_configurations_of_unequal_numbers_of_rounds_have_one_factor():
    first = [ok(16, 1.0, 1.0, 1.0), ok(32, 4.0, 4.0), ok(64, 3.0, 3.0)]
    last = [ok(16, 2.0), ok(32, 8.0)]
    assert seconds(merge_sessions([first, last]))[64] == pytest.approx(6.0)


def test_a_failure_beside_others_that_worked_stands_unless_it_may_be_chance():
    crashed = Measurement(block(8), GIVEN, Outcome.CRASHED, message="it died")
    refused = Measurement(block(64), GIVEN, Outcome.IMPLAUSIBLE, message="it keeps results")
    sessions = [
        [failing(16), ok(32, 1.0), crashed, refused],
        [ok(16, 1.0), ok(32, 1.0), ok(8, 1.0), ok(64, 1.0)],
        [failing(32)],  # nothing worked: that may be the machine's fault
    ]
    assert refuted(sessions) == {block(16): sessions[0][0], block(64): refused}


def test_unscaled_sessions_merge_to_the_same_configurations_with_their_own_samples():
    first, last = [ok(16, 1.0), ok(32, 4.0)], [ok(32, 2.0), failing(16), ok(64, 4.0)]
    for sessions in ([first, last], [last, first], [[ok(256, 0.1)], first, last], [[failing(16)]]):
        scaled, unscaled = merge_sessions(sessions), merge_sessions(sessions, is_scaled=False)
        assert list(unscaled) == list(scaled)
        assert [m.outcome for m in unscaled.values()] == [m.outcome for m in scaled.values()]
        every = itertools.chain(*sessions)
        assert set(map(id, unscaled.values())) <= set(map(id, every))
