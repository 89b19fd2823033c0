"""Insert and update rows, and find rows by their natural keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import Any

from sqlalchemy import (
    Connection,
    Insert,
    Select,
    Table,
    bindparam,
    select,
    update,
)
from sqlalchemy.dialects import postgresql

from harness.results import schema
from harness.results.prepared import execute_insert, insert_returning_id, insert_unless_there
from harness.results.url import POSTGRES

NaturalKey = tuple[Any, ...]

NATURAL_KEYS: Mapping[Table, tuple[str, ...]] = {
    schema.environments: ("fingerprint",),
    schema.spaces: ("sha256",),
    schema.inputs: ("space_name", "digest"),
    schema.configurations: ("digest",),
    schema.commands: ("uuid",),
    schema.runs: ("uuid",),
    schema.builds: ("environment_id", "key"),
    schema.measurements: ("uuid",),
    schema.observations: ("measurement_id", "name"),
    schema.tests: ("run_id", "ordinal"),
}
"""The columns by which rows of two databases are the same; tables that others refer to come
first."""

SHARED = frozenset(
    (schema.environments, schema.spaces, schema.inputs, schema.configurations, schema.builds)
)
"""Tables to whose rows several campaigns refer: their writers may add the same row."""


def insert_rows(connection: Connection, table: Table, rows: Iterable[Mapping[str, Any]]) -> None:
    """Insert rows whose ids are not needed; many at once cost a tenth of one by one."""
    stored = [storable_row(row) for row in rows]
    if stored:
        execute_insert(connection, table, stored)


def insert_keyed(
    connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]], names: tuple[str, ...]
) -> list[int]:
    """Insert rows and return their ids, in order.

    The columns `names` identify a row: no two rows, in the table or new, may agree in all of them.
    """
    if len(rows) == 1:
        return [insert_returning_id(connection, table, storable_row(rows[0]))]
    insert_rows(connection, table, rows)
    keys = [tuple(row[name] for name in names) for row in rows]
    found = find_rows(connection, table, names, keys)
    return [found[key] for key in keys]


def insert_missing(
    connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]], names: tuple[str, ...]
) -> list[int]:
    """Insert rows unless they are there, and return their ids, in order.

    The table has a unique constraint on the columns `names`. On a server, another writer may be
    adding equal rows now.
    """
    if len(rows) == 1:
        stored_row = storable_row(rows[0])
        row_id = insert_unless_there(connection, table, stored_row)
        if row_id is None:
            key = tuple(rows[0][name] for name in names)
            row_id = find_rows(connection, table, names, [key])[key]
        return [row_id]
    if connection.dialect.name != POSTGRES:
        return insert_keyed(connection, table, rows, names)
    keys = [tuple(row[name] for name in names) for row in rows]
    # Always in the same order: two writers would wait for each other's rows.
    stored = [storable_row(row) for _, row in sorted(zip(keys, rows, strict=True), key=_key)]
    added = connection.execute(_insert_unless_there(table, names), stored)
    found = {tuple(key): row_id for row_id, *key in added}
    found |= find_rows(connection, table, names, (key for key in keys if key not in found))
    return [found[key] for key in keys]


def _key(pair: tuple[NaturalKey, Mapping[str, Any]]) -> NaturalKey:
    return pair[0]


def find_rows(
    connection: Connection, table: Table, names: tuple[str, ...], keys: Iterable[NaturalKey]
) -> dict[NaturalKey, int]:
    """Return the ids of rows by their values in the columns `names`; missing rows are left out.

    Keys that agree in all but the last value share one query: SQLite uses its index for that, but
    not for a list of tuples.
    """
    found: dict[NaturalKey, int] = {}
    for first, group in groupby(sorted(keys), key=lambda key: key[:-1]):
        values = dict(zip(names, first, strict=False)) | {names[-1]: [key[-1] for key in group]}
        rows = connection.execute(_find_in(table, names), values)
        found |= {(*first, part): row_id for part, row_id in rows}
    return found


# Statements are cached, since making and compiling one costs more than running it.


@cache
def _insert_unless_there(table: Table, names: tuple[str, ...]) -> Insert:
    insert = postgresql.insert(table).on_conflict_do_nothing()
    return insert.returning(table.c.id, *(table.c[name] for name in names))


@cache
def _find_in(table: Table, names: tuple[str, ...]) -> Select[Any]:
    *shared, last = (table.c[name] for name in names)
    query = select(last, table.c.id).where(last.in_(bindparam(last.name, expanding=True)))
    return query.where(*(column == bindparam(column.name) for column in shared))


def storable_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as it can be stored."""
    return {name: _storable(v) if isinstance(v, str) else v for name, v in row.items()}


def update_row(
    connection: Connection, table: Table, row_id: int, changes: Mapping[str, Any]
) -> None:
    """Change cells of a row."""
    changed = update(table).where(table.c.id == row_id)
    connection.execute(changed, storable_row(changes))


def _storable(text: str) -> str:
    """Escape NUL and bytes that are no text, which a compiler or driver may print."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")
