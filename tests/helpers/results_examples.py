"""Small databases for tests: a spec, plans, measurements, and writers."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Table, select

from harness.core.plain_pickle import dump_compressed
from harness.core.records import (
    Build,
    Config,
    Environment,
    Input,
    Measurement,
    Outcome,
    StopReason,
    Timing,
)
from harness.results import (
    COMPLETE,
    SEARCHED,
    Added,
    CampaignKey,
    MeasurementRows,
    RunPlan,
    Store,
    merge_database,
    read_measurements,
    reading,
    schema,
    stock,
    writing,
)
from harness.results.inserting import insert_returning_ids
from harness.results.notes import Notes
from harness.space_file import Spec, load_spec
from tests.helpers.postgres_server import execute

ROOT = Path(__file__).parents[2]
SPEC = load_spec(ROOT / "spaces" / "mvmul.yaml")
ENVIRONMENT = Environment("opencl", "a device", "a platform", "1.0", "a compiler")
REQUESTOR = "a technique"
KEY = CampaignKey(SPEC.program_sha256, ENVIRONMENT.fingerprint, campaign=1)


def make_plan(
    given: Input = SPEC.inputs[0],
    *,
    spec: Spec = SPEC,
    environment: Environment = ENVIRONMENT,
    technique: str = "A",
    campaign: int = 1,
) -> RunPlan:
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


def make_config(number: int) -> Config:
    return Config({"THRD": 64, "LU": number, "X_CACHE": 0})


def make_build(number: int) -> Build:
    return Build(f"{number:064x}", "-DLU=1", "a compiler", 0.25, f"{number + 1:064x}", 32, 128, 0)


def make_ok(
    number: int, samples_s: Sequence[float] = (2e-3, 1e-3, 3e-3), given: Input = SPEC.inputs[0]
) -> Measurement:
    return Measurement(
        make_config(number),
        given,
        Outcome.OK,
        Timing(tuple(samples_s), StopReason.PRECISE),
        make_build(number),
        warmup_s=(0.5, 0.25),
        wall_s=1.5,
    )


def make_failed(outcome: Outcome, number: int = 1, given: Input = SPEC.inputs[0]) -> Measurement:
    return Measurement(make_config(number), given, outcome, message=f"it ended as {outcome}")


@dataclass
class Search:
    """A search in progress."""

    store: Store
    plan: RunPlan
    run_id: int

    def test(self, measurement: Measurement, stage: str = "search") -> int:
        row = self.add(measurement, stage)
        self.store.commit()
        return row

    def add(self, measurement: Measurement, stage: str = "search") -> int:
        """Add a test, and do not commit it."""
        rows = self.store.add_measurements(self.run_id, self.plan, stage, [measurement])
        self.store.add_requests(self.run_id, self.plan, rows, [{"requestor": REQUESTOR}])
        return rows[0].id


def begin_search(store: Store, plan: RunPlan | None = None, notes: Notes | None = None) -> Search:
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
def opened(path: Path | str) -> Iterator[Store]:
    with writing(str(path)) as engine:
        store = Store(engine)
        try:
            yield store
        finally:
            store.close()


@contextmanager
def connected(path: Path | str) -> Iterator[Connection]:
    """A connection that reads a database."""
    with reading(str(path)) as engine, engine.connect() as connection:
        yield connection


def read_back(path: Path | str, key: CampaignKey = KEY, **options: Any) -> MeasurementRows:
    """The measurements of a campaign in a database."""
    with connected(path) as connection:
        return read_measurements(connection, key, **options)


def merge(out: Path | str, *databases: Path | str) -> list[Added]:
    """Merge databases into one, as the command does."""
    with writing(str(out)) as engine:
        return [merge_database(engine, str(database)) for database in databases]


def known_configs(store: Store, plan: RunPlan) -> set[Config]:
    """Return the configurations that a search of this plan finds measured."""
    rows = store.measured(plan).of_stages(SEARCHED)
    return {m.config for m in rows.measurements() if m.input == plan.problem}


def write(path: Path | str, *measurements: Measurement, plan: RunPlan | None = None) -> None:
    """Write a database with one complete run of these measurements, and its command."""
    plan = plan or make_plan()
    with opened(path) as store:
        command = store.begin_command(plan.spec, plan.environment, plan.campaign)
        search = begin_search(store, plan)
        for measurement in measurements:
            search.test(measurement)
        store.end_run(search.run_id, COMPLETE)
        store.end_command(command, {plan.spec.inputs[0]: "no data"}, {"cross": ""})


def write_many(path: Path, count: int, samples: int = 20) -> None:
    """Write a database of one run with many measurements, in bulk."""
    with opened(path) as store:
        search = begin_search(store)
        pattern = search.test(make_ok(0))
        store.close()
        _multiply(store.engine, pattern, count, samples)


def _multiply(engine: Engine, pattern: int, count: int, samples: int) -> None:
    """Copy a measurement, each time with another configuration."""
    configs = [make_config(number) for number in range(1, count)]
    with engine.begin() as connection:
        program_id = connection.execute(select(stock.program.c.id)).scalar()
        rows = [
            {
                "program_id": program_id,
                "hash": config.digest,
                "data": dump_compressed(dict(config)),
                "digest": config.digest,
                "parameters": dict(config),
            }
            for config in configs
        ]
        insert_returning_ids(connection, stock.configuration, rows)
        _copy(
            connection,
            stock.result,
            {"id": "NULL", "configuration_id": "configurations.id", "time": "0.001"},
            f"configurations WHERE result.id = {pattern} AND configurations.id != configuration_id",
        )
        _copy(
            connection,
            schema.measurements,
            {
                "id": "result.id",
                "uuid": "lower(hex(randomblob(16)))",
                "samples_s": f"'{[0.001] * samples}'",
            },
            f"result WHERE measurements.id = {pattern} AND result.id != {pattern}",
        )


def _copy(connection: Connection, table: Table, changes: dict[str, str], others: str) -> None:
    """Copy a row of a table for each of the others, with changes."""
    cells = {c.name: f"{table.name}.{c.name}" for c in table.columns} | changes
    connection.exec_driver_sql(
        f"INSERT INTO {table.name} SELECT {', '.join(cells.values())} FROM {table.name}, {others}"
    )


def query(path: Path | str, sql: str) -> list[tuple[Any, ...]]:
    """Query a database with plain SQL."""
    if "://" in str(path):
        return execute(str(path), sql)
    connection = sqlite3.connect(path)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def tamper(path: Path | str, sql: str) -> None:
    """Change a database with plain SQL."""
    if "://" in str(path):
        execute(str(path), sql)
        return
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        connection.executescript(sql)
        connection.commit()


def count(path: Path | str, table: str) -> int:
    ((number,),) = query(path, f"SELECT count(*) FROM {table}")
    assert isinstance(number, int)
    return number


PICKLED = {"configuration": ["data"], "input": ["extra"], "tuning_run": ["args", "objective"]}
"""OpenTuner's columns that hold pickles."""


class Planted:
    """Makes a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[object, ...]:
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
def writer(place: Path | str, commits: int) -> Iterator[subprocess.Popen[str]]:
    """Another process that has committed so many tests, then holds database and campaign."""
    process = subprocess.Popen(
        [sys.executable, "-c", _WRITE_UNTIL_KILLED, str(place), str(commits)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
