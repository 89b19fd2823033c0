"""A PostgreSQL server is written by many at once, and may go away for a while."""

import contextlib
import os
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import pytest
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from harness.api.running import patiently
from harness.core.errors import DatabaseBusy, ResultsError
from harness.display.progress import Display
from harness.results import CampaignKey, Store, campaigns, read_campaign, server, writing
from harness.results.server import lock_shared_rows
from harness.search import SearchOptions, resolve_techniques
from harness.tuning import Campaign, CampaignPlan
from tests.helpers.postgres_server import execute, running_server
from tests.helpers.replays import FormulaMeasurer, make_spec
from tests.helpers.results_examples import (
    ENVIRONMENT,
    SPEC,
    begin_search,
    connected,
    make_ok,
    make_plan,
    merge,
    opened,
    read_back,
    write,
    writer,
)

pytestmark = pytest.mark.postgres


def device(number):
    """A device; the first is that of ENVIRONMENT."""
    return replace(ENVIRONMENT, device=f"device {number}") if number else ENVIRONMENT


def claimed(store, number=0):
    """Begin a search, as a campaign does that nobody else may write."""
    environment = device(number)
    campaign = store.choose_campaign(SPEC, environment, fresh=False)
    plan = make_plan(environment=environment, campaign=campaign)

    def begin():
        lock_shared_rows(store.connection)
        return begin_search(store, plan)

    return store.transact(begin)


def add(store, search, *numbers):
    for number in numbers:
        store.transact(partial(search.add, make_ok(number)))


def stored(url, number=0):
    """The LU of each stored measurement of a device, in the order of their ids."""
    key = CampaignKey(SPEC.program_sha256, device(number).fingerprint, campaign=1)
    return [m.config["LU"] for m in read_back(url, key).measurements()]


# ------------------------------------------------------------------ many writers


def test_a_second_writer_waits_for_the_first_one_and_sees_its_results(postgres, monkeypatch):
    monkeypatch.setattr("harness.core.locks._AGAIN_S", 0.01)
    said = []
    with contextlib.ExitStack() as first, opened(postgres) as second:
        one = first.enter_context(opened(postgres))
        choose = partial(second.choose_campaign, SPEC, device(0), fresh=False)
        search = claimed(one)
        with pytest.raises(DatabaseBusy, match="being written by"):
            patiently(choose, 0, said.append)

        def end_first(text):
            said.append(text)
            add(one, search, 1, 2)
            first.close()

        assert patiently(choose, time.monotonic() + 60, end_first) == 1, (
            "the campaign of the first one"
        )
        again = claimed(second)
        assert again.run_id == search.run_id
    (line,) = said
    assert re.fullmatch("mvmul on a device in .* written by process .* up to 60 s .*", line)


def test_writers_at_once_lose_nothing(postgres):
    def work(number):
        order = range(6) if number % 2 else reversed(range(6))
        with opened(postgres) as store:
            search = claimed(store, number)
            for first in order:
                many = [make_ok(lu) for lu in (first, 20 + first, 40 - first)]
                add = partial(store.add_measurements, search.run_id, search.plan, "final", many)
                store.transact(add)

    with ThreadPoolExecutor(5) as pool:
        list(pool.map(work, range(5)))
    assert [len(stored(postgres, number)) for number in range(5)] == [18] * 5
    for table in ("program", "program_version", "input", "environments", "spaces"):
        ((count,),) = execute(postgres, f"SELECT count(*) FROM {table}")
        assert count == (5 if table == "environments" else 1)


def test_files_are_merged_into_servers_and_back(postgres, tmp_path):
    write(tmp_path / "one.db", make_ok(1), make_ok(2))
    write(tmp_path / "two.db", make_ok(2), plan=make_plan(environment=device(2)))
    with opened(postgres) as other:
        edited = replace(SPEC, functions=("mvmul_edited",))
        assert other.choose_campaign(edited, ENVIRONMENT, fresh=False) == 1  # nobody waits for it
        add(other, claimed(other, 1), 2, 3)
        *_, added = merge(postgres, *(tmp_path / name for name in ("one.db", "two.db", "one.db")))
        assert (added.runs, added.measurements) == (0, 0)
    (added,) = merge(tmp_path / "all.db", postgres)
    assert added.measurements == 5
    assert by_campaign(postgres) == by_campaign(tmp_path / "all.db")


def by_campaign(database):
    with connected(database) as connection:
        keys = [campaign.key for campaign in campaigns(connection)]
    return {key: list(read_back(database, key).measurements()) for key in keys}


def test_a_campaign_that_is_written_is_not_merged_into(postgres, tmp_path):
    write(tmp_path / "one.db", make_ok(1), plan=make_plan(environment=device(1)))
    with opened(postgres) as other:
        claimed(other, 1)
        with pytest.raises(DatabaseBusy, match="mvmul on device 1"):
            merge(postgres, tmp_path / "one.db")


# ---------------------------------------------------------------- foreign content


def test_what_harness_cannot_have_written_is_refused(postgres):
    write(postgres, make_ok(1))
    execute(postgres, "CREATE VIEW best AS SELECT min(time) FROM result")  # a user's, left alone
    write(postgres, make_ok(2), plan=make_plan(technique="B"))
    execute(postgres, "UPDATE measurements SET samples_s = '[-1]'")
    with pytest.raises(ResultsError, match=rf"^{re.escape(postgres)} .*measurements 1: samples_s"):
        read_back(postgres)


def test_a_role_that_only_reads_reads(postgres, postgres_server):
    write(postgres, make_ok(1))
    execute(
        postgres,
        "CREATE ROLE viewer LOGIN PASSWORD 'sesame'; "
        "GRANT SELECT ON ALL TABLES IN SCHEMA public TO viewer",
    )
    url = postgres.replace("harness@", "viewer:sesame@")
    with connected(url) as connection:
        assert len(campaigns(connection)) == 1
    denied = pytest.raises(ResultsError, match=r"viewer:\*\*\*@.* permission denied.*docs/howto")
    with denied as error, opened(url) as store:
        claimed(store)
    assert "sesame" not in str(error.value)
    execute(postgres, "DROP OWNED BY viewer; DROP ROLE viewer")


# -------------------------------------------------------------- lost connections


def end_sessions(url):
    """End all other sessions of a database, as its administrator may."""
    execute(
        url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(server, "AGAIN_S", 0.05)


def test_a_session_that_was_ended_is_replaced(quick, postgres, capsys):
    with opened(postgres) as store, opened(postgres) as other:
        search = claimed(store)
        add(store, search, 1)
        end_sessions(postgres)
        add(store, search, 2)
        with pytest.raises(DatabaseBusy):  # the new connection has the lock too
            claimed(other)
    assert stored(postgres) == [1, 2]
    printed = capsys.readouterr().err
    assert f"{postgres}: the connection was lost. Waiting for the server for up to 2 min" in printed
    assert f"{postgres}: connected again" in printed


def test_an_unanswered_commit_is_kept(postgres, monkeypatch):
    with pytest.raises(ResultsError, match=r"lost; .* is kept"):
        lose_the_answer_of_a_commit(postgres, monkeypatch)
    assert stored(postgres) == [1]


def lose_the_answer_of_a_commit(url, monkeypatch):
    with opened(url) as store:
        search = claimed(store)
        commit = store.commit

        def commit_without_answer():
            commit()
            raise OperationalError("COMMIT", None, Exception("lost"), connection_invalidated=True)

        monkeypatch.setattr(store, "commit", commit_without_answer)
        add(store, search, 1)


def test_two_writers_that_wait_for_each_other_go_on(quick, postgres):
    """The server ends one of two transactions that wait for each other's builds."""
    both = threading.Barrier(2, timeout=60)
    specs = [SPEC, replace(SPEC, functions=("another",))]

    def work(number):
        waits = iter([True])
        with opened(postgres) as store:
            campaign = store.choose_campaign(specs[number], ENVIRONMENT, fresh=False)
            search = begin_search(store, make_plan(spec=specs[number], campaign=campaign))

            def crosswise():
                configs = [make_ok(10 + number), make_ok(11 - number)]
                store.add_measurements(search.run_id, search.plan, "final", [configs[0]])
                if next(waits, False):
                    both.wait()
                store.add_measurements(search.run_id, search.plan, "final", [configs[1]])

            store.transact(crosswise)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, range(2)))
    for spec, numbers in zip(specs, ([10, 11], [11, 10]), strict=True):
        key = CampaignKey(spec.program_sha256, ENVIRONMENT.fingerprint, campaign=1)
        rows = read_back(postgres, key)
        assert [row.measurement.config["LU"] for row in rows] == numbers


def test_a_server_that_is_away_is_an_error(quick, postgres, monkeypatch):
    monkeypatch.setattr(server, "WAIT_S", 0.2)
    with pytest.raises(ResultsError, match="committed before is kept"):
        lose_the_server(postgres, monkeypatch)
    assert stored(postgres) == [1]


def lose_the_server(url, monkeypatch):
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

    def __init__(self, dbapi):
        self._error = dbapi.OperationalError

    def __call__(self, *_, **__):
        raise self._error("connection refused")


@pytest.mark.slow
@pytest.mark.usefixtures("quick", "can_start_postgres")
def test_a_server_that_is_killed_and_started_again_lost_nothing(capsys):
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


@pytest.mark.slow
def test_a_full_disk_is_a_clear_error_that_keeps_what_was_committed(can_start_postgres):
    with running_server(limit_bytes=4 << 20) as small:  # no file of it grows beyond
        url = small.make_database()
        with pytest.raises(ResultsError, match=r"cannot be written: .*; what was committed before"):
            fill(url)
        known = stored(url)
        assert known == list(range(len(known)))
        assert known


def fill(url):
    with opened(url) as store:
        search = claimed(store)
        for number in range(2000):
            large = replace(make_ok(number), message=os.urandom(20_000).hex())
            store.transact(partial(search.add, large))


@pytest.mark.slow
def test_a_killed_writer_leaves_what_it_committed_and_no_lock(postgres):
    with writer(postgres, commits=5) as process:
        busy = pytest.raises(DatabaseBusy, match=f"process {process.pid} on")
        with opened(postgres) as store, busy:
            claimed(store)
    assert stored(postgres) == list(range(5))
    with opened(postgres) as store:
        add(store, claimed(store), 5)
    assert stored(postgres) == list(range(6))
    assert execute(postgres, "SELECT count(*) FROM writers") == [(0,)]


# ---------------------------------------------------------------- a whole campaign


class Cutting:
    """Ends the session of a writer before every so many of its statements."""

    def __init__(self, url, every):
        self._url, self._every = url, every
        self.statements = 0

    def __call__(self, *_):
        self.statements += 1
        if self.statements % self._every == 0:
            end_sessions(self._url)


def tune(database, spec, cut=None, measurer=None):
    """Run a campaign with a candidate stage and finals; return what was measured, in order."""
    measurer = measurer or FormulaMeasurer(interleaves=True)
    options = SearchOptions(resolve_techniques(["UniformRandom"]), 6, 0, "a label", 2)
    with writing(database, lambda text: None) as engine, Store(engine) as store:
        if cut is not None:
            event.listen(engine, "before_cursor_execute", cut)
        number = store.choose_campaign(spec, measurer.environment, fresh=False)
        Campaign(CampaignPlan(spec, options, number), measurer, store, Display()).run()
        if cut is not None:
            event.remove(engine, "before_cursor_execute", cut)
    return measurer.asked


def contents(database):
    """What a campaign stored, but for its clock."""
    with connected(database) as connection:
        (campaign,) = campaigns(connection)
        rows, runs, commands = read_campaign(connection, campaign)
        ends = [(run.problem, run.state, run.notes.get("search ended")) for run in runs]
        measured = [(row.stage, row.requestor, row.measurement) for row in rows]
        return [*measured, *ends, *((command.stages, command.left_out) for command in commands)]


class Asking(FormulaMeasurer):
    """Asks a server for the state of its sessions during each measurement."""

    def __init__(self, url):
        super().__init__(interleaves=True)
        self._url = url
        self.states = set()

    def measure(self, space, problem, config, best_s):
        self._ask()
        return super().measure(space, problem, config, best_s)

    def measure_interleaved(self, space, problem, configs, rounds, seeds=()):
        self._ask()
        return super().measure_interleaved(space, problem, configs, rounds, seeds)

    def _ask(self):
        sql = "SELECT state FROM pg_stat_activity WHERE application_name = 'harness'"
        self.states |= set(execute(self._url, sql))


def test_no_transaction_is_open_while_measuring(postgres, tmp_path):
    measurer = Asking(postgres)
    tune(postgres, make_spec(tmp_path), measurer=measurer)
    assert len(measurer.asked) > 6
    assert measurer.states == {("idle",)}


def test_a_campaign_whose_connection_is_often_lost_ends(quick, postgres, tmp_path):
    spec, undisturbed = make_spec(tmp_path), str(tmp_path / "undisturbed.db")
    asked = tune(undisturbed, spec)
    cut = Cutting(postgres, every=31)
    assert tune(postgres, spec, cut) == asked
    assert cut.statements > 3 * 31
    assert contents(postgres) == contents(undisturbed)
    assert tune(postgres, spec) == []
    assert execute(postgres, "SELECT count(*), count(DISTINCT uuid) FROM tuning_run") == [(2, 2)]
