"""Merge results databases: add to one what another one has.

Rows are the same where their natural keys are: an environment's fingerprint, the digests of
spaces, inputs and configurations, a build's key in its environment, the uuids of runs and
measurements. So a database can be merged again after it has grown, in any order.

The other database may come from anywhere. It is opened read-only, and every cell is checked against
its column's type. OpenTuner's tables are merged too (`harness.results.merge_record`), so that a
merged run can go on. A run without a search names no run of OpenTuner's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice

from sqlalchemy import Connection, Engine, Table, select
from sqlalchemy.exc import DBAPIError

from harness.core.errors import ResultsError
from harness.results import schema
from harness.results.connect import hold_campaign, reading
from harness.results.engine import shown_name
from harness.results.inserting import (
    NATURAL_KEYS,
    SHARED,
    NaturalKey,
    find_rows,
    insert_missing,
    insert_returning_ids,
    update_row,
)
from harness.results.merge_record import RecordMerge
from harness.results.notes import last_moment, read_notes
from harness.results.other_names import other_names
from harness.results.read import check_measurements
from harness.results.reader import Row as StoredRow
from harness.results.reader import read_rows, referred, refusing_damage
from harness.results.runs import campaigns
from harness.results.server import is_repeatable, lock_shared_rows, repeated
from harness.results.versions import EVERY, of_version

_CHUNK = 400
"""Rows that are looked up in one query."""


@dataclass(frozen=True)
class Added:
    """What a merge added from one database."""

    database: str
    runs: int
    measurements: int
    samples: int
    notes: tuple[str, ...] = ()


def merge_database(engine: Engine, database: str, kernel_version: str = EVERY) -> Added:
    """Add the rows of `database` that the engine's database lacks; the engine is open for writing.
    Of a kernel that was edited only `kernel_version` is added (see `harness.results.versions`).

    Raises ResultsError, and then adds nothing at all, where the other database cannot be read or
    holds anything that no harness writes.
    """
    with reading(database) as other, other.connect() as source, refusing_damage(source):
        chosen = of_version(campaigns(source), kernel_version)
        is_whole = kernel_version == EVERY
        programs = None if is_whole else {campaign.key.program_sha256 for campaign in chosen}

        def merge() -> dict[str, int]:
            with engine.begin() as target:
                for campaign in chosen:
                    name, key = campaign.space_name, campaign.key
                    hold_campaign(target, name, campaign.environment, key.program_sha256)
            with engine.begin() as target:
                lock_shared_rows(target)
                return _Merge(source, target, programs).run()

        counts = repeated(merge)
        with engine.connect() as target:
            notes = other_names(source, target, {c.key.program_sha256 for c in chosen})
    return Added(database, counts["runs"], counts["measurements"], counts["samples"], tuple(notes))


class _Merge:
    """One merge: rows are read, checked, translated to the target's ids and added in chunks."""

    def __init__(
        self, source: Connection, target: Connection, programs: Collection[str] | None
    ) -> None:
        """`programs` are the digests of the kernels to merge; None merges all."""
        self._source = source
        self._target = target
        self._programs = programs
        self._ids: dict[str, dict[int, int]] = {}  # by table: the source's id -> the target's
        self._left_out: dict[str, set[int]] = {}  # by table: the ids that are not merged
        self._record = RecordMerge(source, target)

    def run(self) -> dict[str, int]:
        """Merge every table, and return the number of added rows by table."""
        added = {"samples": 0}
        for table in NATURAL_KEYS:
            self._ids[table.name] = {}
            self._left_out[table.name] = set()
            added[table.name] = 0
            for rows in map(partial(self._wanted, table), _chunks(self._source, table)):
                new = self._add(table, rows)
                added[table.name] += len(new)
                if table is schema.measurements:
                    added["samples"] += sum(len(row["samples_s"]) for row in new)
        return added

    def _wanted(self, table: Table, rows: Sequence[StoredRow]) -> list[StoredRow]:
        """Leave out the spaces of other programs, and rows that refer to what is left out."""
        if self._programs is None:
            return list(rows)
        left_out = self._left_out[table.name]
        references = [
            (column.name, self._left_out.get(key.column.table.name, set()))
            for column in table.columns
            for key in column.foreign_keys
        ]
        for row in rows:
            is_other = table is schema.spaces and row["program_sha256"] not in self._programs
            if is_other or any(row[name] in gone for name, gone in references):
                left_out.add(row["id"])
        return [row for row in rows if row["id"] not in left_out]

    def _add(self, table: Table, rows: Sequence[StoredRow]) -> list[StoredRow]:
        """Add the rows that are new, and return them as they are in the source."""
        if table is schema.runs:
            self._record.copy_runs(row["tuning_run_id"] for row in rows)
        for row in rows if table is schema.runs else ():
            read_notes(row["notes"])
        if table is schema.measurements and rows:
            check_measurements({name: [row[name] for row in rows] for name in rows[0]})
        there, names = [self._translated(table, row) for row in rows], NATURAL_KEYS[table]
        keys = [tuple(row[name] for name in names) for row in there]
        known = find_rows(self._target, table, names, keys)
        if table is schema.runs:
            self._update_runs(rows, known)
        elif table is schema.commands:
            self._update_commands(rows, known)
        new = {key: index for index, key in enumerate(keys) if key not in known}
        if table is schema.tests:
            self._add_results([there[index] for index in new.values()])
        known |= zip(
            new, self._insert(table, [there[index] for index in new.values()]), strict=True
        )
        for row, key in zip(rows, keys, strict=True):
            self._ids[table.name][row["id"]] = known[key]
        return [rows[index] for index in new.values()]

    def _translated(self, table: Table, row: StoredRow) -> StoredRow:
        """Return a row with the target's ids instead of the source's."""
        there = {name: value for name, value in row.items() if name != "id"}
        for column in table.columns:
            for reference in column.foreign_keys:
                there[column.name] = self._id(reference.column.table, row[column.name])
        if table is schema.runs:
            there["tuning_run_id"] = self._record.run_id(row["tuning_run_id"])
        return there

    def _id(self, table: Table, source_id: int | None) -> int | None:
        return None if source_id is None else referred(table, self._ids[table.name], source_id)

    def _add_results(self, tests: Sequence[StoredRow]) -> None:
        """Copy OpenTuner's results of new tests, and refer to them; a run that names no run of
        OpenTuner's has none."""
        runs = schema.runs
        own = select(runs.c.id).where(
            runs.c.id.in_({test["run_id"] for test in tests}), runs.c.tuning_run_id.is_not(None)
        )
        with_results = set(self._target.execute(own).scalars())
        for test in tests:
            if test["run_id"] not in with_results:
                test["result_id"] = None
        found = self._record.results(test["result_id"] for test in tests)
        for test in tests:
            test["result_id"] = found.get(test["result_id"])

    def _update_runs(self, rows: Sequence[StoredRow], known: Mapping[NaturalKey, int]) -> None:
        """Update runs that have continued in the source since they were merged."""
        runs, ids = schema.runs, _known_ids(rows, known)
        merged = read_rows(self._target, runs, select(runs).where(runs.c.id.in_(ids)))
        there = {row["id"]: last_moment(row) for row in merged}
        later = {
            known_id: row
            for known_id, row in ids.items()
            if known_id in there and last_moment(row) > there[known_id]
        }
        self._update(runs, later, ("state", "test_limit", "ended_at", "notes"))

    def _update_commands(self, rows: Sequence[StoredRow], known: Mapping[NaturalKey, int]) -> None:
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

    def _update(self, table: Table, rows: Mapping[int, StoredRow], names: Sequence[str]) -> None:
        """Copy the columns `names` of the source's rows to the target's rows with these ids."""
        for known_id, row in rows.items():
            update_row(self._target, table, known_id, {name: row[name] for name in names})

    def _insert(self, table: Table, rows: Sequence[StoredRow]) -> list[int]:
        """Insert rows that are new, and return their ids, in order."""
        insert = insert_missing if table in SHARED else insert_returning_ids
        with self._refusing():
            return insert(self._target, table, rows)

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """Turn errors of the target into ResultsError, but those after which it is tried again."""
        try:
            yield
        except DBAPIError as error:
            if is_repeatable(error):
                raise
            name = shown_name(self._target)
            raise ResultsError(f"{name} cannot be written: {error.orig}") from None


def _known_ids(rows: Sequence[StoredRow], known: Mapping[NaturalKey, int]) -> dict[int, StoredRow]:
    """Return the source's runs or commands that the target has, by the target's ids."""
    return {known[row["uuid"],]: row for row in rows if (row["uuid"],) in known}


def _chunks(source: Connection, table: Table) -> Iterator[list[StoredRow]]:
    """Yield a table's rows, checked, in the order of their ids."""
    rows = read_rows(source, table)
    while chunk := list(islice(rows, _CHUNK)):
        yield chunk
