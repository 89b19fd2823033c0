"""Refuse a database that is damaged, or whose schema could change what is written to it."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Any

from sqlalchemy import Connection

from harness.core.errors import ResultsError
from harness.core.text import printable
from harness.results import schema
from harness.results.checked_file import INDICES, SOUND, check_once
from harness.results.guard_server import foreign_on_server
from harness.results.url import without_password

_REFERRING = ("commands", "runs", "builds", "measurements", "observations", "tests")

_SMALL = ("environments", "spaces", "inputs", "commands", "runs")
"""Tables that are compared with their indices whoever opens the database."""

_INDICES = (  # index, table, and a sum of its columns
    ("ix_measurements_run", "measurements", "run_id"),
    ("ix_measurements_input", "measurements", "input_id + 31 * configuration_id"),
    ("sqlite_autoindex_tests_1", "tests", "run_id + 31 * ordinal"),
)

_OBJECTS = (
    "SELECT type, name, tbl_name, upper(sql) LIKE '%ON CONFLICT%' FROM sqlite_master ORDER BY name"
)
_COLUMNS = (
    "SELECT t.name, c.name, c.hidden FROM sqlite_master AS t, pragma_table_xinfo(t.name) AS c "
    f"WHERE t.type = 'table' AND t.name IN ({', '.join(map(repr, schema.metadata.tables))}) "
    "AND (c.hidden > 0 OR c.dflt_value IS NOT NULL)"
)
_Objects = Sequence[Any]
"""The type, name and table of each object of a SQLite file; whether it has a rule for conflicts."""


def guard(connection: Connection, database: str, *, is_writer: bool) -> None:
    """Raise ResultsError where the file of a SQLite database is damaged, or where a database of any
    kind holds a trigger, view or column that harness did not make.

    A reader leaves views alone. Its first look at a file takes about as long as SQLite's own scan
    of it; a writer compares indices with their tables as well, which takes three times as long. A
    large file is looked at once (`harness.results.checked_file`).
    """
    name = without_password(database)
    if connection.dialect.name == "sqlite":
        objects = connection.exec_driver_sql(_OBJECTS).all()
        there = {found for _, found, _, _ in objects}
        look = partial(_refuse_damage, connection, name, there, thorough=is_writer)
        check_once(database, INDICES if is_writer else SOUND, look)
        found = next(_foreign_in_sqlite(connection, name, objects, is_writer), None)
    else:
        found = next(foreign_on_server(connection), None)
    if found is not None:
        raise ResultsError(f"{name} has {found}")


def _refuse_damage(
    connection: Connection, name: str, there: Collection[str], thorough: bool
) -> None:
    small = [f"integrity_check('{table}')" for table in _SMALL if table in there]
    checks = ["integrity_check(1)"] if thorough else ["quick_check(1)", *small]
    query = " UNION ALL ".join(f"SELECT * FROM pragma_{check}" for check in checks)
    for found in connection.exec_driver_sql(query).scalars():
        if found != "ok":
            what = printable(" ".join(str(found).split()))
            raise ResultsError(f"{name} is damaged: {what}; copy it again from the original")
    for index, table, columns in _INDICES if not thorough else ():
        if index in there and not _agree(connection, index, table, columns):
            raise ResultsError(
                f"{name} is damaged: the index {index} does not fit the table {table}; run sqlite3 "
                f"{shlex.quote(name)} REINDEX"
            )
    referring = [f"pragma_foreign_key_check('{table}')" for table in _REFERRING if table in there]
    query = " UNION ALL ".join(f"SELECT * FROM {check}" for check in referring)
    for table, row_id, parent, _ in connection.exec_driver_sql(query) if referring else ():
        raise ResultsError(
            f"{name} is damaged: row {row_id} of {table} refers to a row of {parent} that is "
            "missing; copy it again from the original"
        )


def _agree(connection: Connection, index: str, table: str, columns: str) -> bool:
    """Whether an index holds what its table holds, by a sum over each.

    SQLite's own comparison takes a hundred times as long, and a damaged index hides rows.
    """
    total = f"(SELECT sum(7919 * id + {columns}) FROM {table}"
    query = f"SELECT {total} INDEXED BY {index}) IS {total} NOT INDEXED)"
    return bool(connection.exec_driver_sql(query).scalar())


def _foreign_in_sqlite(
    connection: Connection, name: str, objects: _Objects, is_writer: bool
) -> Iterator[str]:
    """Describe what harness did not make, with the command that drops it."""
    for kind, found, table, _ in objects:
        if kind == "trigger" or (kind == "view" and is_writer):
            quoted = printable(found).replace('"', '""')
            drop = shlex.quote(f'DROP {kind.upper()} "{quoted}"')
            yield f"{_object(kind, found, table)} To drop it: sqlite3 {shlex.quote(name)} {drop}"
    for table, column, hidden in connection.exec_driver_sql(_COLUMNS):
        kind = "a computed column" if hidden else "a default for the column"
        yield _changed(table, f"{kind} `{printable(column)}`")
    for kind, found, _, has_rule in objects:
        if kind == "table" and has_rule and found in schema.metadata.tables:
            yield _changed(found, "a rule for conflicts")


def _object(kind: str, name: str, table: str) -> str:
    where = f" on the table {printable(table)}" if kind == "trigger" else ""
    can = "change what is stored" if kind == "trigger" else "stand in for a table"
    return f"the {kind} `{printable(name)}`{where}, which harness did not make: it can {can}."


def _changed(table: str, what: str) -> str:
    return (
        f"{what} in the table {table}, which harness did not make: it can change what is stored. "
        "Copy the database again from the original"
    )
