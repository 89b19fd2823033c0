"""Times of configurations as the search measured them: by input and configuration, with ties."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest

from harness.core.records import Config, Input, Measurement, Outcome, StopReason, Timing
from harness.dispatch.searched_times import SearchedTimes


def block(value: int) -> Config:
    return Config({"BLOCK": value})


def given(n: int) -> Input:
    return Input({"n": n})


def times(
    rows: Mapping[int, Mapping[int, float]], stopped: StopReason = StopReason.REPEATS
) -> SearchedTimes:
    """By input, the seconds of each block; infinity for a failure."""
    return SearchedTimes.of(
        {
            given(n): {
                block(value): _measurement(given(n), value, time_s, stopped)
                for value, time_s in row.items()
            }
            for n, row in rows.items()
        }
    )


def _measurement(problem: Input, value: int, time_s: float, stopped: StopReason) -> Measurement:
    if math.isinf(time_s):
        return Measurement(block(value), problem, Outcome.CRASHED, message="it died")
    return Measurement(block(value), problem, Outcome.OK, Timing((time_s,), stopped))


SOME = {1: {16: 2.0, 32: 1.0, 64: math.inf}, 2: {64: 3.0, 16: 9.0}}


def test_times_are_by_input_and_configuration() -> None:
    found = times(SOME)
    assert found.inputs == (given(1), given(2))
    assert found.best_s.tolist() == [1.0, 3.0]
    wanted = [[2.0, 1.0, math.inf, math.nan], [9.0, math.nan, 3.0, math.nan]]
    np.testing.assert_array_equal(found.time_s([block(v) for v in (16, 32, 64, 128)]), wanted)


def test_a_tie_is_within_noise_of_the_best() -> None:
    found = times({1: {16: 1.0, 32: 1.004, 64: 1.006}, 2: {16: 2.0, 32: math.inf, 64: 1.0}})
    assert found.tied([block(v) for v in (16, 32, 64, 128)]).tolist() == [
        [True, True, False, False],
        [False, False, True, False],
    ]


def test_candidates_are_the_winners_and_what_all_inputs_have() -> None:
    found = times({1: {16: 2.0, 32: 1.0, 64: 5.0}, 2: {16: 4.0, 64: 3.0, 128: 2.0}})
    assert found.candidates(9) == [block(32), block(128), block(16), block(64)]


def test_of_many_candidates_those_of_the_least_mean_slowdown_are_kept() -> None:
    """Slowdowns of 16: 4 and 1; of 32: 1 and 3; of 64: 2 and 1.4."""
    found = times({1: {16: 4.0, 32: 1.0, 64: 2.0}, 2: {16: 100.0, 32: 300.0, 64: 140.0}})
    winners = [block(32), block(16)]
    assert found.candidates(3) == [*winners, block(64), block(32), block(16)]
    assert found.candidates(1) == [*winners, block(64)]


def test_seconds_of_slow_inputs_count_no_more_than_those_of_fast_ones() -> None:
    """32 takes the least seconds in all, 16 has the least slowdowns."""
    found = times({1: {16: 0.001, 32: 0.003}, 2: {16: 1.1, 32: 1.0}})
    assert found.candidates(2)[2:] == [block(16), block(32)]


def test_what_fails_on_an_input_is_the_last_of_all() -> None:
    found = times({1: {16: 1.0, 32: 9.0, 64: 2.0}, 2: {16: math.inf, 32: 9.0, 64: 1.0}})
    assert found.candidates(3)[2:] == [block(64), block(32), block(16)]


def test_without_inputs_there_are_no_candidates() -> None:
    assert times({}).candidates(9) == []


@pytest.mark.parametrize("stopped", list(StopReason))
def test_what_was_recorded_is_known_by_why_sampling_stopped(stopped: StopReason) -> None:
    assert times(SOME, stopped).are_recorded == (stopped is StopReason.RECORDED)


def test_one_input_alone_has_candidates() -> None:
    assert times({1: {16: 2.0, 32: 1.0}}).candidates(9) == [block(32), block(32), block(16)]
