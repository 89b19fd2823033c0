"""Insert and update rows, and find rows by their natural keys."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import Any

import pydantic_core
from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Executable,
    Select,
    Table,
    insert,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from harness.results import schema
from harness.results.url import POSTGRES

NaturalKey = tuple[Any, ...]

NATURAL_KEYS: Mapping[Table, tuple[str, ...]] = {
    schema.environments: ("fingerprint",),
    schema.spaces: ("name", "sha256"),
    schema.builds: ("environment_id", "key"),
}
"""The unique columns of tables to whose rows several campaigns refer: their writers may add the
same row."""

Row = Mapping[str, Any]


def insert_returning_ids(connection: Connection, table: Table, rows: Iterable[Row]) -> list[int]:
    """Insert rows that are not there, and return their ids, in order."""
    stored = list(map(_storable_row, rows))
    return [*connection.execute(_insert(table), stored).scalars()] if stored else []


def insert_rows(connection: Connection, table: Table, rows: Iterable[Row]) -> None:
    """Insert rows that have their ids."""
    stored = list(map(_storable_row, rows))
    if stored:
        connection.execute(_insert_only(table), stored)


def insert_missing(connection: Connection, table: Table, rows: Sequence[Row]) -> list[int]:
    """Insert rows unless they are there, and return their ids, in order.

    The table has a unique constraint on its natural key. On a server, another writer may be adding
    equal rows now.
    """
    if not rows:
        return []
    names = NATURAL_KEYS[table]
    keys = [tuple(row[name] for name in names) for row in rows]
    # Always in the same order: two writers would wait for each other's rows.
    stored = [
        _storable_row(row) for _, row in sorted(zip(keys, rows, strict=True), key=itemgetter(0))
    ]
    added = connection.execute(_insert_missing(table, connection.dialect.name), stored)
    ids_by_key = {tuple(key): row_id for row_id, *key in added}
    missing = [key for key in keys if key not in ids_by_key]
    columns = [table.c[name] for name in names]
    ids_by_key |= find_rows(connection, select(table.c.id, *columns), columns, missing)
    return [ids_by_key[key] for key in keys]


@cache  # to make it takes longer than to execute it
def _insert(table: Table) -> Executable:
    return insert(table).returning(table.c.id, sort_by_parameter_order=True)


@cache
def _insert_only(table: Table) -> Executable:
    return insert(table)


@cache
def _insert_missing(table: Table, dialect: str) -> Executable:
    made: Any = (postgresql if dialect == POSTGRES else sqlite).insert(table)
    columns = (table.c[name] for name in NATURAL_KEYS[table])
    query: Executable = made.on_conflict_do_nothing().returning(table.c.id, *columns)
    return query


def find_rows(
    connection: Connection,
    chosen: Select[Any],
    columns: Sequence[Column[Any]],
    keys: Sequence[NaturalKey],
) -> dict[NaturalKey, int]:
    """Return the ids of rows by their values in these columns, of equal rows the first; missing
    rows are left out.

    `chosen` selects the id, and then the columns, perhaps by joins.
    """
    if not keys:
        return {}
    # SQLite uses its indices for each list by itself, but not for a list of tuples.
    for column, values in zip(columns, zip(*keys, strict=True), strict=True):
        chosen = chosen.where(_among(column, set(values)))
    wanted = set(keys)
    ids_by_key: dict[NaturalKey, int] = {}
    for row_id, *key in connection.execute(chosen.order_by(chosen.selected_columns[0])):
        if tuple(key) in wanted:
            ids_by_key.setdefault(tuple(key), row_id)
    return ids_by_key


def _among(column: ColumnElement[Any], values: set[Any]) -> ColumnElement[bool]:
    among = column.in_(values - {None})
    return among | column.is_(None) if None in values else among


def update_row(connection: Connection, table: Table, row_id: int, changes: Row) -> None:
    """Change cells of a row."""
    connection.execute(update(table).where(table.c.id == row_id), _storable_row(changes))


def _storable_row(row: Row) -> dict[str, Any]:
    """Return a row as it can be stored."""
    return {name: _storable(v) if isinstance(v, str) else v for name, v in row.items()}


def _storable(text: str) -> str:
    """Escape NUL and bytes that are no text, which a compiler or driver may print."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")


def to_json(value: object) -> str:
    """Return JSON text; a record becomes an object of its fields."""
    return json.dumps(value, allow_nan=False, default=_as_json_data)


def _as_json_data(record: Any) -> Any:
    """Return a record's fields. NaN and infinity become text, since JSON has neither."""
    return json.loads(pydantic_core.to_json(record, inf_nan_mode="strings", fallback=dict))
