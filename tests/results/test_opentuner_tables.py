"""OpenTuner's tables as harness knows them are those that OpenTuner makes."""

from __future__ import annotations

import pytest
from sqlalchemy import Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

import harness.search  # noqa: F401 (its import patches OpenTuner)
from harness.results import opentuner_tables, schema

DIALECTS = {"sqlite": sqlite.dialect(), "postgresql": postgresql.dialect()}


def ddl(table: Table, dialect: str) -> list[str]:
    """The statements that make a table."""
    indices = [str(CreateIndex(one).compile(dialect=DIALECTS[dialect])) for one in table.indexes]
    return [str(CreateTable(table).compile(dialect=DIALECTS[dialect])), *sorted(indices)]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_each_table_is_made_as_opentuner_makes_it(dialect: str) -> None:
    from opentuner.resultsdb.connect import DB_VERSION
    from opentuner.resultsdb.models import Base

    ours, theirs = opentuner_tables.metadata.tables, Base.metadata.tables
    assert {name: ddl(table, dialect) for name, table in ours.items()} == {
        name: ddl(table, dialect) for name, table in theirs.items()
    }
    assert opentuner_tables.DB_VERSION == DB_VERSION


def test_no_table_has_the_name_of_one_of_ours() -> None:
    assert not opentuner_tables.metadata.tables.keys() & schema.metadata.tables.keys()
