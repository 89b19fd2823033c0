"""Small databases for tests: a spec, plans, measurements, and writers."""

import os
import signal
import sqlite3
import subprocess
import sys
from argparse import Namespace
from contextlib import closing, contextmanager
from dataclasses import dataclass

from harness.core.plain_pickle import dump_compressed
from harness.core.records import (
    Build,
    Config,
    Environment,
    Measurement,
    Outcome,
    StopReason,
    Timing,
)
from harness.results import (
    COMPLETE,
    SEARCHED,
    CampaignKey,
    RunPlan,
    Store,
    merge_database,
    read_measurements,
    reading,
    writing,
)
from harness.space_file import load_spec
from tests import ROOT
from tests.helpers.postgres_server import execute

SPEC = load_spec(ROOT / "spaces" / "mvmul.yaml")
ENVIRONMENT = Environment("opencl", "a device", "a platform", "1.0", "a compiler")
REQUESTOR = "a technique"
KEY = CampaignKey(SPEC.program_sha256, ENVIRONMENT.fingerprint, campaign=1)


def make_plan(
    given=SPEC.inputs[0], *, spec=SPEC, environment=ENVIRONMENT, technique="A", campaign=1
):
    return RunPlan(
        spec=spec,
        environment=environment,
        problem=given,
        technique=technique,
        seed=0,
        test_limit=100,
        parallelism=4,
        label="a label",
        campaign=campaign,
    )


def make_config(number):
    return Config({"THRD": 64, "LU": number, "X_CACHE": 0})


def make_build(number):
    return Build(f"{number:064x}", "-DLU=1", "a compiler", 0.25, f"{number + 1:064x}", 32, 128, 0)


def make_ok(number, samples_s=(2e-3, 1e-3, 3e-3), given=SPEC.inputs[0]):
    return Measurement(
        make_config(number),
        given,
        Outcome.OK,
        Timing(tuple(samples_s), StopReason.PRECISE),
        make_build(number),
        warmup_s=(0.5, 0.25),
        wall_s=1.5,
    )


def make_failed(outcome, number=1, given=SPEC.inputs[0]):
    return Measurement(make_config(number), given, outcome, message=f"it ended as {outcome}")


@dataclass
class Search:
    """A search in progress."""

    store: Store
    plan: RunPlan
    run_id: int

    def test(self, measurement, stage="search"):
        row = self.add(measurement, stage)
        self.store.commit()
        return row

    def add(self, measurement, stage="search"):
        """Add a test, and do not commit it."""
        rows = self.store.add_measurements(self.run_id, self.plan, stage, [measurement])
        self.store.add_requests(self.run_id, self.plan, rows, [{"requestor": REQUESTOR}])
        return rows[0].id


def begin_search(store, plan=None, notes=None):
    plan = plan or make_plan()
    noted = notes or {"facts": {"host": "here"}}
    run = store.begun(plan)
    if run is None:
        run_id = store.begin_run(
            plan, noted, (), {"args": dump_compressed(Namespace(label=plan.label))}
        )
    else:
        run_id = run.id
        store.continue_run(run, plan)
    store.commit()
    return Search(store, plan, run_id)


@contextmanager
def opened(path):
    with writing(str(path)) as engine:
        store = Store(engine)
        try:
            yield store
        finally:
            store.close()


@contextmanager
def connected(path):
    """A connection that reads a database."""
    with reading(str(path)) as engine, engine.connect() as connection:
        yield connection


def read_back(path, key=KEY, **options):
    """The measurements of a campaign in a database."""
    with connected(path) as connection:
        return read_measurements(connection, key, **options)


def merge(out, *databases):
    """Merge databases into one, as the command does."""
    with writing(str(out)) as engine:
        return [merge_database(engine, str(database)) for database in databases]


def known_configs(store, plan):
    """Return the configurations that a search of this plan finds measured."""
    rows = store.measured(plan).of_stages(SEARCHED)
    return {m.config for m in rows.measurements() if m.input == plan.problem}


def write(path, *measurements, plan=None):
    """Write a database with one complete run of these measurements, and its command."""
    plan = plan or make_plan()
    with opened(path) as store:
        command = store.begin_command(plan.spec, plan.environment, plan.campaign)
        search = begin_search(store, plan)
        for measurement in measurements:
            search.test(measurement)
        store.end_run(search.run_id, COMPLETE)
        store.end_command(command, {plan.spec.inputs[0]: "no data"}, {"cross": ""})


def write_many(path, count, samples=20):
    """Write a database of one run with many measurements."""
    many = [make_ok(number, [1e-3] * samples) for number in range(count)]
    with opened(path) as store:
        search = begin_search(store)
        store.add_measurements(search.run_id, search.plan, "search", many)
        store.commit()


def query(path, sql):
    """Query a database with plain SQL."""
    if "://" in str(path):
        return execute(str(path), sql)
    connection = sqlite3.connect(path)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def tamper(path, sql):
    """Change a database with plain SQL."""
    if "://" in str(path):
        execute(str(path), sql)
        return
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        connection.executescript(sql)
        connection.commit()


def count(path, table):
    ((number,),) = query(path, f"SELECT count(*) FROM {table}")
    return number


PICKLED = {"configuration": ["data"], "input": ["extra"], "tuning_run": ["args", "objective"]}
"""OpenTuner's columns that hold pickles."""


class Planted:
    """Makes a folder when it is unpickled."""

    def __init__(self, path):
        self._path = path

    def __reduce__(self):
        return os.mkdir, (str(self._path),)


_WRITE_UNTIL_KILLED = """
import sys, time
from tests.helpers.results_examples import ENVIRONMENT, SPEC, begin_search, make_ok, opened
with opened(sys.argv[1]) as store:
    store.choose_campaign(SPEC, ENVIRONMENT, fresh=False)
    search = begin_search(store)
    for number in range(int(sys.argv[2])):
        search.test(make_ok(number))
    store.add_measurements(search.run_id, search.plan, "search", [make_ok(999)])  # not committed
    print("ready", flush=True)
    time.sleep(60)
"""


@contextmanager
def writer(place, commits):
    """Another process that has committed so many tests, then holds database and campaign."""
    process = subprocess.Popen(
        [sys.executable, "-c", _WRITE_UNTIL_KILLED, str(place), str(commits)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
