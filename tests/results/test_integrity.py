"""A damaged or changed database is an error: no value is read that harness did not write."""

from __future__ import annotations

import dataclasses
import random
import re
import shlex
from pathlib import Path

import pytest

from harness.commands.merge import main as merge
from harness.core.errors import ResultsError
from harness.core.records import Outcome
from harness.results import schema
from harness.results.checksums import checksums_of, row_checksum
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


DAMAGE = "(checksum|OpenTuner's tables)"


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_value_is_refused_by_readers_and_by_merging(
    database: Path, change: str, capsys: pytest.CaptureFixture[str]
) -> None:
    everything(database)
    tamper(database, change, forget_checksums=False)
    with pytest.raises(ResultsError, match=rf"results\.db is damaged: .*{DAMAGE}"):
        everything(database)
    assert merge([str(database.with_name("all.db")), str(database)]) == 2
    assert re.search(DAMAGE, capsys.readouterr().err)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ("seeds = '[{}]'", "its values do not have their checksum"),
        ("seeds = '[[]]', checksum = NULL", "runs 1: [] is not an object"),
        ("notes = '[]', checksum = NULL", "its notes are no object"),
        (
            "notes = json_set(notes, '$.statistic', 'max'), checksum = NULL",
            "runs 1: its note 'statistic' is 'max'; it must be median or mean",
        ),
    ],
)
def test_a_run_that_somebody_changed_is_not_continued(
    database: Path, change: str, what: str
) -> None:
    tamper(database, f"UPDATE runs SET {change}", forget_checksums=False)
    with pytest.raises(ResultsError, match=re.escape(what)):
        write(database, make_ok(4))


def test_a_campaign_that_is_no_number_is_not_counted_on(database: Path) -> None:
    tamper(database, "UPDATE runs SET campaign = 'last'")
    with (
        pytest.raises(ResultsError, match="a campaign is 'last'"),
        opened(database) as store,
    ):
        store.choose_campaign(SPEC, ENVIRONMENT, fresh=False)


def test_numbers_that_json_cannot_hold_are_refused(database: Path) -> None:
    endless = "json_set(parameters, '$.BLOCK.values', json('[1e999]'))"
    tamper(database, f"UPDATE spaces SET parameters = {endless}")
    with pytest.raises(ResultsError, match="parameters cannot be written as JSON"):
        everything(database)


def test_rows_that_were_changed_by_hand_are_read_without_their_checksum(database: Path) -> None:
    tamper(database, "UPDATE spaces SET title = 'mine', checksum = NULL", forget_checksums=False)
    assert "title='mine'" in everything(database)


def test_rows_from_before_commands_had_arguments_keep_their_checksums(database: Path) -> None:
    before = "ALTER TABLE commands DROP COLUMN arguments; UPDATE schema_version SET version = 9"
    tamper(database, before, forget_checksums=False)
    everything(database)
    write(database, make_ok(4))
    everything(database)


def test_what_a_merge_adds_or_updates_has_checksums(database: Path, tmp_path: Path) -> None:
    merged = tmp_path / "all.db"
    assert merge([str(merged), str(database)]) == 0
    write(database, make_ok(4))  # continues the run
    assert merge([str(merged), str(database)]) == 0
    everything(merged)
    for table in ("spaces", "commands", "runs", "builds", "measurements", "tests"):
        assert query(merged, f"SELECT count(*) FROM {table} WHERE checksum IS NULL") == [(0,)]


# -------------------------------------------------------------------- flipped bits

FLIPS = 60


def test_a_flipped_bit_changes_no_value_that_is_read(database: Path) -> None:
    expected, sound = everything(database), database.read_bytes()
    rng = random.Random(0)
    refused = 0
    for _ in range(FLIPS):
        damaged = bytearray(sound)
        # Most of the file is empty space: flip bits where there are some.
        at = rng.choice([index for index in rng.choices(range(len(sound)), k=500) if sound[index]])
        damaged[at] ^= 1 << rng.randrange(8)
        database.write_bytes(damaged)
        try:
            assert everything(database) == expected
        except ResultsError:
            refused += 1
    assert refused > FLIPS / 4


# ------------------------------------------------------------ what is not of harness

FOREIGN = [
    (
        "CREATE TRIGGER faster AFTER INSERT ON samples BEGIN UPDATE samples SET time_s = 1; END",
        "has the trigger `faster` on the table samples, which harness did not make: it can change "
        "what is stored. To drop it: sqlite3 ",
    ),
    (
        "ALTER TABLE samples ADD COLUMN half_s FLOAT GENERATED ALWAYS AS (time_s / 2) VIRTUAL",
        "has a computed column `half_s` in the table samples, which harness did not make",
    ),
    (
        "ALTER TABLE runs ADD COLUMN mark TEXT DEFAULT 'x'",
        "has a default for the column `mark` in the table runs, which harness did not make",
    ),
    (
        "ALTER TABLE tests RENAME TO old; DROP INDEX ix_tests_result; "
        "CREATE TABLE tests (id INTEGER PRIMARY KEY, result_id INTEGER, run_id INTEGER, "
        "measurement_id INTEGER, ordinal INTEGER, requestor TEXT, checksum BIGINT, "
        "UNIQUE (run_id, ordinal) ON CONFLICT IGNORE); "
        "INSERT INTO tests SELECT * FROM old; DROP TABLE old",
        "has a rule for conflicts in the table tests, which harness did not make",
    ),
]


@pytest.mark.parametrize(("sql", "message"), FOREIGN, ids=[sql[:40] for sql, _ in FOREIGN])
def test_what_could_change_stored_values_is_refused_by_name(
    database: Path, sql: str, message: str
) -> None:
    tamper(database, sql)
    with pytest.raises(ResultsError, match=re.escape(message)):
        everything(database)
    with pytest.raises(ResultsError, match=re.escape(message)):
        write(database, make_ok(5))


def test_the_command_of_the_message_drops_the_trigger(database: Path) -> None:
    name = 'it\'s; "x"; DROP TABLE runs; \x1b[31m'
    quoted = name.replace('"', '""')
    tamper(database, f'CREATE TRIGGER "{quoted}" AFTER INSERT ON samples BEGIN SELECT 1; END')
    with pytest.raises(ResultsError) as error:
        everything(database)
    assert "\x1b" not in str(error.value)
    tamper(
        database, f'DROP TRIGGER "{quoted}"; CREATE TRIGGER t DELETE ON runs BEGIN SELECT 1; END'
    )
    with pytest.raises(ResultsError) as error:
        everything(database)
    words = shlex.split(str(error.value).partition("To drop it: ")[2])
    assert words[:2] == ["sqlite3", str(database)]
    tamper(database, words[2])
    everything(database)


def test_a_view_is_refused_by_a_writer_and_left_alone_by_a_reader(database: Path) -> None:
    tamper(database, "CREATE VIEW best AS SELECT * FROM runs")
    everything(database)
    with pytest.raises(ResultsError, match=r"has the view `best`.* 'DROP VIEW \"best\"'"):
        write(database, make_ok(5))


def test_a_lost_row_that_others_refer_to_is_found(database: Path) -> None:
    tamper(database, "DELETE FROM configurations WHERE id = 2")
    with pytest.raises(ResultsError, match="refers to a row of configurations that is missing"):
        everything(database)


def test_a_damaged_index_is_neither_read_nor_written_to(database: Path) -> None:
    tamper(
        database,
        "PRAGMA writable_schema = ON; UPDATE sqlite_master SET rootpage = (SELECT rootpage "
        "FROM sqlite_master WHERE name = 'ix_tests_result') WHERE name = 'ix_measurements_run'",
        forget_checksums=False,
    )
    with pytest.raises(ResultsError, match=r"is damaged"):
        everything(database)
    with pytest.raises(ResultsError, match=r"is damaged"):
        write(database, make_ok(6))


@pytest.mark.parametrize("texts", [[], ["a"], ["a", 'b",\\', ""], ["a", "\0row", "b"], ["\0row"]])
def test_checksums_of_many_rows_are_those_of_each(texts: list[str]) -> None:
    """Whatever the rows hold, even the text that is put between them."""
    table = schema.tests
    rows = [
        {"result_id": None, "run_id": 1, "measurement_id": 2, "ordinal": number, "requestor": text}
        for number, text in enumerate(texts)
    ]
    cells = {name: [row.get(name) for row in rows] for name in table.c.keys()}  # noqa: SIM118
    assert checksums_of(table, cells) == [row_checksum(table, row) for row in rows]
