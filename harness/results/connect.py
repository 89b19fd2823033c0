"""Open a results database, for one writer at a time or for any number of readers."""

from __future__ import annotations

import json
import os
import shlex
import socket
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NoReturn

from sqlalchemy import (
    URL,
    Column,
    Connection,
    Engine,
    Table,
    create_engine,
    event,
    func,
    inspect,
    select,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError
from sqlalchemy.schema import CreateColumn

from harness.core.errors import ResultsError
from harness.core.invocation import command_line
from harness.core.plain_pickle import UnsafePickle
from harness.results import schema
from harness.results.guard import guard
from harness.results.lock import locked
from harness.results.record import check_record
from harness.results.stock import is_stock, read_stock
from harness.results.url import database_url, read_only_url, sqlite_path, without_password
from harness.results.watch import watch


def now() -> str:
    """Return the present time as the database stores it: ISO 8601 in UTC, to the millisecond."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def shown_name(connection: Connection) -> str:
    """Return the path or URL of a connection's database, without its password."""
    return str(connection.get_execution_options().get("database", connection.engine.url))


def has_table(connection: Connection, table: Table) -> bool:
    """Whether a database that was opened here is new enough to have a table."""
    return schema.TABLES_SINCE.get(table.name, 1) <= _version_of(connection)


def has_column(connection: Connection, column: Column[Any]) -> bool:
    """Whether a database that was opened here is new enough to have a column."""
    since = schema.COLUMNS_SINCE.get((column.table.name, column.name), 1)
    return has_table(connection, column.table) and since <= _version_of(connection)


def _version_of(connection: Connection) -> int:
    return int(connection.get_execution_options().get("version", schema.VERSION))


@contextmanager
def writing(database: str) -> Iterator[Engine]:
    """Open a database for this process alone to write to; make it if it is missing.

    Raises DatabaseBusy where another process holds it, ResultsError where it cannot be used.
    """
    with locked(database, _who_holds):
        engine = _engine(database, database_url(database))
        try:
            _prepare(engine, database)
            path = sqlite_path(database)
            if path is not None:
                watch(engine, path)
            yield engine
            with engine.begin() as connection:
                connection.execute(schema.writers.delete())
                written = _measurement_count(connection)
        except IntegrityError:
            raise  # a defect of harness: show its traceback
        except DBAPIError as error:
            raise ResultsError(
                f"{without_password(database)} cannot be written: {error.orig}; what was committed "
                "before is kept"
            ) from None
        except UnsafePickle as error:
            raise ResultsError(
                f"OpenTuner's tables in {without_password(database)} are damaged: {error}; copy "
                "the database again from the original, or choose another --database"
            ) from None
        finally:
            engine.dispose()
        if path is not None:
            _check_written(database, written)


def _check_written(database: str, written: int) -> None:
    """Read a file that was closed again; raises ResultsError where it lost what was written."""
    # What may not write leaves SQLite's log next to the file when it closes.
    url = read_only_url(database).update_query_dict({"mode": "rw"})
    with _existing(database, url, compare=False) as engine, engine.connect() as connection:
        found = _measurement_count(connection)
    if found != written:
        raise ResultsError(
            f"{database} holds {found:,} measurements, but {written:,} were there when this "
            "command ended: another program changed it. Copy it again from a backup"
        )


def _measurement_count(connection: Connection) -> int:
    return connection.execute(select(func.count()).select_from(schema.measurements)).scalar_one()


@contextmanager
def reading(database: str) -> Iterator[Engine]:
    """Open an existing database read-only. One that OpenTuner made without harness is read into
    memory, and has our tables there (`harness.results.stock`).

    Raises ResultsError where it is neither, is damaged, or contradicts itself.
    """
    with _existing(database, read_only_url(database)) as engine:
        yield engine


@contextmanager
def _existing(database: str, url: URL, *, compare: bool = True) -> Iterator[Engine]:
    """Open an existing database to read it, and `compare` it with OpenTuner's record; raises
    ResultsError."""
    path = sqlite_path(database)
    if path is not None and not path.is_file():
        what = "is a folder" if path.is_dir() else "no such database"
        raise ResultsError(f"{path}: {what}; `{command_line('tune')}` makes databases")
    engine = _engine(database, url)
    try:
        tables = _table_names(engine, database)
        if is_stock(tables):
            guard(engine, database, is_writer=False)
            yield _from_stock(engine, database)
            return
        _check_version(engine, database)
        _check_tables(engine, database)
        guard(engine, database, is_writer=False)
        if compare:
            with engine.connect() as connection:
                check_record(connection, tables, without_password(database))
        yield engine.execution_options(version=_version(engine))
    except DBAPIError as error:
        raise ResultsError(f"{without_password(database)} cannot be read: {error.orig}") from None
    finally:
        engine.dispose()
        if path is not None:
            _delete_empty_log(path)


def _from_stock(engine: Engine, database: str) -> Engine:
    """Read what OpenTuner recorded into a database in memory; raises ResultsError."""
    name, memory = without_password(database), _engine(database, URL.create("sqlite"))
    try:
        with engine.connect() as source, memory.begin() as target:
            read_stock(source, target)
    except IntegrityError as error:
        raise ResultsError(
            f"OpenTuner's record in {name} is damaged: {error.orig}; copy it again from the "
            "original"
        ) from None
    except UnsafePickle as error:
        raise ResultsError(
            f"OpenTuner's record in {name} is refused: {error}. harness reads plain data and "
            "OpenTuner's own classes"
        ) from None
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        reason = str(error) if isinstance(error, ValueError) else repr(error)
        raise ResultsError(
            f"OpenTuner's record in {name} is damaged: {reason}; copy it again from the original"
        ) from error
    return memory


def _delete_empty_log(path: Path) -> None:
    """Let SQLite delete the log that it made for a reader, who may not delete it."""
    log = path.with_name(f"{path.name}-wal")
    url = f"{path.resolve().as_uri()}?mode=rw"
    # A damaged database stays as it is; its messages may be no text.
    with suppress(OSError, sqlite3.Error, UnicodeDecodeError):
        if log.exists() and not log.stat().st_size:
            with closing(sqlite3.connect(url, uri=True, timeout=0)) as connection:
                connection.execute("SELECT count(*) FROM sqlite_master")


# ------------------------------------------------------------------- one writer


def _who_holds(database: str) -> str:
    """Describe the process that writes to the database, and what to do instead."""
    name = without_password(database)
    holder = "another process"
    try:
        with reading(database) as engine, engine.connect() as connection:
            row = connection.execute(select(schema.writers)).mappings().first()
            if row is not None:
                holder = f"process {row['pid']} on {row['host']} since {row['since']}"
                holder += f" ({row['command']})"
    except ResultsError:
        pass  # it is only just being made: its writer is not noted yet
    return (
        f"{name} is being written by {holder}. Wait for it; or write to another file with "
        "--database OTHER.db and merge afterwards: "
        f"{command_line('merge', name, 'OTHER.db')}"
    )


# ------------------------------------------------------------------- the engine


def _engine(database: str, url: URL) -> Engine:
    try:
        engine = create_engine(
            url,
            json_serializer=_to_json,
            json_deserializer=from_json,
            execution_options={"database": without_password(database)},
        )
    except ArgumentError:
        raise ResultsError(f"{without_password(database)} is no URL for {url.drivername}") from None
    except (NoSuchModuleError, ImportError) as error:
        raise ResultsError(f"{without_password(database)} cannot be opened: {error}") from None
    if engine.dialect.name == "sqlite":
        is_read_only = "mode" in url.query
        event.listen(engine, "connect", _set_up_reader if is_read_only else _set_up_writer)
        event.listen(engine, "begin", _begin)
    return engine


def _to_json(value: object) -> str:
    return json.dumps(value, allow_nan=False)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
"""One for all cells: `json.loads` would make one for each."""


def from_json(text: str) -> object:
    """Parse the text of a cell; raises ValueError where it is not JSON."""
    try:
        value, end = _DECODER.raw_decode(text)
    except ValueError:
        return _DECODER.decode(text)  # which says what is wrong
    return value if end == len(text) else _DECODER.decode(text)


def _set_up_writer(connection: Any, _record: object) -> None:
    """Every commit reaches the disk."""
    connection.isolation_level = None  # sqlite3 begins no transaction of its own: see _begin
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA foreign_keys=ON")


def _set_up_reader(connection: Any, _record: object) -> None:
    """The file may come from anywhere: its schema must not run functions with side effects."""
    connection.isolation_level = None
    connection.execute("PRAGMA trusted_schema=OFF")


def _begin(connection: Connection) -> None:
    """Begin a transaction, since sqlite3 reads and makes tables outside of one by itself: a reader
    could see a measurement without its samples."""
    connection.exec_driver_sql("BEGIN")


# ------------------------------------------------------------------ the version


def _prepare(engine: Engine, database: str) -> None:
    """Make the tables and columns that are missing, and note who writes."""
    _check_version(engine, database, may_be_new=True)
    guard(engine, database, is_writer=True)
    tables = _table_names(engine, database)
    if schema.runs.name in tables:
        with engine.connect() as connection:
            check_record(connection, tables, without_password(database))
    if engine.dialect.name == "sqlite":
        _use_write_ahead_log(engine)
    with engine.begin() as connection:
        schema.metadata.create_all(connection)
        _add_columns(connection)
        connection.execute(schema.schema_version.delete())
        connection.execute(schema.schema_version.insert().values(version=schema.VERSION))
        connection.execute(schema.writers.delete())  # of a writer that was killed
        connection.execute(
            schema.writers.insert().values(
                pid=os.getpid(), host=socket.gethostname(), command=_command(), since=now()
            )
        )


def _add_columns(connection: Connection) -> None:
    """Add the columns that an older database lacks.

    Alembic would not replace this: databases that are only read are never migrated, so has_table()
    and has_column() would stay, and it adds 0.3 s of imports and a version table of its own.
    """
    for table_name, name in schema.COLUMNS_SINCE:
        if name not in {there["name"] for there in inspect(connection).get_columns(table_name)}:
            column = schema.metadata.tables[table_name].c[name]
            definition = CreateColumn(column).compile(dialect=connection.dialect)
            connection.exec_driver_sql(f"ALTER TABLE {table_name} ADD COLUMN {definition}")


def _use_write_ahead_log(engine: Engine) -> None:
    """Let readers and the writer not wait for each other. The file keeps this setting."""
    connection = engine.raw_connection()  # it can only be set outside transactions
    try:
        connection.cursor().execute("PRAGMA journal_mode=WAL")
    finally:
        connection.close()


def _command() -> str:
    """Return this process's command line without passwords."""
    return shlex.join(without_password(word) for word in sys.orig_argv[1:])


def _check_version(engine: Engine, database: str, may_be_new: bool = False) -> None:
    tables = _table_names(engine, database)
    if schema.schema_version.name not in tables:
        if tables or not may_be_new:
            if is_stock(tables):
                raise ResultsError(
                    f"{without_password(database)} was made by OpenTuner alone: harness reads it "
                    "and does not add to it. Choose another --database; to add its results to "
                    f"one: {command_line('merge', 'NEW.db', without_password(database))}"
                )
            there = f"; it has the tables {', '.join(tables[:5])}" if tables else ""
            raise ResultsError(f"{without_password(database)} holds no results of harness{there}")
        return
    version = _version(engine)
    known = range(1, schema.VERSION + 1)
    if version not in known and not (version is None and may_be_new):
        raise ResultsError(
            f"{without_password(database)} has schema version {version}, but this harness knows "
            f"{known[0]} to {known[-1]}; use the harness that wrote it, or another --database"
        )


def _version(engine: Engine) -> int | None:
    with engine.connect() as connection:
        return connection.execute(select(schema.schema_version.c.version)).scalar()


def _table_names(engine: Engine, database: str) -> list[str]:
    try:
        return inspect(engine).get_table_names()
    except (DBAPIError, UnicodeDecodeError) as error:
        reason = getattr(error, "orig", "the names of its tables are no text")
        raise ResultsError(
            f"{without_password(database)} is no results database: {reason}"
        ) from None


def _check_tables(engine: Engine, database: str) -> None:
    """Refuse a database that lacks a table.

    A view in place of a table would run SQL of the file's author, so views do not count.
    """
    version = _version(engine) or schema.VERSION
    expected = {n for n in schema.metadata.tables if schema.TABLES_SINCE.get(n, 1) <= version}
    missing = sorted(expected - set(_table_names(engine, database)))
    if missing:
        raise ResultsError(
            f"{without_password(database)} is damaged: the table {missing[0]} is missing"
        )
