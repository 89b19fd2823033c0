"""A PostgreSQL server is written by many at once, and may go away for a while."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from harness.core.errors import DatabaseBusy, ResultsError
from harness.core.records import Environment
from harness.results import (
    CampaignKey,
    Store,
    read_measurements,
    reading,
    server,
)
from harness.results.server import lock_shared_rows
from tests.postgres_server import execute, running_server
from tests.results_examples import (
    ENVIRONMENT,
    ROOT,
    SPEC,
    Search,
    begin_search,
    make_ok,
    make_plan,
    opened,
)

pytestmark = pytest.mark.postgres


def device(number: int) -> Environment:
    return dataclasses.replace(ENVIRONMENT, device=f"device {number}")


def claimed(store: Store, number: int = 0) -> Search:
    """Begin a search, as a campaign does that nobody else may write."""
    environment = device(number)
    campaign = store.choose_campaign(SPEC, environment, fresh=False)
    plan = make_plan(environment=environment, campaign=campaign)

    def begin() -> Search:
        lock_shared_rows(store.connection)
        return begin_search(store, plan)

    return store.transact(begin)


def add(store: Store, search: Search, *numbers: int) -> None:
    for number in numbers:
        store.transact(lambda number=number: search.add(make_ok(number)))
        search.ordinal += 1


def stored(url: str, number: int = 0) -> list[int]:
    """The LU of each stored measurement of a device, in the order of their ids."""
    key = CampaignKey(SPEC.program_sha256, device(number).fingerprint, campaign=1)
    with reading(url) as engine, engine.connect() as connection:
        rows = read_measurements(connection, key)
        return [int(row.measurement.config["LU"]) for row in rows]


# ------------------------------------------------------------------ many writers


def test_two_devices_are_tuned_at_once(postgres: str) -> None:
    with opened(postgres) as one, opened(postgres) as other:
        first, second = claimed(one, 1), claimed(other, 2)
        for number in range(3):
            add(one, first, number)
            add(other, second, 2 - number)
    assert stored(postgres, 1) == [0, 1, 2]
    assert stored(postgres, 2) == [2, 1, 0]
    assert execute(postgres, "SELECT count(*) FROM configurations") == [(3,)]
    assert execute(postgres, "SELECT count(*) FROM program") == [(1,)]
    assert execute(postgres, "SELECT count(*) FROM writers") == [(0,)]


def test_a_campaign_has_one_writer(postgres: str) -> None:
    with opened(postgres) as one, opened(postgres) as other:
        claimed(one)
        with pytest.raises(DatabaseBusy) as busy:
            claimed(other)
        claimed(other, 1)
        assert (
            f"mvmul on device 0 in {postgres} is being written by process {os.getpid()} on "
            in str(busy.value)
        )
    with opened(postgres) as store:
        claimed(store)


def test_an_edited_kernel_is_tuned_beside_the_one_before(postgres: str) -> None:
    edited = dataclasses.replace(SPEC, functions=("mvmul_edited",))
    with opened(postgres) as one, opened(postgres) as other:
        assert one.choose_campaign(SPEC, ENVIRONMENT, fresh=False) == 1
        assert other.choose_campaign(edited, ENVIRONMENT, fresh=False) == 1


def test_ten_writers_at_once_lose_nothing(postgres: str) -> None:
    def work(number: int) -> None:
        order = range(12) if number % 2 else reversed(range(12))
        with opened(postgres) as store:
            search = claimed(store, number)
            for first in order:
                many = [make_ok(lu) for lu in (first, 20 + first, 40 - first)]
                store.transact(
                    lambda many=many: store.add_measurements(
                        search.run_id, search.plan, "final", many
                    )
                )

    with ThreadPoolExecutor(10) as pool:
        list(pool.map(work, range(10)))
    assert [len(stored(postgres, number)) for number in range(10)] == [36] * 10
    digests = "SELECT count(digest), count(DISTINCT digest) FROM configurations"
    ((rows, distinct),) = execute(postgres, digests)
    assert rows == distinct
    for table in ("program", "environments", "spaces"):
        ((count,),) = execute(postgres, f"SELECT count(*) FROM {table}")
        assert count == (10 if table == "environments" else 1)


# -------------------------------------------------------------- lost connections


def end_sessions(url: str) -> None:
    """End all other sessions of a database, as its administrator may."""
    execute(
        url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_AGAIN_S", 0.05)


@pytest.mark.usefixtures("quick")
def test_a_session_that_was_ended_is_replaced(
    postgres: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(postgres) as store, opened(postgres) as other:
        search = claimed(store)
        add(store, search, 1)
        end_sessions(postgres)
        add(store, search, 2)
        with pytest.raises(DatabaseBusy):  # the new connection has the lock too
            claimed(other)
    assert stored(postgres) == [1, 2]
    printed = capsys.readouterr().err
    assert (
        f"{postgres}: the connection was lost. Waiting for the server for up to 10 min" in printed
    )
    assert f"{postgres}: connected again" in printed


@pytest.mark.usefixtures("quick")
def test_a_transaction_that_was_cut_is_written_again(postgres: str) -> None:
    cut = iter([True])
    with opened(postgres) as store:
        search = claimed(store)

        def work() -> None:
            search.ordinal = 0
            row = store.add_measurement(search.run_id, search.plan, "search", make_ok(1))
            if next(cut, False):
                end_sessions(postgres)
            store.add_tests(search.run_id, 0, [1], [row], ["a technique"])

        store.transact(work)
        assert store.next_ordinal(search.run_id) == 1
    assert execute(postgres, "SELECT count(*) FROM measurements") == [(1,)]
    assert execute(postgres, "SELECT count(*) FROM tests") == [(1,)]


@pytest.mark.usefixtures("quick")
def test_a_commit_whose_answer_was_lost_is_not_repeated(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(postgres) as store:
        search = claimed(store)
        commit, lost = store.session.commit, iter([True])

        def commit_without_answer() -> None:
            commit()
            if next(lost, False):
                raise OperationalError(
                    "COMMIT", None, Exception("lost"), connection_invalidated=True
                )

        monkeypatch.setattr(store.session, "commit", commit_without_answer)
        add(store, search, 1)
        add(store, search, 2)
        assert next(lost, False) is False
    assert stored(postgres) == [1, 2]


@pytest.mark.usefixtures("quick")
def test_two_writers_that_wait_for_each_other_go_on(postgres: str) -> None:
    """The server ends one of two transactions that wait for each other's rows."""
    both = threading.Barrier(2)

    def work(number: int) -> None:
        waits = iter([True])
        with opened(postgres) as store:
            search = claimed(store, number)

            def crosswise() -> None:
                configs = [make_ok(10 + number), make_ok(11 - number)]
                store.add_measurement(search.run_id, search.plan, "final", configs[0])
                if next(waits, False):
                    both.wait()
                store.add_measurement(search.run_id, search.plan, "final", configs[1])

            store.transact(crosswise)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, range(2)))
    assert stored(postgres, 0) == [10, 11]
    assert stored(postgres, 1) == [11, 10]


@pytest.mark.usefixtures("quick")
def test_a_server_that_stays_away_is_one_clear_error(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "WAIT_S", 0.2)
    with pytest.raises(ResultsError, match=r"what was committed before is kept\. Run the same"):
        lose_the_server(postgres, monkeypatch)
    assert stored(postgres) == [1]


def lose_the_server(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(url) as store:
        search = claimed(store)
        add(store, search, 1)
        monkeypatch.setattr(
            store.engine.dialect, "connect", Refusing(store.engine.dialect.loaded_dbapi)
        )
        end_sessions(url)
        with store.interrupting([search.run_id]):
            add(store, search, 2)


class Refusing:
    """A server that takes no connections."""

    def __init__(self, dbapi: Any) -> None:
        self._error = dbapi.OperationalError

    def __call__(self, *_: object, **__: object) -> None:
        raise self._error("connection refused")


def test_a_wait_for_the_server_can_be_interrupted(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(server.time, "sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        lose_the_server(postgres, monkeypatch)
    assert stored(postgres) == [1]


@pytest.mark.usefixtures("quick")
def test_a_server_that_is_killed_and_started_again_lost_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with running_server() as own:
        url = own.make_database()
        with opened(url) as store:
            search = claimed(store)
            add(store, search, *range(5))
            own.kill()
            again = threading.Timer(0.5, own.start)
            again.start()
            add(store, search, *range(5, 10))
            again.join()
        assert stored(url) == list(range(10))
    assert "connected again" in capsys.readouterr().err


def test_a_full_disk_is_a_clear_error_that_keeps_what_was_committed() -> None:
    with running_server(limit_bytes=4 << 20) as small:  # no file of it grows beyond
        url = small.make_database()
        with pytest.raises(ResultsError, match=r"cannot be written: .*; what was committed before"):
            fill(url)
        known = stored(url)
        assert known == list(range(len(known)))
        assert known


def fill(url: str) -> None:
    with opened(url) as store:
        search = claimed(store)
        for number in range(2000):
            large = dataclasses.replace(make_ok(number), message=os.urandom(20_000).hex())
            store.transact(lambda large=large: search.add(large))
            search.ordinal += 1


_WRITE_UNTIL_KILLED = """
import sys, time
from tests.test_server import add, claimed, make_ok, opened
with opened(sys.argv[1]) as store:
    search = claimed(store)
    add(store, search, *range(5))
    store.add_measurement(search.run_id, search.plan, "search", make_ok(99))  # not committed
    print("ready", flush=True)
    time.sleep(60)
"""


def test_a_killed_writer_leaves_what_it_committed_and_no_lock(postgres: str) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", _WRITE_UNTIL_KILLED, postgres],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    with writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        with (
            opened(postgres) as store,
            pytest.raises(DatabaseBusy, match=f"process {writer.pid} on"),
        ):
            claimed(store)
        writer.send_signal(signal.SIGKILL)
    assert stored(postgres) == list(range(5))
    with opened(postgres) as store:
        add(store, claimed(store), 5)
    assert stored(postgres) == list(range(6))
    assert execute(postgres, "SELECT count(*) FROM writers") == [(0,)]
