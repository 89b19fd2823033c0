"""Worker processes with deadlines: one that hangs or dies is replaced, none outlives its parent.

The only module that imports pebble.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, TimeoutError, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

from pebble import ProcessExpired, ProcessPool

from harness.core.errors import UsageError
from harness.core.machine import end_with_parent
from harness.core.text import signal_name
from harness.measure.process_context import ProcessStarter, leave_server, parent_is_alive
from harness.measure.run_folder import RunFolder, no_room

T = TypeVar("T")

_LOOK_S = 1.0
_PAUSE_S = 10.0
_LAST_WORDS = 300
_STARTER = ProcessStarter()


_worker: object = None
"""The worker of this process. Pebble calls module-level functions, so that what a process keeps
from one call to the next must be kept by a module; nothing else in harness is kept like this."""


class ProcessLost(Exception):
    """The process of a function was killed or died; the message says how.

    `hung` means that it exceeded its deadline, `idle` that it died before the function began, and
    `by_chance` that no fault of code ended it: somebody killed it, or memory ran out.
    """

    def __init__(
        self, message: str, hung: bool = False, idle: bool = False, by_chance: bool = False
    ) -> None:
        super().__init__(message)
        self.hung = hung
        self.idle = idle
        self.by_chance = by_chance


@dataclass(frozen=True)
class Task(Generic[T]):
    """A scheduled function call, and its future result."""

    function: Callable[..., T]
    args: tuple[object, ...]
    timeout_s: float
    future: Future[T]


class Processes:
    """A pool of processes that run functions of importable modules.

    With `make_worker`, each process calls it once when it starts, and passes the worker that it
    returns as the first argument to every function.

    The standard error of the processes is kept off the terminal; ProcessLost quotes its end. Their
    temporary files are removed with them, also where they are killed. Raises UsageError where there
    is no room for temporary files.
    """

    def __init__(self, count: int, make_worker: Callable[[], object] | None = None) -> None:
        logging.getLogger("pebble").setLevel(logging.ERROR)
        self._count = count
        self._make_worker = make_worker
        self._folder = RunFolder()
        self._stderr = open(self._folder.path / "stderr", "w+b")  # noqa: SIM115 (closed by close)
        # Linux ends our processes when the *thread* that started them ends: keep a thread for it.
        # It schedules as well: Ctrl-C in the main thread, in the middle of a `notify`, would leave
        # the pool's queue with a waiter that no longer waits, and `join` would wait for ever.
        self._keeper = ThreadPoolExecutor(1, thread_name_prefix="harness-keeper")
        self._changing = threading.RLock()  # held while the pool is replaced or ended
        self._pool = self._started()

    def schedule(self, function: Callable[..., T], *args: object, timeout_s: float) -> Task[T]:
        """Run a function as soon as a process is free; `result_of` returns its result."""
        called = function if self._make_worker is None else partial(_call_with_worker, function)
        future: Future[T]
        try:
            future = self._scheduled(called, args, timeout_s)
        except RuntimeError:  # the last process died while it was idle, at this moment
            if self._pool.active:
                raise
            future = self._scheduled(called, args, timeout_s)
        return Task(function, args, timeout_s, future)

    def _scheduled(
        self, function: Callable[..., T], args: tuple[object, ...], timeout_s: float
    ) -> Future[T]:
        with self._changing:
            if not self._pool.active:  # the last process died while it was idle
                self.replace()
        scheduled = self._keeper.submit(self._pool.schedule, function, args=args, timeout=timeout_s)
        future: Future[T] = scheduled.result()
        return future

    def run(self, function: Callable[..., T], *args: object, timeout_s: float) -> T:
        """Run a function and wait for its result; raises what it raises, or ProcessLost.

        A process that was lost by chance is replaced, and the function runs once more.
        """
        return self.result_of(self.schedule(function, *args, timeout_s=timeout_s))

    def run_once(self, function: Callable[..., T], *args: object, timeout_s: float) -> T:
        """Run a function that relies on what its process holds, and so is not run again."""
        task = self.schedule(function, *args, timeout_s=timeout_s)
        try:
            return self._result_of(task)
        except ProcessLost as lost:
            if not lost.idle:
                raise
        return self._result_of(self._again(task))

    def result_of(self, task: Task[T]) -> T:
        """Wait for a scheduled function; raises what it raises, or ProcessLost like `run`."""
        try:
            return self._result_of(task)
        except ProcessLost as lost:
            # An idle process died before this function began, of an earlier one or by chance.
            if not (lost.idle or lost.by_chance):
                raise
        return self._result_of(self._again(task))

    def _again(self, task: Task[T]) -> Task[T]:
        return self.schedule(task.function, *task.args, timeout_s=task.timeout_s)

    def settle(self, tasks: Iterable[Task[T]]) -> None:
        """Wait until these tasks, or all processes, have ended."""
        self._settle(list(tasks))

    def _settle(self, tasks: Sequence[Task[T]]) -> bool:
        """Wait like `settle`; return whether all processes paused meanwhile, by Ctrl-Z or since the
        machine slept."""
        paused = False
        futures = [task.future for task in tasks]
        while True:
            began_s = time.time()
            running = wait(futures, timeout=_LOOK_S).not_done and self._pool.active
            paused |= time.time() - began_s > _LOOK_S + _PAUSE_S
            if not running:
                return paused

    def _result_of(self, task: Task[T]) -> T:
        paused = self._settle([task])
        if not task.future.done():  # pebble forgets a task scheduled while the last process dies
            raise ProcessLost("ended while it was idle", idle=True)
        try:
            return task.future.result()
        except TimeoutError:
            message = f"did not end within {task.timeout_s:g} s and was killed"
            raise ProcessLost(message, hung=not paused, by_chance=paused) from None
        except ProcessExpired as error:
            message = _describe_exit(error.exitcode) + self._last_words()
            raise ProcessLost(message, by_chance=_is_chance(error.exitcode)) from None
        except OSError as error:
            full = no_room(error)
            if full is None:
                raise
            raise full from None
        except BrokenProcessPool:
            raise ProcessLost("ended while it was idle" + self._last_words(), idle=True) from None

    def replace(self) -> None:
        """End all processes and start new ones."""
        with self._changing:
            _end(self._pool)
            self._pool = self._started()

    def close(self) -> None:
        """End all processes at once; another thread that waits for one gets an exception."""
        with self._changing:
            _end(self._pool)
            self._keeper.shutdown()
        self._stderr.close()
        self._folder.close()

    def _started(self) -> ProcessPool:
        stderr = f"/proc/{os.getpid()}/fd/{self._stderr.fileno()}"
        start = (dict(os.environ), stderr, str(self._folder.path), self._make_worker)
        starting = self._keeper.submit(_start_pool, self._count, start)
        try:
            return starting.result()
        except KeyboardInterrupt:  # else its processes would begin without their parent
            _end(starting.result())
            raise

    def _last_words(self) -> str:
        """Return the end of the processes' standard error, and empty it."""
        self._stderr.seek(0)
        text = self._stderr.read()[-_LAST_WORDS:].decode(errors="replace").strip()
        self._stderr.truncate(0)
        return f", with stderr: {text}" if text else ""


def _start_pool(count: int, start: tuple[object, ...]) -> ProcessPool:
    try:
        pool = ProcessPool(
            max_workers=count,
            initializer=_start_worker,
            initargs=start,
            context=_STARTER.context(),
        )
        is_active = pool.active  # reading it starts the pool, in this thread
    except (OSError, BrokenProcessPool) as error:
        text = f"worker processes cannot be started: {error.__cause__ or error}; see `ulimit -a`"
        raise UsageError(text) from None
    if not is_active:
        raise RuntimeError("the worker processes cannot be started")
    return pool


def _end(pool: ProcessPool) -> None:
    pool.stop()
    pool.join()


def _start_worker(
    environment: dict[str, str],
    stderr: str,
    folder: str,
    make_worker: Callable[[], object] | None,
) -> None:
    """Prepare a new worker process, and make its worker.

    `environment` and `stderr` are the parent's, `folder` holds temporary files.
    """
    global _worker
    leave_server()
    os.environ.clear()
    os.environ.update(environment)
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    # The parent handles Ctrl-C; and a kernel that hangs must not keep a process from ending.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    if sys.platform == "linux":
        end_with_parent()
        if not parent_is_alive():
            os._exit(1)
        with contextlib.suppress(OSError):
            os.dup2(os.open(stderr, os.O_WRONLY | os.O_APPEND), 2)
        # When memory runs out, Linux should end a worker, not the run.
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")
    if make_worker is not None:
        _worker = make_worker()


def _call_with_worker(function: Callable[..., T], *args: object) -> T:
    return function(_worker, *args)


def _describe_exit(code: int | None) -> str:
    if code is None or code >= 0:
        return f"ended with exit status {code}"
    name = signal_name(-code)
    return f"died of {name}" + (", as when memory runs out" if name == "SIGKILL" else "")


def _is_chance(code: int | None) -> bool:
    """Say whether a process ended by no fault of its code; one that exits did so itself.

    A worker of programs exits with 128 + SIGTERM at that signal.
    """
    if code is None or code >= 0:
        return code == 128 + signal.SIGTERM
    return is_from_outside(-code)


def is_from_outside(number: int) -> bool:
    """Say whether others end processes by a signal, as the system does when memory runs out."""
    return signal_name(number) in ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT")


def usable_cores() -> int:
    """Return how many cores this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def spare_cores(limit: Path = Path("/sys/fs/cgroup/cpu.max"), *, devices: int = 1) -> int:
    """Return how many cores may compile while others run the processes that own the devices.

    A container may see all cores of a machine, but get the time of few: its `limit`.
    """
    cores: float = usable_cores()
    with contextlib.suppress(OSError, ValueError):  # there is no limit, or it is "max"
        granted, period = map(int, limit.read_text().split())
        cores = min(cores, granted / period)
    return max(0, int(cores) - devices)


def count_of_builders() -> int:
    """Return how many processes compile at once: one at least, even where no core is spare."""
    return max(1, spare_cores())
