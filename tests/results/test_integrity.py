"""What is damaged, or changes what is written, is an error."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from sqlalchemy import Engine

from harness.core.errors import ResultsError
from harness.core.records import Outcome
from harness.results import reading, writing
from harness.results.view import read_results
from tests.helpers.results_examples import (
    ENVIRONMENT,
    SPEC,
    make_failed,
    make_ok,
    opened,
    query,
    tamper,
    write,
)


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


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ("seeds = '[[]]'", "runs 1: "),
        ("notes = '[]'", "runs 1: notes is '[]'"),
        (
            "notes = json_set(notes, '$.statistic', 'max')",
            "statistic: Input should be 'median' or 'mean'",
        ),
    ],
)
def test_a_run_that_was_changed_is_not_continued(database: Path, change: str, what: str) -> None:
    tamper(database, f"UPDATE runs SET {change}")
    with pytest.raises(ResultsError, match=re.escape(what)):
        write(database, make_ok(4))


def test_a_campaign_that_is_no_number_is_not_counted_on(database: Path) -> None:
    tamper(database, "UPDATE runs SET campaign = 'last'")
    with pytest.raises(ResultsError, match="a campaign is 'last'"), opened(database) as store:
        store.choose_campaign(SPEC, ENVIRONMENT, fresh=False)


def test_a_damaged_file_is_not_written_to(database: Path) -> None:
    ((page,),) = query(database, "SELECT rootpage FROM sqlite_master WHERE name = 'measurements'")
    damaged = bytearray(database.read_bytes())
    damaged[4096 * (page - 1) + 1 : 4096 * page] = bytes(4095)
    database.write_bytes(damaged)
    with pytest.raises(ResultsError, match=r"results\.db is damaged: .*copy it again"):
        write(database, make_ok(4))
    assert database.read_bytes() == bytes(damaged)


# ------------------------------------------------------------ what is not of harness


def refusal(database: Path) -> str:
    """What a writer says; a reader says nothing."""
    everything(database)
    with pytest.raises(ResultsError) as error:
        write(database, make_ok(5))
    return str(error.value)


def test_the_command_of_the_message_drops_the_trigger(database: Path) -> None:
    name = 'it\'s; "x"; DROP TABLE runs; \x1b[31m'
    quoted = name.replace('"', '""')
    tamper(database, f'CREATE TRIGGER "{quoted}" AFTER INSERT ON tests BEGIN SELECT 1; END')
    assert "\x1b" not in refusal(database)
    tamper(
        database, f'DROP TRIGGER "{quoted}"; CREATE TRIGGER t DELETE ON runs BEGIN SELECT 1; END'
    )
    said = refusal(database)
    assert f"{database} has the trigger `t`, which harness did not make: it can change" in said
    words = shlex.split(said.partition("To drop it: ")[2])
    assert words[:2] == ["sqlite3", str(database)]
    tamper(database, words[2])
    write(database, make_ok(5))


def test_a_view_is_refused_by_a_writer_and_left_alone_by_a_reader(database: Path) -> None:
    tamper(database, "CREATE VIEW best AS SELECT * FROM runs")
    assert "has the view `best`" in refusal(database)
    assert "'DROP VIEW \"best\"'" in refusal(database)


@pytest.mark.parametrize("door", [reading, writing])
def test_a_schema_runs_no_functions_with_side_effects(
    database: Path, door: Callable[[str], AbstractContextManager[Engine]]
) -> None:
    with door(str(database)) as engine, engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA trusted_schema").scalar() == 0
