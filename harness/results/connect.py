"""Open a results database, for one writer at a time or for any number of readers."""

from __future__ import annotations

import os
import re
import shlex
import socket
import sqlite3
import sys
from collections.abc import Collection, Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import (
    URL,
    Column,
    Connection,
    Engine,
    Table,
    func,
    inspect,
    select,
)
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.schema import CreateColumn

from harness.core.errors import DatabaseBusy, ResultsError
from harness.core.invocation import command_line
from harness.core.plain_pickle import UnsafePickle
from harness.core.records import Environment
from harness.results import schema
from harness.results.checked_file import RECORD, WRITTEN_RECORD, check_once, note_written
from harness.results.engine import make_engine
from harness.results.guard import guard
from harness.results.lock import locked
from harness.results.record import check_record
from harness.results.server import (
    Notice,
    ServerWriter,
    busy,
    check_encoding,
    lock_shared_rows,
    writer_of,
)
from harness.results.stock import is_stock, read_stock
from harness.results.tables import make_tables, table_names
from harness.results.url import (
    database_url,
    is_postgres,
    read_only_url,
    sqlite_path,
    without_password,
)
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


def _print_notice(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@contextmanager
def writing(database: str, notice: Notice = _print_notice) -> Iterator[Engine]:
    """Open a database to write to; make it if it is missing.

    A SQLite file has one writer. On a PostgreSQL server, each campaign has one (see
    `hold_campaign`), and `notice` shows that it waits for a server that went away.

    Raises DatabaseBusy where another process holds it, ResultsError where it cannot be used.
    """
    server = ServerWriter(database, notice) if is_postgres(database) else None
    with locked(database, _who_holds) if server is None else nullcontext():
        engine = make_engine(database, database_url(database), server)
        try:
            _prepare(engine, database)
            path = sqlite_path(database)
            if path is not None:
                watch(engine, path)
            yield engine
            with engine.begin() as connection:
                if server is not None:
                    server.release(connection)
                else:
                    connection.execute(schema.writers.delete())
                    written = _measurement_count(connection)
        except IntegrityError:
            raise  # a defect of harness: show its traceback
        except DBAPIError as error:
            raise ResultsError(
                f"{without_password(database)} cannot be written: {_reason(error)}; what was "
                "committed before is kept"
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


_ADVICE = (
    (
        "no password supplied|password authentication failed",
        "harness finds passwords where psql does: in PGPASSWORD, ~/.pgpass or a service file",
    ),
    ("permission denied", "docs/ci.md shows which rights a reader and a writer need"),
    (
        '(database|role) ".*" does not exist',
        "docs/ci.md shows how to create the database and its roles",
    ),
)
"""What may be said of a server's errors, and what helps."""


def _reason(error: DBAPIError | UnicodeDecodeError) -> str:
    said = " ".join(str(getattr(error, "orig", error)).split())  # a server says it in several lines
    return next((f"{said}; {advice}" for words, advice in _ADVICE if re.search(words, said)), said)


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
    note_written(database)


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
    engine = make_engine(database, url)
    try:
        with _opened(engine, database) as (connection, tables):
            stock = is_stock(tables)
            version = None if stock else _checked_version(connection, database, tables)
            if not stock:
                _check_tables(database, tables, version)
            guard(connection, database, is_writer=False)
            if compare and not stock:
                look = partial(check_record, connection, tables, without_password(database))
                check_once(database, RECORD, look)
        yield _from_stock(engine, database) if stock else engine.execution_options(version=version)
    except DBAPIError as error:
        raise ResultsError(
            f"{without_password(database)} cannot be read: {_reason(error)}"
        ) from None
    finally:
        engine.dispose()
        if path is not None:
            _delete_empty_log(path)


def _from_stock(engine: Engine, database: str) -> Engine:
    """Read what OpenTuner recorded into a database in memory; raises ResultsError."""
    name, memory = without_password(database), make_engine(database, URL.create("sqlite"))
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


def hold_campaign(
    connection: Connection, name: str, environment: Environment, program: str
) -> None:
    """Be the only one that writes the campaigns of a space's program in an environment, until the
    database is closed. The writer of a SQLite file is alone anyway.

    Raises DatabaseBusy where another process writes them.
    """
    server = writer_of(connection)
    if server is not None:
        what = f"{name} on {environment.device}"
        server.hold(connection, what, (program, environment.fingerprint), _this_process())


def _this_process() -> dict[str, object]:
    """Return the row of `writers` of this process; its command line has no passwords."""
    command = shlex.join(without_password(word) for word in sys.orig_argv[1:])
    return {"pid": os.getpid(), "host": socket.gethostname(), "command": command, "since": now()}


def _who_holds(database: str) -> DatabaseBusy:
    """Describe the process that writes to the database, and what to do instead."""
    name, row = without_password(database), None
    # Where it is only just being made, its writer is not noted yet.
    with suppress(ResultsError), reading(database) as engine, engine.connect() as connection:
        row = connection.execute(select(schema.writers)).mappings().first()
    return busy(name, name, row)


# ------------------------------------------------------------------ the version


def _prepare(engine: Engine, database: str) -> None:
    """Make the tables and columns that are missing, and note who writes."""
    name = without_password(database)
    with _opened(engine, database) as (connection, tables):
        version = _checked_version(connection, database, tables, may_be_new=True)
        guard(connection, database, is_writer=True)
        check_encoding(connection, name)
        if schema.runs.name in tables:
            compare = partial(check_record, connection, tables, name)
            check_once(database, WRITTEN_RECORD, compare)
    if engine.dialect.name == "sqlite":
        _use_write_ahead_log(engine)
    with engine.begin() as connection:
        lock_shared_rows(connection)
        make_tables(connection, schema.metadata)
        if tables and version != schema.VERSION:
            _add_columns(connection)
        if version != schema.VERSION:
            connection.execute(schema.schema_version.delete())
            connection.execute(schema.schema_version.insert().values(version=schema.VERSION))
        if writer_of(connection) is None:
            connection.execute(schema.writers.delete())  # of a writer that was killed
            connection.execute(schema.writers.insert().values(_this_process()))


def _add_columns(connection: Connection) -> None:
    """Add the columns that an older database lacks.

    Alembic would not replace this: databases that are only read are never migrated, so has_table()
    and has_column() would stay, and it adds 0.3 s of imports and a version table of its own.
    """
    names = {table for table, _ in schema.COLUMNS_SINCE}
    found = inspect(connection).get_multi_columns(filter_names=list(names)).items()
    there = {(table, column["name"]) for (_, table), columns in found for column in columns}
    for table_name, name in schema.COLUMNS_SINCE:
        if (table_name, name) not in there:
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


def _checked_version(
    connection: Connection, database: str, tables: Collection[str], may_be_new: bool = False
) -> int | None:
    """Return the version of the schema, None in a new database; raises ResultsError where harness
    cannot use it."""
    if schema.schema_version.name not in tables:
        if tables or not may_be_new:
            if is_stock(tables):
                raise ResultsError(
                    f"{without_password(database)} was made by OpenTuner alone: harness reads it "
                    "and does not add to it. Choose another --database; to add its results to "
                    f"one: {command_line('merge', 'NEW.db', without_password(database))}"
                )
            there = f"; it has the tables {', '.join(list(tables)[:5])}" if tables else ""
            raise ResultsError(f"{without_password(database)} holds no results of harness{there}")
        return None
    version = connection.execute(select(schema.schema_version.c.version)).scalar()
    known = range(1, schema.VERSION + 1)
    if version not in known and not (version is None and may_be_new):
        raise ResultsError(
            f"{without_password(database)} has schema version {version}, but this harness knows "
            f"{known[0]} to {known[-1]}; use the harness that wrote it, or another --database"
        )
    return version


@contextmanager
def _opened(engine: Engine, database: str) -> Iterator[tuple[Connection, list[str]]]:
    """Connect for the first time; yield the connection with the names of the tables."""
    with ExitStack() as stack:
        try:
            connection = stack.enter_context(engine.connect())
            tables = table_names(connection)
        except (DBAPIError, UnicodeDecodeError) as error:
            not_text = isinstance(error, UnicodeDecodeError)
            reason = "the names of its tables are no text" if not_text else _reason(error)
            what = "is no results database" if sqlite_path(database) else "cannot be opened"
            raise ResultsError(f"{without_password(database)} {what}: {reason}") from None
        yield connection, tables


def _check_tables(database: str, tables: Collection[str], version: int | None) -> None:
    """Refuse a database that lacks a table.

    A view in place of a table would run SQL of the file's author, so views do not count.
    """
    since = schema.TABLES_SINCE
    expected = {n for n in schema.metadata.tables if since.get(n, 1) <= (version or 1)}
    missing = sorted(expected - set(tables))
    if missing:
        raise ResultsError(
            f"{without_password(database)} is damaged: the table {missing[0]} is missing"
        )
