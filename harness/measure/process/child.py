"""A process with one worker, whose methods are called from here, each with a deadline.

The process may hang, crash or be killed: then the call raises ChildLost, and the next one starts a
new process. It ends with this process, however this one ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import IO, TypeVar

from harness.core.errors import UsageError
from harness.core.machine import end_with_parent
from harness.core.text import signal_name
from harness.measure.process.run_folder import no_room, run_folder

T = TypeVar("T")

_END_S = 3.0
_LAST_WORDS = 300

# Before `sys.path` is the parent's, no module of the working directory hides one of Python's.
_CODE = """\
import sys
sys.path = [folder for folder in sys.path if folder]
from multiprocessing.connection import Connection
parent = Connection(int(sys.argv[1]))
sys.path[:] = parent.recv()
from harness.measure.process.child import serve
serve(parent, int(sys.argv[2]))
"""


class ChildLost(Exception):
    """The process of a call was killed or died; the message says how.

    `hung` means that it exceeded its deadline, and `by_chance` that no fault of code ended it:
    somebody killed it, or memory ran out.
    """

    def __init__(self, message: str, hung: bool = False, by_chance: bool = False) -> None:
        super().__init__(message)
        self.hung = hung
        self.by_chance = by_chance


@dataclass
class _Process:
    """A process, our end of its socket, its standard error, and `how` it ended."""

    popen: subprocess.Popen[bytes]
    connection: Connection
    stderr: IO[bytes]
    how: str | None = None

    def end(self) -> None:
        """End it, and its programs where it knows how."""
        if self.how is not None:
            return
        self.popen.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(_END_S)
        self.popen.kill()
        code = self.popen.wait()
        if code >= 0:
            self.how = f"ended with exit status {code}"
        else:
            self.how = f"died of {signal_name(-code)}"
        if code == -signal.SIGKILL:
            self.how += ", as when memory runs out"
        size_bytes = self.stderr.seek(0, os.SEEK_END)
        self.stderr.seek(max(0, size_bytes - _LAST_WORDS))
        words = self.stderr.read().decode(errors="replace").strip()
        if words:
            self.how += f", with stderr: {words}"
        self.stderr.close()


class Child:
    """A process that makes one worker, and calls functions with it.

    It starts at the first call, and anew where it has ended, or where the attribute
    `must_be_replaced` of its worker is set. Its standard error stays off the terminal; ChildLost
    quotes the end of it. One thread may call at a time; another one may close it.
    """

    def __init__(self, make_worker: Callable[[], object]) -> None:
        """`make_worker`, and whatever is called, must be of modules that can be imported."""
        self._make_worker = make_worker
        self._process: _Process | None = None
        self._lock = threading.Lock()
        self._is_closed = False

    def call(self, method: Callable[..., T], *args: object, timeout_s: float) -> T:
        """Return what a function of the worker and `args` returns, or raise what it raises.

        Raises ChildLost, and UsageError where the disk is full or no process can be started.
        """
        request = ForkingPickler.dumps((method, args))
        process = self._running()
        try:
            process.connection.send_bytes(request)
            if not process.connection.poll(timeout_s):
                self._end(process)
                message = f"did not end within {timeout_s:g} s and was killed"
                raise ChildLost(message, hung=True)
            must_be_replaced = process.connection.recv()
            answer = process.connection.recv_bytes()
        except (EOFError, OSError):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.popen.wait(_END_S)  # it ends by itself, and its exit status says why
            self._end(process)
            # A process that exits did so itself; but a worker of programs, at SIGTERM.
            code = process.popen.returncode
            by_chance = is_from_outside(-code) or code == 128 + signal.SIGTERM
            raise ChildLost(process.how or "", by_chance=by_chance) from None
        except BaseException:  # as at Ctrl-C: its answer would be taken for that to the next call
            self._end(process)
            raise
        if must_be_replaced:
            self._end(process)
        result, error = ForkingPickler.loads(answer)
        if error is None:
            return result  # type: ignore[no-any-return]
        if isinstance(error, OSError):
            raise no_room(error) or error
        raise error

    def call_again(self, method: Callable[..., T], *args: object, timeout_s: float) -> T:
        """Call a function, a second time where the process was killed from outside."""
        try:
            return self.call(method, *args, timeout_s=timeout_s)
        except ChildLost as lost:
            if not lost.by_chance:
                raise
        return self.call(method, *args, timeout_s=timeout_s)

    @property
    def is_running(self) -> bool:
        """Whether the next call needs no new process."""
        process = self._process
        if process is None or process.popen.poll() is not None:
            return False
        return not process.connection.poll()  # without a call it sends nothing else than its end

    def replace(self) -> None:
        """End the process; the next call starts another one."""
        if self._process is not None:
            self._end(self._process)

    def close(self) -> None:
        """End the process at once; another thread that waits for it gets an exception."""
        with self._lock:
            self._is_closed = True
        self.replace()

    def _running(self) -> _Process:
        if not self.is_running:
            self.replace()
        with self._lock:
            if self._is_closed:
                raise RuntimeError("the worker processes were ended")
            if self._process is None:
                starting = _starter(os.getpid()).submit(_start, self._make_worker)
                self._process = starting.result()
            return self._process

    def _end(self, process: _Process) -> None:
        with self._lock:
            process.end()
            if self._process is process:
                self._process = None


@cache
def _starter(_pid: int) -> ThreadPoolExecutor:
    """Return the thread that starts all children of a process: Linux ends them with the *thread*
    that started them. A fork of this process needs one of its own."""
    return ThreadPoolExecutor(1, thread_name_prefix="harness-starter")


def _start(make_worker: Callable[[], object]) -> _Process:
    """Start a process in a session of its own: no Ctrl-C or Ctrl-Z reaches it."""
    try:
        folder = run_folder()
        ours, theirs = socket.socketpair()
        with theirs:
            stderr = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (closed at its end)
            popen = subprocess.Popen(
                [sys.executable, "-c", _CODE, str(theirs.fileno()), str(os.getpid())],
                env={**os.environ, "TMPDIR": str(folder)},
                stdin=subprocess.DEVNULL,
                stdout=2,  # what a kernel prints is no result, which may be JSON
                stderr=stderr,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
    except OSError as error:
        text = f"worker processes cannot be started: {error}; see `ulimit -a`"
        raise no_room(error) or UsageError(text) from None
    connection = Connection(ours.detach())
    with contextlib.suppress(BrokenPipeError):  # the first call finds that it has ended
        connection.send(sys.path)
        connection.send_bytes(ForkingPickler.dumps(make_worker))
    return _Process(popen, connection, stderr)


def serve(parent: Connection, pid: int) -> None:
    """Make the worker, and answer calls until the parent, of this number, closes its end."""
    os.set_inheritable(parent.fileno(), False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # which the parent handles
    end_with_parent(pid)
    # When memory runs out, Linux should end a worker, not the run.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    with contextlib.suppress(EOFError, ConnectionError):
        make_worker = parent.recv_bytes()
        worker = None
        while True:
            request = parent.recv_bytes()
            try:
                if worker is None:
                    worker = ForkingPickler.loads(make_worker)()
                method, args = ForkingPickler.loads(request)
                result = ForkingPickler.dumps((method(worker, *args), None))
            except Exception as error:
                result = ForkingPickler.dumps((None, _as_sent(error)))
            parent.send(getattr(worker, "must_be_replaced", False))
            parent.send_bytes(result)
    os._exit(0)  # a driver may hang when it is unloaded


def _as_sent(error: Exception) -> Exception:
    """Return an exception that the parent can read."""
    try:
        ForkingPickler.loads(ForkingPickler.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def is_from_outside(number: int) -> bool:
    """Say whether others end processes by a signal, as the system does when memory runs out."""
    return signal_name(number) in ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT")
