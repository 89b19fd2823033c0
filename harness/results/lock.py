"""Let one process at a time write to a SQLite file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from harness.core.errors import DatabaseBusy, ResultsError
from harness.core.files import obstacle
from harness.core.locks import FileHeld, locked_file
from harness.results.url import sqlite_path, without_password


@contextmanager
def locked(database: str, who_holds: Callable[[str], DatabaseBusy]) -> Iterator[None]:
    """Hold the lock of a SQLite file, and delete the lock's file afterwards; the system frees it
    when the process dies. A database in memory needs none.

    Raises the error of `who_holds` where another process has it, ResultsError
    where there can be no lock.
    """
    check_database(database)
    path = sqlite_path(database)
    with ExitStack() as stack:
        try:
            if path is not None:
                stack.enter_context(locked_file(_lock_file(path)))
        except FileHeld:
            raise who_holds(database) from None
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


def _lock_file(path: Path) -> Path:
    """Return the lock file next to a SQLite file, whose folder is made."""
    path = path.resolve()  # a link and its target are the same database
    path.parent.mkdir(exist_ok=True)  # not its parents: their names are mistyped
    return path.with_name(path.name + ".lock")
