"""The tables of a database, on SQLite and on PostgreSQL."""

from __future__ import annotations

import pytest
from sqlalchemy import Connection, MetaData, create_engine, inspect

from harness.results import opentuner_tables, schema
from harness.results.tables import make_tables, table_names
from harness.results.url import database_url

EACH = pytest.mark.parametrize("tables", [schema.metadata, opentuner_tables.metadata])


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


@EACH
def test_new_tables_are_those_that_sqlalchemy_makes(database: str, tables: MetaData) -> None:
    engine = create_engine(database_url(database))
    with engine.connect() as connection:
        make_tables(connection, tables)
        ours = described(connection)
        tables.drop_all(connection)
        tables.create_all(connection)
        assert described(connection) == ours
        assert set(table_names(connection)) == tables.tables.keys()
    engine.dispose()


@EACH
def test_a_missing_table_is_added(database: str, tables: MetaData) -> None:
    engine = create_engine(database_url(database))
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
