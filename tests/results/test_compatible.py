"""Measurements from before the space was edited are left out, and said to be."""

from __future__ import annotations

from harness.core.records import Config, Input, Measurement, Outcome, Timing
from harness.results import MeasurementRow, MeasurementRows, as_rows
from harness.results.measured import by_input
from harness.results.read import compatible

SMALL, LARGE = Input({"n": 8}), Input({"n": 64})


def rows_of(*found: tuple[Input, dict[str, int]]) -> MeasurementRows:
    return as_rows(
        MeasurementRow(
            number,
            "search",
            Measurement(Config(values), problem, Outcome.OK, Timing((1e-3, 2e-3))),
            None,
            f"{number:032x}",
            "UniformRandom",
            "2026-01-01",
        )
        for number, (problem, values) in enumerate(found)
    )


def test_rows_with_other_parameters_than_the_space_are_left_out_and_named() -> None:
    rows = rows_of(
        (SMALL, {"BLOCK": 16, "TILE": 1}),
        (LARGE, {"BLOCK": 16}),
        (SMALL, {"BLOCK": 32, "TILE": 2}),
        (LARGE, {"BLOCK": 16, "TILE": 1, "OLD": 3}),
    )
    found = compatible(rows, ["BLOCK", "TILE"])
    assert found.names == {"BLOCK", "TILE"}
    assert [row.uuid for row in found.rows] == [rows[0].uuid, rows[2].uuid]
    assert len(found.left_out) == 2
    assert by_input(found.left_out).keys() == {LARGE}
    assert found.differing == ("OLD", "TILE")


def test_flags_of_a_compiler_that_was_not_used_leave_no_row_out() -> None:
    rows = rows_of((SMALL, {"BLOCK": 16}), (SMALL, {"BLOCK": 32}))
    found = compatible(rows, ["BLOCK", "maxrregcount"])
    assert found.names == {"BLOCK"}
    assert (len(found.rows), len(found.left_out), found.differing) == (2, 0, ())
