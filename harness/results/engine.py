"""Make the engine of a database: what a connection is set to, and how JSON is read."""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import ArgumentError, NoSuchModuleError
from sqlalchemy.pool import StaticPool

from harness.core.errors import ResultsError
from harness.results.server import ServerWriter, use_settings
from harness.results.url import POSTGRES, without_password

_ALIVE = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
    "fallback_application_name": "harness",
}
"""How a connection notices in a minute that the server cannot be reached (libpq's options)."""


def make_engine(database: str, url: URL, writer: ServerWriter | None = None) -> Engine:
    """Make the engine of a database; on a PostgreSQL server without `writer`, it only reads.

    Raises ResultsError where the URL or its driver cannot be used.
    """
    is_postgres = url.get_backend_name() == POSTGRES
    options = _server_options(url, writer) if is_postgres else {}
    if url.get_backend_name() == "sqlite" and not url.database:  # one database for all threads
        options = {"poolclass": StaticPool, "connect_args": {"check_same_thread": False}}
    try:
        engine = create_engine(
            url,
            json_serializer=_to_json,
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
        event.listen(engine, "connect", _read_only)
    elif writer is not None:
        return writer.serve(engine)
    return engine


def shown_name(connection: Connection) -> str:
    """Return the path or URL of a connection's database, without its password."""
    return str(connection.get_execution_options().get("database", connection.engine.url))


def _server_options(url: URL, writer: ServerWriter | None) -> dict[str, Any]:
    """Return the options of an engine on PostgreSQL: a reader sees one moment, and a writer has one
    connection, which holds its locks and is looked at before it is used again."""
    from_environment = {"connect_timeout"} if "PGCONNECT_TIMEOUT" in os.environ else set()
    stated = {*url.query, *from_environment}
    options: dict[str, Any] = {
        "connect_args": {name: value for name, value in _ALIVE.items() if name not in stated}
    }
    if writer is None:
        return options | {"isolation_level": "REPEATABLE READ"}
    return options | {"pool_size": 1, "max_overflow": 0, "pool_timeout": 1, "pool_pre_ping": True}


def _to_json(value: object) -> str:
    return json.dumps(value, allow_nan=False, default=_record_as_json)


def _text(cell: Any) -> str:
    """Return JSON as text, which `harness.results.reader` parses."""
    return cell if isinstance(cell, str) else bytes(cell).decode()


def _record_as_json(record: Any) -> dict[str, object]:
    """Return a record's fields. NaN and infinity become text, since JSON has neither."""
    return {
        name: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in asdict(record).items()
    }


def _set_up_writer(connection: Any, record: object) -> None:
    """Every commit reaches the disk."""
    _set_up_reader(connection, record)
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA foreign_keys=ON")


def _set_up_reader(connection: Any, _record: object) -> None:
    """The file may come from anywhere: its schema must not run functions with side effects."""
    connection.isolation_level = None  # sqlite3 begins no transaction of its own: see _begin
    connection.execute("PRAGMA trusted_schema=OFF")


def _read_only(connection: Any, _record: object) -> None:
    connection.read_only = True
    use_settings(connection)


def _begin(connection: Connection) -> None:
    """Begin a transaction, since sqlite3 reads and makes tables outside of one by itself: a reader
    could see a measurement without its samples."""
    connection.exec_driver_sql("BEGIN")
