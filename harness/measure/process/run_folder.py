"""Folders for temporary files that do not outlive their run, even where it is killed.

A shell waits for the end of the run: however it ends, the shell kills the programs that still work
in the folder, and removes it. Where the shell is killed too, the next run removes the folder, whose
lock nobody holds any more.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path

from harness.core.errors import UsageError
from harness.core.files import unwritable

_PREFIX = "harness-run-"
_OWNER = "owner"
_NEVER_LOCKED_S = 3600.0
"""A folder without a lock is younger than this while its run begins."""

# It reads until the run closes the pipe, or dies. Programs of the run work in the folder.
_WAIT = """
read _
for _ in 1 2 3 4 5; do
  [ -d "$1" ] || exit 0
  for process in /proc/[0-9]*; do
    case $(readlink "$process/cwd") in "$1"*) kill -9 "${process#/proc/}" ;; esac
  done
  rm -rf -- "$1" || sleep 1
done
"""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_LEAST_ROOM = 1 << 16  # bytes
_ADVICE = "make room there, or set TMPDIR to a folder with more room"


class RunFolder:
    """A folder of a run; raises UsageError where it cannot be made."""

    def __init__(self) -> None:
        remove_abandoned()
        try:
            self.path, self._lock = _make()
        except OSError as error:
            raise unwritable(Path(tempfile.gettempdir()), error, _ADVICE) from None
        # A session of its own: what ends the run, such as Ctrl-C, must not end it.
        self._waiting = subprocess.Popen(
            ["/bin/sh", "-c", _WAIT, "sh", str(self.path)],
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def close(self) -> None:
        """Remove the folder; what a dying process writes at this moment goes with it."""
        with contextlib.suppress(RecursionError):  # the shell removes what is nested too deep
            shutil.rmtree(self.path, ignore_errors=True)
        self._waiting.communicate()
        os.close(self._lock)


def run_folder() -> Path:
    """Return the folder of this process, which is made at the first call, and removed at exit."""
    return _of_process(os.getpid())


@cache
def _of_process(pid: int) -> Path:
    folder = RunFolder()

    def close() -> None:
        if os.getpid() == pid:  # not at the exit of a fork
            folder.close()

    atexit.register(close)
    return folder.path


def remove_abandoned() -> None:
    """Remove the folders of this user's runs that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError, RecursionError):
            if folder.lstat().st_uid == os.geteuid() and not folder.is_symlink():
                _remove_if_abandoned(folder)


def _remove_if_abandoned(folder: Path) -> None:
    """Remove a folder unless a run holds its lock; raises OSError where one does."""
    try:
        lock = os.open(folder / _OWNER, os.O_RDWR)
    except FileNotFoundError:
        if time.time() - folder.stat().st_mtime > _NEVER_LOCKED_S:
            shutil.rmtree(folder, ignore_errors=True)
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)


def _make() -> tuple[Path, int]:
    """Make a folder and lock it; raises OSError."""
    # Without links, as the system names the folders that processes work in.
    parent = os.path.realpath(tempfile.gettempdir())
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=parent))
        lock = os.open(folder / _OWNER, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if (folder / _OWNER).exists():
                return folder, lock
        except BlockingIOError:
            pass  # another run took it for an abandoned one
        os.close(lock)


def room_bytes(folder: Path) -> int:
    """Return how many more bytes the file system of a folder takes."""
    state = os.statvfs(folder)
    return state.f_bavail * state.f_frsize


def require_room() -> None:
    """Raise OSError where the temporary folder is full: a failure then says nothing else."""
    folder = Path(tempfile.gettempdir())
    folder = folder.parent if folder.name.startswith(_PREFIX) else folder  # a worker has its own
    if room_bytes(folder) < _LEAST_ROOM:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


def no_room(error: OSError) -> UsageError | None:
    """Return the error for the user where a file system is full; None for other reasons."""
    if error.errno not in _NO_ROOM:
        return None
    return unwritable(Path(error.filename or tempfile.gettempdir()), error, _ADVICE)
