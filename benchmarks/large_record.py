"""Complete a large database: OpenTuner's record of its search, and earlier campaigns.

Both are made inside of SQLite from the rows that are there, which takes a tenth of the time that
inserting from Python would take.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import Connection, Table, func, select

from harness.core.records import Input
from harness.results import opentuner_tables as opentuner
from harness.results import schema
from harness.results.tables import make_tables
from harness.space_file import Spec

_MOMENT = "2026-01-01 00:00:00"
_BATCH = 10_000
_NEW = "lower(hex(randomblob(16)))"
_CHANGED: Mapping[Table, Mapping[str, str]] = {
    schema.runs: {
        "id": "id + :runs",
        "uuid": _NEW,
        "tuning_run_id": "tuning_run_id + :runs",
        "campaign": "campaign - :number",
        "started_at": ":moment",
        "ended_at": ":moment",
    },
    schema.measurements: {
        "id": "id + :measurements",
        "uuid": _NEW,
        "run_id": "run_id + :runs",
        "measured_at": ":moment",
    },
    schema.samples: {"measurement_id": "measurement_id + :measurements"},
    schema.tests: {
        "id": "id + :tests",
        "result_id": "result_id + :measurements",
        "run_id": "run_id + :runs",
        "measurement_id": "measurement_id + :measurements",
    },
    opentuner.tuning_run: {"id": "id + :runs", "uuid": _NEW},
    opentuner.result: {"id": "id + :measurements", "tuning_run_id": "tuning_run_id + :runs"},
    opentuner.desired_result: {
        "id": "id + :measurements",
        "tuning_run_id": "tuning_run_id + :runs",
        "result_id": "result_id + :measurements",
    },
}
"""What differs in a copy of a campaign's rows."""


def write_record(connection: Connection, spec: Spec) -> None:
    """Write what OpenTuner would have recorded of all tests; each run is OpenTuner's of its own id,
    and each test's result has the id of its measurement."""
    make_tables(connection, opentuner.metadata)
    one: Mapping[Table, Mapping[str, object]] = {
        opentuner.meta: {"db_version": opentuner.DB_VERSION},
        opentuner.program: {"project": "harness", "name": spec.name},
        opentuner.program_version: {"program_id": 1, "version": spec.space_sha256},
        opentuner.machine_class: {"name": "a device"},
        opentuner.machine: {"name": "a device", "machine_class_id": 1},
        opentuner.input_class: {"program_id": 1, "name": spec.name, "size": -1},
    }
    for table, cells in one.items():
        connection.execute(table.insert().values(id=1, **cells))
    for found in _in_batches(connection, schema.inputs, "features"):
        paths = [{"id": key, "input_class_id": 1, "path": Input(cell).json} for key, cell in found]
        connection.execute(opentuner.input_.insert(), paths)
    for found in _in_batches(connection, schema.configurations, "parameters"):
        data = [zlib.compress(pickle.dumps(cell, 2)) for _, cell in found]
        rows = zip((key for key, _ in found), data, strict=True)
        connection.exec_driver_sql(
            "INSERT INTO configuration (id, program_id, hash, data) "
            "SELECT id, 1, digest, ?2 FROM configurations WHERE id = ?1",
            list(rows),
        )
    connection.exec_driver_sql(
        "INSERT INTO tuning_run (id, uuid, program_version_id, machine_class_id, input_class_id, "
        f"name, state, start_date) SELECT id, uuid, 1, 1, 1, label, 'COMPLETE', '{_MOMENT}' "
        "FROM runs"
    )
    connection.exec_driver_sql(
        "INSERT INTO result (id, configuration_id, machine_id, input_id, tuning_run_id, "
        "collection_date, state, time, was_new_best) SELECT t.result_id, m.configuration_id, 1, "
        f"m.input_id, t.run_id, '{_MOMENT}', iif(m.outcome = 'ok', 'OK', 'ERROR'), "
        "ifnull(m.median_s, 9e999), 0 "
        "FROM tests AS t JOIN measurements AS m ON m.id = t.measurement_id"
    )
    connection.exec_driver_sql(
        "INSERT INTO desired_result (id, configuration_id, tuning_run_id, generation, requestor, "
        "request_date, state, result_id, start_date) SELECT r.id, r.configuration_id, t.run_id, "
        f"t.ordinal, t.requestor, '{_MOMENT}', 'COMPLETE', r.id, '{_MOMENT}' "
        "FROM tests AS t JOIN result AS r ON r.id = t.result_id"
    )


def _in_batches(
    connection: Connection, table: Table, column: str
) -> Iterator[list[tuple[int, Any]]]:
    rows = connection.execute(select(table.c.id, table.c[column]).order_by(table.c.id))
    return ([(key, cell) for key, cell in part] for part in rows.partitions(_BATCH))


def copy_campaign(connection: Connection, number: int, sizes: Mapping[str, int]) -> None:
    """Copy the campaign that was written first as one that was `number` campaigns before it, with
    ids behind those of all others; `sizes` are the largest ids of its tables."""
    shifts: dict[str, object] = {name: number * size for name, size in sizes.items()}
    shifts |= {"number": number, "moment": f"2025-01-01T00:00:00.{999 - number:03d}+00:00"}
    for table, changed in _CHANGED.items():
        key = next(name for name in changed if name in ("id", "measurement_id"))
        (size,) = (size for name, size in sizes.items() if changed[key] == f"{key} + :{name}")
        names = [column.name for column in table.columns]
        cells = ", ".join(changed.get(name, f'"{name}"') for name in names)
        quoted = ", ".join(f'"{name}"' for name in names)
        connection.exec_driver_sql(
            f"INSERT INTO {table.name} ({quoted}) SELECT {cells} FROM {table.name} "
            f"WHERE {key} <= {size} ORDER BY {key}",
            shifts,
        )


def sizes_of(connection: Connection) -> dict[str, int]:
    """Return the largest ids of the tables of which campaigns have rows."""
    tables = (schema.runs, schema.measurements, schema.tests)
    return {t.name: connection.execute(select(func.max(t.c.id))).scalar_one() for t in tables}
