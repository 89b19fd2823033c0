"""Merge results databases: add to one what another one has.

Rows are the same where their natural keys are: an environment's fingerprint, a space's digest, a
build's key in its environment, the uuids of runs and measurements; of OpenTuner's other tables,
what names a row there. A row that ours extend is merged with that extension, as one row. So a
database can be merged again after it has grown, in any order, and a merged run can go on.

The other database may come from anywhere: it is opened read-only, every cell is checked against its
column's type, and a pickle is read as plain data before its bytes are copied. For one that
OpenTuner made alone, the rows that extend its own are made (`harness.results.opentuner`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np
from sqlalchemy import Column, Connection, Engine, Select, Table, inspect, select
from sqlalchemy.exc import DBAPIError, IntegrityError

from harness.core.errors import ResultsError
from harness.results import schema, stock
from harness.results.campaigns import campaigns
from harness.results.database import hold_campaign, reading, shown_name, writing
from harness.results.inserting import (
    NATURAL_KEYS,
    NaturalKey,
    find_rows,
    insert_missing,
    insert_returning_ids,
    insert_rows,
    update_row,
)
from harness.results.notes import last_moment
from harness.results.opentuner import stock_rows
from harness.results.read import check_measurements, check_times
from harness.results.reader import (
    Cells,
    Row,
    read_cells,
    read_rows,
    referred,
    refusing_damage,
    rows_of,
    run_row,
)
from harness.results.server import is_repeatable, lock_shared_rows, repeated
from harness.stats.samples import Ragged, SampleStatistics

_CHUNK = 1_000
"""Rows that are looked up in one query."""


class _RowKind:
    """Rows of a table, with what extends them, and the columns by which rows of two databases are
    the same. Of a row that goes on, the columns `changing` change."""

    def __init__(self, table: Table, key: Sequence[str], changing: Sequence[str] = ()) -> None:
        self.table = table
        self.key = key
        self.changing = changing
        self.extension = schema.EXTENSIONS.get(table)
        self.columns: dict[str, Column[Any]] = dict(table.columns)
        for column in () if self.extension is None else self.extension.columns:
            self.columns.setdefault(column.name, column)
        # The columns that refer to rows; of two tables whose rows are one, to OpenTuner's.
        extended = {ours: of_opentuner for of_opentuner, ours in schema.EXTENSIONS.items()}
        self.references: dict[str, Table] = {}
        for name, column in self.columns.items():
            for key_column in column.foreign_keys:
                to = key_column.column.table
                self.references[name] = extended.get(to, to)

    def select(self, *columns: Column[Any]) -> Select[Any]:
        """Select columns of these rows."""
        query = select(*columns).select_from(self.table)
        return query if self.extension is None else query.join(self.extension)


_RUNS = _RowKind(
    stock.tuning_run,
    ["uuid"],
    changing=["state", "end_date", "final_config_id", "test_limit", "notes"],
)
_KINDS = (
    _RowKind(schema.environments, NATURAL_KEYS[schema.environments]),
    _RowKind(schema.spaces, NATURAL_KEYS[schema.spaces]),
    _RowKind(stock.program, ["project", "name"]),
    _RowKind(stock.program_version, ["program_id", "version", "parameter_info"]),
    _RowKind(stock.machine_class, ["name"]),
    _RowKind(stock.machine, ["name"]),  # OpenTuner finds a machine by its name alone
    _RowKind(stock.input_class, ["program_id", "name", "size"]),
    _RowKind(stock.configuration, ["program_id", "hash"]),
    _RowKind(stock.problem, ["input_class_id", "path", "extra"]),
    _RUNS,
    _RowKind(schema.builds, NATURAL_KEYS[schema.builds]),
    _RowKind(stock.result, ["uuid"]),
    _RowKind(stock.desired_result, ["tuning_run_id", "configuration_id", "request_date"]),
    _RowKind(schema.commands, ["uuid"], changing=["ended_at", "left_out", "stages"]),
)
"""What is merged; kinds to whose rows others refer come first. OpenTuner's tables of bandits, which
nobody reads, are not."""


@dataclass(frozen=True)
class Added:
    """What a merge added from one database."""

    database: str
    runs: int
    measurements: int
    samples: int


def merge_database(engine: Engine, database: str) -> Added:
    """Add the rows of `database` that the engine's database lacks; the engine is open for writing.

    Raises ResultsError, and then adds nothing at all, where the other database cannot be read or
    holds anything that nobody writes.
    """
    with (
        reading(database, stock=True) as other,
        other.connect() as opened,
        refusing_damage(opened),
        _extended(opened) as source,
    ):
        merged = campaigns(source)

        def merge() -> Counter[str]:
            with engine.begin() as target:
                for campaign in merged:
                    name, key = campaign.space_name, campaign.key
                    hold_campaign(target, name, campaign.environment, key.program_sha256)
            with engine.begin() as target:
                lock_shared_rows(target)
                return _Merge(source, target).run()

        added = repeated(merge)
    return Added(database, added["tuning_run"], added["result"], added["samples"])


@contextmanager
def _extended(connection: Connection) -> Iterator[Connection]:
    """Yield a connection to the other database; to one that OpenTuner made alone, to a copy in
    memory that has our rows as well."""
    if not schema.is_stock(inspect(connection).get_table_names()):
        yield connection
        return
    tables = {kind.table for kind in _KINDS}.difference(schema.OURS)
    rows = {table.name: list(read_rows(connection, table)) for table in tables}
    rows |= stock_rows(
        {name: {row["id"]: row for row in of_table} for name, of_table in rows.items()}
    )
    with writing("sqlite://") as copy, copy.begin() as target:
        for table in schema.metadata.sorted_tables:
            try:
                insert_rows(target, table, rows.get(table.name, ()))
            except IntegrityError as error:
                raise ValueError(f"a row of {table.name} refers to none: {error.orig}") from None
        yield target


class _Merge:
    """One merge: rows are translated to the target's ids, and added in chunks."""

    def __init__(self, source: Connection, target: Connection) -> None:
        self._source, self._target = source, target
        self._ids: dict[Table, dict[int, int]] = {}  # by table: the source's id -> the target's
        self._left_out: dict[Table, set[int]] = {}  # by table: the ids that are not merged

    def run(self) -> Counter[str]:
        """Merge all rows, and return the number of those that were added, by table."""
        count: Counter[str] = Counter()
        for kind in _KINDS:
            self._ids[kind.table] = {}
            rows = self._wanted(kind)
            while chunk := list(islice(rows, _CHUNK)):
                if kind.table is stock.result:
                    _check(chunk)
                added = self._add(kind, chunk)
                count[kind.table.name] += len(added)
                if kind.table is stock.result:
                    count["samples"] += sum(len(row["samples_s"]) for row in added)
        return count

    def _wanted(self, kind: _RowKind) -> Iterator[Row]:
        """Yield the rows of a kind but those that are left out, or refer to one that is."""
        left_out = self._left_out.setdefault(kind.table, set())
        if kind.extension is not None:  # another program wrote a row that is not extended
            query = select(kind.table.c.id).outerjoin(kind.extension)
            others = query.where(kind.extension.c.id.is_(None))
            left_out.update(self._source.execute(others).scalars())
        columns, chosen = kind.columns.values(), kind.select(kind.table.c.id)
        for row in rows_of(read_cells(self._source, columns, chosen)):
            for name, to in kind.references.items():
                if row[name] in self._left_out.get(to, ()):
                    left_out.add(row["id"])
            if row["id"] not in left_out:
                yield row

    def _add(self, kind: _RowKind, rows: Sequence[Row]) -> list[Row]:
        """Add the rows that are new, and return them; note the ids of all in the target."""
        there: dict[int, Row] = {}  # by the source's id, as the target has them
        for row in rows:
            there[row["id"]] = translated = dict(row)
            for name, to in kind.references.items():
                if row[name] is not None:
                    translated[name] = referred(to.name, self._ids[to], row[name])
        keys = {row_id: tuple(row[name] for name in kind.key) for row_id, row in there.items()}
        columns = [kind.columns[name] for name in kind.key]
        chosen = kind.select(kind.table.c.id, *columns)
        ids = find_rows(self._target, chosen, columns, list(keys.values()))
        new: dict[NaturalKey, Row] = {}
        for row_id, key in keys.items():
            if key not in ids:
                new[key] = there[row_id]
            elif kind.changing:
                self._update(kind, ids[key], there[row_id])
        ids |= zip(new, self._insert(kind, list(new.values())), strict=True)
        for row_id, key in keys.items():
            self._ids[kind.table][row_id] = ids[key]
        return list(new.values())

    def _insert(self, kind: _RowKind, rows: Sequence[Row]) -> list[int]:
        """Insert rows with what extends them; return their ids."""
        insert = insert_missing if kind.table in NATURAL_KEYS else insert_returning_ids
        try:
            ids = insert(self._target, kind.table, [_cells(kind.table, row) for row in rows])
            if kind.extension is not None:
                extending = [_cells(kind.extension, row) for row in rows]
                for row_id, row in zip(ids, extending, strict=True):
                    row["id"] = row_id
                insert_rows(self._target, kind.extension, extending)
        except DBAPIError as error:
            if is_repeatable(error):
                raise
            name = shown_name(self._target)
            raise ResultsError(f"{name} cannot be written: {error.orig}") from None
        return ids

    def _update(self, kind: _RowKind, row_id: int, row: Row) -> None:
        """Bring a row that is there up to date, where it went on in the source."""
        of_id = kind.select(kind.table.c.id).where(kind.table.c.id == row_id)
        (there,) = rows_of(read_cells(self._target, kind.columns.values(), of_id))
        if _moment(kind, row) > _moment(kind, there):
            changes = {name: row[name] for name in kind.changing}
            update_row(self._target, kind.table, row_id, _cells(kind.table, changes))
            if kind.extension is not None:
                update_row(self._target, kind.extension, row_id, _cells(kind.extension, changes))


def _check(rows: Sequence[Row]) -> None:
    """Check measurements as their reader does."""
    cells: Cells = {name: [row[name] for row in rows] for name in rows[0]}
    check_measurements(cells)
    counts = list(map(len, cells["samples_s"]))
    samples_s = Ragged.of([*chain.from_iterable(cells["samples_s"])], counts)
    ids, times_s = np.array(cells["id"]), np.array(cells["time"], dtype=np.float64)
    check_times(ids, times_s, SampleStatistics.of(samples_s))


def _cells(table: Table, row: Row) -> Row:
    """Return the cells of a row that a table has, without its id."""
    return {name: value for name, value in row.items() if name in table.c and name != "id"}


def _moment(kind: _RowKind, row: Row) -> str:
    """Return when a row was changed last."""
    return last_moment(run_row(row)) if kind is _RUNS else row["ended_at"] or ""
