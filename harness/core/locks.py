"""Lock a file for one process at a time, and wait for another process.

The system frees a lock when its process dies.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from filelock import FileLock, Timeout

from harness.core.errors import Busy

T = TypeVar("T")

_AGAIN_S = 1.0  # between two attempts

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


def patiently(call: Callable[[], T], end_s: float, say: Callable[[str], None]) -> T:
    """Call again and again while another process is at work, until a moment of the monotonic
    clock; say so once.

    Raises DeviceBusy or DatabaseBusy where the other one works for longer.
    """
    is_said = False
    while True:
        try:
            return call()
        except Busy as busy:
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                raise
            if not is_said:
                say(f"{busy.fact}; waiting for it for up to {left_s:.0f} s (Ctrl-C ends this)")
            is_said = True
        time.sleep(min(_AGAIN_S, left_s))
