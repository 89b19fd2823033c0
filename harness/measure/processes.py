"""Processes with deadlines: one that hangs or dies is replaced, and none outlives its parent.

The only door to pebble.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, TimeoutError, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from pebble import ProcessExpired, ProcessPool

T = TypeVar("T")

_PR_SET_PDEATHSIG = 1
_LOOK_S = 1.0
_LAST_WORDS = 300


class ProcessLost(Exception):
    """The process that ran a function was killed or died; the message is what it did.

    `hung` says that it ran into its deadline, `idle` that it died before the function began.
    """

    def __init__(self, message: str, hung: bool = False, idle: bool = False) -> None:
        super().__init__(message)
        self.hung = hung
        self.idle = idle


@dataclass(frozen=True)
class Task(Generic[T]):
    """A function that was scheduled, and what will come of it."""

    function: Callable[..., T]
    args: tuple[object, ...]
    timeout_s: float
    future: Future[T]


class Processes:
    """A number of processes that run functions of importable modules.

    What the processes write to their standard error is kept out of the terminal; its end is
    told when one dies. Their temporary files lie in a folder that goes with them, also where they
    are killed.
    """

    def __init__(self, count: int) -> None:
        logging.getLogger("pebble").setLevel(logging.ERROR)
        self._count = count
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 (closed by close)
        # What a killed process began, such as a compiler, may write there for a moment longer.
        self._folder = tempfile.TemporaryDirectory(prefix="harness-", ignore_cleanup_errors=True)
        # Linux ends our processes when the *thread* that began them ends, so it is one of ours.
        self._keeper = ThreadPoolExecutor(1, thread_name_prefix="harness-keeper")
        self._pool = self._begun()

    def schedule(self, function: Callable[..., T], *args: object, timeout_s: float) -> Task[T]:
        """Run a function when a process is free; ask `result_of` for what came of it."""
        if not self._pool.active:  # the last process died while it was idle
            self.replace()
        future: Future[T] = self._pool.schedule(function, args=args, timeout=timeout_s)
        return Task(function, args, timeout_s, future)

    def run(self, function: Callable[..., T], *args: object, timeout_s: float) -> T:
        """Run a function and wait; raises what it raised, or ProcessLost."""
        return self.result_of(self.schedule(function, *args, timeout_s=timeout_s))

    def result_of(self, task: Task[T]) -> T:
        """Wait for what was scheduled; raises what it raised, or ProcessLost."""
        try:
            return self._result_of(task)
        except ProcessLost as lost:
            if not lost.idle:
                raise
        # It died of what it ran before, or as memory ran out: this function had not begun.
        return self._result_of(self.schedule(task.function, *task.args, timeout_s=task.timeout_s))

    def settle(self, tasks: Iterable[Task[T]]) -> None:
        """Wait until these have ended, or the processes have."""
        futures = [task.future for task in tasks]
        while wait(futures, timeout=_LOOK_S).not_done and self._pool.active:
            continue

    def _result_of(self, task: Task[T]) -> T:
        self.settle([task])
        if not task.future.done():  # what is scheduled while the last process dies is forgotten
            raise ProcessLost("ended while it was idle", idle=True)
        try:
            return task.future.result()
        except TimeoutError:
            message = f"did not end within {task.timeout_s:g} s and was killed"
            raise ProcessLost(message, hung=True) from None
        except ProcessExpired as error:
            raise ProcessLost(_how_it_died(error.exitcode) + self._last_words()) from None
        except BrokenProcessPool:
            raise ProcessLost("ended while it was idle" + self._last_words(), idle=True) from None

    def replace(self) -> None:
        """End all processes and begin new ones."""
        _end(self._pool)
        self._pool = self._begun()

    def close(self) -> None:
        """End all processes at once."""
        _end(self._pool)
        self._keeper.shutdown()
        self._stderr.close()
        self._folder.cleanup()

    def _begun(self) -> ProcessPool:
        begin = self._keeper.submit(_begin, self._count, self._stderr.fileno(), self._folder.name)
        return begin.result()

    def _last_words(self) -> str:
        """The end of what the processes wrote to standard error, which is told once."""
        self._stderr.seek(0)
        text = self._stderr.read()[-_LAST_WORDS:].decode(errors="replace").strip()
        self._stderr.truncate(0)
        return f", saying: {text}" if text else ""


def _begin(count: int, stderr: int, folder: str) -> ProcessPool:
    pool = ProcessPool(
        max_workers=count,
        initializer=_begin_worker,
        initargs=(os.getpid(), stderr, folder),
        context=multiprocessing.get_context("spawn"),
    )
    if not pool.active:  # asking begins it, in this thread
        raise RuntimeError("the worker processes cannot be started")
    return pool


def _end(pool: ProcessPool) -> None:
    pool.stop()
    pool.join()


def _begin_worker(parent: int, stderr: int, folder: str) -> None:
    """What a worker process does first; `stderr` is a file descriptor of its parent's, `folder`
    is for temporary files."""
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    # Ctrl-C is the parent's affair; and a hung kernel must not keep us from ending.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        with contextlib.suppress(OSError):
            os.dup2(os.open(f"/proc/{parent}/fd/{stderr}", os.O_WRONLY | os.O_APPEND), 2)
        # When memory runs out, a worker should go, not the run.
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")


def _how_it_died(code: int | None) -> str:
    if code is None or code >= 0:
        return f"ended with exit status {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"died of {name}" + (", as when memory runs out" if name == "SIGKILL" else "")


def count_of_builders(beside: int = 1) -> int:
    """How many processes may compile: the cores we may use, less those that measure `beside`."""
    if sys.platform == "linux":
        return max(1, len(os.sched_getaffinity(0)) - beside)
    return max(1, (os.cpu_count() or 1) - beside)
