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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice

import numpy as np
from sqlalchemy import Connection, Engine, Table, inspect, select
from sqlalchemy.exc import DBAPIError, IntegrityError

from harness.core.errors import ResultsError
from harness.results import schema, stock
from harness.results.campaigns import campaigns
from harness.results.database import hold_campaign, reading, shown_name, writing
from harness.results.inserting import (
    NATURAL_KEYS,
    Key,
    find_rows,
    insert_missing,
    insert_returning_ids,
    insert_rows,
    keys_of,
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


_KEYS: Mapping[Table, Sequence[str]] = {
    schema.environments: NATURAL_KEYS[schema.environments],
    schema.spaces: NATURAL_KEYS[schema.spaces],
    stock.program: ["project", "name"],
    stock.program_version: ["program_id", "version", "parameter_info"],
    stock.machine_class: ["name"],
    stock.machine: ["name"],  # OpenTuner finds a machine by its name alone
    stock.input_class: ["program_id", "name", "size"],
    stock.configuration: ["program_id", "hash"],
    stock.problem: ["input_class_id", "path", "extra"],
    stock.tuning_run: ["uuid"],
    schema.builds: NATURAL_KEYS[schema.builds],
    stock.result: ["uuid"],
    stock.desired_result: ["tuning_run_id", "configuration_id", "request_date"],
    schema.commands: ["uuid"],
}
"""What is merged, and the columns by which rows of two databases are the same; tables to whose rows
others refer come first. OpenTuner's tables of bandits, which nobody reads, are not."""

_CHANGING: Mapping[Table, Sequence[str]] = {
    stock.tuning_run: ["state", "end_date", "final_config_id", "test_limit", "notes"],
    schema.commands: ["ended_at", "left_out", "stages"],
}
"""The columns that change where a run or a command goes on."""


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
                    name = campaign.space_name
                    program = campaign.key.program_sha256
                    hold_campaign(target, name, campaign.environment, program)
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
    tables: dict[str, dict[int, Row]] = {}
    for table in _KEYS.keys() - set(schema.OURS):
        tables[table.name] = {row["id"]: row for row in read_rows(connection, table)}
    ours = stock_rows(tables)
    with writing("sqlite://") as copy, copy.begin() as target:
        for table in schema.metadata.sorted_tables:
            rows = ours.get(table.name) or tables.get(table.name, {}).values()
            try:
                insert_rows(target, table, rows)
            except IntegrityError as error:
                raise ValueError(f"a row of {table.name} refers to none: {error.orig}") from None
        yield target


class _Merge:
    """One merge: rows are translated to the target's ids, and added in chunks."""

    def __init__(self, source: Connection, target: Connection) -> None:
        self._source = source
        self._target = target
        self._ids: dict[Table, dict[int, int]] = {}  # by table: the source's id -> the target's
        self._left_out: dict[Table, set[int]] = {}  # by table: the ids that are not merged

    def run(self) -> Counter[str]:
        """Merge all rows, and return the number of those that were added, by table."""
        count: Counter[str] = Counter()
        for table in _KEYS:
            self._ids[table] = {}
            rows = self._wanted(table)
            while chunk := list(islice(rows, _CHUNK)):
                if table is stock.result:
                    _check(chunk)
                added = self._add(table, chunk)
                count[table.name] += len(added)
                if table is stock.result:
                    count["samples"] += sum(len(row["samples_s"]) for row in added)
        return count

    def _wanted(self, table: Table) -> Iterator[Row]:
        """Yield the rows of a table but those that another program wrote, so that they are not
        extended, or that refer to one of these."""
        left_out = self._left_out.setdefault(table, set())
        if table in schema.EXTENSIONS:
            extension = schema.EXTENSIONS[table]
            query = select(table.c.id).outerjoin(extension).where(extension.c.id.is_(None))
            left_out.update(self._source.execute(query).scalars())
        columns = schema.columns_of(table).values()
        references = _references(table)
        for row in rows_of(
            read_cells(self._source, columns, schema.select_extended(table, table.c.id))
        ):
            for name, to in references.items():
                if row[name] in self._left_out.get(to, ()):
                    left_out.add(row["id"])
            if row["id"] not in left_out:
                yield row

    def _add(self, table: Table, rows: Sequence[Row]) -> list[Row]:
        """Add the rows that are new, and return them; note the ids of all in the target."""
        translated = [dict(row) for row in rows]
        for name, to in _references(table).items():
            for row in translated:
                if row[name] is not None:
                    row[name] = referred(to.name, self._ids[to], row[name])
        keys = keys_of(translated, _KEYS[table])
        ids = find_rows(self._target, table, _KEYS[table], keys)
        new: dict[Key, Row] = {}
        for key, row in zip(keys, translated, strict=True):
            if key not in ids:
                new[key] = row
            elif table in _CHANGING:
                self._update(table, ids[key], row)
        insert = insert_missing if table in NATURAL_KEYS else insert_returning_ids
        try:
            added = insert(self._target, table, list(new.values()))
        except DBAPIError as error:
            if is_repeatable(error):
                raise
            name = shown_name(self._target)
            raise ResultsError(f"{name} cannot be written: {error.orig}") from None
        ids |= zip(new, added, strict=True)
        for row, key in zip(rows, keys, strict=True):
            self._ids[table][row["id"]] = ids[key]
        return list(new.values())

    def _update(self, table: Table, row_id: int, row: Row) -> None:
        """Bring a row that is there up to date, where it went on in the source."""
        of_id = schema.select_extended(table, table.c.id).where(table.c.id == row_id)
        (there,) = rows_of(read_cells(self._target, schema.columns_of(table).values(), of_id))
        if _moment(table, row) > _moment(table, there):
            update_row(self._target, table, row_id, {name: row[name] for name in _CHANGING[table]})


@cache
def _references(table: Table) -> Mapping[str, Table]:
    """Return the columns that refer to rows; of two tables whose rows are one, to OpenTuner's."""
    extended = {ours: of_opentuner for of_opentuner, ours in schema.EXTENSIONS.items()}
    references: dict[str, Table] = {}
    for name, column in schema.columns_of(table).items():
        for key_column in column.foreign_keys:
            to = key_column.column.table
            references[name] = extended.get(to, to)
    return references


def _check(rows: Sequence[Row]) -> None:
    """Check measurements as their reader does."""
    cells: Cells = {name: [row[name] for row in rows] for name in rows[0]}
    check_measurements(cells)
    counts = list(map(len, cells["samples_s"]))
    samples_s = Ragged.of([*chain.from_iterable(cells["samples_s"])], counts)
    times_s = np.array(cells["time"], dtype=np.float64)
    check_times(np.array(cells["id"]), times_s, SampleStatistics.of(samples_s))


def _moment(table: Table, row: Row) -> str:
    """Return when a row was changed last."""
    return last_moment(run_row(row)) if table is stock.tuning_run else row["ended_at"] or ""
