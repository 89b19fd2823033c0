"""Write to a PostgreSQL server beside others: hold campaigns, and outlive a lost connection.

A campaign of one program in one environment has one writer at a time. It holds an advisory lock,
which the server frees when the writer's connection ends, however its process died. A writer has a
single connection, so that it has its locks for as long as it can write.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, event, func, select
from sqlalchemy.exc import DBAPIError

from harness.core.errors import DatabaseBusy
from harness.core.text import command_line
from harness.results import schema
from harness.results.url import without_password

T = TypeVar("T")

Notice = Callable[[str], None]
"""Shows the user a line."""

WAIT_S = 120.0
"""How long a writer waits for a server that went away."""

AGAIN_S = 1.0  # between two attempts to connect

_LOCKS = 0x68726E73
"""The first number of harness's advisory locks. The second one is a campaign's, or `_SHARED`."""

_SHARED = 0

_OPTION = "server_writer"  # of the engine's executions

_BECAUSE_OF_OTHERS = ("40001", "40P01")  # the states of a transaction that the server ended

_ALIVE = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
    "fallback_application_name": "harness",
}
"""How a connection notices in a minute that the server cannot be reached (libpq's options)."""

_SETTINGS = """
SELECT set_config(name, wanted, false)
FROM (VALUES
    ('idle_session_timeout', '0'),
    ('idle_in_transaction_session_timeout', '0'),
    ('tcp_keepalives_idle', '30'),
    ('tcp_keepalives_interval', '10'),
    ('tcp_keepalives_count', '3')
) AS settings (name, wanted)
JOIN pg_settings USING (name)
UNION ALL
SELECT set_config('synchronous_commit', 'on', false)
WHERE current_setting('synchronous_commit') = 'off'
"""
"""A session ends with its process, and not while a kernel is measured. The locks of a machine that
went away are free after a minute. A commit has reached the disk."""


def _use_settings(connection: Any) -> None:
    """Set up a new session of psycopg."""
    connection.execute(_SETTINGS)
    connection.commit()


def server_options(url: URL, writer: ServerWriter | None) -> dict[str, Any]:
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


def read_only(connection: Any, _record: object) -> None:
    """Set up a new session that only reads."""
    connection.read_only = True
    _use_settings(connection)


def writer_of(connection: Connection) -> ServerWriter | None:
    """Return the writer whose connection this is; None for a database that is no server's."""
    writer: ServerWriter | None = connection.get_execution_options().get(_OPTION)
    return writer


def lock_shared_rows(connection: Connection) -> None:
    """Wait until no other writer adds rows that have no unique key, such as OpenTuner's programs,
    or tables; others wait until this transaction ends."""
    if writer_of(connection) is not None:
        connection.execute(select(func.pg_advisory_xact_lock(_LOCKS, _SHARED)))


class ServerWriter:
    """The one connection of a writer: when it is lost, another takes its place and its locks."""

    def __init__(self, database: str, notice: Notice) -> None:
        self._name = without_password(database)
        self._notice = notice
        self._locks: set[int] = set()  # numbers of locks
        self._wait_s = 0.0  # for a connection: none for the first, nor after a wait in vain

    def serve(self, engine: Engine) -> Engine:
        """Make the connections of an engine; return the engine."""
        for library in ("psycopg", "sqlalchemy.pool"):  # they log what is raised as well
            logging.getLogger(library).addHandler(logging.NullHandler())
        event.listen(engine, "do_connect", self._connect)
        return engine.execution_options(**{_OPTION: self})

    # ------------------------------------------------------------------------ campaigns

    def hold(
        self, connection: Connection, what: str, key: tuple[str, ...], me: Mapping[str, Any]
    ) -> None:
        """Hold the campaign with this key until the writer ends; `me` is the row of `writers`.

        Raises DatabaseBusy, which says who writes `what`, where another process holds it.
        """
        place = connection.execute(select(func.current_schema())).scalar_one()
        number = _lock_number((place, *key))
        writers = schema.writers
        of_lock = writers.c.id == number
        take = select(func.pg_try_advisory_lock(_LOCKS, number))
        if number not in self._locks and not connection.execute(take).scalar_one():
            row = connection.execute(select(writers).where(of_lock)).mappings().first()
            raise busy(f"{what} in {self._name}", self._name, row)
        self._locks.add(number)
        connection.execute(writers.delete().where(of_lock))  # of one that was killed
        connection.execute(writers.insert().values(id=number, **me))

    def release(self, connection: Connection) -> None:
        """Note that this writer writes no more; the locks are free when the connection ends."""
        connection.execute(schema.writers.delete().where(schema.writers.c.id.in_(self._locks)))

    # ----------------------------------------------------------------------- connection

    def _connect(self, dialect: Any, _record: object, words: Any, options: Any) -> Any:
        """Connect to the server; where the connection was lost, wait for it and take its locks."""
        wait_s = self._wait_s
        self._wait_s = 0.0
        if wait_s:
            self._notice(
                f"{self._name}: the connection was lost. Waiting for the server for up to "
                f"{wait_s / 60:.0f} minutes; what was measured meanwhile is written then"
            )
        end_s = time.monotonic() + wait_s
        while True:
            try:
                connection = dialect.connect(*words, **options)
                _use_settings(connection)
                self._take_locks(connection)
                break
            except (dialect.loaded_dbapi.Error, DatabaseBusy):
                if time.monotonic() >= end_s:
                    raise
            time.sleep(AGAIN_S)
        if wait_s:
            self._notice(f"{self._name}: connected again")
        self._wait_s = WAIT_S
        return connection

    def _take_locks(self, connection: Any) -> None:
        """Take the locks that the last connection had; raises DatabaseBusy where another one has
        taken one."""
        for number in self._locks:
            query = "SELECT pg_try_advisory_lock(%s, %s)"
            if connection.execute(query, (_LOCKS, number)).fetchone() != (True,):
                connection.close()
                raise busy(f"its campaign in {self._name}", self._name, None)
        connection.commit()


def _lock_number(key: tuple[str, ...]) -> int:
    """Return the number of a campaign's lock, which is the id of its row in `writers` too."""
    digest = hashlib.sha256("\0".join(key).encode()).digest()
    return int.from_bytes(digest[:4], "big") % (2**31 - 1) + 1


def busy(what: str, name: str, row: Mapping[Any, Any] | None) -> DatabaseBusy:
    """Return the error that names the process that writes, from its row in `writers`, and says what
    to do instead."""
    holder = "another process"
    if row is not None:
        holder = f"process {row['pid']} on {row['host']} since {row['since']} ({row['command']})"
    merge = command_line("merge", name, "OTHER.db")
    return DatabaseBusy(
        f"{what} is being written by {holder}",
        "Wait for it (tune: --wait SECONDS); or write to another file with --database OTHER.db and "
        f"merge afterwards: {merge}",
    )


def repeated(work: Callable[[], T], roll_back: Callable[[], object] = lambda: None) -> T:
    """Do the work of a transaction; do it again, twice at most, where the server was lost, or ended
    it for the sake of another writer's. `roll_back` drops what was not committed."""
    for _ in range(2):
        try:
            return work()
        except DBAPIError as error:
            if not is_repeatable(error):
                raise
        roll_back()
    return work()


def is_repeatable(error: DBAPIError) -> bool:
    """Whether a transaction failed that may succeed if it is done again."""
    state = getattr(error.orig, "sqlstate", None)
    return error.connection_invalidated or state in _BECAUSE_OF_OTHERS
