"""Open a results database: a SQLite file or a PostgreSQL server, for one writer or for readers.

A SQLite file has one writer, which holds a lock beside it. On a server each campaign has one
(`harness.results.server`).
"""

from __future__ import annotations

import os
import re
import shlex
import socket
import sys
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, select
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError
from sqlalchemy.pool import StaticPool

from harness.core.errors import DatabaseBusy, ResultsError
from harness.core.files import obstacle
from harness.core.locks import FileHeld, locked_file
from harness.core.records import Environment
from harness.core.text import command_line, printable
from harness.results import schema, stock
from harness.results.inserting import to_json
from harness.results.server import (
    Notice,
    ServerWriter,
    busy,
    lock_shared_rows,
    read_only,
    server_options,
    writer_of,
)
from harness.results.url import (
    POSTGRES,
    database_url,
    is_postgres,
    read_only_url,
    sqlite_path,
    without_password,
)


def utc_now() -> datetime:
    """Return the present time as OpenTuner's tables have it: in UTC, without a time zone; to the
    millisecond."""
    moment = datetime.now(timezone.utc).replace(tzinfo=None)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def iso(date: datetime) -> str:
    """Return a date of OpenTuner's tables as our tables have it: ISO 8601 in UTC."""
    return date.isoformat("T", "milliseconds") + "+00:00"


def now() -> str:
    """Return the present time as our tables have it."""
    return iso(utc_now())


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
    with _locked(database):
        engine = _make_engine(database, database_url(database), server)
        try:
            _prepare(engine, database)
            if path := sqlite_path(database):
                _stop_without_file(engine, path)
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
        finally:
            engine.dispose()


_ADVICE = (
    (
        "no password supplied|password authentication failed",
        "harness finds passwords where psql does: in PGPASSWORD, ~/.pgpass or a service file",
    ),
    ("permission denied", "docs/howto/share_a_server.md shows the rights of readers and writers"),
    (
        '(database|role) ".*" does not exist',
        "docs/howto/share_a_server.md shows how to create the database and its roles",
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
    engine = _make_engine(database, read_only_url(database))
    try:
        with _opened(engine, database) as (connection, tables):
            if not (stock and schema.is_stock(tables)):
                _check_tables(connection, database, tables)
        yield engine
    except DBAPIError as error:
        raise ResultsError(
            f"{without_password(database)} cannot be read: {_reason(error)}"
        ) from None
    finally:
        engine.dispose()


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
    name = without_password(database)
    row = None
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
            _check_tables(connection, database, tables)
        if engine.dialect.name == "sqlite":
            _check_file(connection, database)
    if engine.dialect.name == "sqlite":
        _use_write_ahead_log(engine)
    with engine.begin() as connection:
        if is_new:
            lock_shared_rows(connection)
            schema.metadata.create_all(connection)
            version = schema.schema_version
            if connection.execute(select(version)).first() is None:
                connection.execute(version.insert().values(version=schema.VERSION))
                connection.execute(stock.meta.insert().values(db_version=stock.DB_VERSION))
        if writer_of(connection) is None:
            connection.execute(schema.writers.delete())  # of a writer that was killed
            connection.execute(schema.writers.insert().values(_this_process()))


def _check_file(connection: Connection, database: str) -> None:
    """Refuse to write to a SQLite file whose schema changes what is written."""
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


def _stop_without_file(engine: Engine, named: Path) -> None:
    """Let every commit to a SQLite file raise ResultsError once the file is gone: SQLite writes on
    into a deleted file, which goes at the end. To look takes microseconds."""
    path = named.resolve()
    opened = path.stat()

    def check(_connection: Connection) -> None:
        with suppress(FileNotFoundError):
            if os.path.samestat(path.stat(), opened):
                return
        raise ResultsError(
            f"{named} was deleted, moved or replaced while harness wrote to it. Its measurements "
            "are lost, also those of earlier commands, unless you put the file back. Then, or to "
            "begin again, run the same command"
        )

    event.listen(engine, "commit", check)


def _check_tables(connection: Connection, database: str, tables: Collection[str]) -> None:
    """Refuse a database that this version of harness did not make, or that lacks a table.

    A view in place of a table would run SQL of the file's author, so views do not count.
    """
    name = without_password(database)
    if schema.is_stock(tables):
        raise ResultsError(
            f"{name} has OpenTuner's tables alone. To import its results: "
            f"{command_line('merge', 'NEW.db', name)}"
        )
    if schema.schema_version.name not in tables:
        there = f"; it has the tables {', '.join(list(tables)[:5])}" if tables else ""
        raise ResultsError(f"{name} holds no results of harness{there}")
    version = connection.execute(select(schema.schema_version.c.version)).scalar()
    if version != schema.VERSION:
        raise ResultsError(
            f"{name} has schema version {version}, and this harness has {schema.VERSION}: use the "
            "version of harness that wrote it, or tune again into a new file"
        )
    missing = sorted(schema.metadata.tables.keys() - set(tables))
    if missing:
        raise ResultsError(f"{name} is damaged: the table {missing[0]} is missing")


@contextmanager
def _opened(engine: Engine, database: str) -> Iterator[tuple[Connection, list[str]]]:
    """Connect for the first time; yield the connection with the names of the tables."""
    with ExitStack() as stack:
        try:
            connection = stack.enter_context(engine.connect())
            tables = inspect(connection).get_table_names()
        except (DBAPIError, UnicodeDecodeError) as error:  # names of tables that are no text
            what = "is no results database" if sqlite_path(database) else "cannot be opened"
            raise ResultsError(f"{without_password(database)} {what}: {_reason(error)}") from None
        yield connection, tables


# ----------------------------------------------------------------- one writer of a file


@contextmanager
def _locked(database: str) -> Iterator[None]:
    """Hold the lock of a SQLite file, and delete the lock's file afterwards; the system frees it
    when the process dies. A database in memory needs none."""
    check_database(database)
    path = sqlite_path(database)
    with ExitStack() as stack:
        try:
            if path is not None:
                path = path.resolve()  # a link and its target are the same database
                path.parent.mkdir(exist_ok=True)  # not its parents: their names are mistyped
                stack.enter_context(locked_file(path.with_name(path.name + ".lock")))
        except FileHeld:
            raise _who_holds(database) from None
        except (OSError, NotImplementedError) as error:
            raise _unwritable(database, getattr(error, "strerror", None) or error) from None
        yield


def check_database(database: str) -> None:
    """Raise ResultsError where no file can be made for a SQLite database; a server is not asked.

    Call it before long work. It leaves nothing behind.
    """
    path = sqlite_path(database)
    if path is None:
        return
    if path.is_dir():
        raise _unwritable(database, "it is a folder")
    path = path if path.parent.exists() else path.parent  # which is made, without its parents
    reason = obstacle(path)
    if reason is not None:
        raise _unwritable(database, reason)


def _unwritable(database: str, reason: object) -> ResultsError:
    name = without_password(database)
    return ResultsError(f"{name} cannot be written: {reason}; name another database")


# ------------------------------------------------------------------------ the engine


def _make_engine(database: str, url: URL, writer: ServerWriter | None = None) -> Engine:
    """Make the engine of a database; on a PostgreSQL server without `writer`, it only reads.

    Raises ResultsError where the URL or its driver cannot be used.
    """
    is_postgres = url.get_backend_name() == POSTGRES
    options = server_options(url, writer) if is_postgres else {}
    if url.get_backend_name() == "sqlite" and not url.database:  # one database for all threads
        options = {"poolclass": StaticPool, "connect_args": {"check_same_thread": False}}
    try:
        engine = create_engine(
            url,
            json_serializer=to_json,
            json_deserializer=_text,
            execution_options={"database": without_password(database)},
            **options,
        )
    except ArgumentError:
        raise ResultsError(f"{without_password(database)} is no URL for {url.drivername}") from None
    except (NoSuchModuleError, ImportError) as error:
        advice = "; run: pip install 'psycopg[binary]>=3.2'" if is_postgres else ""
        raise ResultsError(
            f"{without_password(database)} cannot be opened: {error}{advice}"
        ) from None
    if engine.dialect.name == "sqlite":
        is_read_only = "mode" in url.query
        event.listen(engine, "connect", _set_up_reader if is_read_only else _set_up_writer)
        event.listen(engine, "begin", _begin)
    elif is_postgres and writer is None:
        event.listen(engine, "connect", read_only)
    elif writer is not None:
        return writer.serve(engine)
    return engine


def shown_name(connection: Connection) -> str:
    """Return the path or URL of a connection's database, without its password."""
    return str(connection.get_execution_options().get("database", connection.engine.url))


def _text(cell: Any) -> str:
    """Return JSON as text, which `harness.results.reader` parses."""
    return cell if isinstance(cell, str) else bytes(cell).decode()


def _set_up_writer(connection: Any, record: object) -> None:
    """Every commit reaches the disk."""
    _set_up(connection)
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA foreign_keys=ON")


def _set_up_reader(connection: Any, _record: object) -> None:
    """Nothing is written but what SQLite keeps beside the file, which it also deletes."""
    _set_up(connection)
    connection.execute("PRAGMA query_only=ON")


def _set_up(connection: Any) -> None:
    """The file may come from anywhere: its schema must not run functions with side effects."""
    connection.isolation_level = None  # sqlite3 begins no transaction of its own: see _begin
    connection.execute("PRAGMA trusted_schema=OFF")


def _begin(connection: Connection) -> None:
    """Begin a transaction, since sqlite3 reads and makes tables outside of one by itself: a reader
    could see a measurement without its samples."""
    connection.exec_driver_sql("BEGIN")
