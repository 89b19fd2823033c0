"""Which configurations a dispatcher may choose from, and which of their times count, by hand."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from harness.constraints.expression import Expression
from harness.core.observations import UNCLAIMED
from harness.core.records import (
    Config,
    Input,
    Interleaved,
    Measurement,
    Outcome,
    StopReason,
    Timing,
)
from harness.dispatch.candidates import (
    Times,
    applies_where,
    interleaved_matrix,
    searched_times,
    shortlist,
)
from harness.dispatch.matrix import Matrix

ONE, TWO = Input({"n": 1}), Input({"n": 2})


def block(value: int) -> Config:
    return Config({"BLOCK": value})


def ok(problem: Input, value: int, *samples_s: float) -> Measurement:
    timing = Timing(samples_s or (1.0, 1.0), StopReason.INTERLEAVED)
    return Measurement(block(value), problem, Outcome.OK, timing)


def failed(problem: Input, value: int, outcome: Outcome = Outcome.WRONG_RESULT) -> Measurement:
    return Measurement(block(value), problem, outcome, message="no")


def test_constraints_hold_over_features_parameters_and_limits() -> None:
    texts = ("BLOCK * n <= max_group_size", "BLOCK > 16", "unknown > 3")
    applies = applies_where(map(Expression, texts), {"max_group_size": 64})
    assert applies(ONE, block(64))
    assert applies(TWO, block(32))
    assert not applies(TWO, block(64))
    assert not applies(ONE, block(16))


def matrix(
    sessions: Mapping[Input, list[Interleaved]],
    finals: Sequence[Interleaved] = (),
    searched: Sequence[Measurement] = (),
) -> Matrix | None:
    known = {problem: {m.config: m for m in searched if m.input == problem} for problem in sessions}
    every = {problem: [*finals, *own] for problem, own in sessions.items()}
    return interleaved_matrix(known, every, sessions, block(16), lambda problem, config: True)


def times_on_one(
    sessions: list[Interleaved], finals: list[Interleaved], *searched: Measurement
) -> dict[int, float] | None:
    """Return the times on ONE by the value of BLOCK; the default is 16."""
    made = matrix({ONE: sessions}, finals, searched)
    if made is None:
        return None
    values = [int(str(config["BLOCK"])) for config in made.candidates]
    return dict(zip(values, made.time_s[0].tolist(), strict=True))


def test_a_failure_on_one_input_is_a_measurement_there() -> None:
    one, other = [ok(ONE, 16), ok(ONE, 32)], [ok(TWO, 16, 2.0), failed(TWO, 32)]
    made = matrix({ONE: [one], TWO: [other]})
    assert made is not None
    assert (made.candidates, made.time_s[1, 1]) == ((block(16), block(32)), math.inf)
    made = matrix({ONE: [[ok(ONE, 16), failed(ONE, 32)]], TWO: [other]})
    assert made is not None
    assert made.candidates == (block(16),)


def test_where_nothing_worked_on_an_input_nothing_is_common() -> None:
    assert matrix({ONE: [[ok(ONE, 16)]], TWO: [[failed(TWO, 16)]]}) is None
    assert matrix({ONE: [[ok(ONE, 16)]], TWO: []}) is None
    worked = {ONE: [[ok(ONE, 16)]], TWO: [[ok(TWO, 16)]]}
    assert matrix(worked, searched=[failed(TWO, 16)]) is None, "the search's failure stands"


def test_a_failure_in_any_session_that_worked_is_one() -> None:
    sessions = [[ok(ONE, 16, 1.0), ok(ONE, 64), failed(ONE, 32)], [ok(ONE, 16), ok(ONE, 32, 2.0)]]
    assert times_on_one(sessions, [], failed(ONE, 64)) == {16: 1.0}
    chance = [[ok(ONE, 16), failed(ONE, 32, Outcome.CRASHED)], sessions[1]]
    assert times_on_one(chance, []) == {16: 1.0, 32: 2.0}


def test_a_gain_that_first_runs_do_not_show_is_none() -> None:
    unshown = dataclasses.replace(ok(ONE, 32, 0.2), observed={UNCLAIMED: 1.0})
    one = [[ok(ONE, 16, 9.0), unshown], [ok(ONE, 16, 4.0), ok(ONE, 32, 0.2)]]
    made = matrix({ONE: one, TWO: [[ok(TWO, 16, 4.0), ok(TWO, 32, 2.0)]]})
    assert made is not None
    assert made.time_s.tolist() == [pytest.approx([4.0, 4.0]), pytest.approx([4.0, 2.0])]


def test_the_finals_refute_candidates_and_do_not_time_them() -> None:
    sessions = [[ok(ONE, 16), ok(ONE, 32, 2.0), ok(ONE, 64, 0.5)]]
    finals = [[ok(ONE, 16, 9.0), ok(ONE, 32, 1.0), failed(ONE, 64)]]
    assert times_on_one(sessions, finals) == {16: 1.0, 32: 2.0}


def test_of_candidates_with_equal_times_everywhere_the_first_is_kept() -> None:
    one = [ok(ONE, 32, 2.0), ok(ONE, 16, 2.0), ok(ONE, 64, 2.0), ok(ONE, 128, 2.0)]
    other = [ok(TWO, 32, 3.0), ok(TWO, 16, 3.0), ok(TWO, 64, 4.0), ok(TWO, 128, 3.0)]
    made = matrix({ONE: [one], TWO: [other]})
    assert made is not None
    assert made.candidates == (block(16), block(64))


def test_a_short_list_has_at_most_eight_members_and_the_three_best_static_ones() -> None:
    """Each of 24 inputs wants its own candidate; of the others, 30, 31 and 32 are the best."""
    inputs = [Input({"n": n}) for n in range(24)]
    known = {
        problem: {
            block(v): ok(problem, v, 1.0 if v == n else {30: 2.0, 31: 2.1, 32: 2.2}.get(v, 90.0))
            for v in [*range(24), 30, 31, 32, 64]
        }
        for n, problem in enumerate(inputs)
    }
    found = shortlist(known, block(64), lambda problem, config: True)
    assert found == [block(v) for v in (64, 30, *range(7), 31, 32)]
    assert shortlist(known, block(64), lambda problem, config: False) == []
    few = {problem: known[problem] for problem in inputs[:1]}
    assert shortlist(few, block(64), lambda problem, config: True) == []
    del known[inputs[5]][block(64)]
    assert block(64) not in shortlist(known, block(64), lambda problem, config: True)


# ---------------------------------------------------------------------------- times of the search


def given(n: int) -> Input:
    return Input({"n": n})


def times(
    rows: Mapping[int, Mapping[int, float]], most: int = 9, stopped: StopReason = StopReason.REPEATS
) -> Times:
    """By input, the seconds of each block; infinity for a failure. The default is block 1."""
    known = {
        given(n): {
            block(value): _measurement(given(n), value, time_s, stopped)
            for value, time_s in row.items()
        }
        for n, row in rows.items()
    }
    return searched_times(known, block(1), most)


def _measurement(problem: Input, value: int, time_s: float, stopped: StopReason) -> Measurement:
    if math.isinf(time_s):
        return Measurement(block(value), problem, Outcome.CRASHED, message="it died")
    return Measurement(block(value), problem, Outcome.OK, Timing((time_s,), stopped))


SOME = {1: {16: 2.0, 32: 1.0, 64: math.inf}, 2: {64: 3.0, 16: 9.0}}


def test_times_are_by_input_and_configuration() -> None:
    found = times({1: {16: 2.0, 32: 1.0, 64: math.inf}, 2: {64: 3.0, 16: 9.0}})
    assert found.inputs == [given(1), given(2)]
    assert found.configs == [block(v) for v in (1, 32, 64, 16)]
    assert found.best_s.tolist() == [1.0, 3.0]
    wanted = [[math.nan, 1.0, math.inf, 2.0], [math.nan, math.nan, 3.0, 9.0]]
    np.testing.assert_array_equal(found.time_s, wanted)


def test_a_tie_is_within_noise_of_the_best() -> None:
    found = times({1: {16: 1.0, 32: 1.004, 64: 1.006}, 2: {16: 2.0, 32: math.inf, 64: 1.0}})
    assert found.configs == [block(v) for v in (1, 16, 64, 32)]
    assert found.tied.tolist() == [[False, True, False, True], [False, False, True, False]]


@pytest.mark.parametrize(
    ("rows", "most", "wanted"),
    [
        # Slowdowns of 16: 4 and 1; of 32: 1 and 3; of 64: 2 and 1.4.
        ({1: {16: 4.0, 32: 1.0, 64: 2.0}, 2: {16: 100.0, 32: 300.0, 64: 140.0}}, 0, (32, 16)),
        ({1: {16: 4.0, 32: 1.0, 64: 2.0}, 2: {16: 100.0, 32: 300.0, 64: 140.0}}, 1, (32, 16, 64)),
        # 8 takes the least seconds in all, 16 has the least slowdowns.
        ({1: {4: 1e-3, 16: 2e-3, 8: 4e-3}, 2: {4: 1.0, 16: 1.3, 8: 1.2}}, 2, (4, 16)),
        # What fails on an input is the last of all.
        ({1: {4: 0.5, 32: 9.0, 16: 1.0}, 2: {16: math.inf, 32: 9.0, 4: 1.0}}, 2, (4, 32)),
        ({1: {16: 2.0, 32: 1.0}}, 9, (32, 16)),
        ({}, 9, ()),
    ],
)
def test_of_many_configurations_those_of_the_least_mean_slowdown_are_taken(
    rows: Mapping[int, Mapping[int, float]], most: int, wanted: tuple[int, ...]
) -> None:
    assert times(rows, most).configs == [block(v) for v in (1, *wanted)]


@pytest.mark.parametrize("stopped", list(StopReason))
def test_what_was_recorded_is_known_by_why_sampling_stopped(stopped: StopReason) -> None:
    found = times({1: {16: 2.0, 32: math.inf}}, stopped=stopped)
    assert found.are_recorded == (stopped is StopReason.RECORDED)
