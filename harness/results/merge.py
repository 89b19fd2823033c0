"""Merge results databases: add to one what another one has.

Rows are the same where their natural keys are: an environment's fingerprint, the digests of
spaces, inputs and configurations, a build's key in its environment, the uuids of runs and
measurements. So a database can be merged again after it has grown, in any order.

OpenTuner's tables are merged in the same way, so that a merged run can go on. They are known by
reflection. The other database may come from anywhere: it is opened read-only, every cell is checked
against its column's type, and a pickle is read as plain data before its bytes are copied. One that
OpenTuner made alone is imported (`harness.results.opentuner`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from sqlalchemy import Connection, Engine, Enum, MetaData, Table, event, inspect, select
from sqlalchemy.exc import DBAPIError

from harness.core.errors import ResultsError
from harness.results import schema
from harness.results.campaigns import campaigns_of, with_space
from harness.results.database import hold_campaign, reading, shown_name
from harness.results.inserting import (
    NATURAL_KEYS,
    SHARED,
    NaturalKey,
    find_rows,
    insert_missing,
    insert_returning_ids,
    update_row,
)
from harness.results.notes import last_moment
from harness.results.opentuner import stock_rows
from harness.results.provenance import EVERY, of_version
from harness.results.read import check_measurements
from harness.results.reader import Row, read_rows, referred, refusing_damage
from harness.results.schema import OPENTUNER_KEYS, is_stock
from harness.results.server import is_repeatable, lock_shared_rows, repeated

_CHUNK = 1_000
"""Rows that are looked up in one query."""

_OWNED = ("result", "desired_result", "bandit_info", "bandit_sub_technique")
"""OpenTuner's tables in which a run may have several rows with one key: they are told apart by
their order."""

_CHANGING: Mapping[str, tuple[str, ...]] = {
    "tuning_run": ("state", "end_date", "final_config_id"),
    "runs": ("state", "test_limit", "ended_at", "notes"),
    "commands": ("ended_at", "left_out", "stages"),
}
"""What changes of a row that goes on, by its table."""

_REFERENCES = {("runs", "tuning_run_id"): "tuning_run", ("tests", "result_id"): "result"}
"""The tables of OpenTuner's to which ours refer; other references are foreign keys."""

_RowsOf = Callable[[Table], Iterator[Row]]


@dataclass(frozen=True)
class Added:
    """What a merge added from one database."""

    database: str
    runs: int
    measurements: int
    samples: int


def merge_database(engine: Engine, database: str, kernel_version: str = EVERY) -> Added:
    """Add the rows of `database` that the engine's database lacks; the engine is open for writing,
    and its database has OpenTuner's tables. Of a kernel that was edited only `kernel_version` is
    added (see `harness.results.provenance`).

    Raises ResultsError, and then adds nothing at all, where the other database cannot be read or
    holds anything that nobody writes.
    """
    with reading(database, stock=True) as other, other.connect() as source, refusing_damage(source):
        with engine.connect() as target:
            record = _record(target, inspect(source).get_table_names())
        rows_of = _rows_of(source, record)
        runs = list(with_space(rows_of, schema.runs))
        chosen = of_version(campaigns_of(runs), kernel_version)
        programs = {campaign.key.program_sha256 for campaign in chosen}

        def merge() -> Counter[str]:
            with engine.begin() as target:
                for campaign in chosen:
                    name, key = campaign.space_name, campaign.key
                    hold_campaign(target, name, campaign.environment, key.program_sha256)
            with engine.begin() as target:
                lock_shared_rows(target)
                merging = _Merge(rows_of, target)
                if kernel_version != EVERY:
                    merging.leave_out(runs, programs)
                return merging.run([*record.sorted_tables, *NATURAL_KEYS])

        added = repeated(merge)
    return Added(database, added["runs"], added["measurements"], added["samples"])


def _record(target: Connection, there: Sequence[str]) -> MetaData:
    """Return OpenTuner's tables as the target has them, as far as they are `there` in the source;
    pickles are bytes."""
    record = MetaData()

    @event.listens_for(record, "column_reflect")
    def _reflected(_inspector: object, _table: object, column: dict[str, Any]) -> None:
        if not isinstance(column["type"], Enum):  # which only PostgreSQL has
            column["type"] = column["type"].as_generic()
        column["default"] = None  # an id numbers itself

    record.reflect(target, only=[name for name in OPENTUNER_KEYS if name in there])
    return record


def _rows_of(source: Connection, record: MetaData) -> _RowsOf:
    """Return what reads the rows of a table, checked; of a database without our tables, these are
    made of OpenTuner's."""
    if not is_stock(inspect(source).get_table_names()):
        return lambda table: read_rows(source, table)
    tables = {
        name: {row["id"]: row for row in read_rows(source, table)}
        for name, table in record.tables.items()
    }
    ours = stock_rows(tables)
    return lambda table: iter(
        tables[table.name].values() if table.name in tables else ours[table.name]
    )


class _Merge:
    """One merge: rows are translated to the target's ids, and added in chunks."""

    def __init__(self, rows_of: _RowsOf, target: Connection) -> None:
        self._rows_of, self._target = rows_of, target
        self._ids: dict[str, dict[int, int]] = {}  # by table: the source's id -> the target's
        self._left_out: dict[str, set[int]] = {}  # by table: the ids that are not merged
        self._seen: dict[str, Counter[NaturalKey]] = {name: Counter() for name in _OWNED}
        self._added: Counter[str] = Counter()

    def leave_out(self, runs: Sequence[Row], programs: set[str]) -> None:
        """Leave out the runs of other programs than these, and what belongs to them."""
        others = [run for run in runs if run["space"]["program_sha256"] not in programs]
        self._left_out = {
            "spaces": {run["space_id"] for run in others},
            "runs": {run["id"] for run in others},
            "tuning_run": {run["tuning_run_id"] for run in others},
        }

    def run(self, tables: Sequence[Table]) -> Counter[str]:
        """Merge these tables, and return the number of added rows by table."""
        for table in tables:
            ids = self._ids[table.name] = {}
            rows = self._wanted(table)
            while chunk := list(islice(rows, _CHUNK)):
                if table is schema.measurements:
                    check_measurements({name: [row[name] for row in chunk] for name in chunk[0]})
                new = self._add(table, chunk, ids)
                self._added[table.name] += len(new)
                if table is schema.measurements:
                    self._added["samples"] += sum(len(row["samples_s"]) for row in new)
        return self._added

    def _wanted(self, table: Table) -> Iterator[Row]:
        """Yield the rows of a table but those that are left out, or refer to one that is."""
        left_out = self._left_out.setdefault(table.name, set())
        references = [(name, self._left_out.get(to, set())) for name, to in _references(table)]
        for row in self._rows_of(table):
            if any(row[name] in gone for name, gone in references):
                left_out.add(row["id"])
            if row["id"] not in left_out:
                yield row

    def _add(self, table: Table, rows: Sequence[Row], ids: dict[int, int]) -> list[Row]:
        """Add the rows that are new, and return them; note the ids of all in the target."""
        there = [self._translated(table, row) for row in rows]
        names = NATURAL_KEYS.get(table) or OPENTUNER_KEYS[table.name]
        keys = [self._key(table, names, row) for row in there]
        known = self._known(table, names, keys)
        if table.name in _CHANGING:
            self._update(
                table, {known[k]: r for k, r in zip(keys, there, strict=True) if k in known}
            )
        new = {key: index for index, key in enumerate(keys) if key not in known}
        insert = insert_missing if table in SHARED else insert_returning_ids
        try:
            added = insert(self._target, table, [there[index] for index in new.values()])
        except DBAPIError as error:
            if is_repeatable(error):
                raise
            name = shown_name(self._target)
            raise ResultsError(f"{name} cannot be written: {error.orig}") from None
        known |= zip(new, added, strict=True)
        ids |= {row["id"]: known[key] for row, key in zip(rows, keys, strict=True)}
        return [there[index] for index in new.values()]

    def _translated(self, table: Table, row: Row) -> Row:
        """Return a row with the target's ids in place of the source's."""
        there = {name: value for name, value in row.items() if name != "id"}
        for name, to in _references(table):
            ids, source_id = self._ids.get(to, {}), row[name]
            if (table.name, name) == ("tests", "result_id"):
                there[name] = ids.get(source_id)
            elif source_id is not None:
                there[name] = referred(to, ids, source_id)
        return there

    def _key(self, table: Table, names: Sequence[str], row: Row) -> NaturalKey:
        key = tuple(row[name] for name in names)
        if table.name not in _OWNED:
            return key
        self._seen[table.name][key] += 1
        return (*key, self._seen[table.name][key])

    def _known(
        self, table: Table, names: Sequence[str], keys: Sequence[NaturalKey]
    ) -> dict[NaturalKey, int]:
        """Return the target's ids of the rows that it has."""
        if table.name not in _OWNED:
            return {key: ids[0] for key, ids in find_rows(self._target, table, names, keys).items()}
        ids_by_key = find_rows(self._target, table, names, [key[:-1] for key in keys])
        return {(*key, n): row for key, ids in ids_by_key.items() for n, row in enumerate(ids, 1)}

    def _update(self, table: Table, rows: Mapping[int, Row]) -> None:
        """Bring rows that are there up to date, where they went on in the source."""
        of_ids = select(table).where(table.c.id.in_(rows))
        for there in list(read_rows(self._target, table, of_ids)) if rows else ():
            row = rows[there["id"]]
            if _moment(table, row) > _moment(table, there):
                changes = {name: row[name] for name in _CHANGING[table.name]}
                update_row(self._target, table, there["id"], changes)


def _references(table: Table) -> list[tuple[str, str]]:
    """Return the columns that refer to rows of other tables, with the names of these."""
    keys = [(c.name, key.column.table.name) for c in table.columns for key in c.foreign_keys]
    return keys + [(name, to) for (own, name), to in _REFERENCES.items() if own == table.name]


def _moment(table: Table, row: Row) -> Any:
    """Return when a row was changed last."""
    if table is schema.runs:
        return last_moment(row)
    return row["ended_at"] or "" if table is schema.commands else row["end_date"] or datetime.min
