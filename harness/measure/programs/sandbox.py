"""Run a command in a process group of its own, with a deadline and limits, timed from exec to exit.

Processes that it leaves behind are killed: its process group, and those that have left the group,
which are found by a mark in their environment (Linux).

A shell starts, stops itself, gets its limits from outside, and continues as the command; only then
the clock starts. To set limits between fork and exec, Python would have to copy this whole
process, which takes milliseconds, and the clock would count a part of them.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.measure.processes import signal_name

_MARK = "HARNESS_COMMAND"
_PR_SET_CHILD_SUBREAPER = 36
_LOOKS = 200
_LOOK_S = 0.01
# The command's words are the shell's arguments: it reads none of them.
_WAITING = ("/bin/sh", "-c", 'kill -STOP $$; exec "$@"', "sh")
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
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
    """

    status: int | None
    wall_s: float
    cpu_s: float

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


def run_command(
    words: Sequence[str],
    folder: Path,
    outputs: Path,
    bounds: Bounds,
    variables: Mapping[str, str] | None = None,
) -> CommandResult:
    """Run a command in a folder to its end, and kill the processes that it leaves behind.

    The folder `outputs` gets its streams as the files STDOUT and STDERR. `variables` are added to
    the environment. Raises CannotStart.
    """
    _adopt_orphans()
    mark = os.urandom(8).hex()
    environment = {**os.environ, "LC_ALL": "C", "TMPDIR": str(folder), **(variables or {})}
    environment[_MARK] = mark
    program = _found(words[0], folder, environment)
    with open(outputs / STDOUT, "wb") as stdout, open(outputs / STDERR, "wb") as stderr:
        process = subprocess.Popen(
            [*_WAITING, program, *words[1:]],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
    try:
        return _wait(process, bounds)
    finally:
        _end_orphans(process.pid, mark)


def _found(name: str, folder: Path, environment: Mapping[str, str]) -> str:
    """Return the path of a program; raises CannotStart without one."""
    path = name if "/" not in name else str(folder / name)
    found = shutil.which(path, path=environment.get("PATH"))
    if found is None:
        raise CannotStart(f"`{name}` not found; install it, or set its path")
    return found


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


def _wait(process: subprocess.Popen[bytes], bounds: Bounds) -> CommandResult:
    """Set the limits, continue the command, and wait for its end or kill it at the deadline."""
    late = threading.Event()

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
    finally:
        timer.cancel()
        _kill_group(process.pid)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    status_or_late = None if late.is_set() else process.returncode
    return CommandResult(status_or_late, wall_s, used.ru_utime + used.ru_stime)


def end_programs_when_terminated() -> None:
    """Make SIGTERM, which ends a worker process, also end the command that it runs."""

    def end(*_: object) -> None:
        for pid in _children():
            _kill_group(pid)  # a command leads a group of its own
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        os._exit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, end)


def _kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


# -------------------------------------------------- processes that have left the process group


def _adopt_orphans() -> None:
    """Make orphaned processes children of this process, where they can be found."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _end_orphans(group: int, mark: str) -> None:
    """Kill and reap the children of this group or with this mark, and then their children."""
    ending: set[int] = set()
    for _ in range(_LOOKS):
        ending |= {pid for pid in _children() if _group(pid) == group or _is_marked(pid, mark)}
        ending = {pid for pid in ending if not _reaped(pid)}
        if not ending:
            return
        time.sleep(_LOOK_S)


def _reaped(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def _children() -> Iterator[int]:
    with contextlib.suppress(OSError):
        for task in Path("/proc/self/task").iterdir():
            yield from map(int, (task / "children").read_text().split())


def _group(pid: int) -> int | None:
    """Return the process group, which a dead process has until it is reaped."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name, in brackets, may contain anything: state, parent and group follow the last bracket.
    return int(stat.rpartition(")")[2].split()[2])


def _is_marked(pid: int, mark: str) -> bool:
    try:
        return f"{_MARK}={mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
