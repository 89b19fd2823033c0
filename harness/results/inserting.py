"""Insert and update rows, and find rows by their keys.

A row of OpenTuner's and the one of ours that extends it are inserted and updated as one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import Any

import pydantic_core
from sqlalchemy import Column, ColumnElement, Connection, Executable, Table, insert, update
from sqlalchemy.dialects import postgresql, sqlite

from harness.results import schema
from harness.results.url import POSTGRES

Key = tuple[Any, ...]

NATURAL_KEYS: Mapping[Table, tuple[str, ...]] = {
    schema.environments: ("fingerprint",),
    schema.spaces: ("name", "sha256"),
    schema.builds: ("environment_id", "key"),
}
"""The unique columns of tables to whose rows several campaigns refer: their writers may add the
same row."""

Row = Mapping[str, Any]


def insert_rows(connection: Connection, table: Table, rows: Iterable[Row]) -> None:
    """Insert rows into one table; they have their ids, or nobody asks for these."""
    stored = [_storable_row(row) for row in rows]
    if stored:
        connection.execute(_insert(table), stored)


def insert_returning_ids(connection: Connection, table: Table, rows: Sequence[Row]) -> list[int]:
    """Insert rows that are not there, with what extends them; return their ids, in order."""
    if not rows:
        return []
    stored = [_cells(table, row) for row in rows]
    ids = list(connection.execute(_insert_returning(table), stored).scalars())
    if table in schema.EXTENSIONS:
        extension = schema.EXTENSIONS[table]
        extending = [_cells(extension, row) for row in rows]
        for row_id, row in zip(ids, extending, strict=True):
            row["id"] = row_id
        connection.execute(_insert(extension), extending)
    return ids


def insert_missing(connection: Connection, table: Table, rows: Sequence[Row]) -> list[int]:
    """Insert rows unless they are there, and return their ids, in order.

    The table has a unique constraint on its natural key. On a server, another writer may be adding
    equal rows now.
    """
    if not rows:
        return []
    names = NATURAL_KEYS[table]
    # Always in the same order: two writers would wait for each other's rows.
    ordered = sorted(rows, key=itemgetter(*names))
    stored = [_cells(table, row) for row in ordered]
    added = connection.execute(_insert_missing(table, connection.dialect.name), stored)
    ids_by_key = {tuple(key): row_id for row_id, *key in added}
    keys = keys_of(rows, names)
    missing = [key for key in keys if key not in ids_by_key]
    ids_by_key |= find_rows(connection, table, names, missing)
    return [ids_by_key[key] for key in keys]


@cache  # to make it takes longer than to execute it
def _insert(table: Table) -> Executable:
    return insert(table)


@cache
def _insert_returning(table: Table) -> Executable:
    return insert(table).returning(table.c.id, sort_by_parameter_order=True)


@cache
def _insert_missing(table: Table, dialect: str) -> Executable:
    columns = [table.c[name] for name in NATURAL_KEYS[table]]
    made: postgresql.Insert | sqlite.Insert = sqlite.insert(table)
    if dialect == POSTGRES:
        made = postgresql.insert(table)
    return made.on_conflict_do_nothing().returning(table.c.id, *columns)


def update_row(connection: Connection, table: Table, row_id: int, changes: Row) -> None:
    """Change cells of a row, and of the one that extends it."""
    columns = schema.columns_of(table)
    for part in {columns[name].table for name in changes}:
        connection.execute(update(part).where(part.c.id == row_id), _cells(part, changes))


def keys_of(rows: Iterable[Row], names: Sequence[str]) -> list[Key]:
    """Return the cells of these columns, row by row."""
    return [tuple(row[name] for name in names) for row in rows]


def find_rows(
    connection: Connection, table: Table, names: Sequence[str], keys: Sequence[Key]
) -> dict[Key, int]:
    """Return the ids of rows by their cells in these columns, of equal rows the first; missing rows
    are left out."""
    if not keys:
        return {}
    columns = [schema.columns_of(table)[name] for name in names]
    query = schema.select_extended(table, table.c.id, *columns)
    # SQLite uses its indices for each list by itself, but not for a list of tuples.
    for position, column in enumerate(columns):
        query = query.where(_among(column, {key[position] for key in keys}))
    wanted = set(keys)
    ids_by_key: dict[Key, int] = {}
    for row_id, *cells in connection.execute(query.order_by(table.c.id)):
        key = tuple(cells)
        if key in wanted:
            ids_by_key.setdefault(key, row_id)
    return ids_by_key


def _among(column: Column[Any], values: set[Any]) -> ColumnElement[bool]:
    among = column.in_(values - {None})
    if None in values:
        return among | column.is_(None)
    return among


def _cells(table: Table, row: Row) -> dict[str, Any]:
    """Return the cells of a row that a table has, without its id, as they can be stored."""
    cells = {name: cell for name, cell in row.items() if name in table.c}
    cells.pop("id", None)
    return _storable_row(cells)


def _storable_row(row: Row) -> dict[str, Any]:
    """Escape NUL and bytes that are no text, which a compiler or driver may print."""
    stored = dict(row)
    for name, cell in row.items():
        if isinstance(cell, str) and ("\0" in cell or not cell.isascii()):
            text = cell.encode("utf-8", "backslashreplace").decode("utf-8")
            stored[name] = text.replace("\0", "\\x00")
    return stored


def to_json(value: object) -> str:
    """Return JSON text; a record becomes an object of its fields."""
    return json.dumps(value, allow_nan=False, default=_as_json_data)


def _as_json_data(record: Any) -> Any:
    """Return a record's fields. NaN and infinity become text, since JSON has neither."""
    return json.loads(pydantic_core.to_json(record, inf_nan_mode="strings", fallback=dict))
