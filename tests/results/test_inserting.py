"""Rows are inserted in one transaction, by all threads, and return their ids in order."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import select
from sqlalchemy.exc import OperationalError

from harness.results import Store, schema, writing
from harness.results.inserting import insert_missing, insert_returning_ids

CONFIGURATION = {"digest": "a" * 64, "parameters": {"X": 1, "flag": None, "text": "ü"}}


def configuration(number: int) -> dict[str, object]:
    return {"digest": f"{number:064x}", "parameters": {"X": number, "text": "ü\0"}}


def test_ids_are_in_the_order_of_their_rows(database: str) -> None:
    table = schema.configurations
    with writing(database) as engine, engine.begin() as connection:
        ids = insert_returning_ids(connection, table, map(configuration, range(2500)))
        found = dict(connection.execute(select(table.c.id, table.c.digest)).all())
        assert [found[row_id] for row_id in ids] == [f"{number:064x}" for number in range(2500)]


def test_rows_that_are_there_are_not_inserted_again(database: str) -> None:
    table = schema.configurations
    with writing(database) as engine, engine.begin() as connection:
        first = insert_missing(connection, table, list(map(configuration, (3, 1))))
        again = insert_missing(connection, table, list(map(configuration, (1, 2, 3, 0))))
        assert [again[2], again[0]] == first
        assert len(connection.execute(select(table)).all()) == len(set(again)) == 4


def test_a_transaction_that_fails_leaves_none_open(tmp_path: Path) -> None:
    with writing(str(tmp_path / "x.db")) as engine, Store(engine) as store:

        def add() -> None:
            insert_returning_ids(store.connection, schema.configurations, [CONFIGURATION])

        def fail() -> None:
            add()
            store.connection.exec_driver_sql("SELECT * FROM nowhere")

        with pytest.raises(OperationalError):
            store.transact(fail)
        store.transact(add)
    with writing(str(tmp_path / "x.db")) as engine, engine.connect() as connection:
        assert len(connection.execute(select(schema.configurations)).all()) == 1


def test_a_commit_is_one_also_after_a_read_with_an_earlier_connection(tmp_path: Path) -> None:
    with writing(str(tmp_path / "x.db")) as engine, Store(engine) as store:
        earlier = store.connection
        store.commit()
        earlier.exec_driver_sql("SELECT 1")
        store.transact(
            lambda: insert_returning_ids(store.connection, schema.configurations, [CONFIGURATION])
        )
        with engine.connect() as connection:
            assert len(connection.execute(select(schema.configurations)).all()) == 1


def test_threads_share_a_database_in_memory() -> None:
    with writing("sqlite://") as engine, Store(engine) as store:
        add = partial(insert_returning_ids, table=schema.configurations, rows=[CONFIGURATION])
        with ThreadPoolExecutor(1) as threads:
            threads.submit(store.transact, lambda: add(store.connection)).result()
        assert len(store.connection.execute(select(schema.configurations)).all()) == 1
