"""Merge results databases: add to one what another one has.

Rows are the same where their natural keys are: an environment's fingerprint, the digests of
spaces, inputs and configurations, a build's key in its environment, the uuids of runs and
measurements. So a database can be merged again after it has grown, in any order.

The other database may come from anywhere. It is opened read-only, only the plain tables are
read, every cell is checked against its column's type, and what can be computed from a row
(digests, medians) has to agree with it. OpenTuner's own tables are not copied: they hold
pickles, which can run code when they are read. So a merged run names no run of OpenTuner's
(`runs.tuning_run_id` is null), and its tests name no result (`tests.result_id` is null).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine, Table, bindparam, insert, select, update
from sqlalchemy.exc import DBAPIError

from harness.core.errors import ResultsError
from harness.results import schema
from harness.results.connect import has_column, has_table, reading, shown_name
from harness.results.inserting import NATURAL_KEYS, NaturalKey, find_rows
from harness.results.notes import last_moment
from harness.results.read import refusing_damage
from harness.results.validate import check_cells, check_meaning, check_timing

_CHUNK = 400
"""Rows that are looked up in one query; older versions of SQLite take at most 999 values."""

_LOCAL = {"tuning_run_id": None, "result_id": None}
"""References to OpenTuner's rows, which stay behind."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Added:
    """What a merge added from one database."""

    database: str
    runs: int
    measurements: int
    samples: int


def merge_database(engine: Engine, database: str) -> Added:
    """Add the rows of `database` that the engine's database lacks; the engine is open for writing.

    Raises ResultsError, and then adds nothing at all, where the other database cannot be
    read, has another schema version, or holds anything that no harness writes.
    """
    with (
        engine.begin() as target,
        reading(database) as other,
        other.connect() as source,
        refusing_damage(source),
    ):
        counts = _Merge(source, target).run()
    return Added(database, counts["runs"], counts["measurements"], counts["samples"])


class _Merge:
    """One merge: rows are read, checked, translated to the target's ids and added in chunks."""

    def __init__(self, source: Connection, target: Connection) -> None:
        self._source = source
        self._target = target
        self._ids: dict[str, dict[int, int]] = {}  # by table: the source's id -> the target's

    def run(self) -> dict[str, int]:
        """Merge every table, and return the number of added rows by table."""
        added = {"samples": 0}
        for table in NATURAL_KEYS:
            self._ids[table.name] = {}
            added[table.name] = 0
            for rows in _chunks(self._source, table):
                new = self._add(table, rows)
                added[table.name] += len(new)
                if table is schema.measurements:
                    added["samples"] += self._add_samples(rows, new)
        return added

    def _add(self, table: Table, rows: Sequence[Row]) -> list[Row]:
        """Add the rows that are new, and return them as they are in the source."""
        there, names = [self._translated(table, row) for row in rows], NATURAL_KEYS[table]
        keys = [tuple(row[name] for name in names) for row in there]
        known = find_rows(self._target, table, names, keys)
        if table is schema.runs:
            self._update_runs(rows, known)
        elif table is schema.commands:
            self._update_commands(rows, known)
        new = {key: index for index, key in enumerate(keys) if key not in known}
        _insert(self._target, table, [there[index] for index in new.values()])
        known |= find_rows(self._target, table, names, new)
        for row, key in zip(rows, keys, strict=True):
            self._ids[table.name][row["id"]] = known[key]
        return [rows[index] for index in new.values()]

    def _translated(self, table: Table, row: Row) -> Row:
        """Return a row with the target's ids instead of the source's."""
        there = {name: value for name, value in row.items() if name != "id"}
        for column in table.columns:
            for reference in column.foreign_keys:
                there[column.name] = self._id(reference.column.table, row[column.name])
        return there | {name: value for name, value in _LOCAL.items() if name in there}

    def _id(self, table: Table, source_id: int | None) -> int | None:
        if source_id is None:
            return None
        found = self._ids[table.name].get(source_id)
        if found is None:
            raise ValueError(f"a row refers to row {source_id} of {table.name}, which is missing")
        return found

    def _update_runs(self, rows: Sequence[Row], known: Mapping[NaturalKey, int]) -> None:
        """Update runs that were merged before and have continued in the source since; runs that
        were searched in the target stay as they are."""
        runs, ids = schema.runs, _known_ids(rows, known)
        merged = select(runs.c.id, runs.c.started_at, runs.c.ended_at, runs.c.notes).where(
            runs.c.id.in_(ids), runs.c.tuning_run_id.is_(None)
        )
        there = {row["id"]: last_moment(row) for row in self._target.execute(merged).mappings()}
        later = {
            known_id: row
            for known_id, row in ids.items()
            if known_id in there and last_moment(row) > there[known_id]
        }
        self._update(runs, later, ("state", "test_limit", "ended_at", "notes"))

    def _update_commands(self, rows: Sequence[Row], known: Mapping[NaturalKey, int]) -> None:
        """Update commands that have ended since they were merged."""
        commands, ids = schema.commands, _known_ids(rows, known)
        going_on = select(commands.c.id).where(
            commands.c.id.in_(ids), commands.c.ended_at.is_(None)
        )
        ended = {
            known_id: ids[known_id]
            for known_id in self._target.execute(going_on).scalars()
            if ids[known_id]["ended_at"] is not None
        }
        self._update(commands, ended, ("ended_at", "left_out", "stages"))

    def _update(self, table: Table, rows: Mapping[int, Row], names: Sequence[str]) -> None:
        """Copy the columns `names` of the source's rows to the target's rows with these ids."""
        changes = [
            {"known_id": known_id} | {name: row[name] for name in names}
            for known_id, row in rows.items()
        ]
        if changes:
            same = update(table).where(table.c.id == bindparam("known_id"))
            self._target.execute(same.values({name: bindparam(name) for name in names}), changes)

    # ---------------------------------------------------------------- samples

    def _add_samples(self, rows: Sequence[Row], new: Sequence[Row]) -> int:
        """Add the samples of new measurements, and check all against their measurements."""
        samples_s = _read_samples(self._source, [row["id"] for row in rows])
        for row in rows:
            check_timing(row, samples_s.get(row["id"], []))
        ids = self._ids[schema.measurements.name]
        added = [
            {"measurement_id": ids[row["id"]], "ordinal": ordinal, "time_s": time_s}
            for row in new
            for ordinal, time_s in enumerate(samples_s.get(row["id"], []))
        ]
        _insert(self._target, schema.samples, added)
        return len(added)


def _known_ids(rows: Sequence[Row], known: Mapping[NaturalKey, int]) -> dict[int, Row]:
    """Return the source's runs or commands that the target has, by the target's ids."""
    return {known[row["uuid"],]: row for row in rows if (row["uuid"],) in known}


def _chunks(source: Connection, table: Table) -> Iterator[list[Row]]:
    """Yield a table's rows, checked, in the order of their ids.

    An older database yields no rows of a newer table, and null in newer columns.
    """
    if not has_table(source, table):
        return
    there = [column for column in table.columns if has_column(source, column)]
    found = source.execute(select(*there).order_by(table.c.id)).mappings()
    for partition in found.partitions(_CHUNK):
        rows = [dict.fromkeys(table.columns.keys()) | dict(row) for row in partition]
        for row in rows:
            check_cells(table, row)
            check_meaning(table, row)
        yield rows


def _read_samples(source: Connection, ids: Sequence[int]) -> dict[int, list[float]]:
    query = (
        select(schema.samples)
        .where(schema.samples.c.measurement_id.in_(ids))
        .order_by(schema.samples.c.measurement_id, schema.samples.c.ordinal)
    )
    samples_s: dict[int, list[float]] = {}
    for measurement_id, ordinal, time_s in source.execute(query):
        own = samples_s.setdefault(measurement_id, [])
        if ordinal != len(own) or type(time_s) is not float or not math.isfinite(time_s):
            raise ValueError(f"measurement {measurement_id}: sample {ordinal!r} is {time_s!r}")
        own.append(time_s)
    return samples_s


def _insert(target: Connection, table: Table, rows: Sequence[Row]) -> None:
    try:
        if rows:
            target.execute(insert(table), rows)
    except DBAPIError as error:
        raise ResultsError(f"{shown_name(target)} cannot be written: {error.orig}") from None
