"""Let one process at a time measure on a device: two would disturb each other's times."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from harness.core.errors import DeviceBusy
from harness.core.files import CACHE_ADVICE, cache_folder, unwritable
from harness.core.invocation import command_line
from harness.core.locks import FileHeld, locked_file

_LONGEST_COMMAND = 300


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
            raise DeviceBusy(_busy(name, holder)) from None
        except OSError as error:
            raise unwritable(path, error, CACHE_ADVICE) from None
        yield


def holder_of(identity: str) -> str:
    """Name the process that measures on a device; empty where there is none."""
    path = _lock_file(identity)
    try:
        if path.exists():
            with locked_file(path):
                pass  # its process was killed
    except FileHeld:
        return _holder(path.with_suffix(".json"))
    except (OSError, NotImplementedError):
        pass  # there can be no lock
    return ""


def _lock_file(identity: str) -> Path:
    """Return the lock file of a device of this machine: machines may share a user's folders."""
    text = f"{platform.node()}\0{identity}"
    return cache_folder("locks") / f"device-{hashlib.sha256(text.encode()).hexdigest()[:32]}.lock"


def _this_process() -> dict[str, object]:
    """Describe this process, without what may hold a password."""
    words = ("..." if "://" in word else word for word in sys.orig_argv)
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    return {"pid": os.getpid(), "since": since, "command": shlex.join(words)[:_LONGEST_COMMAND]}


def _busy(device: str, holder: Path) -> str:
    """Say who measures on the device, and what to do."""
    listing = command_line("check", "--devices")
    return (
        f"{_holder(holder)} measures on this device: {device}. Two would disturb each other's "
        f"times. Wait until it ends, or name another device with --device; `{listing}` lists them"
    )


def _holder(path: Path) -> str:
    """Name the process that a file describes; it may be written or deleted just now."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["pid"] == os.getpid():
            return "this process already"
        return f"process {found['pid']} ({found['command']}; since {found['since']})"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
