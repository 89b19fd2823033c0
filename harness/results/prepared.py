"""INSERT statements whose text and conversions are made once.

SQLAlchemy prepares a statement anew at each execution, also one that it has compiled before: that
takes twice as long as SQLite's own work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, CursorResult, Dialect, Insert, Table, insert
from sqlalchemy.dialects import postgresql, sqlite

from harness.results.url import POSTGRES

Row = Mapping[str, Any]


def execute_insert(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Insert rows, all of which have the same columns."""
    made = _prepared(table, connection.dialect, tuple(rows[0]), _plain)
    connection.exec_driver_sql(made.text, [made.bound(row) for row in rows])


def insert_returning_id(connection: Connection, table: Table, row: Row) -> int:
    """Insert a row, and return its id."""
    make = _plain_returning if connection.dialect.name == POSTGRES else _plain
    made = _prepared(table, connection.dialect, tuple(row), make)
    return _id_of(made, connection.exec_driver_sql(made.text, made.bound(row)))


def insert_unless_there(connection: Connection, table: Table, row: Row) -> int | None:
    """Insert a row, and return its id; None where one with the same unique columns is there."""
    make = _unless_there_on_server if connection.dialect.name == POSTGRES else _unless_there
    made = _prepared(table, connection.dialect, tuple(row), make)
    result = connection.exec_driver_sql(made.text, made.bound(row))
    return _id_of(made, result) if result.rowcount else None


class _Prepared:
    """The text of a statement, and how the values of a row are passed with it."""

    def __init__(self, table: Table, dialect: Dialect, names: Sequence[str], made: Insert) -> None:
        compiled: Any = made.compile(dialect=dialect, column_keys=list(names))
        assert not compiled.insert_prefetch, "columns with defaults of Python's are not supported"
        self.text = str(compiled)
        self.returns_id = bool(compiled.effective_returning)
        kinds = [(name, table.c[name].type.dialect_impl(dialect)) for name in names]
        made_by_name = {name: kind.bind_processor(dialect) for name, kind in kinds}
        self._order: Sequence[str] | None = compiled.positiontup
        self._converted = [(name, made) for name, made in made_by_name.items() if made is not None]

    def bound(self, row: Row) -> Any:
        """Return a row's values as the driver takes them."""
        values = dict(row)
        for name, convert in self._converted:
            values[name] = convert(values[name])
        return values if self._order is None else tuple(map(values.__getitem__, self._order))


def _id_of(made: _Prepared, result: CursorResult[Any]) -> int:
    return int(result.scalar_one() if made.returns_id else result.lastrowid)


@lru_cache(maxsize=256)
def _prepared(
    table: Table, dialect: Dialect, names: tuple[str, ...], make: Callable[[Table], Insert]
) -> _Prepared:
    return _Prepared(table, dialect, names, make(table))


def _plain(table: Table) -> Insert:
    return insert(table).inline()


def _plain_returning(table: Table) -> Insert:
    return insert(table).returning(table.c.id)


def _unless_there(table: Table) -> Insert:
    return sqlite.insert(table).inline().on_conflict_do_nothing()


def _unless_there_on_server(table: Table) -> Insert:
    return postgresql.insert(table).on_conflict_do_nothing().returning(table.c.id)
