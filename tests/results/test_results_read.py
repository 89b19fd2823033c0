"""Stored measurements: with their builds or without, and in their interleaved groups."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from harness.core.records import Config, Input, Measurement, Outcome, Timing
from harness.results import (
    MeasurementRow,
    by_configs,
    interleaved_groups,
    read_measurements,
    reading,
)
from tests.helpers.results_examples import KEY, make_build, make_ok, write

BUILD = make_build(1)


def measured(n: int, block: int, *, time_s: float = 1e-3) -> Measurement:
    timing = Timing((time_s, 2 * time_s))
    return Measurement(Config({"BLOCK": block}), Input({"n": n}), Outcome.OK, timing, BUILD)


def test_measurements_have_their_builds_unless_these_are_left_out(tmp_path: Path) -> None:
    place = tmp_path / "r.db"
    write(place, make_ok(1), dataclasses.replace(make_ok(2), build=BUILD))
    with reading(str(place)) as engine, engine.connect() as connection:
        for rows, build in (
            (read_measurements(connection, KEY), BUILD),
            (read_measurements(connection, KEY, builds=False), None),
        ):
            assert {row.measurement.build for row in rows} == {build}


def stored(number: int, block: int, moment: str, group: str | None = None) -> MeasurementRow:
    found = measured(8, block)
    return MeasurementRow(number, "final", found, group, f"{number:032x}", None, moment)


def test_interleaved_measurements_are_grouped_and_the_group_that_ended_first_comes_first() -> None:
    rows = [
        stored(1, 16, "2026-01-03", "late"),
        stored(2, 16, "2026-01-01", "early"),
        stored(3, 64, "2026-01-01", "late"),
        stored(4, 64, "2026-01-02", "early"),
        stored(5, 16, "2026-01-04"),
        stored(6, 16, "2026-01-05"),
    ]
    groups = interleaved_groups(rows)
    assert [[m.config["BLOCK"] for m in group] for group in groups] == [[16, 64]] * 2 + [[16]] * 2
    assert groups[0] == [rows[1].measurement, rows[3].measurement]
    pair = (Config({"BLOCK": 16}), Config({"BLOCK": 64}))
    assert by_configs(groups) == {pair: groups[:2], pair[:1]: groups[2:]}
