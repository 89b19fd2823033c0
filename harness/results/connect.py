"""Open a results database, for one writer at a time or for any number of readers."""

from __future__ import annotations

import os
import re
import shlex
import socket
import sqlite3
import sys
from collections.abc import Collection, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path

from sqlalchemy import Connection, Engine, select
from sqlalchemy.exc import DBAPIError, IntegrityError

from harness.core.errors import DatabaseBusy, ResultsError
from harness.core.invocation import command_line
from harness.core.plain_pickle import UnsafePickle
from harness.core.records import Environment
from harness.core.text import printable
from harness.results import schema
from harness.results.engine import make_engine
from harness.results.lock import locked
from harness.results.opentuner import is_stock
from harness.results.server import (
    Notice,
    ServerWriter,
    busy,
    check_encoding,
    lock_shared_rows,
    writer_of,
)
from harness.results.tables import make_tables, table_names
from harness.results.url import (
    database_url,
    is_postgres,
    read_only_url,
    sqlite_path,
    without_password,
)


def now() -> str:
    """Return the present time as the database stores it: ISO 8601 in UTC, to the millisecond."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


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
    with locked(database, _who_holds):
        engine = make_engine(database, database_url(database), server)
        try:
            _prepare(engine, database)
            yield engine
            with engine.begin() as connection:
                if server is not None:
                    server.release(connection)
                else:
                    connection.execute(schema.writers.delete())
        except IntegrityError:
            raise  # a defect of harness: show its traceback
        except DBAPIError as error:
            raise ResultsError(
                f"{without_password(database)} cannot be written: {_reason(error)}; what was "
                "committed before is kept. Run the same command again to go on"
            ) from None
        except UnsafePickle as error:
            raise ResultsError(
                f"OpenTuner's tables in {without_password(database)} are damaged: {error}; copy "
                "the database again from the original, or choose another --database"
            ) from None
        finally:
            engine.dispose()


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


@contextmanager
def reading(database: str, *, stock: bool = False) -> Iterator[Engine]:
    """Open an existing database read-only; `stock` allows one that OpenTuner made alone.

    Raises ResultsError where it is neither, or cannot be read.
    """
    path = sqlite_path(database)
    if path is not None and not path.is_file():
        what = "is a folder" if path.is_dir() else "no such database"
        raise ResultsError(f"{path}: {what}; `{command_line('tune')}` makes databases")
    engine = make_engine(database, read_only_url(database))
    try:
        with _opened(engine, database) as (connection, tables):
            if not (stock and is_stock(tables)):
                _check_version(connection, database, tables)
                _check_tables(database, tables)
        yield engine
    except DBAPIError as error:
        raise ResultsError(
            f"{without_password(database)} cannot be read: {_reason(error)}"
        ) from None
    finally:
        engine.dispose()
        if path is not None:
            _delete_empty_log(path)


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
    """Make the tables of a new database, and note who writes."""
    with _opened(engine, database) as (connection, tables):
        is_new = not tables
        if not is_new:
            _check_version(connection, database, tables)
            _check_tables(database, tables)
        check_encoding(connection, without_password(database))
        if engine.dialect.name == "sqlite":
            _check_file(connection, database)
    if engine.dialect.name == "sqlite":
        _use_write_ahead_log(engine)
    with engine.begin() as connection:
        if is_new:
            lock_shared_rows(connection)
            make_tables(connection, schema.metadata)
            version = schema.schema_version
            if connection.execute(select(version)).first() is None:
                connection.execute(version.insert().values(version=schema.VERSION))
        if writer_of(connection) is None:
            connection.execute(schema.writers.delete())  # of a writer that was killed
            connection.execute(schema.writers.insert().values(_this_process()))


def _check_file(connection: Connection, database: str) -> None:
    """Refuse to write to a SQLite file that is damaged, or whose schema changes what is written."""
    found = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
    if found != "ok":
        what = printable(" ".join(str(found).split()))
        raise ResultsError(f"{database} is damaged: {what}; copy it again from the original")
    foreign = "SELECT type, name FROM sqlite_master WHERE type IN ('trigger', 'view') ORDER BY name"
    for kind, name in connection.exec_driver_sql(foreign):
        quoted = printable(name).replace('"', '""')
        drop = shlex.quote(f'DROP {kind.upper()} "{quoted}"')
        raise ResultsError(
            f"{database} has the {kind} `{printable(name)}`, which harness did not make: it can "
            f"change what is stored. To drop it: sqlite3 {shlex.quote(database)} {drop}"
        )


def _use_write_ahead_log(engine: Engine) -> None:
    """Let readers and the writer not wait for each other. The file keeps this setting."""
    connection = engine.raw_connection()  # it can only be set outside transactions
    try:
        connection.cursor().execute("PRAGMA journal_mode=WAL")
    finally:
        connection.close()


def _check_version(connection: Connection, database: str, tables: Collection[str]) -> None:
    """Refuse a database that this version of harness did not make."""
    name = without_password(database)
    if schema.schema_version.name not in tables:
        if is_stock(tables):
            raise ResultsError(
                f"{name} has OpenTuner's tables alone. To import its results: "
                f"{command_line('merge', 'NEW.db', name)}"
            )
        there = f"; it has the tables {', '.join(list(tables)[:5])}" if tables else ""
        raise ResultsError(f"{name} holds no results of harness{there}")
    version = connection.execute(select(schema.schema_version.c.version)).scalar()
    if version != schema.VERSION:
        raise ResultsError(
            f"{name} has schema version {version}, and this harness has {schema.VERSION}: use the "
            "version of harness that wrote it, or tune again into a new file"
        )


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


def _check_tables(database: str, tables: Collection[str]) -> None:
    """Refuse a database that lacks a table.

    A view in place of a table would run SQL of the file's author, so views do not count.
    """
    missing = sorted(schema.metadata.tables.keys() - set(tables))
    if missing:
        raise ResultsError(
            f"{without_password(database)} is damaged: the table {missing[0]} is missing"
        )
