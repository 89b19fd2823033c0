"""What is noted of runs and commands comes back as it was, and is refused where it is foreign."""

from __future__ import annotations

import dataclasses
import json
import shlex
import shutil

import pytest

from harness.core.errors import ResultsError
from harness.core.records import DEVICE_UUID, OTHER_PROCESSES, Outcome
from harness.results import COMPLETE, campaigns, reading, writing
from harness.results.campaigns import read_campaign
from harness.results.caveats import record_lines
from harness.results.provenance import TunedSpace
from harness.results.view import read_results
from tests.helpers.results_examples import (
    ENVIRONMENT,
    SPEC,
    begin_search,
    connected,
    count,
    make_failed,
    make_ok,
    make_plan,
    merge,
    opened,
    tamper,
    write,
)

FIRST, SECOND = SPEC.inputs[:2]


@pytest.fixture
def place(tmp_path):
    return tmp_path / "r.db"


def read(place):
    with connected(place) as connection:
        (campaign,) = campaigns(connection)
        _, (run,), commands = read_campaign(connection, campaign)
        return campaign, commands, run.notes


def lines_after(place, **notes):
    """What is said of the record after another command on a device with these notes."""
    device = dataclasses.replace(ENVIRONMENT, notes=notes)
    with opened(place) as store:
        begin_search(store, make_plan(environment=device)).test(make_ok(1))
    (results,) = read_results([str(place)])
    return list(record_lines(results))


def test_measurements_of_two_cards_of_one_name_say_so(place):
    assert lines_after(place, **{DEVICE_UUID: "GPU-1"}) == []
    for uuid in ("GPU-2", "GPU-1"):
        (line,) = lines_after(place, **{DEVICE_UUID: uuid})
        assert "GPU-1, GPU-2" in line


def test_others_that_used_the_device_are_noted_of_every_command(place):
    assert lines_after(place) == []
    for others in ("trainer (process 1)", "viewer (process 2)", "trainer (process 1)"):
        (line,) = lines_after(place, **{OTHER_PROCESSES: others})
    assert "1 of 1 run" in line
    assert line.endswith(": trainer (process 1); viewer (process 2).")


def test_what_a_host_module_raised_is_kept_as_a_printable_line(place):
    with opened(place) as store:
        begin_search(store)
        command = store.begin_command(SPEC, ENVIRONMENT, 1)
        _, (going_on,), _ = read(place)
        assert (going_on.ended_at, going_on.inputs) == (None, SPEC.inputs)
        store.end_command(command, {FIRST: "it said\n  \x1b[2J\udc80"}, {"cross": "cut"})
    _, (ended,), _ = read(place)
    assert ended.ended_at is not None
    assert ended.left_out == {FIRST: "it said \\x1b[2J\\udc80"}
    assert ended.stages == {"cross": "cut"}


def test_what_is_known_of_the_device_is_noted_of_a_run(place):
    device = dataclasses.replace(ENVIRONMENT, notes={"clock_khz": "1980000", "host": "another"})
    with opened(place) as store:
        begin_search(store, make_plan(environment=device))
    _, _, notes = read(place)
    assert (notes["facts"]["clock_khz"], notes["facts"]["host"]) == ("1980000", "here")


def test_merging_again_brings_runs_up_to_date_and_never_back(tmp_path, place):
    out, early = tmp_path / "out.db", tmp_path / "early.db"
    with opened(place) as store:
        command = store.begin_command(SPEC, ENVIRONMENT, 1)
        search = begin_search(store)
        search.test(make_ok(1))
    early.write_bytes(place.read_bytes())
    merge(out, early)
    assert (read(out)[1][0].ended_at, read(out)[2].get("legal")) == (None, None)
    with opened(place) as store:
        store.end_run(search.run_id, COMPLETE)
        store.note_run(search.run_id, {"legal": 5})
        store.end_command(command, {SECOND: "no data"}, {})
    late = read(place)[1:]
    assert late[0][0].left_out == {SECOND: "no data"}
    assert late[1]["legal"] == 5
    for source in (place, early):
        merge(out, source)
        assert read(out)[1:] == late


ODD = json.dumps([{"m": 1, "n": "\x1b[2J"}])
DAMAGES = [
    "UPDATE commands SET inputs = '[5]'",
    f"UPDATE commands SET inputs = '{ODD}'",
    f"UPDATE commands SET inputs = '{'[' * 100_000}'",
    'UPDATE commands SET left_out = \'[[{}, "a", "b"]]\'',
    "UPDATE commands SET stages = '[\"abc\"]'",
    'UPDATE commands SET stages = \'{"cross": "\\u001b[2J"}\'',
    "UPDATE commands SET started_at = x'00'",
    "UPDATE runs SET notes = '[]'",
    "UPDATE runs SET notes = '{\"reduced\": 5}'",
    *(
        f"UPDATE runs SET notes = '{json.dumps({name: note})}'"
        for name, note in [
            ("baselines", {"\u001b": {}}),
            ("limits", {"warp": 1.5}),
            ("statistic", "mode"),
        ]
    ),
]


def read_all(place):
    (results,) = read_results([str(place)])
    assert not results.ablations  # what a winner needs is read only when it is told


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    path = tmp_path_factory.mktemp("sound") / "r.db"
    write(path, make_ok(1))
    read_all(path)
    return path


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda sql: sql[:60])
def test_a_malformed_note_is_an_error_not_merged(sound, place, damage):
    shutil.copy(sound, place)
    tamper(place, damage)
    with pytest.raises(ResultsError) as error:
        read_all(place)
    assert f"{place} is damaged: " in str(error.value)
    assert "\x1b" not in str(error.value)
    out = place.with_name("out.db")
    with pytest.raises(ResultsError, match="damaged"):
        merge(out, place)
    assert count(out, "commands") == count(out, "runs") == 0


# ---------- the space that a database was tuned from: found again, and named


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """`mine/x.yaml` was tuned in `mine` into `results/x.db`; now we are one folder above."""
    (tmp_path / "mine" / "results").mkdir(parents=True)
    (tmp_path / "mine" / "x.yaml").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tuned(database, noted=("x.yaml",)):
    return TunedSpace("x", noted, (database,))


def test_the_file_lies_beside_the_database_or_above(folder):
    for database in ("mine/results/x.db", "mine/x.db", str(folder / "mine" / "x.db")):
        space = tuned(database)
        assert space.path is not None
        assert space.path.samefile(folder / "mine" / "x.yaml")
        assert space.place == ""


def test_a_file_that_is_gone_is_tuned_where_it_was_and_a_space_of_python_in_python(
    folder,
):
    gone, python = tuned("far/x.db"), tuned("x.db", ("<space x>",))
    assert (gone.path, gone.file, python.path) == (None, "x.yaml", None)
    assert "folder where you tuned" in gone.place
    assert python.place == "in Python"
    assert "\x1b" not in tuned("x.db", ("\x1b[2J.yaml",)).file


# ---------- what is damaged, or changes what is written, is an error


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "results.db"
    write(path, dataclasses.replace(make_ok(1), observed={"occupancy": 0.5}), make_ok(2))
    write(path, make_failed(Outcome.TIMEOUT, 3))
    return path


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        ("seeds = '[[]]'", "runs 1: "),
        ("notes = '[]'", r"runs 1: notes is '\[\]'"),
        ("notes = json_set(notes, '$.statistic', 'max')", "statistic: "),
    ],
)
def test_a_run_that_was_changed_is_not_continued(database, change, fact):
    tamper(database, f"UPDATE runs SET {change}")
    with pytest.raises(ResultsError, match=fact):
        write(database, make_ok(4))


def test_a_campaign_that_is_no_number_is_not_counted_on(database):
    tamper(database, "UPDATE runs SET campaign = 'last'")
    with pytest.raises(ResultsError, match=r"is damaged: .*'last'"), opened(database) as store:
        store.choose_campaign(SPEC, ENVIRONMENT, fresh=False)


# ------------------------------------------------------------ what is not of harness


def refusal(database):
    """What a writer says; a reader says nothing."""
    assert read_results(str(database), all_campaigns=True)
    with pytest.raises(ResultsError) as error:
        write(database, make_ok(5))
    return str(error.value)


def test_the_command_of_the_message_drops_the_trigger(database):
    name = 'it\'s; "x"; DROP TABLE runs; \x1b[31m'
    quoted = name.replace('"', '""')
    tamper(database, f'CREATE TRIGGER "{quoted}" AFTER INSERT ON builds BEGIN SELECT 1; END')
    assert "\x1b" not in refusal(database)
    tamper(
        database, f'DROP TRIGGER "{quoted}"; CREATE TRIGGER t DELETE ON runs BEGIN SELECT 1; END'
    )
    message = refusal(database)
    assert f"{database} has the trigger `t`" in message
    *words, sql = shlex.split(message.partition("To drop it: ")[2])[:3]
    assert words == ["sqlite3", str(database)]
    tamper(database, sql)
    write(database, make_ok(5))


def test_a_view_is_refused_by_a_writer_and_left_alone_by_a_reader(database):
    tamper(database, "CREATE VIEW best AS SELECT * FROM runs")
    assert "'DROP VIEW \"best\"'" in refusal(database)


@pytest.mark.parametrize("door", [reading, writing])
def test_a_schema_runs_no_functions_with_side_effects(database, door):
    with door(str(database)) as engine, engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA trusted_schema").scalar() == 0
