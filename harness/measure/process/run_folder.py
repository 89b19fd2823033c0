"""The folder of a run for temporary files, which is locked while the run lasts.

The system frees the lock when the process dies: the next run removes folders that nobody locks.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path

from harness.core.errors import UsageError
from harness.core.files import unwritable
from harness.core.locks import FileHeld, locked_file

_PREFIX = "harness-run-"
_OWNER = "owner"
_NEVER_LOCKED_S = 3600.0
"""A folder without a lock is younger than this while its run begins."""

_LEAST_ROOM = 1 << 16  # bytes
_ADVICE = "make room there, or set TMPDIR to a folder with more room"


def run_folder() -> Path:
    """Return the folder of this process, which is made at the first call.

    It is removed at exit, or by the next run where this process is killed. Raises UsageError where
    it cannot be made.
    """
    return _of_process(os.getpid())


@cache
def _of_process(pid: int) -> Path:
    parent = _temporary_parent()
    for folder in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError, FileHeld):
            _remove_if_abandoned(folder)
    stack = contextlib.ExitStack()
    try:
        path = _locked_folder(parent, stack)
    except OSError as error:
        raise unwritable(parent, error, _ADVICE) from None

    def close() -> None:
        if os.getpid() == pid:  # not at the exit of a fork
            _remove(path)
            stack.close()

    atexit.register(close)
    return path


def _temporary_parent() -> Path:
    """Return the folder for temporary ones; raises UsageError."""
    try:
        parent = Path(tempfile.gettempdir())
    except FileNotFoundError as error:
        raise UsageError(f"{error.strerror or error}; {_ADVICE}") from None
    wanted = os.environ.get("TMPDIR")
    if wanted and Path(wanted).absolute() != parent.absolute():  # Python takes another one instead
        raise unwritable(Path(wanted), OSError(0, "it is full, or no folder to write to"), _ADVICE)
    return parent


def _locked_folder(parent: Path, stack: contextlib.ExitStack) -> Path:
    """Make a folder and lock it; raises OSError."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=parent))
        with contextlib.suppress(FileHeld):  # another run took it for an abandoned one
            stack.enter_context(locked_file(folder / _OWNER))
            return folder


def _remove_if_abandoned(folder: Path) -> None:
    """Remove a folder that no run has locked; raises FileHeld where a run has."""
    if (folder / _OWNER).exists():
        with locked_file(folder / _OWNER):
            _remove(folder)
    elif time.time() - folder.stat().st_mtime > _NEVER_LOCKED_S:
        _remove(folder)


def _remove(folder: Path) -> None:
    """Remove a folder; shutil.rmtree fails for one that is nested too deep."""
    with contextlib.suppress(OSError):
        command = ["rm", "-rf", "--", str(folder)]
        subprocess.run(command, stderr=subprocess.DEVNULL, check=False)


def require_room() -> None:
    """Raise OSError where the temporary folder is full: a failure then says nothing else."""
    folder = Path(tempfile.gettempdir())
    if folder.name.startswith(_PREFIX):  # a worker's
        folder = folder.parent
    state = os.statvfs(folder)
    if state.f_bavail * state.f_frsize < _LEAST_ROOM:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


def no_room(error: OSError) -> UsageError | None:
    """Return the error for the user where a file system is full; None for other reasons."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return None
    return unwritable(Path(error.filename or tempfile.gettempdir()), error, _ADVICE)
