"""What a run locks: its device, on which two would disturb each other's times, and its folder for
temporary files.

The system frees the locks when the process dies: the next run removes a folder that nobody locks.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import hashlib
import json
import os
import platform
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from harness.core.errors import DeviceBusy, UsageError
from harness.core.files import CACHE_ADVICE, cache_folder, unwritable
from harness.core.locks import FileHeld, locked_file
from harness.core.text import command_line

_LONGEST_COMMAND = 300
_PREFIX = "harness-run-"
_OWNER = "owner"
_NEVER_LOCKED_S = 3600.0
"""A folder without a lock is younger than this while its run begins."""

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_LEAST_ROOM = 1 << 16  # bytes
_ADVICE = "make room there, or set TMPDIR to a folder with more room"


@contextlib.contextmanager
def locked(identity: str, name: str) -> Iterator[None]:
    """Hold the lock of a device of this machine, which the system frees when this process dies.

    Users have locks of their own: NVML shows the processes of others. Raises DeviceBusy where
    another process of this user measures on the device, UsageError where there can be no lock.
    """
    path = _lock_file(identity)
    holder = path.with_suffix(".json")
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked_file(path))
            stack.callback(holder.unlink, missing_ok=True)
            holder.write_text(json.dumps(_this_process()), encoding="utf-8")
        except FileHeld:
            listing = command_line("devices")
            raise DeviceBusy(
                f"{_holder(holder)} measures on this device: {name}",
                "Two would disturb each other's times. Wait until it ends (tune, check: --wait "
                f"SECONDS), or name another device with --device; `{listing}` lists them",
            ) from None
        except OSError as error:
            raise unwritable(path, error, CACHE_ADVICE) from None
        yield


def _lock_file(identity: str) -> Path:
    """Return the lock file of a device of this machine: machines may share a user's folders."""
    text = f"{platform.node()}\0{identity}"
    return cache_folder("locks") / f"device-{hashlib.sha256(text.encode()).hexdigest()[:32]}.lock"


def _this_process() -> dict[str, object]:
    """Describe this process, without what may hold a password."""
    words = ("..." if "://" in word else word for word in sys.orig_argv)
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    return {"pid": os.getpid(), "since": since, "command": shlex.join(words)[:_LONGEST_COMMAND]}


def _holder(path: Path) -> str:
    """Name the process that a file describes; it may be written or deleted just now."""
    try:
        holder = json.loads(path.read_text(encoding="utf-8"))
        if holder["pid"] == os.getpid():
            return "this process already"
        return f"process {holder['pid']} ({holder['command']}; since {holder['since']})"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


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
    """Return the folder for temporary ones, without links, as the system names the folders that
    processes work in; raises UsageError."""
    try:
        parent = Path(tempfile.gettempdir())
    except FileNotFoundError as error:
        raise UsageError(f"{error.strerror or error}; {_ADVICE}") from None
    wanted = os.environ.get("TMPDIR")
    if wanted and Path(wanted).absolute() != parent.absolute():  # Python takes another one instead
        raise unwritable(Path(wanted), OSError(0, "it is full, or no folder to write to"), _ADVICE)
    return parent.resolve()


def _locked_folder(parent: Path, stack: contextlib.ExitStack) -> Path:
    """Make a folder and lock it; raises OSError."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=parent))
        with contextlib.suppress(FileHeld):  # another run took it for an abandoned one
            stack.enter_context(locked_file(folder / _OWNER))
            return folder


def _remove_if_abandoned(folder: Path) -> None:
    """Remove a folder of this user; raises FileHeld where a run has locked it."""
    if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
        return
    if (folder / _OWNER).exists():
        with locked_file(folder / _OWNER):
            _remove(folder)
    elif time.time() - folder.stat().st_mtime > _NEVER_LOCKED_S:
        _remove(folder)


def _remove(folder: Path) -> None:
    """End what still works in a folder, such as a program whose worker was killed, and remove it;
    shutil.rmtree fails for one that is nested too deep."""
    for link in Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):
            where, pid = Path(os.readlink(link)), int(link.parent.name)
            if (where == folder or folder in where.parents) and pid != os.getpid():
                os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(OSError):
        command = ["rm", "-rf", "--", str(folder)]
        subprocess.run(command, stderr=subprocess.DEVNULL, check=False)


def require_room() -> None:
    """Raise OSError where the temporary folder is full: a failure then says nothing else."""
    folder = Path(tempfile.gettempdir())
    folder = folder.parent if folder.name.startswith(_PREFIX) else folder  # a worker has its own
    state = os.statvfs(folder)
    if state.f_bavail * state.f_frsize < _LEAST_ROOM:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


def no_room(error: OSError) -> UsageError | None:
    """Return the error for the user where a file system is full; None for other reasons."""
    if error.errno not in _NO_ROOM:
        return None
    return unwritable(Path(error.filename or tempfile.gettempdir()), error, _ADVICE)
