"""A results database that an earlier version wrote is read as that version read it.

tests/data/schema_5 holds one as an SQL script (schema version 5, written on PoCL by the version
before the rooms were moved), the space it was tuned from, and the CSV that the same version
exported.
"""

from __future__ import annotations

import csv
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from harness.commands.analyse import main as analyse
from harness.commands.export import main as export
from harness.commands.merge import main as merge
from harness.commands.report import main as report
from harness.core.records import Outcome
from harness.dispatch.candidates import matrix_of
from harness.results.view import read_results, the_one

STORED = Path(__file__).parents[1] / "data" / "schema_5"


@pytest.fixture
def database(tmp_path: Path) -> str:
    path = tmp_path / "scale.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((STORED / "results.sql").read_text(encoding="utf-8"))
    return str(path)


def test_every_measurement_is_read(database: str) -> None:
    results = the_one(read_results(database))
    table = results.table()
    searched = table[table["stage"] == "search"]
    outcomes = Counter(searched["outcome"])
    ok, wrong = Outcome.OK.value, Outcome.WRONG_RESULT.value
    assert outcomes == {ok: 16, wrong: 16, Outcome.BUILD_FAILED.value: 16}
    worked = table[table["outcome"] == ok]
    assert all(len(samples) > 0 for samples in worked["samples_s"])


def test_the_matrix_of_candidates_is_read(database: str) -> None:
    matrix = matrix_of(the_one(read_results(database)))
    assert matrix.features["n"].tolist() == [1000, 4000, 16000, 64000]
    assert {dict(config)["VARIANT"] for config in matrix.candidates} == {"right"}
    assert (matrix.time_s > 0).all()


def test_the_export_has_the_same_cells_and_the_technique(database: str, tmp_path: Path) -> None:
    written = tmp_path / "again.csv"
    assert export([database, "--format", "csv", "--output", str(written)]) == 0
    with (STORED / "measurements.csv").open(newline="") as then, written.open(newline="") as now:
        expected, found = list(csv.DictReader(then)), list(csv.DictReader(now))
    assert {row.pop("technique") for row in found} >= {"seed", "GaussianProcess"}
    assert found == expected


def test_it_is_analysed_merged_and_reported(
    database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    merged, page = str(tmp_path / "all.db"), tmp_path / "scale.html"
    assert merge([merged, database]) == 0
    assert analyse([merged]) == 0
    assert "16 wrong_result" in capsys.readouterr().out
    assert report([merged, "-o", str(page)]) == 0
    assert "scale" in page.read_text(encoding="utf-8")
