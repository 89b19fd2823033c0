"""The session of a writer: what belongs together is committed together, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from harness.results.server import repeated

T = TypeVar("T")


class Transactions:
    """Transactions of one writer.

    OpenTuner's tables are written through the same `session`: SQLite has one writer, and so a test
    and its result are committed together.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.factory = sessionmaker(
            engine,
            autoflush=False,
            expire_on_commit=False,
            # A commit is one, also where somebody has read with the connection outside the session.
            join_transaction_mode="control_fully",
        )
        # One for all threads, of which one at a time writes: SQLite has one writer.
        self.sessions: scoped_session[Session] = scoped_session(
            self.factory, scopefunc=lambda: None
        )
        self._is_in_work = False
        self._kept: Connection | None = None

    def __exit__(self, *_: object) -> None:
        """Close the session: with one open, SQLite leaves its log beside the file."""
        self.close()

    def close(self) -> None:
        """Close the session, and the connection that it keeps."""
        self.sessions.remove()
        self._leave_connection()

    def _leave_connection(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    @property
    def session(self) -> Session:
        """The one session of this writer.

        It keeps its connection to SQLite: to take one for each transaction costs a sixth of the
        transaction. One to a server is looked at before each transaction.
        """
        session = self.sessions()
        if self._kept is None and self.engine.dialect.name == "sqlite":
            session.bind = self._kept = self.engine.connect()
        return session

    @property
    def connection(self) -> Connection:
        """The connection of the present transaction."""
        return self.session.connection()

    def commit(self) -> None:
        """Write everything so far to the disk."""
        self.session.commit()

    def transact(self, work: Callable[[], T]) -> T:
        """Do work and commit it, whole or not at all; inside of other such work, leave the commit
        to that.

        Where a server is lost, wait for it, and do the work once more, so that it changes nothing
        in memory that it cannot change again. A commit is not repeated: nobody knows whether one
        that was not answered was done.
        """
        if self._is_in_work:
            return work()

        def flushed() -> T:
            done = work()
            self.session.flush()
            return done

        self._is_in_work = True
        try:
            done = repeated(flushed, self.session.rollback)
            self.session.commit()
            return done
        except BaseException:
            session = self.session
            session.rollback()
            session.bind = self.engine
            self._leave_connection()  # a commit that failed may have left SQLite's transaction open
            raise
        finally:
            self._is_in_work = False

    def read(self, query: Callable[[], T]) -> T:
        """Read in the present transaction, or in one of its own, which ends: an open one would keep
        a server busy while a configuration is measured."""
        return query() if self.session.in_transaction() else self.transact(query)
