"""Merge OpenTuner's tables: the merged database stays a database of OpenTuner's.

Rows get new ids. Those that OpenTuner looks up by their values, such as a program by its name, are
there once. A result is copied with the test that refers to it, and with the requests for it; a run
with its program, input class and bandit. Every pickle is read as plain data before its bytes are
copied, so that none that could run code is passed on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, insert, select, true, update

from harness.results import opentuner_tables as opentuner
from harness.results.inserting import find_rows
from harness.results.opentuner_rows import Row, read_opentuner
from harness.results.reader import referred
from harness.results.tables import make_tables

_KEYS: Mapping[Table, tuple[str, ...]] = {
    opentuner.program: ("project", "name"),
    opentuner.program_version: ("program_id", "version", "parameter_info"),
    opentuner.machine_class: ("name",),
    opentuner.input_class: ("program_id", "name", "size"),
    opentuner.input_: ("input_class_id", "path", "extra"),
}
"""The columns by which rows of two databases are the same, in tables that are held in memory."""

_INDEXED: Mapping[Table, tuple[str, ...]] = {
    opentuner.configuration: ("program_id", "hash"),
    opentuner.tuning_run: ("uuid",),
}
"""The same, in tables that have an index for it."""

_CHANGED = ("state", "end_date", "final_config_id")
"""What changes of a run that goes on."""

_CHUNK = 400
_ALL: ColumnElement[bool] = true()


class RecordMerge:
    """Copies rows of OpenTuner's tables, and knows the target's ids of the source's rows."""

    def __init__(self, source: Connection, target: Connection) -> None:
        """Make OpenTuner's tables in the target if they are missing."""
        self._source, self._target = source, target
        make_tables(target, opentuner.metadata)
        if target.execute(select(opentuner.meta.c.id)).first() is None:
            target.execute(opentuner.meta.insert().values(db_version=opentuner.DB_VERSION))
        self._ids: dict[str, dict[int, int]] = {name: {} for name in opentuner.metadata.tables}
        self._known: dict[str, dict[tuple[Any, ...], int]] = {}

    def copy_runs(self, ids: Iterable[int | None]) -> None:
        """Copy the runs with these ids, unless they are there."""
        self._copied(opentuner.tuning_run, ids)

    def run_id(self, source_id: int | None) -> int | None:
        """Return the target's id of a run that was copied."""
        return None if source_id is None else self._ids[opentuner.tuning_run.name][source_id]

    def results(self, ids: Iterable[int | None]) -> dict[int, int]:
        """Copy results, none of which is there, and the requests for them; return their ids in the
        target."""
        wanted = [one for one in ids if one is not None]
        found = self._copied(opentuner.result, wanted)
        self._copy_where(opentuner.desired_result, "result_id", wanted)
        return found

    # ------------------------------------------------------------------ copying

    def _copied(self, table: Table, ids: Iterable[int | None]) -> dict[int, int]:
        known = self._ids[table.name]
        new = sorted({one for one in ids if one is not None and one not in known})
        for first in range(0, len(new), _CHUNK):
            part = new[first : first + _CHUNK]
            chosen = select(table).where(table.c.id.in_(part))
            rows = {row["id"]: row for row in read_opentuner(self._source, table, chosen)}
            self._copy(table, [referred(table, rows, one) for one in part])
        return known

    def _copy_where(
        self, table: Table, name: str, ids: Sequence[int], condition: ColumnElement[bool] = _ALL
    ) -> None:
        """Copy the rows that refer to the source's rows with these ids."""
        for first in range(0, len(ids), _CHUNK):
            part = ids[first : first + _CHUNK]
            chosen = select(table).where(table.c[name].in_(part), condition)
            self._copy(table, list(read_opentuner(self._source, table, chosen)))

    def _copy(self, table: Table, rows: Sequence[Row]) -> None:
        """Copy rows with what they refer to."""
        for column in table.columns:
            for reference in column.foreign_keys:
                self._copied(reference.column.table, (row[column.name] for row in rows))
        there = [self._translated(table, row) for row in rows]
        placed = self._placed(table, there)
        self._ids[table.name] |= zip((row["id"] for row in rows), placed, strict=True)
        if table is opentuner.tuning_run:
            self._complete_runs([row["id"] for row in rows])

    def _translated(self, table: Table, row: Row) -> Row:
        """Return a row with the target's ids in place of the source's."""
        there = {name: value for name, value in row.items() if name != "id"}
        for column in table.columns:
            for reference in column.foreign_keys:
                if row[column.name] is not None:
                    there[column.name] = self._ids[reference.column.table.name][row[column.name]]
        return there

    def _insert(self, table: Table, rows: Sequence[Row]) -> list[int]:
        if not rows:
            return []
        query = insert(table).returning(table.c.id, sort_by_parameter_order=True)
        added = [int(row_id) for row_id in self._target.execute(query, rows).scalars()]
        if table in _KEYS:
            keys = (tuple(row[name] for name in _KEYS[table]) for row in rows)
            self._all(table).update(zip(keys, added, strict=True))
        return added

    # ------------------------------------------------------------------ finding

    def _placed(self, table: Table, rows: Sequence[Row]) -> list[int]:
        """Return the ids of rows, which are added where they are missing."""
        if table is opentuner.machine:
            return list(map(self._machine, rows))
        if table in _KEYS:
            return [self._one(table, row) for row in rows]
        if table not in _INDEXED:
            return self._insert(table, rows)
        names = _INDEXED[table]
        keys = [tuple(row[name] for name in names) for row in rows]
        known = find_rows(self._target, table, names, keys)
        if table is opentuner.tuning_run:
            self._continue_runs([row for row, key in zip(rows, keys, strict=True) if key in known])
        new = {key: row for key, row in zip(keys, rows, strict=True) if key not in known}
        known |= zip(new, self._insert(table, list(new.values())), strict=True)
        return [known[key] for key in keys]

    def _one(self, table: Table, row: Row) -> int:
        key = tuple(row[name] for name in _KEYS[table])
        known = self._all(table)
        if key not in known:
            self._insert(table, [row])
        return known[key]

    def _all(self, table: Table) -> dict[tuple[Any, ...], int]:
        """Return the ids of all rows of the target by their keys."""
        if table.name not in self._known:
            columns = [table.c[name] for name in _KEYS[table]]
            rows = self._target.execute(select(*columns, table.c.id))
            self._known[table.name] = {tuple(row[:-1]): row[-1] for row in rows}
        return self._known[table.name]

    def _machine(self, row: Row) -> int:
        """Return the id of a machine. OpenTuner finds a machine by its name alone, so that another
        one of the same name gets a number."""
        machines = opentuner.machine
        for number in count(1):
            name = row["name"] if number == 1 else f"{row['name']} ({number})"
            query = select(machines).where(machines.c.name == name)
            found = self._target.execute(query).mappings().first()
            if found is None:
                (added,) = self._insert(machines, [{**row, "name": name}])
                return added
            if (found["cpu"], found["cores"]) == (row["cpu"], row["cores"]):
                return int(found["id"])
        raise AssertionError

    # --------------------------------------------------------------------- runs

    def _complete_runs(self, ids: Sequence[int]) -> None:
        """Copy what runs have besides results, unless it is there: bandits, and requests that got
        no result."""
        target_ids = [self._ids[opentuner.tuning_run.name][one] for one in ids]
        for table, condition in (
            (opentuner.bandit_info, _ALL),
            (opentuner.desired_result, opentuner.desired_result.c.result_id.is_(None)),
        ):
            of_run = table.c.tuning_run_id
            have = set(
                self._target.execute(
                    select(of_run).where(of_run.in_(target_ids), condition).distinct()
                ).scalars()
            )
            new = [one for one, there in zip(ids, target_ids, strict=True) if there not in have]
            self._copy_where(table, "tuning_run_id", new, condition)
            if table is opentuner.bandit_info:
                own = select(table.c.id).where(of_run.in_(new))
                bandits = list(self._source.execute(own).scalars())
                self._copy_where(opentuner.bandit_sub_technique, "bandit_info_id", bandits)

    def _continue_runs(self, rows: Sequence[Row]) -> None:
        """Bring runs that are there up to date, where they went on in the source."""
        runs = opentuner.tuning_run
        for row in rows:
            same = runs.c.uuid == row["uuid"]
            ended = self._target.execute(select(runs.c.end_date).where(same)).scalar_one()
            if row["end_date"] is not None and (ended is None or ended < row["end_date"]):
                changed = {name: row[name] for name in _CHANGED}
                self._target.execute(update(runs).where(same).values(changed))
