"""Run a command in a session of its own, with a deadline and limits, timed from exec to exit.

Processes that it leaves running are killed, wherever they have moved. No descendant of the command
can come back to our session. This process adopts orphans (Linux's PR_SET_CHILD_SUBREAPER), so every
descendant whose parent ends becomes a child of this process: neither a new session, nor a second
fork, nor an empty environment hides it. A process that another program starts for the command, such
as cron, systemd or a container daemon, is no descendant and cannot be found.

A shell starts, stops itself, gets its limits from outside, and continues as the command; only then
the clock starts. To set limits between fork and exec, Python would have to copy this whole
process, which takes milliseconds, and the clock would count a part of them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from harness.core.machine import find_program, libc, signal_at_end_of_parent
from harness.core.text import signal_name

_STATE, _PARENT, _SESSION = 0, 1, 3
"""Positions of fields in Linux's /proc/PID/stat: a letter, such as `T` for stopped and `Z` for
ended; and two ids."""


def _status_field(pid: int, field: int) -> str | None:
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


def _commands_children(apart_from: Set[int] = frozenset()) -> set[int]:
    """Return the children of this process that are in another session: commands and orphans.

    Those that have ended and are not reaped yet are among them. Leaves those in `apart_from` out.
    """
    ours = (None, str(os.getsid(0)))
    children = _children() - apart_from
    return {pid for pid in children if _status_field(pid, _SESSION) not in ours}


def _end_descendants(before: Set[int]) -> int:
    """Kill and reap the children in other sessions, and then their children, until none is left.

    Spares those in `before`. Returns how many cannot be ended, such as those of another user.
    """
    children: set[int] = set()
    for look in range(_LOOKS):
        children = _commands_children(before)
        if not children:
            return 0
        # What has ended may have had children, which are ours by now: look again in any case.
        ended = [_ended(pid) for pid in children]
        if not all(ended) and look >= _LOOKS // 2:
            time.sleep(_LOOK_S)
    return len(children)


def _kill_group(group: int) -> None:
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


def _children() -> set[int]:
    """Return the processes whose parent is this process, ended ones included."""
    process_ids: set[int] = set()
    try:
        for task in os.listdir("/proc/self/task"):
            children = Path(f"/proc/self/task/{task}/children").read_text()
            process_ids.update(map(int, children.split()))
    except OSError:  # a kernel without these lists
        parent = str(os.getpid())
        pids = (int(path.name) for path in Path("/proc").glob("[0-9]*"))
        return {pid for pid in pids if _status_field(pid, _PARENT) == parent}
    return process_ids


# The command's variables, --, and its words are the shell's arguments: it reads none of them. In
# the shell's own environment, LD_PRELOAD could make it do work before the clock starts.
_SCRIPT = 'kill -STOP $$; while [ "$1" != -- ]; do export "$1"; shift; done; shift; exec "$@"'
_WAITING = ("/bin/sh", "-c", _SCRIPT, "sh")
STDOUT, STDERR = "stdout", "stderr"


class CannotStart(Exception):
    """The operating system did not start the command."""


@dataclass(frozen=True)
class Bounds:
    """The limits of a command: bytes of writable memory per process, bytes per written file, and
    seconds."""

    memory_bytes: int
    file_bytes: int
    deadline_s: float


@dataclass(frozen=True)
class CommandResult:
    """How a command ended, and its seconds on the clock and on processors.

    `status` is the exit status, a signal as a negative number, or None after the deadline.
    `left` processes still ran when it ended and were killed, `unended` could not be killed.
    """

    status: int | None
    wall_s: float
    cpu_s: float
    left: int = 0
    unended: int = 0

    @property
    def description(self) -> str:
        """The end in words, after `the program`."""
        if self.status is None:
            return f"was killed after {self.wall_s:.3g} s"
        if self.status >= 0:
            return f"ended with exit status {self.status}"
        name = signal_name(-self.status)
        hint = {"SIGXFSZ": ": a file that it wrote exceeded limits.output_mb"}.get(name, "")
        return f"died of {name}{hint}"

    @property
    def left_running(self) -> str:
        """What explains a missing or short output, for a message; empty where nothing does."""
        if not self.left:
            return ""
        return f"; {self.left} of its processes still ran when it ended, and harness killed them"


def run_command(
    words: Sequence[str],
    folder: Path,
    outputs: Path,
    bounds: Bounds,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> CommandResult:
    """Run a command in a folder to its end, and kill the processes that it leaves behind.

    The folder `outputs` gets its streams as the files STDOUT and STDERR. `variables` are added to
    the environment. Raises CannotStart.
    """
    libc().prctl(_PR_SET_CHILD_SUBREAPER, 1)  # orphans become children of this process
    before = _commands_children()
    environment = {**os.environ, "LC_ALL": "C", "TMPDIR": str(folder)}
    path = variables.get("PATH", environment.get("PATH"))
    program = find_program(words[0], folder, path)
    if program is None:
        raise CannotStart(f"`{words[0]}` not found; install it, or set its path")
    assignments = [f"{name}={value}" for name, value in variables.items()]
    with open(outputs / STDOUT, "wb") as stdout, open(outputs / STDERR, "wb") as stderr:
        process = subprocess.Popen(
            [*_WAITING, *assignments, "--", program, *words[1:]],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
    try:
        result = _wait(process, bounds, before)
    except BaseException:
        _end_descendants(before)
        raise
    return dataclasses.replace(result, unended=_end_descendants(before))


def _limit(pid: int, bounds: Bounds) -> None:
    """Set the limits of a process.

    RLIMIT_DATA, not RLIMIT_AS: CUDA's driver and sanitizers reserve far more addresses than they
    use, and RLIMIT_DATA counts only writable memory. RLIMIT_CPU ends a command whose parent was
    killed.
    """
    seconds = math.ceil(bounds.deadline_s * (os.cpu_count() or 1)) + 1
    limits = (
        (resource.RLIMIT_DATA, bounds.memory_bytes),
        (resource.RLIMIT_FSIZE, bounds.file_bytes),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_CORE, 0),
    )
    with contextlib.suppress(ProcessLookupError):  # it has ended
        for what, most in limits:
            _, hard = resource.prlimit(pid, what)
            bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.prlimit(pid, what, (bound, bound))


def _wait(process: subprocess.Popen[bytes], bounds: Bounds, before: Set[int]) -> CommandResult:
    """Set the limits, continue the command, and wait for its end or kill it at the deadline."""
    late = threading.Event()
    running: list[int] = []

    def kill() -> None:
        late.set()
        _kill_group(process.pid)

    # A timer, not Popen.wait(timeout), which polls and so blurs the time.
    timer = threading.Timer(bounds.deadline_s, kill)
    try:
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        _limit(process.pid, bounds)
        timer.start()
        begin_s = time.perf_counter()
        os.kill(process.pid, signal.SIGCONT)
        # It is not reaped yet: until then no other process can get its number.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        wall_s = time.perf_counter() - begin_s
        others = _commands_children(before | {process.pid})
        running = [pid for pid in others if _status_field(pid, _STATE) not in (None, "Z", "X")]
    finally:
        timer.cancel()
        _kill_group(process.pid)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    exit_status = None if late.is_set() else process.returncode
    cpu_s = used.ru_utime + used.ru_stime
    return CommandResult(exit_status, wall_s, cpu_s, len(running))


def end_programs_when_terminated() -> None:
    """Make SIGTERM, which ends a worker process, also end the command that it runs; so does the end
    of the process that started the worker."""

    def end(*_: object) -> None:
        _end_descendants(frozenset())
        os._exit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, end)
    if sys.platform == "linux":
        signal_at_end_of_parent(signal.SIGTERM)
