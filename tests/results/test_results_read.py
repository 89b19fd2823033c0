"""Which stored measurements are read, where several spaces share a program."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.records import Config, Input, Measurement, Outcome, Timing
from harness.results import (
    CampaignKey,
    MeasurementRow,
    as_rows,
    by_configs,
    interleaved_groups,
    last_interleaved,
    read_measurements,
    reading,
)
from tests.helpers.replays import make_spec
from tests.helpers.results_examples import ENVIRONMENT, begin_search, make_build, make_plan, opened

SMALL = """\
name: small
kernel: {function: kernel, source: kernel.cl, host: kernel.py}
parameters:
  BLOCK: {values: [16, 64], default: 64}
launch: {group: [BLOCK], grid: [n]}
inputs: {features: [n], values: [{n: 8}, {n: 16}]}
"""
WIDE = (
    SMALL.replace("name: small", "name: wide")
    .replace("{values: [16, 64], default: 64}", "{type: integer, min: 60, max: 62, default: 60}")
    .replace("{n: 16}", "{n: 32}")
)
BUILD = make_build(1)


def measured(n: int, block: int, *, time_s: float = 1e-3) -> Measurement:
    timing = Timing((time_s, 2 * time_s))
    return Measurement(Config({"BLOCK": block}), Input({"n": n}), Outcome.OK, timing, BUILD)


def read(place: Path, key: CampaignKey, space: str | None = None) -> list[tuple[object, object]]:
    """The input and the block of each measurement."""
    with reading(str(place)) as engine, engine.connect() as connection:
        rows = read_measurements(connection, key, space=space)
        return [(m.input["n"], m.config["BLOCK"]) for m in (row.measurement for row in rows)]


@pytest.fixture
def shared(tmp_path: Path) -> tuple[Path, CampaignKey]:
    """A database of two spaces of one program."""
    place, keys = tmp_path / "r.db", set()
    blocks = {"small": (16, 64), "wide": (60, 61, 62)}
    with opened(place) as store:
        for text in (SMALL, WIDE):
            spec = make_spec(tmp_path, text)
            keys.add(CampaignKey(spec.program_sha256, ENVIRONMENT.fingerprint, campaign=1))
            for given in spec.inputs:
                search = begin_search(store, make_plan(given, spec=spec))
                for block in blocks[spec.name]:
                    search.test(measured(int(str(given["n"])), block))
    (key,) = keys
    return place, key


def test_a_space_has_the_measurements_of_its_inputs_and_values(
    shared: tuple[Path, CampaignKey],
) -> None:
    small = [(n, block) for n in (8, 16) for block in (16, 64)]
    wide = [(n, block) for n in (8, 32) for block in (60, 61, 62)]
    assert read(*shared) == [*small, *wide]
    assert read(*shared, space="small") == small
    assert read(*shared, space="wide") == wide
    assert read(*shared, space="unknown") == []


def test_measurements_have_their_builds_unless_these_are_left_out(
    shared: tuple[Path, CampaignKey],
) -> None:
    place, key = shared
    with reading(str(place)) as engine, engine.connect() as connection:
        for rows, build in (
            (read_measurements(connection, key), BUILD),
            (read_measurements(connection, key, builds=False), None),
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


def test_the_last_interleaved_measurements_need_no_records_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    groups = {n: f"group {n // 2}" for n in range(2, 8)}
    rows = as_rows([stored(n, 16 << n % 2, f"2026-01-0{n}", groups[n]) for n in groups])
    expected = interleaved_groups(rows)[-1]
    made: list[int] = []
    make = type(rows.columns).measurement
    monkeypatch.setattr(
        type(rows.columns), "measurement", lambda self, row: made.append(row) or make(self, row)
    )
    assert last_interleaved(rows) == expected
    assert made == [4, 5]
