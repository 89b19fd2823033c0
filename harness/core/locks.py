"""Lock a file for one process at a time; the system frees the lock when the process dies."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

_TRIES = 20  # of making a file that other processes delete


class FileHeld(Exception):
    """Another process has locked the file, or this one has already."""


@contextmanager
def locked_file(path: Path) -> Iterator[None]:
    """Hold the lock of a file, which is made, and delete it afterwards.

    Raises FileHeld where it is held; OSError or NotImplementedError where there can be no lock.
    """
    lock = _acquired(path)
    try:
        yield
    finally:
        # Before the release: a file of this name that is made from now on is another lock.
        with suppress(OSError):
            path.unlink()
        lock.release()


def _acquired(path: Path) -> FileLock:
    """Lock a file without waiting.

    FileLock gives up where its last holder has just deleted the file; then it can be made again.
    """
    lock = FileLock(path, thread_local=False)  # devices are opened and closed by several threads
    for _ in range(_TRIES):
        try:
            lock.acquire(timeout=0)
            return lock
        except Timeout:
            if path.exists():
                raise FileHeld from None
    # Some file systems report that no file can be made as if the lock were held.
    raise OSError(errno.EACCES, "no file can be made in its folder")
