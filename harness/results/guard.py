"""Refuse a database that is damaged, or whose schema could change what is written to it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from sqlalchemy import Connection, Engine, bindparam, inspect, text

from harness.core.errors import ResultsError
from harness.core.kept import Kept, content_key
from harness.core.text import printable
from harness.results import schema
from harness.results.file_digest import file_digest
from harness.results.guard_server import foreign_on_server
from harness.results.url import POSTGRES, sqlite_path, without_password

_REFERRING = ("commands", "runs", "builds", "measurements", "observations", "tests")

_SMALL = ("environments", "spaces", "inputs", "commands", "runs")
"""Tables that are compared with their indices whoever opens the database."""

_INDICES = (  # index, table, and a sum of its columns
    ("ix_measurements_run", "measurements", "run_id"),
    ("ix_measurements_input", "measurements", "input_id + 31 * configuration_id"),
    ("sqlite_autoindex_tests_1", "tests", "run_id + 31 * ordinal"),
)

_OBJECTS = text(
    "SELECT type, name, tbl_name FROM sqlite_master WHERE type IN ('trigger', 'view') ORDER BY name"
)
_COLUMNS = text(
    "SELECT t.name, c.name, c.hidden FROM sqlite_master AS t, pragma_table_xinfo(t.name) AS c "
    "WHERE t.type = 'table' AND t.name IN :names AND (c.hidden > 0 OR c.dflt_value IS NOT NULL)"
).bindparams(bindparam("names", expanding=True))
_CONFLICTS = text(
    "SELECT name FROM sqlite_master WHERE type = 'table' AND name IN :names "
    "AND upper(sql) LIKE '%ON CONFLICT%'"
).bindparams(bindparam("names", expanding=True))
_TRIGGERS = text(
    "SELECT trigger_name, event_object_table FROM information_schema.triggers "
    "WHERE event_object_table IN :names"
).bindparams(bindparam("names", expanding=True))


def guard(engine: Engine, database: str, *, is_writer: bool) -> None:
    """Raise ResultsError where the file of a SQLite database is damaged, or where a database of any
    kind holds a trigger, view or column that harness did not make.

    A reader leaves views alone. Its first look at a file takes about as long as SQLite's own scan
    of it; a writer compares indices with their tables as well, which takes three times as long.
    """
    name = without_password(database)
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            _refuse_damage_once(connection, database, is_writer)
            found = next(_foreign_in_sqlite(connection, name, is_writer), None)
        elif engine.dialect.name == POSTGRES:
            found = next(foreign_on_server(connection), None)
        else:
            found = next(_foreign_elsewhere(connection, is_writer), None)
    if found is not None:
        raise ResultsError(f"{name} has {found}")


def _refuse_damage_once(connection: Connection, database: str, is_writer: bool) -> None:
    """Do not look again at a large file in which a reader found no damage, to its last bit."""
    name, path = without_password(database), sqlite_path(database)
    digest = None if is_writer or path is None else file_digest(path)
    if digest is None:
        _refuse_damage(connection, name, thorough=is_writer)
        return
    kept, key = Kept.in_cache(), content_key("no damage", digest)
    if not kept.get(key):
        _refuse_damage(connection, name, thorough=False)
        kept.put(key, True)


def _refuse_damage(connection: Connection, name: str, thorough: bool) -> None:
    there = set(connection.exec_driver_sql("SELECT name FROM sqlite_master").scalars())
    small = [f"integrity_check({table})" for table in _SMALL if table in there]
    for check in ["integrity_check(1)"] if thorough else ["quick_check(1)", *small]:
        found = connection.exec_driver_sql(f"PRAGMA {check}").scalar()
        if found != "ok":
            what = printable(" ".join(str(found).split()))
            raise ResultsError(f"{name} is damaged: {what}; copy it again from the original")
    for index, table, columns in _INDICES if not thorough else ():
        if index in there and not _agree(connection, index, table, columns):
            raise ResultsError(
                f"{name} is damaged: the index {index} does not fit the table {table}; run sqlite3 "
                f"{shlex.quote(name)} REINDEX"
            )
    for table in [table for table in _REFERRING if table in there]:
        lost = connection.exec_driver_sql(f"PRAGMA foreign_key_check({table})").first()
        if lost is not None:
            raise ResultsError(
                f"{name} is damaged: row {lost[1]} of {table} refers to a row of {lost[2]} that is "
                "missing; copy it again from the original"
            )


def _agree(connection: Connection, index: str, table: str, columns: str) -> bool:
    """Whether an index holds what its table holds, by a sum over each.

    SQLite's own comparison takes a hundred times as long, and a damaged index hides rows.
    """
    total = f"(SELECT sum(7919 * id + {columns}) FROM {table}"
    query = f"SELECT {total} INDEXED BY {index}) IS {total} NOT INDEXED)"
    return bool(connection.exec_driver_sql(query).scalar())


def _foreign_in_sqlite(connection: Connection, name: str, is_writer: bool) -> Iterator[str]:
    """Describe what harness did not make, with the command that drops it."""
    for kind, found, table in connection.execute(_OBJECTS):
        if kind == "view" and not is_writer:
            continue
        quoted = printable(found).replace('"', '""')
        drop = shlex.quote(f'DROP {kind.upper()} "{quoted}"')
        yield f"{_object(kind, found, table)} To drop it: sqlite3 {shlex.quote(name)} {drop}"
    names = list(schema.metadata.tables)
    for table, column, hidden in connection.execute(_COLUMNS, {"names": names}):
        kind = "a computed column" if hidden else "a default for the column"
        yield _changed(table, f"{kind} `{printable(column)}`")
    for (table,) in connection.execute(_CONFLICTS, {"names": names}):
        yield _changed(table, "a rule for conflicts")


def _foreign_elsewhere(connection: Connection, is_writer: bool) -> Iterator[str]:
    """Describe what harness did not make in the database of a server."""
    names = list(schema.metadata.tables)
    if connection.dialect.name in ("mysql", "mariadb"):
        for found, table in connection.execute(_TRIGGERS, {"names": names}):
            yield f"{_object('trigger', found, table)} Drop it."
    there = inspect(connection)
    for view in there.get_view_names() if is_writer else ():
        yield f"{_object('view', view, '')} Drop it."
    for table in sorted(set(names) & set(there.get_table_names())):
        for column in there.get_columns(table):
            if "computed" in column:
                yield _changed(table, f"a computed column `{printable(column['name'])}`")


def _object(kind: str, name: str, table: str) -> str:
    where = f" on the table {printable(table)}" if kind == "trigger" else ""
    can = "change what is stored" if kind == "trigger" else "stand in for a table"
    return f"the {kind} `{printable(name)}`{where}, which harness did not make: it can {can}."


def _changed(table: str, what: str) -> str:
    return (
        f"{what} in the table {table}, which harness did not make: it can change what is stored. "
        "Copy the database again from the original"
    )
