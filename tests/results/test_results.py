"""The results database: what is written is read back, durable, by one writer, in plain SQL."""

import os
import re
import shutil
import socket
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Enum, event, select
from sqlalchemy.exc import IntegrityError, OperationalError

from harness.core.errors import DatabaseBusy, ResultsError
from harness.core.observations import CLOCK_ERROR, WorstElement
from harness.core.records import Input, Outcome, Statistic, StopReason, Timing
from harness.results import (
    FINAL,
    INTERRUPTED,
    MeasurementRow,
    Store,
    campaigns,
    read_measurements,
    reading,
    schema,
    stock,
    without_password,
    writing,
)
from harness.results.inserting import insert_missing, insert_returning_ids
from tests.helpers.results_examples import (
    ENVIRONMENT,
    KEY,
    REQUESTOR,
    SPEC,
    begin_search,
    connected,
    count,
    known_configs,
    make_build,
    make_config,
    make_failed,
    make_ok,
    make_plan,
    opened,
    query,
    read_back,
    tamper,
    write,
    write_many,
    writer,
)


@pytest.fixture
def place(tmp_path):
    return tmp_path / "results.db"


# ------------------------------------------------------------------ round trips


WITHOUT = dict.fromkeys(("registers", "shared_bytes", "spill_bytes", "binary_sha256"), None)


def test_measurements_are_read_back_equal(database):
    def changed(**changes):
        return replace(make_ok(1), **changes)

    def with_build(number, **changes):
        return changed(build=replace(make_build(number), **changes))

    def wrong(number):
        failed = make_failed(Outcome.WRONG_RESULT)
        element = WorstElement("y", (3, 4), number, number, 1e-5, wrong_count=2, count=100)
        return replace(failed, worst_element=element)

    config = type(make_config(1))
    measurements = [
        make_ok(1),
        make_ok(1, [1e-9]),
        changed(build=None, warmup_s=(), wall_s=0.0),
        changed(message="a remark: größer, 大"),
        changed(observed={"occupancy": 0.5, "active_warps": 32.0}),
        with_build(12, **WITHOUT),
        with_build(13, log="warning: 1\nwarning: 2\n" * 1000),
        with_build(14, options="", compile_s=0.0),
        changed(host_read=("LU", "THRD")),
        replace(make_ok(2), host_read=(), shared_with=make_config(1).digest),
        changed(timing=Timing((1e-3, 2e-3, 3e-3), StopReason.INTERLEAVED, (2, 1))),
        changed(timing=Timing((1e-5,), clock_error_s=2e-8), observed={CLOCK_ERROR: 2e-8}),
        replace(make_failed(Outcome.BUILD_FAILED), build=make_build(5)),
    ]
    measurements += [make_failed(outcome) for outcome in Outcome if outcome is not Outcome.OK]
    # JSON has no infinity, and other numbers lose digits in it.
    numbers = (2.5, float("nan"), float("inf"), float("-inf"), 5e-324, 2**63)
    measurements += [wrong(number) for number in numbers]
    values = (1, 1.0, True, "1", None, -(2**53), 0.1, "ü")
    measurements += [changed(config=config({"P": value})) for value in values]
    write(database, *measurements)
    rows = read_back(database)
    assert [repr(row.measurement) for row in rows] == list(map(repr, measurements))
    clock_errors = [m.timing.clock_error_s for m in measurements if m.timing]
    read = rows.columns.statistics.clock_error_s
    assert [error for error, m in zip(read, measurements, strict=True) if m.timing] == clock_errors


def test_bytes_that_are_no_text_are_escaped(database):
    message = b"bad \xff and \0".decode("utf-8", "surrogateescape")
    write(database, replace(make_failed(Outcome.CRASHED), message=message))
    assert read_back(database)[0].measurement.message == r"bad \udcff and \x00"


def test_a_campaign_is_of_one_program_in_one_environment(database):
    other = replace(ENVIRONMENT, compiler="another")
    edited = replace(SPEC, functions=("mvmul_edited",))
    with opened(database) as store:
        choose = partial(store.choose_campaign, fresh=False)
        assert choose(SPEC, ENVIRONMENT) == 1
        begin_search(store).test(make_ok(1))
        assert known_configs(store, make_plan(technique="B")) == {make_config(1)}
        for plan in (
            make_plan(SPEC.inputs[1]),
            make_plan(environment=other),
            make_plan(campaign=2),
        ):
            assert known_configs(store, plan) == set()
        begin_search(store, make_plan(campaign=3))
        begin_search(store, make_plan(campaign=2, technique="B"))
        assert choose(SPEC, ENVIRONMENT) == 3
        assert store.choose_campaign(SPEC, ENVIRONMENT, fresh=True) == 4
        assert choose(SPEC, other) == 1
        assert choose(edited, ENVIRONMENT) == 4
        begin_search(store, make_plan(campaign=4, spec=edited))
        assert choose(edited, ENVIRONMENT) == 4
        assert choose(SPEC, ENVIRONMENT) == 3


def test_an_earlier_environment_is_one_that_the_present_one_never_followed(database):
    other = replace(ENVIRONMENT, compiler="another")
    with opened(database) as store:
        assert store.earlier_environment(SPEC, ENVIRONMENT) is None
        store.begin_command(SPEC, ENVIRONMENT, 1)
        assert store.earlier_environment(SPEC, ENVIRONMENT) is None
        assert store.earlier_environment(SPEC, other) == ENVIRONMENT


def test_campaigns_come_last_begun_first(place):
    with opened(place) as store:
        begin_search(store, make_plan(campaign=2))
        begin_search(store, make_plan(campaign=1))
    tamper(
        place,
        "UPDATE tuning_run SET start_date = '2001-01-01 00:00:00.000000' "
        "WHERE id IN (SELECT id FROM runs WHERE campaign = 1)",
    )
    with connected(place) as connection:
        first, second = campaigns(connection)
    assert (first.key.campaign, second.key.campaign) == (2, 1)
    assert first.environment == ENVIRONMENT
    assert first.default == type(first.default)({p.name: p.default for p in SPEC.parameters})
    assert first.roles["THRD"] == "launch"


def test_run_with_an_equal_plan_is_continued(database):
    with opened(database) as store:
        search = begin_search(store)
        assert store.begin_run(make_plan(technique="B"), {}, (), {"args": b"N."}) != search.run_id
        search.test(make_ok(1))
        store.end_run(search.run_id, INTERRUPTED)
    assert count(database, "writers") == 0
    with opened(database) as store:
        plan = replace(make_plan(), test_limit=9)
        begun = store.begun(plan)
        assert begun.id == search.run_id
        store.continue_run(begun, plan)
        (answer,) = store.answers(begun.id)
        assert (answer.result_id, answer.requestor) == (1, REQUESTOR)
        assert answer.hash == make_config(1).digest
        store.commit()
    sql = "SELECT state, test_limit, end_date FROM runs JOIN tuning_run ON tuning_run.id = runs.id"
    assert query(database, f"{sql} WHERE runs.id = {begun.id}") == [("RUNNING", 9, None)]


def test_what_was_rolled_back_is_written_again(database):
    with opened(database) as store:
        search = begin_search(store)
        store.add_measurements(search.run_id, search.plan, "search", [make_ok(1)])
        store.roll_back()
        search.test(make_failed(Outcome.TIMEOUT, 2))  # would take the rows that are gone
        search.test(make_ok(1))
    rows = read_back(database)
    assert [row.measurement for row in rows] == [make_failed(Outcome.TIMEOUT, 2), make_ok(1)]


def test_a_run_is_interrupted_also_where_its_commit_was(database):
    stops = iter([KeyboardInterrupt()])

    def stop_once(_connection):
        for error in stops:
            raise error

    with opened(database) as store:
        search = begin_search(store)
        search.test(make_ok(1))
        event.listen(store.engine, "commit", stop_once)
        with pytest.raises(KeyboardInterrupt), store.interrupting([search.run_id]):
            search.test(make_ok(2))
    assert query(database, "SELECT state FROM tuning_run") == [("ABORTED",)]
    assert [row.measurement for row in read_back(database)] == [make_ok(1)]


# ------------------------------------------------------------------- durability


@pytest.mark.slow
def test_second_writer_is_told_who_writes_until_that_is_killed_and_leaves_its_commits(place):
    with writer(place, commits=3) as process:
        with pytest.raises(DatabaseBusy) as busy, writing(str(place)):
            pass
        assert len(read_back(place)) == 3  # readers are not kept out
    assert f"process {process.pid} on {socket.gethostname()} since 20" in str(busy.value)
    assert f"harness merge {place} " in str(busy.value)
    assert query(place, "PRAGMA integrity_check") == [("ok",)]
    assert query(place, "PRAGMA foreign_key_check") == []
    with opened(place) as store:
        assert len(known_configs(store, make_plan())) == 3
    assert [row.measurement for row in read_back(place)] == [make_ok(n) for n in range(3)]
    for table in ("result", "desired_result", "measurements"):
        assert count(place, table) == 3


def test_link_to_a_database_has_the_same_writer(place):
    link = place.with_name("link.db")
    with writing(str(place)):
        link.symlink_to(place)
        with pytest.raises(DatabaseBusy), writing(str(link)):
            pass


def test_reader_sees_one_moment(database):
    with opened(database) as store:
        search = begin_search(store)
        search.test(make_ok(1))
        with connected(database) as connection:
            before = read_measurements(connection, KEY)
            search.test(make_ok(2))
            assert read_measurements(connection, KEY) == before
            connection.rollback()
            assert len(read_measurements(connection, KEY)) == 2


def test_database_is_read_where_readonly(place, monkeypatch):
    write(place, make_ok(1))
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert len(read_back(place)) == 1
    assert {p.name for p in place.parent.iterdir()} == {"results.db"}


# ----------------------------------------------------------- places that are none


def text_file(place):
    place.write_text("just some text, longer than a header of a hundred bytes\n" * 20)


def truncated(place):
    write_many(place, 200)
    data = place.read_bytes()
    place.write_bytes(data[: len(data) // 2])


OTHER_VERSION = "UPDATE schema_version SET version = 99"
DAMAGES = {
    OTHER_VERSION: "has schema version 99",
    "DROP TABLE builds": "table builds is missing",
    "ALTER TABLE builds RENAME TO gone; CREATE VIEW builds AS SELECT 1": "table builds is missing",
    f"UPDATE configurations SET parameters = '{'[' * 100_000}'": "is damaged",
    "UPDATE measurements SET outcome = 'good'": "measurements 1: outcome is 'good'",
    "UPDATE measurements SET message = CAST(x'fffe' AS TEXT)": "decode to UT",
    "UPDATE result SET time = time / 100": r"result 1: its time is 2e-05, but .* is 0\.002",
    "UPDATE result SET time = NULL": "result 1: its time is nan",
    "UPDATE result SET state = 'ERROR'": "result 1: its state is ERROR, and OK",
    "UPDATE result SET state = 'OK' WHERE id = 2": "result 2: its state is OK, and TIMEOUT",
    "UPDATE result SET state = 'DONE' WHERE id = 2": "result 2: state is 'DONE'",
}


def assert_is_refused(place, fact):
    with pytest.raises(ResultsError, match=fact) as error:
        read_back(place)
    assert str(place) in str(error.value)


def test_a_damaged_database_is_one_clear_error(place):
    undamaged = place.with_name("undamaged.db")
    write(undamaged, make_ok(1), make_failed(Outcome.TIMEOUT, 2))
    for damage, fact in DAMAGES.items():
        shutil.copy(undamaged, place)
        tamper(place, damage)
        assert_is_refused(place, fact)


def foreign_tables(place):
    tamper(place, "CREATE TABLE bookmarks (id INTEGER PRIMARY KEY)")


def other_version(place):
    write(place)
    tamper(place, OTHER_VERSION)


@pytest.mark.parametrize(
    "make, fact",
    [
        (text_file, "file is not a database"),
        (Path.mkdir, "is a folder"),
        (Path.touch, "holds no results"),
        (Path.exists, "no such database"),
        (truncated, "malformed"),
        (foreign_tables, "bookmarks"),
    ],
)
def test_what_is_no_database_is_one_clear_error(place, make, fact):
    make(place)
    assert_is_refused(place, fact)


@pytest.mark.parametrize("make", [text_file, other_version, foreign_tables, Path.mkdir])
def test_writer_leaves_alone_what_is_not_ours(place, make):
    make(place)
    before = place.read_bytes() if place.is_file() else None
    with pytest.raises(ResultsError), writing(str(place)):
        pass
    assert before is None or place.read_bytes() == before


@pytest.mark.parametrize("folder", ["/proc/nowhere", "/dev/null", "/proc"])
def test_folder_that_cannot_be_made_or_written_is_no_busy_database(folder):
    with pytest.raises(ResultsError, match="cannot be written") as error, writing(f"{folder}/x.db"):
        pass
    assert not isinstance(error.value, DatabaseBusy)


def fill_a_disk_of_one_page(place):
    with opened(place) as store:
        search = begin_search(store)
        search.test(make_ok(0))
        store.connection.exec_driver_sql("PRAGMA max_page_count = 1")
        for number in range(1, 2000):
            search.test(make_ok(number, [1e-3] * 100))


def test_full_disk_is_a_results_error_that_keeps_what_was_committed(place):
    with pytest.raises(ResultsError, match="disk is full"):
        fill_a_disk_of_one_page(place)
    rows = [row.measurement for row in read_back(place)]
    assert rows[0] == make_ok(0)
    assert 1 <= len(rows) < 2000


def test_fault_of_the_harness_keeps_its_traceback(place):
    with opened(place) as store:
        search = begin_search(store)
        missing = MeasurementRow(99, "search", make_ok(1))
        with pytest.raises(IntegrityError):
            store.add_requests(search.run_id, search.plan, [missing], [{"requestor": "nobody"}])


def test_url_that_does_not_work_is_told_without_its_password(tmp_path, monkeypatch):
    cases = [
        "postgresql://me:sesame@localhost:1/x",
        "postgresql://me:ses@sesame@localhost:port/x",
        "postgresql://me:sesame@[::1/x",
        "postgresql:///x?user=me&password=sesame",
        "sqlite://me:sesame@localhost/x.db",
        "://me:sesame@localhost/x.db",
        "mysql://me:sesame@localhost/x",
    ]
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for url in cases:
        assert "sesame" not in without_password(url)
        for door in (reading, writing):
            with pytest.raises(ResultsError) as error, door(url):
                pass
            assert "sesame" not in str(error.value)


def test_passwords_of_commands_are_not_stored(place, monkeypatch):
    words = ["python", "-m", "harness.tune", "--database=postgresql://me:sesame@host/x"]
    monkeypatch.setattr(sys, "orig_argv", words)
    with writing(str(place)):
        ((command,),) = query(place, "SELECT command FROM writers")
    assert command == "-m harness.tune '--database=postgresql://me:***@host/x'"


def test_path_may_hold_what_urls_reserve(tmp_path):
    place = tmp_path / "50% of #1? ü.db"
    write(place, make_ok(1))
    assert place.is_file()
    assert len(read_back(place)) == 1


# -------------------------------------------------------------------- plain SQL


def test_json_is_text_that_sqlite_understands(place):
    write(place, make_ok(3), make_failed(Outcome.TIMEOUT, 4))
    sql = "SELECT typeof(parameters), json_extract(parameters, '$.LU') FROM configurations"
    assert query(place, sql) == [("text", 3), ("text", 4)]
    assert query(place, "SELECT DISTINCT worst_element IS NULL FROM measurements") == [(1,)]


# ---------------------------------------------------------------------- queries


def test_no_query_of_the_store_scans_a_table(place):
    write_many(place, 100)
    seen = []
    with opened(place) as store:
        event.listen(
            store.engine,
            "before_cursor_execute",
            lambda _c, _u, sql, values, *_: seen.append((sql, values)),
        )
        plan = make_plan()
        store.begin_run(plan, {})
        store.measured(plan)
        store.choose_campaign(SPEC, ENVIRONMENT, fresh=False)
        store.answers(1)
        read_measurements(store.connection, KEY)
        selects = [(sql, values) for sql, values in seen if sql.startswith("SELECT")]
        assert len(selects) >= 10
        for sql, values in selects:
            steps = store.connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", values)
            for step in steps:
                scanned = re.match(r"SCAN (\w+)", step.detail)
                assert scanned is None or scanned[1] in _FEW, f"{step.detail}\n{sql}"


_FEW = ("program", "program_version", "machine", "machine_class", "input_class", "input")
"""OpenTuner's tables that have few rows, and no index."""


def test_every_measurement_is_a_result_of_opentuner(database):
    samples_s = (1e-3, 2e-3, 4e-3, 9e-3)
    with opened(database) as store:
        search = begin_search(store)
        for statistic in Statistic:
            timing = Timing(samples_s, statistic=statistic)
            search.test(replace(make_ok(1), timing=timing))
        final = make_failed(Outcome.TIMEOUT, 2)
        store.add_measurements(search.run_id, search.plan, FINAL, [final], group=uuid.uuid4().hex)
        store.commit()
    sql = (
        "SELECT stage, time, result.state, collection_cost, hash, path, tuning_run.name "
        "FROM result JOIN measurements ON measurements.id = result.id "
        "JOIN configuration ON configuration.id = configuration_id JOIN input ON input.id = "
        "input_id JOIN tuning_run ON tuning_run.id = tuning_run_id ORDER BY result.id"
    )
    of_run = SPEC.inputs[0].json, "a label"
    assert query(database, sql) == [
        ("search", 3e-3, "OK", 1.5, make_config(1).digest, *of_run),
        ("search", 4e-3, "OK", 1.5, make_config(1).digest, *of_run),
        ("final", float("inf"), "TIMEOUT", 0, make_config(2).digest, *of_run),
    ]


def test_dates_of_results_are_utc(place):
    write(place, make_ok(1))
    ((date, began),) = query(
        place, "SELECT collection_date, start_date FROM result, tuning_run WHERE result.id = 1"
    )
    moments = [datetime.fromisoformat(f"{text}+00:00").timestamp() for text in (date, began)]
    assert all(abs(moment - time.time()) < 60 for moment in moments)
    assert read_back(place)[0].measured_at == f"{date[:10]}T{date[11:23]}+00:00"


def test_a_result_may_have_the_mean_of_its_samples(place):
    write(place, make_ok(1, [1e-3, 2e-3, 6e-3]))
    tamper(place, "UPDATE result SET time = 0.003")
    assert read_back(place)[0].measurement == make_ok(1, [1e-3, 2e-3, 6e-3])


def test_rows_of_another_program_are_not_read(place):
    write(place, make_ok(1))
    tamper(
        place,
        "INSERT INTO configuration (program_id, hash) VALUES (1, 'theirs');"
        "INSERT INTO result (tuning_run_id, configuration_id, time, state) "
        "VALUES (1, 2, 1.0, 'OK')",
    )
    assert [row.measurement for row in read_back(place)] == [make_ok(1)]


def test_our_opentuner_tables_are_those_of_the_package():
    from opentuner.resultsdb.connect import DB_VERSION
    from opentuner.resultsdb.models import Base

    def described(table):
        columns = {
            c.name: (
                str(c.type),
                c.nullable,
                c.primary_key,
                [str(k.column) for k in c.foreign_keys],
            )
            for c in table.columns
        }
        indices = {i.name: (i.unique, [c.name for c in i.columns]) for i in table.indexes}
        indices.pop(f"ix_{table.name}_id", None)  # which no query uses
        words = {c.name: c.type.enums for c in table.columns if isinstance(c.type, Enum)}
        return columns, indices, words

    theirs = Base.metadata.tables
    assert set(stock.NAMES) == set(theirs)
    for name in stock.NAMES:
        assert described(stock.metadata.tables[name]) == described(theirs[name])
    assert stock.DB_VERSION == DB_VERSION


def test_runs_and_inputs_of_another_space_have_rows_of_their_own(place):
    with opened(place) as store:
        assert [store.begin_run(make_plan(), {}) for _ in range(2)] == [1, 2]
        given = Input({"n": 1})
        assert store.input_id("one", given) == store.input_id("one", Input({"n": 1}))
        assert store.input_id("one", given) != store.input_id("two", given)


# ---------- rows are inserted in one transaction, by all threads, and return their ids in order


SPACE = {
    "sha256": "a" * 64,
    "program_sha256": "b" * 64,
    "name": "a space",
    "title": "ü",
    "parameters": {},
    "constraints": [],
    "program_parts": {},
}


def space(number):
    return {**SPACE, "sha256": f"{number:064x}", "title": "ü\0"}


def test_ids_are_in_the_order_of_their_rows(database):
    table = schema.spaces
    with writing(database) as engine, engine.begin() as connection:
        ids = insert_returning_ids(connection, table, list(map(space, range(2500))))
        found = dict(connection.execute(select(table.c.id, table.c.sha256)).all())
        assert [found[row_id] for row_id in ids] == [f"{number:064x}" for number in range(2500)]


def test_rows_that_are_there_are_not_inserted_again(database):
    table = schema.spaces
    with writing(database) as engine, engine.begin() as connection:
        first = insert_missing(connection, table, list(map(space, (3, 1))))
        again = insert_missing(connection, table, list(map(space, (1, 2, 3, 0))))
        assert [again[2], again[0]] == first
        assert len(connection.execute(select(table)).all()) == len(set(again)) == 4


def test_a_transaction_that_fails_leaves_none_open(tmp_path):
    with writing(str(tmp_path / "x.db")) as engine, Store(engine) as store:

        def add():
            insert_returning_ids(store.connection, schema.spaces, [SPACE])

        def fail():
            add()
            store.connection.exec_driver_sql("SELECT * FROM nowhere")

        with pytest.raises(OperationalError):
            store.transact(fail)
        store.transact(add)
    with writing(str(tmp_path / "x.db")) as engine, engine.connect() as connection:
        assert len(connection.execute(select(schema.spaces)).all()) == 1


def test_a_commit_is_one_also_after_a_read_with_an_earlier_connection(tmp_path):
    with writing(str(tmp_path / "x.db")) as engine, Store(engine) as store:
        earlier = store.connection
        store.commit()
        earlier.exec_driver_sql("SELECT 1")
        store.transact(lambda: insert_returning_ids(store.connection, schema.spaces, [SPACE]))
        with engine.connect() as connection:
            assert len(connection.execute(select(schema.spaces)).all()) == 1


def test_threads_share_a_database_in_memory():
    with writing("sqlite://") as engine, Store(engine) as store:
        add = partial(insert_returning_ids, table=schema.spaces, rows=[SPACE])
        with ThreadPoolExecutor(1) as threads:
            threads.submit(store.transact, lambda: add(store.connection)).result()
        assert len(store.connection.execute(select(schema.spaces)).all()) == 1
