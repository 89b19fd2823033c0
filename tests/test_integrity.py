"""A damaged or changed database is an error: no value is read that harness did not write."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from harness.commands.merge import main as merge
from harness.core.errors import ResultsError
from harness.core.records import Outcome
from harness.results.view import read_results
from tests.results_examples import make_failed, make_ok, query, tamper, write


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "results.db"
    write(path, dataclasses.replace(make_ok(1), observed={"occupancy": 0.5}), make_ok(2))
    write(path, make_failed(Outcome.TIMEOUT, 3))
    return path


def everything(database: Path) -> str:
    """All that readers take from a database."""
    return repr(
        [
            (results.campaign, results.all_rows, results.runs, results.commands)
            for results in read_results(str(database), all_campaigns=True)
        ]
    )


# ----------------------------------------------------------------------- checksums

CHANGES = [
    "UPDATE samples SET time_s = time_s * (1 + 1e-15) WHERE ordinal = 1",
    "UPDATE observations SET value = 0.25",
    "UPDATE measurements SET wall_s = 2",
    "UPDATE measurements SET message = 'another' WHERE outcome = 'timeout'",
    "UPDATE measurements SET configuration_id = 2 WHERE id = 1",
    "UPDATE builds SET registers = 31",
    "UPDATE spaces SET title = 'another'",
    "UPDATE runs SET seed = 1",
    "UPDATE commands SET ended_at = started_at",
    "UPDATE tests SET requestor = 'another'",
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_value_is_refused_by_readers_and_by_merging(
    database: Path, change: str, capsys: pytest.CaptureFixture[str]
) -> None:
    everything(database)
    tamper(database, change, forget_checksums=False)
    with pytest.raises(ResultsError, match=r"results\.db is damaged: .*checksum"):
        everything(database)
    assert merge([str(database.with_name("all.db")), str(database)]) == 2
    assert "checksum" in capsys.readouterr().err


def test_rows_that_were_changed_by_hand_are_read_without_their_checksum(database: Path) -> None:
    tamper(database, "UPDATE spaces SET title = 'mine', checksum = NULL", forget_checksums=False)
    assert "title='mine'" in everything(database)


def test_what_a_merge_adds_or_updates_has_checksums(database: Path, tmp_path: Path) -> None:
    merged = tmp_path / "all.db"
    assert merge([str(merged), str(database)]) == 0
    write(database, make_ok(4))  # continues the run
    assert merge([str(merged), str(database)]) == 0
    everything(merged)
    for table in ("spaces", "commands", "runs", "builds", "measurements", "tests"):
        assert query(merged, f"SELECT count(*) FROM {table} WHERE checksum IS NULL") == [(0,)]
