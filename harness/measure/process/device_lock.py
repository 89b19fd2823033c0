"""Lock a device for one process at a time: two would disturb each other's times."""

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
from harness.core.locks import FileHeld, locked_file
from harness.core.text import command_line

_LONGEST_COMMAND = 300


@contextlib.contextmanager
def locked(identity: str, name: str) -> Iterator[None]:
    """Lock a device of this machine; the system frees the lock when this process dies.

    Users have locks of their own: NVML shows the processes of others. Raises DeviceBusy where
    another process of this user measures on the device, UsageError where there can be no lock.
    """
    # Machines may share a user's folders.
    digest = hashlib.sha256(f"{platform.node()}\0{identity}".encode()).hexdigest()
    path = cache_folder("locks") / f"device-{digest[:32]}.lock"
    process = path.with_suffix(".json")
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked_file(path))
            stack.callback(process.unlink, missing_ok=True)
            process.write_text(json.dumps(_this_process()), encoding="utf-8")
        except FileHeld:
            listing = command_line("devices")
            raise DeviceBusy(
                f"{_named_in(process)} measures on this device: {name}",
                "Two would disturb each other's times. Wait until it ends (tune, check: --wait "
                f"SECONDS), or name another device with --device; `{listing}` lists them",
            ) from None
        except OSError as error:
            raise unwritable(path, error, CACHE_ADVICE) from None
        yield


def _this_process() -> dict[str, object]:
    """Describe this process, without what may hold a password."""
    words = ("..." if "://" in word else word for word in sys.orig_argv)
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    return {"pid": os.getpid(), "since": since, "command": shlex.join(words)[:_LONGEST_COMMAND]}


def _named_in(path: Path) -> str:
    """Name the process that a file describes; it may be written or deleted just now."""
    try:
        process = json.loads(path.read_text(encoding="utf-8"))
        if process["pid"] == os.getpid():
            return "this process already"
        return f"process {process['pid']} ({process['command']}; since {process['since']})"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
