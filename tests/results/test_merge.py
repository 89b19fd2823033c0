"""Merging databases: the same twice, all or nothing a file, and no trust in what comes in."""

from __future__ import annotations

import dataclasses
import shutil
import sqlite3
from operator import itemgetter

import pytest

from harness.core.errors import ResultsError
from harness.core.observations import WorstElement
from harness.core.records import Outcome
from harness.results import (
    COMPLETE,
    Added,
    stock,
    writing,
)
from harness.results.view import read_results
from tests.helpers.commands import merge as main
from tests.helpers.results_examples import (
    ENVIRONMENT,
    SPEC,
    begin_search,
    count,
    known_configs,
    make_config,
    make_failed,
    make_ok,
    make_plan,
    merge,
    opened,
    query,
    read_back,
    tamper,
    write,
    write_many,
)

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out.db"


@pytest.fixture
def one(tmp_path):
    return tmp_path / "one.db"


@pytest.fixture
def two(tmp_path):
    return tmp_path / "two.db"


def measurements(database):
    return list(read_back(database).measurements())


def content(database):
    """Everything in a database but who wrote it last."""
    connection = sqlite3.connect(database)
    try:
        return [line for line in connection.iterdump() if '"writers"' not in line]
    finally:
        connection.close()


# --------------------------------------------------------------- merging


def test_merged_database_has_the_measurements_of_all(out, one, two):
    worst = WorstElement("y", (3,), float("nan"), 1.0, 1e-5, 2, 100)
    write(one, make_ok(1), make_failed(Outcome.TIMEOUT, 2))
    write(two, make_ok(3, given=SPEC.inputs[1]), plan=make_plan(SPEC.inputs[1]))
    wrong = dataclasses.replace(make_failed(Outcome.WRONG_RESULT, 4), worst_element=worst)
    with opened(two) as store:
        begin_search(store, make_plan(technique="B")).test(wrong)
    assert merge(out, one, two) == [Added(str(one), 1, 2, 3), Added(str(two), 2, 2, 3)]
    assert repr(measurements(out)) == repr(measurements(one) + measurements(two))
    assert query(out, "PRAGMA integrity_check") == [("ok",)]
    assert query(out, "PRAGMA foreign_key_check") == []


def test_spaces_of_other_names_stay_apart(out, one, two):
    write(one, make_ok(0))
    write(two, make_ok(1), plan=make_plan(spec=dataclasses.replace(SPEC, name="other")))
    merge(out, one, two)
    assert {r.campaign.space_name for r in read_results(str(out))} == {SPEC.name, "other"}


def test_merging_twice_and_back_changes_nothing(database, one):
    seen = dataclasses.replace(make_ok(1), observed={"occupancy": 0.5})
    write(one, seen)
    before = content(one)
    merge(database, one, one)
    assert measurements(database) == [seen]
    merge(one, database)
    assert content(one) == before


def test_order_does_not_matter(tmp_path, one, two):
    write(one, make_ok(1), make_ok(2))
    write(two, make_ok(2), make_ok(3))
    sql = (
        "SELECT measurements.uuid, configurations.digest, input.path, tuning_run.uuid, builds.key, "
        "samples_s FROM measurements JOIN result ON result.id = measurements.id "
        "JOIN runs ON runs.id = tuning_run_id JOIN tuning_run ON tuning_run.id = runs.id "
        "JOIN input ON input.id = result.input_id "
        "JOIN configurations ON configurations.id = result.configuration_id "
        "JOIN builds ON builds.id = build_id ORDER BY measurements.uuid"
    )
    merge(tmp_path / "a.db", one, two)
    merge(tmp_path / "b.db", two, one)
    assert len(query(tmp_path / "a.db", sql)) == 4
    assert query(tmp_path / "a.db", sql) == query(tmp_path / "b.db", sql)


def test_what_databases_share_is_there_once(database, one, two):
    write(one, make_ok(1), make_ok(2))
    other = dataclasses.replace(ENVIRONMENT, device="another device")
    write(two, make_ok(1), plan=make_plan(environment=other))
    with opened(two) as store:
        begin_search(store).test(make_ok(2))
    merge(database, one, two)
    tables = ("environments", "builds", "spaces", "inputs", "configurations", "runs")
    assert {name: count(database, name) for name in tables} == {
        "environments": 2, "builds": 3, "spaces": 1, "inputs": 1, "configurations": 2, "runs": 3,
    }  # fmt: skip
    assert measurements(database) == [make_ok(1), make_ok(2), make_ok(2)]


def test_database_that_has_grown_adds_what_is_new(database, one):
    with opened(one) as store:
        begin_search(store).test(make_ok(1))
    merge(database, one)
    with opened(one) as store:
        search = begin_search(store)
        search.test(make_ok(2))
        store.end_run(search.run_id, COMPLETE)
    assert merge(database, one) == [Added(str(one), 0, 1, 3)]
    assert query(database, "SELECT state, end_date IS NULL FROM tuning_run") == [("COMPLETE", 0)]
    assert count(database, "desired_result") == 2


RECORD = (
    "SELECT tuning_run.uuid, requestor, hash, hex(data), path, time, result.state, machine.name, "
    "program.name, program_version.version FROM desired_result "
    "JOIN result ON result.id = result_id "
    "JOIN configuration ON configuration.id = result.configuration_id "
    "JOIN input ON input.id = result.input_id JOIN machine ON machine.id = machine_id "
    "JOIN tuning_run ON tuning_run.id = result.tuning_run_id "
    "JOIN program_version ON program_version.id = program_version_id "
    "JOIN program ON program.id = program_version.program_id "
    "ORDER BY tuning_run.uuid, desired_result.id"
)


def test_opentuners_record_is_merged_with_the_tests(out, one, two):
    write(one, make_ok(1), make_failed(Outcome.CRASHED, 2))
    write(two, make_ok(2), make_ok(1), make_ok(3))
    merge(out, one, two)
    expected = query(one, RECORD) + query(two, RECORD)
    assert len(expected) == 5
    assert query(out, RECORD) == sorted(expected, key=itemgetter(0))
    counts = {name: count(out, name) for name in stock.NAMES}
    assert counts == dict.fromkeys(counts, 1) | {
        "configuration": 3,
        "tuning_run": 2,
        "result": 5,
        "desired_result": 5,
        "bandit_info": 0,
        "bandit_sub_technique": 0,
    }
    assert query(out, "PRAGMA foreign_key_check") == []
    before, inputs = content(out), (one.read_bytes(), two.read_bytes())
    assert merge(out, two, one) == [Added(str(two), 0, 0, 0), Added(str(one), 0, 0, 0)]
    assert content(out) == before
    assert (one.read_bytes(), two.read_bytes()) == inputs


def test_requests_without_a_result_are_merged_once(out, one):
    write(one, make_ok(1))
    tamper(
        one,
        "INSERT INTO desired_result "
        "(tuning_run_id, configuration_id, requestor, state, request_date) "
        "VALUES (1, 1, 'PSO', 'REQUESTED', '2026-01-01 00:00:00.000000')",
    )
    merge(out, one)
    merge(out, one)
    assert query(out, "SELECT requestor, state FROM desired_result ORDER BY requestor") == [
        ("PSO", "REQUESTED"),
        ("a technique", "COMPLETE"),
    ]


def test_a_merged_run_goes_on(out, one):
    write(one, make_ok(1))
    merge(out, one)
    with opened(out) as store:
        search = begin_search(store)  # an equal plan
        assert known_configs(store, search.plan) == {make_config(1)}
        assert (search.run_id, len(store.answers(search.run_id))) == (1, 1)
        search.test(make_ok(2))
    assert measurements(out) == [make_ok(1), make_ok(2)]
    assert merge(one, out) == [Added(str(out), 0, 1, 3)]
    assert query(one, RECORD) == query(out, RECORD)


def test_more_rows_than_are_looked_up_at_once_are_merged_once(out, one):
    write_many(one, 1250, samples=2)
    (added,) = merge(out, one)
    assert added.samples == 1249 * 2 + 3
    (again,) = merge(out, one)
    assert (again.runs, again.measurements, again.samples) == (0, 0, 0)


# ------------------------------------------------------------- untrusted

DAMAGES = [
    # test_reader.py and test_results.py have the rest of what a database may not hold.
    f"UPDATE configurations SET parameters = '{'[' * 100_000}'",
    "UPDATE runs SET space_id = 99",
    "UPDATE result SET configuration_id = 99",
    "UPDATE result SET time = time / 100",
    "UPDATE desired_result SET generation = 'first'",
    "ALTER TABLE desired_result DROP COLUMN requestor",
    "ALTER TABLE runs RENAME TO gone; CREATE VIEW runs AS SELECT * FROM gone",
]


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A folder with two databases to copy."""
    folder = tmp_path_factory.mktemp("sound")
    write(folder / "out.db", make_ok(9))
    write(folder / "one.db", make_ok(1))
    return folder


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda sql: sql[:60])
def test_damaged_database_adds_nothing(sound, out, one, damage):
    shutil.copy(sound / "out.db", out)
    shutil.copy(sound / "one.db", one)
    before = content(out)
    tamper(one, damage)
    with pytest.raises(ResultsError) as error:
        merge(out, one)
    assert str(one) in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 600
    assert content(out) == before


def test_file_that_was_cut_adds_nothing(out, one):
    write(out, make_ok(9))
    before = content(out)
    write_many(one, 500)
    data = one.read_bytes()
    one.write_bytes(data[: len(data) * 2 // 3 // 4096 * 4096])
    with pytest.raises(ResultsError, match=r"one\.db"):
        merge(out, one)
    assert content(out) == before


def test_good_files_before_a_damaged_one_are_kept(out, one, two):
    write(one, make_ok(1))
    write(two, make_ok(2))
    tamper(two, "UPDATE desired_result SET generation = 'first'")
    with pytest.raises(ResultsError, match=r"two\.db"):
        merge(out, one, two)
    assert measurements(out) == [make_ok(1)]


# ------------------------------------------------------------------ the command


def test_command_makes_nothing_of_unreadable_files(out, one, capsys):
    one.write_text("not a database, but long enough for one\n" * 50)
    assert main([str(out), str(one)]) == 2
    assert not out.exists()
    message = capsys.readouterr().err
    assert message == f"error: {one} is no results database: file is not a database\n"


def test_command_leaves_no_empty_database(out, one, two):
    write(one, make_ok(1))
    write(two, make_ok(2))
    tamper(two, "UPDATE result SET time = time / 100")
    assert main([str(out), str(two)]) == 2
    assert not list(out.parent.glob(f"{out.name}*"))
    assert main([str(out), str(one), str(two)]) == 2
    assert main([str(out), str(two)]) == 2
    assert measurements(out) == [make_ok(1)]


def test_command_refuses_one_file_as_both(out, capsys, monkeypatch):
    write(out, make_ok(1))
    monkeypatch.chdir(out.parent)
    assert main([str(out), f"sqlite:///{out.name}"]) == 2
    assert "is both OUT and an IN" in capsys.readouterr().err


def test_command_waits_for_nobody(out, one, capsys):
    write(one, make_ok(1))
    with writing(str(out)):
        assert main([str(out), str(one)]) == 2
    assert "is being written by process" in capsys.readouterr().err


def test_database_that_is_being_written_can_be_merged_from(out, one):
    with opened(one) as store:
        search = begin_search(store)
        search.test(make_ok(1))
        store.add_measurements(search.run_id, search.plan, "search", [make_ok(2)])  # not committed
        merge(out, one)
        store.roll_back()
    assert measurements(out) == [make_ok(1)]
