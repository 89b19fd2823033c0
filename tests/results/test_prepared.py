"""Statements that are prepared once store what SQLAlchemy's own would."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from pathlib import Path

import pytest
from opentuner.resultsdb.models import Configuration, DesiredResult
from sqlalchemy import insert, select
from sqlalchemy.exc import OperationalError

from harness.results import Store, schema, writing
from harness.results.prepared import execute_insert, insert_returning_id, insert_unless_there
from harness.search import make_opentuner_tables

CONFIGURATION = {"digest": "a" * 64, "parameters": {"X": 1, "flag": None, "text": "ü"}}


def test_values_are_stored_as_sqlalchemy_stores_them(tmp_path: Path) -> None:
    rows = {
        schema.configurations: CONFIGURATION,
        Configuration.__table__: {"program_id": None, "hash": "b", "data": {"X": 1, "Y": "z"}},
        DesiredResult.__table__: {
            "request_date": datetime.now(),
            "state": "COMPLETE",
            "limit": 0.1,
        },
    }
    with writing(str(tmp_path / "x.db")) as engine, Store(engine) as store:
        make_opentuner_tables(store)
        for table, row in rows.items():
            own_id = insert_returning_id(store.connection, table, row)
            own = store.connection.execute(select(table).where(table.c.id == own_id)).one()
            store.session.rollback()
            store.connection.execute(insert(table), row)
            assert store.connection.execute(select(table)).one()[1:] == own[1:]
            store.session.rollback()
            execute_insert(store.connection, table, [row])
            assert store.connection.execute(select(table)).one()[1:] == own[1:]


def test_a_row_that_is_there_is_not_inserted_again(tmp_path: Path) -> None:
    with writing(str(tmp_path / "x.db")) as engine, Store(engine) as store:
        added = insert_unless_there(store.connection, schema.configurations, CONFIGURATION)
        assert added is not None
        again = insert_unless_there(store.connection, schema.configurations, CONFIGURATION)
        assert again is None
        assert store.connection.execute(select(schema.configurations.c.id)).scalars().all() == [
            added
        ]


def test_a_transaction_that_fails_leaves_none_open(tmp_path: Path) -> None:
    with writing(str(tmp_path / "x.db")) as engine, Store(engine) as store:
        session = store.session

        def fail() -> None:
            insert_returning_id(session.connection(), schema.configurations, CONFIGURATION)
            session.connection().exec_driver_sql("SELECT * FROM nowhere")

        with pytest.raises(OperationalError):
            store.transact(fail)
        store.transact(
            lambda: insert_returning_id(session.connection(), schema.configurations, CONFIGURATION)
        )
    with writing(str(tmp_path / "x.db")) as engine, engine.connect() as connection:
        assert len(connection.execute(select(schema.configurations)).all()) == 1


def test_a_commit_is_one_also_after_a_read_with_the_connection_of_an_earlier_one(
    tmp_path: Path,
) -> None:
    with writing(str(tmp_path / "x.db")) as engine, Store(engine) as store:
        earlier = store.connection
        store.commit()
        earlier.exec_driver_sql("SELECT 1")
        store.transact(
            lambda: insert_returning_id(store.connection, schema.configurations, CONFIGURATION)
        )
        with engine.connect() as connection:
            assert len(connection.execute(select(schema.configurations)).all()) == 1


def test_threads_share_a_database_in_memory() -> None:
    with writing("sqlite://") as engine, Store(engine) as store:
        add = partial(insert_returning_id, table=schema.configurations, row=CONFIGURATION)
        with ThreadPoolExecutor(1) as threads:
            threads.submit(store.transact, lambda: add(store.connection)).result()
        assert len(store.connection.execute(select(schema.configurations)).all()) == 1
