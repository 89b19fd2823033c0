"""Watch the file of a database while it is written: somebody may delete, replace or cut it."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from sqlalchemy import Connection, Engine, event

from harness.core.errors import ResultsError


def watch(engine: Engine, path: Path) -> None:
    """Look at the file of a SQLite database before each commit.

    A commit raises ResultsError where the file is no longer the one that was opened: SQLite itself
    would go on writing to a file that nobody can find again. What was written so far is then saved
    to a new file next to it, if it can still be read.
    """
    event.listen(engine, "commit", _Watch(path).check)


class _Watch:
    """The file as it was seen last."""

    def __init__(self, path: Path) -> None:
        self._path = path.resolve()
        stat = self._path.stat()
        self._identity, self._size = (stat.st_dev, stat.st_ino), stat.st_size
        self._failure: ResultsError | None = None

    def check(self, connection: Connection) -> None:
        """Raise ResultsError where the file has changed; always the same one."""
        if self._failure is None:
            what = self._change()
            if what is None:
                return
            self._failure = ResultsError(
                f"{self._path} {what} while this command wrote to it. {self._rescue(connection)}"
            )
        raise self._failure

    def _change(self) -> str | None:
        """Say what happened to the file; None where nothing did."""
        try:
            stat = self._path.stat()
        except OSError as error:
            return f"was deleted or moved ({error.strerror})"
        if (stat.st_dev, stat.st_ino) != self._identity:
            return "was replaced by another file"
        if stat.st_size < self._size:
            return f"was cut from {self._size:,} to {stat.st_size:,} bytes"
        self._size = stat.st_size
        return None

    def _rescue(self, connection: Connection) -> str:
        """Save what the open connection still reads, and say where."""
        target = _free_name(self._path)
        source = connection.connection.driver_connection
        assert isinstance(source, sqlite3.Connection)
        try:
            source.execute("COMMIT")  # a copy waits for ever for an open transaction
            with closing(sqlite3.connect(target)) as copy:
                source.backup(copy)
                sound = copy.execute("PRAGMA quick_check(1)").fetchone() == ("ok",)
        except sqlite3.Error:
            sound = False
        if sound:
            return f"All that was measured so far is in {target}; continue with it as --database"
        with suppress(OSError):
            target.unlink()
        return "What was written to it cannot be read any more; copy it again from a backup"


def _free_name(path: Path) -> Path:
    """Return the name of a file that does not exist: results-rescued.db, then -rescued-2."""
    number, found = 1, path.with_name(f"{path.stem}-rescued{path.suffix}")
    while found.exists():
        number += 1
        found = path.with_name(f"{path.stem}-rescued-{number}{path.suffix}")
    return found
