"""Which configurations a dispatcher may choose from, and which of their times count, by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from benchmarks import commands
from harness.constraints.expression import Expression
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
    _distinct,
    _interleaved_everywhere,
    _InterleavedTimes,
    _note,
    applies_where,
    interleaved_matrix,
    matrix_of,
    shortlist,
)
from harness.results.columns import MeasurementColumns
from harness.results.view import read_results

ONE, TWO = Input({"n": 1}), Input({"n": 2})


def block(value: int) -> Config:
    return Config({"BLOCK": value})


def ok(problem: Input, value: int, *samples_s: float) -> Measurement:
    timing = Timing(samples_s or (1.0, 1.0), StopReason.INTERLEAVED)
    return Measurement(block(value), problem, Outcome.OK, timing)


def failed(problem: Input, value: int, outcome: Outcome = Outcome.WRONG_RESULT) -> Measurement:
    return Measurement(block(value), problem, outcome, message="no")


def rows(*measured: Measurement) -> dict[Input, dict[Config, Measurement]]:
    found: dict[Input, dict[Config, Measurement]] = {ONE: {}, TWO: {}}
    for each in measured:
        found[each.input][each.config] = each
    return found


def everywhere(
    found: Mapping[Input, Mapping[Config, Measurement]],
    sessions: Mapping[Input, list[Interleaved]] | None = None,
    without: tuple[tuple[Input, int], ...] = (),
) -> list[int]:
    """The blocks that were measured everywhere; those in `without` do not apply."""
    whole = {problem: [list(row.values())] for problem, row in found.items()}
    excluded = {(problem, block(value)) for problem, value in without}
    common = _interleaved_everywhere(
        found, sessions or whole, lambda problem, config: (problem, config) not in excluded
    )
    return [int(str(config["BLOCK"])) for config in common]


def test_constraints_hold_over_features_parameters_and_limits() -> None:
    texts = ("BLOCK * n <= max_group_size", "BLOCK > 16", "unknown > 3")
    applies = applies_where(map(Expression, texts), {"max_group_size": 64})
    assert applies(ONE, block(64))
    assert applies(TWO, block(32))
    assert not applies(TWO, block(64))
    assert not applies(ONE, block(16))


def test_what_was_measured_on_all_inputs_is_common() -> None:
    found = rows(ok(ONE, 16), ok(ONE, 32), ok(TWO, 32), ok(TWO, 16))
    assert everywhere(found) == [16, 32]


def test_what_an_input_lacks_is_common_only_where_it_does_not_apply() -> None:
    found = rows(ok(ONE, 16), ok(ONE, 32), ok(TWO, 16))
    sessions = {ONE: [[ok(ONE, 16)]], TWO: [[ok(TWO, 16)]]}
    assert everywhere(found, sessions) == [16]
    assert everywhere(found, sessions, without=((TWO, 32),)) == [16, 32]
    assert everywhere(found, sessions, without=((ONE, 32),)) == [16]


def test_a_failure_on_one_input_is_a_measurement_there() -> None:
    assert everywhere(rows(ok(ONE, 16), ok(ONE, 32), ok(TWO, 16), failed(TWO, 32))) == [16, 32]
    assert everywhere(rows(ok(ONE, 16), failed(ONE, 32), ok(TWO, 16), failed(TWO, 32))) == [16]


def test_where_nothing_worked_on_an_input_nothing_is_common() -> None:
    assert everywhere(rows(ok(ONE, 16), failed(TWO, 16))) == []
    assert everywhere({ONE: {block(16): ok(ONE, 16)}, TWO: {}}) == []


def test_inputs_that_were_measured_for_other_candidates_have_nothing_in_common() -> None:
    found = rows(ok(ONE, 16), ok(ONE, 32), ok(TWO, 16), ok(TWO, 64))
    assert everywhere(found) == []
    of_common = {ONE: [[ok(ONE, 16)]], TWO: [[ok(TWO, 16)]]}
    assert everywhere(found, of_common) == [16], "a session of its own for what is common"
    of_one = {ONE: [[ok(ONE, 16)]], TWO: [[ok(TWO, 16), ok(TWO, 64)]]}
    assert everywhere(found, of_one) == []
    later = {ONE: [[ok(ONE, 16)]], TWO: [[ok(TWO, 16), ok(TWO, 64)], [ok(TWO, 16)]]}
    assert everywhere(found, later) == [16]


def matrix_of_one(
    sessions: list[Interleaved], finals: list[Interleaved], *searched: Measurement
) -> dict[int, float] | None:
    """Return the times on ONE by the value of BLOCK; the default is 16."""
    made = interleaved_matrix(
        {ONE: {m.config: m for m in searched}},
        {ONE: [*finals, *sessions]},
        {ONE: sessions},
        block(16),
        lambda problem, config: True,
    )
    if made is None:
        return None
    values = [int(str(config["BLOCK"])) for config in made.candidates]
    return dict(zip(values, made.time_s[0].tolist(), strict=True))


def test_a_failure_in_any_session_that_worked_is_one() -> None:
    sessions = [[ok(ONE, 16, 1.0), ok(ONE, 64), failed(ONE, 32)], [ok(ONE, 16), ok(ONE, 32, 2.0)]]
    assert matrix_of_one(sessions, [], failed(ONE, 64)) == {16: 1.0}
    chance = [[ok(ONE, 16), failed(ONE, 32, Outcome.CRASHED)], sessions[1]]
    assert matrix_of_one(chance, []) == {16: 1.0, 32: 2.0}


def test_the_finals_refute_candidates_and_do_not_time_them() -> None:
    sessions = [[ok(ONE, 16), ok(ONE, 32, 2.0), ok(ONE, 64, 0.5)]]
    finals = [[ok(ONE, 16, 9.0), ok(ONE, 32, 1.0), failed(ONE, 64)]]
    assert matrix_of_one(sessions, finals) == {16: 1.0, 32: 2.0}


@pytest.mark.parametrize(
    ("measured", "why"),
    [
        (0, "candidates were not measured interleaved."),
        (1, "candidates were measured interleaved on 1 of 2 inputs."),
        (2, "inputs were measured interleaved with different candidates."),
    ],
)
def test_the_note_says_why_times_are_the_searchs(measured: int, why: str) -> None:
    assert why in _note(measured, inputs=2)


def test_without_candidates_no_record_of_an_interleaved_measurement_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "INPUTS", 6)
    commands.write(tmp_path, tests=2)
    (results,) = read_results(str(tmp_path / "large.db"))
    made: list[int] = []
    make = MeasurementColumns.measurement

    def counted(self: MeasurementColumns, row: int) -> Measurement:
        made.append(row)
        return make(self, row)

    monkeypatch.setattr(MeasurementColumns, "measurement", counted)
    matrix = matrix_of(results)
    assert not made
    assert "candidates were not measured interleaved" in matrix.note


NEAR = (1.0, 1.1, 0.9)


def interleaved_times() -> _InterleavedTimes:
    return _InterleavedTimes(
        {
            ONE: rows(ok(ONE, 16, 4.0, 1.0), ok(ONE, 32, 9.0, 9.1), failed(ONE, 64))[ONE],
            TWO: rows(ok(TWO, 16, *NEAR), ok(TWO, 32, 1.01, 1.09, 0.91))[TWO],
        }
    )


def test_interleaved_times_are_geometric_means() -> None:
    found = interleaved_times()
    assert list(found.inputs) == [ONE, TWO]
    near = math.prod(NEAR) ** (1 / 3)
    assert found.best_s == pytest.approx([2.0, near])
    times = found.time_s([block(v) for v in (16, 64, 128)])
    np.testing.assert_allclose(times, [[2.0, math.inf, math.nan], [near, math.nan, math.nan]])


def test_interleaved_ties_do_not_differ_significantly_round_by_round() -> None:
    found = interleaved_times()
    assert found.tied([block(v) for v in (16, 32, 64, 128)]).tolist() == [
        [True, True, False, False],  # two rounds that scatter show nothing
        [True, True, False, False],
    ]
    clear = _InterleavedTimes(
        {ONE: rows(ok(ONE, 16, 1.0, 2.0, 3.0), ok(ONE, 32, 1.1, 2.2, 3.31))[ONE]}
    )
    assert clear.tied([block(16), block(32)]).tolist() == [[True, False]]


def test_of_candidates_with_equal_times_everywhere_the_first_is_kept() -> None:
    times = _InterleavedTimes(
        {
            ONE: rows(ok(ONE, 16, 2.0), ok(ONE, 32, 2.0), ok(ONE, 64, 2.0), failed(ONE, 8))[ONE],
            TWO: rows(ok(TWO, 16, 3.0), ok(TWO, 32, 3.0), ok(TWO, 64, 4.0), failed(TWO, 8))[TWO],
        }
    )
    asked = [block(v) for v in (32, 16, 64, 32, 8, 128, 256)]
    assert _distinct(times, asked) == [block(v) for v in (32, 64, 8, 128)]


def test_a_short_list_needs_two_inputs() -> None:
    known = {
        Input({"n": n}): {block(v): ok(Input({"n": n}), v, float(v + n)) for v in (1, 2)}
        for n in range(4)
    }
    assert shortlist(known, block(2), lambda problem, config: True) == [block(2), block(1)]
    assert shortlist(known, block(2), lambda problem, config: False) == []
    alone = {Input({"n": 3}): known[Input({"n": 3})]}
    assert shortlist(alone, block(2), lambda problem, config: True) == []


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
