"""Find and kill the processes that a command leaves running, wherever they have moved.

A command starts a session of its own, and no descendant of it can come back to ours. This process
adopts orphans (Linux's PR_SET_CHILD_SUBREAPER), so every descendant whose parent ends becomes a
child of this process: neither a new session, nor a second fork, nor an empty environment hides it.
A process that another program starts for the command, such as cron, systemd or a container
daemon, is no descendant and cannot be found.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Set
from pathlib import Path

from harness.core.machine import libc

STATE, PARENT, SESSION = 0, 1, 3
"""Positions of fields in Linux's /proc/PID/stat: a letter, such as `T` for stopped and `Z` for
ended; and two ids."""


def status_field(pid: int, field: int) -> str | None:
    """Return a field of a process's status; None where there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name, in brackets, may contain anything: the fields follow the last bracket.
    return stat.rpartition(")")[2].split()[field]


_PR_SET_CHILD_SUBREAPER = 36
_LOOKS = 2000
_LOOK_S = 0.01


def adopt_orphans() -> None:
    """Make orphaned descendants children of this process, where they can be found."""
    if sys.platform == "linux":
        libc().prctl(_PR_SET_CHILD_SUBREAPER, 1)


def commands_children(apart_from: Set[int] = frozenset()) -> set[int]:
    """Return the children of this process that are in another session: commands and orphans.

    Those that have ended and are not reaped yet are among them. Leaves those in `apart_from` out.
    """
    if not _has_children():
        return set()
    own = os.getsid(0)
    found = _children() - apart_from
    return {pid for pid in found if status_field(pid, SESSION) not in (None, str(own))}


def is_running(pid: int) -> bool:
    """Say whether a process exists and has not ended."""
    return status_field(pid, STATE) not in (None, "Z", "X")


def end_descendants(before: Set[int]) -> int:
    """Kill and reap the children in other sessions, and then their children, until none is left.

    Spares those in `before`. Returns how many cannot be ended, such as those of another user.
    """
    found: set[int] = set()
    for look in range(_LOOKS):
        found = commands_children(before)
        if not found:
            return 0
        # What has ended may have had children, which are ours by now: look again in any case.
        ended = [_ended(pid) for pid in found]
        if not all(ended) and look >= _LOOKS // 2:
            time.sleep(_LOOK_S)
    return len(found)


def kill_group(group: int) -> None:
    """Kill a process group, if it exists."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _ended(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def _has_children() -> bool:
    """Say whether this process has children, in one system call: mostly it has none."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _children() -> set[int]:
    """Return the processes whose parent is this process, ended ones included."""
    found: set[int] = set()
    try:
        for task in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{task}/children", "rb", buffering=0) as children:
                found.update(map(int, children.readall().split()))
    except OSError:  # a kernel without these lists
        own = str(os.getpid())
        pids = (int(path.name) for path in Path("/proc").glob("[0-9]*"))
        return {pid for pid in pids if status_field(pid, PARENT) == own}
    return found
