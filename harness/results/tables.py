"""Make the tables that a database lacks."""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy import Connection, MetaData, create_mock_engine, inspect

from harness.results.url import POSTGRES

_QUICK = {"sqlite": "sqlite://", POSTGRES: f"{POSTGRES}+psycopg://"}
"""The kinds of databases whose definitions are sent as text: SQLAlchemy asks for each table by
itself, and describes them anew for each database."""


def table_names(connection: Connection) -> list[str]:
    """Return the names of all tables of a database; raises DBAPIError and UnicodeDecodeError."""
    return inspect(connection).get_table_names()


def make_tables(connection: Connection, tables: MetaData) -> None:
    """Make those of these tables that are missing, with their indices."""
    there = tables.tables.keys() & set(table_names(connection))
    kind = connection.dialect.name
    if there or kind not in _QUICK:
        if there != tables.tables.keys():
            tables.create_all(connection)
        return
    texts = _definitions(tables, kind)
    for text in texts if kind == "sqlite" else [";\n".join(texts)]:
        connection.exec_driver_sql(text)


@cache
def _definitions(tables: MetaData, kind: str) -> list[str]:
    """Return the statements that make these tables."""
    found: list[str] = []

    def note(statement: Any, *_: object, **__: object) -> None:
        found.append(str(statement.compile(dialect=engine.dialect)).strip())

    engine = create_mock_engine(_QUICK[kind], note)
    tables.create_all(engine, checkfirst=False)
    return found
