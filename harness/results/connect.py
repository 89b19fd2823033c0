"""Opening a results database: for one writer at a time, or for any number of readers."""

from __future__ import annotations

import hashlib
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

from filelock import FileLock, Timeout
from sqlalchemy import Engine, create_engine, event, inspect, select
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, NoSuchModuleError

from harness.buildcache import cache_folder
from harness.errors import DatabaseBusy, ResultsError
from harness.results import schema


def now() -> str:
    """This moment as the database writes dates."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def database_url(place: str) -> str:
    """A SQLAlchemy URL; anything without :// is the path of a SQLite file."""
    return place if "://" in place else f"sqlite:///{place}"


def shown_place(place: str) -> str:
    """A database's place without its password."""
    return place if "://" not in place else make_url(place).render_as_string(hide_password=True)


def sqlite_path(place: str) -> Path | None:
    """The file of a SQLite database; None for other kinds and for one in memory."""
    try:
        url = make_url(database_url(place))
    except ArgumentError as error:
        raise ResultsError(f"{place} is no database: {error}") from None
    named = url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:")
    return Path(str(url.database)) if named else None


@contextmanager
def writing(place: str) -> Iterator[Engine]:
    """The engine of a database that this process alone may write to, made if missing.

    Raises DatabaseBusy where another process holds it, ResultsError where it cannot be used.
    """
    path = sqlite_path(place)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(_lock_file(place, path))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise DatabaseBusy(_who_holds(place)) from None
    except OSError as error:
        raise ResultsError(f"{shown_place(place)} cannot be written: {error.strerror}") from None
    try:
        engine = _engine(place)
        try:
            _prepare(engine, place)
            yield engine
            with engine.begin() as connection:
                connection.execute(schema.writers.delete())
        finally:
            engine.dispose()
    finally:
        lock.release()


@contextmanager
def reading(place: str) -> Iterator[Engine]:
    """The engine of a database that exists; raises ResultsError where it is not one of ours."""
    path = sqlite_path(place)
    if path is not None and not path.is_file():
        raise ResultsError(f"{path}: no such database; `python -m harness.tune` makes one")
    engine = _engine(place)
    try:
        _check_version(engine, place)
        yield engine
    finally:
        engine.dispose()


def _lock_file(place: str, path: Path | None) -> Path:
    """Beside a SQLite file; for servers, on this machine: they must not be shared by writers."""
    if path is not None:
        return path.with_name(path.name + ".lock")
    return cache_folder("locks") / hashlib.sha256(place.encode()).hexdigest()


def _engine(place: str) -> Engine:
    try:
        engine = create_engine(database_url(place))
    except (ArgumentError, NoSuchModuleError, ImportError) as error:
        raise ResultsError(f"{shown_place(place)} cannot be opened: {error}") from None
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _make_durable)
    return engine


def _make_durable(connection: object, _record: object) -> None:
    """Every commit reaches the disk (0.3 ms each); readers do not wait for the writer."""
    cursor = connection.cursor()  # type: ignore[attr-defined]
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()


def _prepare(engine: Engine, place: str) -> None:
    """Make the tables that are missing, and tell who writes."""
    _check_version(engine, place, may_be_new=True)
    schema.metadata.create_all(engine)
    with engine.begin() as connection:
        if connection.execute(select(schema.schema_version.c.version)).first() is None:
            connection.execute(schema.schema_version.insert().values(version=schema.VERSION))
        connection.execute(schema.writers.delete())  # of a writer that was killed
        connection.execute(
            schema.writers.insert().values(
                pid=os.getpid(),
                host=socket.gethostname(),
                command=" ".join(sys.orig_argv[1:]),
                since=now(),
            )
        )


def _check_version(engine: Engine, place: str, may_be_new: bool = False) -> None:
    try:
        if inspect(engine).has_table(schema.schema_version.name):
            with engine.connect() as connection:
                version = connection.execute(select(schema.schema_version.c.version)).scalar()
        else:
            version = None
    except DatabaseError as error:
        reason = error.orig or error
        raise ResultsError(f"{shown_place(place)} is no results database: {reason}") from None
    if version is None and not may_be_new:
        raise ResultsError(f"{shown_place(place)} holds no results of harness")
    if version not in (None, schema.VERSION):
        raise ResultsError(
            f"{shown_place(place)} has schema version {version}, this harness knows "
            f"{schema.VERSION}; use the harness that wrote it, or another --database"
        )


def _who_holds(place: str) -> str:
    """Who writes to the database, as far as it tells, and what to do instead."""
    name = shown_place(place)
    holder = "another process"
    try:
        with reading(place) as engine, engine.connect() as connection:
            row = connection.execute(select(schema.writers)).mappings().first()
            if row is not None:
                holder = f"process {row['pid']} on {row['host']} since {row['since']}"
                holder += f" ({row['command']})"
    except (ResultsError, DatabaseError):
        pass  # it is only just being made: the holder has not told yet
    return (
        f"{name} is being written by {holder}. Wait for it; or write to another file with "
        f"--database OTHER.db and merge afterwards: python -m harness.merge {name} OTHER.db"
    )
