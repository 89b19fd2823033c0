"""The tables of a database, on SQLite and on PostgreSQL."""

from __future__ import annotations

from sqlalchemy import Connection, create_engine, inspect

from harness.results import schema
from harness.results.tables import make_tables, table_names
from harness.results.url import database_url


def described(connection: Connection) -> str:
    there = inspect(connection)
    parts = (
        there.get_multi_columns(),
        there.get_multi_pk_constraint(),
        there.get_multi_indexes(),
        there.get_multi_unique_constraints(),
        there.get_multi_foreign_keys(),
    )
    return repr([sorted(part.items()) for part in parts])


def test_new_tables_are_those_that_sqlalchemy_makes(database: str) -> None:
    engine, tables = create_engine(database_url(database)), schema.metadata
    with engine.connect() as connection:
        make_tables(connection, tables)
        ours = described(connection)
        tables.drop_all(connection)
        tables.create_all(connection)
        assert described(connection) == ours
        assert set(table_names(connection)) == tables.tables.keys()
    engine.dispose()


def test_a_missing_table_is_added(database: str) -> None:
    engine, tables = create_engine(database_url(database)), schema.metadata
    last = tables.sorted_tables[-1]
    with engine.connect() as connection:
        make_tables(connection, tables)
        whole = described(connection)
        last.drop(connection)
        assert last.name not in table_names(connection)
        make_tables(connection, tables)
        assert described(connection) == whole
        make_tables(connection, tables)
        assert described(connection) == whole
    engine.dispose()
