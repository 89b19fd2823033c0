"""Code in a results database is never run: every command meets pickles in every column."""

import pickle
import re
import shutil
from pathlib import Path

import pytest
from opentuner.resultsdb.models import Base, CompressedPickler
from sqlalchemy import PickleType

import harness.search  # noqa: F401 (its import patches OpenTuner)
from harness.core.plain_pickle import load_compressed
from harness.core.records import ENVIRONMENT_FIELDS, Environment
from harness.results import schema
from tests.helpers.commands import analyse, compare, dispatch, export, merge, replay, report
from tests.helpers.replays import REPLAYED_TWO, write_recording
from tests.helpers.results_examples import PICKLED, Planted, query, tamper

OPENTUNERS = 13
"""The number of OpenTuner's tables."""


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """The command line of a replay that has written its database once."""
    folder = tmp_path_factory.mktemp("tuned")
    space, recording = write_recording(folder, REPLAYED_TWO)
    command = [str(recording), "--spec", str(space), "--test-limit", "4", "--quiet"]
    assert replay([*command, "--database", str(folder / "results.db")]) == 0
    return command


@pytest.fixture
def database(tuned, tmp_path):
    return Path(shutil.copy(Path(tuned[0]).with_name("results.db"), tmp_path))


def columns_of(database):
    """The columns of each table that refer to no row."""
    tables = query(database, "SELECT name FROM sqlite_master WHERE type = 'table'")
    columns = {}
    for (table,) in tables:
        names = [row[1] for row in query(database, f"PRAGMA table_info({table})")]
        columns[table] = [name for name in names if not re.fullmatch("id|version|.*_id", name)]
    return columns


def plant(database, columns, planted):
    """Put a pickle that makes the folder `planted` into these columns of every row."""
    data = pickle.dumps(Planted(planted)).hex()
    for table, names in columns.items():
        for name in names:
            # As the only row where a value must be unique.
            where = f" WHERE rowid = (SELECT min(rowid) FROM {table})"
            tamper(database, f"UPDATE OR IGNORE {table} SET \"{name}\" = x'{data}'{where}")


def run_all(command, database):
    """Run every command that reads or writes databases; return their exit codes."""
    folder = database.parent
    return [
        replay([*command, "--database", str(database)]),
        analyse([str(database)]),
        report([str(database), "-o", f"{folder}/page.html"]),
        export([str(database), "--format", "csv", "--output", f"{folder}/out.csv"]),
        dispatch([str(database), "-o", f"{folder}/dispatch", "--spec", command[0]]),
        compare([str(database), str(database)]),
        merge([f"{folder}/all.db", str(database)]),
    ]


def test_pickled_columns_are_never_run(tuned, database, capsys):
    planted = database.with_name("planted")
    plant(database, PICKLED, planted)
    codes = run_all(tuned, database)
    assert codes == [0, 0, 0, 0, codes[4], 0, 2]  # dispatch has too few inputs
    merging = capsys.readouterr().err
    again = [*tuned, "--test-limit", "8", "--database", str(database)]
    assert replay(again) == 0, "it reads no pickle"
    assert not planted.exists()
    assert f"OpenTuner's record in {database} is refused: " in merging
    assert "mkdir" in merging


def test_pickles_in_other_opentuner_columns_are_never_run(tuned, database):
    planted = database.with_name("planted")
    own = {table.name for table in schema.OURS}
    columns = {name: c for name, c in columns_of(database).items() if name not in own}
    assert len(columns) == OPENTUNERS
    for name, pickled in PICKLED.items():
        columns[name] = [column for column in columns[name] if column not in pickled]
    plant(database, columns, planted)
    run_all(tuned, database)
    assert not planted.exists()


@pytest.mark.parametrize("table", [table.name for table in schema.OURS])
def test_a_pickle_in_our_tables_is_never_run(tuned, database, table):
    planted = database.with_name("planted")
    plant(database, {table: columns_of(database)[table]}, planted)
    assert export([str(database), "--output", str(database.with_name("out.json"))]) in (0, 2)
    assert merge([str(database.with_name("all.db")), str(database)]) in (0, 2)
    assert not planted.exists()


def test_escapes_in_names_are_shown_escaped(database, capsys):
    escape = "\x1b]0;title\x07\x1b[31m"
    names = set(ENVIRONMENT_FIELDS) - {"cache", "timer", "clock"}
    fields = {name: f"{name}{escape}" for name in names}
    fields["fingerprint"] = Environment(**fields).fingerprint
    cells = ", ".join(f"{name} = '{value}'" for name, value in fields.items())
    tamper(
        database, f"UPDATE spaces SET name = name || '{escape}'; UPDATE environments SET {cells}"
    )
    name, other = str(database), str(database.with_name("out.json"))
    assert analyse([name]) == compare([name, name]) == export([name, "--output", other]) == 0
    assert export([name, "--space", "another"]) == 2
    out, err = capsys.readouterr()
    assert "\x1b" not in out + err
    assert "replayed\\x1b]0;title\\x07\\x1b[31m on device\\x1b" in out


@pytest.mark.parametrize("name", ["../elsewhere", "/tmp/elsewhere"])
def test_a_name_that_is_a_path_names_no_file(database, capsys, name):
    tamper(database, f"UPDATE spaces SET name = '{name}'")
    assert export([str(database)]) == 2
    assert f"the space `{name}` gives no file its name; give --output" in capsys.readouterr().err


def test_every_pickled_column_is_read_by_the_reader_of_plain_data():
    pickled, picklers = {}, set()
    for table in Base.metadata.sorted_tables:
        for column in table.columns:
            if isinstance(column.type, PickleType):
                pickled.setdefault(table.name, []).append(column.name)
                picklers.add(column.type.pickler)
    assert pickled == PICKLED
    assert picklers == {CompressedPickler}
    assert CompressedPickler.loads is load_compressed
