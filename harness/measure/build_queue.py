"""Build several programs at once, each of them once, and remember failures.

Several devices may share one queue, each from a thread of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakValueDictionary

from harness.core.errors import BuildFailed
from harness.core.program import Binary, Buildable
from harness.measure.build_cache import BuildCache
from harness.measure.processes import Processes, ProcessLost, Task, count_of_builders
from harness.measure.run_folder import require_room

BUILD_TIMEOUT_S = 150.0
"""Longer than nvcc's own limit, at which nvcc's children are ended as well."""

_GRACE_S = 5.0

T = TypeVar("T")
B = TypeVar("B", bound=Buildable)
B_contra = TypeVar("B_contra", bound=Buildable, contravariant=True)


class CompilerOf(Protocol[B_contra]):
    """Compiles one kind of program."""

    def compile(self, program: B_contra, /) -> Binary:
        """Compile; raises BuildFailed."""


class BackendOf(Protocol[B_contra]):
    """Opens a compiler; a backend is sent to the builder processes."""

    def open_compiler(self) -> CompilerOf[B_contra]:
        """Open the compiler in this process; raises BackendUnavailable."""


class BuildProcesses(Protocol):
    """Processes that compile, on this machine or on others: the methods of Processes for it."""

    def schedule(self, function: Callable[..., T], *args: Any, timeout_s: float) -> Task[T]:
        """Run a function of BuildWorker as soon as a process is free."""

    def result_of(self, task: Task[T]) -> T:
        """Wait for a scheduled function; raises what it raises, or ProcessLost."""

    def settle(self, tasks: Iterable[Task[Any]]) -> None:
        """Wait until these tasks have ended."""

    def close(self) -> None:
        """End the processes."""


class BuildWorker(Generic[B]):
    """Compile in a builder process. The compiler is opened at the first build."""

    def __init__(self, backend: BackendOf[B]) -> None:
        self._backend = backend

    @cached_property
    def _compiler(self) -> CompilerOf[B]:
        return self._backend.open_compiler()

    def compile(self, program: B) -> Binary:
        """Compile, and keep the binary in the build cache.

        Raises BuildFailed, or OSError where the temporary folder is full.
        """
        try:
            binary = self._compiler.compile(program)
        except BuildFailed:
            require_room()
            raise
        BuildCache().put(binary)
        return binary


class BuildQueue(Generic[B]):
    """The builds of one run: on disk, under way, or failed.

    `compiler` is the identity of the compiler, a part of the build cache's keys. `at_once`
    processes compile, by default one less than there are cores; or `processes` do.
    """

    def __init__(
        self,
        backend: BackendOf[B],
        compiler: str,
        worker: type[BuildWorker[B]] = BuildWorker,
        at_once: int | None = None,
        processes: BuildProcesses | None = None,
    ) -> None:
        self._backend = backend
        self._compiler = compiler
        self._worker = worker
        self._at_once = at_once or count_of_builders()
        self._cache = BuildCache()
        self._cache.trim()
        self._processes = processes
        self._found: dict[str, Binary] = {}
        self._running: dict[str, Task[Binary]] = {}
        self._failed: dict[str, str] = {}
        self._changed = threading.Condition()
        self._scheduled_count = 0
        self._undisturbed = 0  # blocks in which nothing may compile
        self._waiting = 0  # threads with a build that waits for the end of these blocks
        self._finishing: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()
        self._is_closed = False

    def start(self, program: B) -> None:
        """Start a build, unless it is on disk, under way, or has failed."""
        key = program.key(self._compiler)
        with self._changed:
            if not self._is_known(key):
                with self._disturbing():
                    if not self._is_known(key):
                        self._running[key] = self._scheduled(program)

    def _is_known(self, key: str) -> bool:
        """Whether a build is on disk, under way, or has failed."""
        if key in self._found or key in self._running or key in self._failed:
            return True
        cached = self._cache.get(key)
        if cached is not None:
            self._found[key] = cached
        return cached is not None

    def _scheduled(self, program: B) -> Task[Binary]:
        limit_s = _limit_s(program)
        self._scheduled_count += 1
        return self._builders.schedule(self._worker.compile, program, timeout_s=limit_s)

    def finish(self, program: B) -> Binary:
        """Wait for a build, which is started if it was not.

        Raises BuildFailed, also at every later call for the same program.
        """
        key = program.key(self._compiler)
        with self._changed:
            finishing = self._finishing.setdefault(key, threading.Lock())
        with finishing:  # another thread that waits as well finds the build on disk afterwards
            self.start(program)
            with self._changed:
                if key in self._found:
                    return self._found.pop(key)
                if key in self._failed:
                    raise BuildFailed(self._failed[key])
                task = self._running[key]
            try:
                return self._builders.result_of(task)
            except (BuildFailed, ProcessLost) as error:
                self._failed[key] = _reason(error)
                raise BuildFailed(self._failed[key]) from None
            finally:
                with self._changed:
                    del self._running[key]

    def wait_for_all(self) -> None:
        """Wait until nothing compiles."""
        if self._processes is not None:
            self._processes.settle(self._under_way())

    def _under_way(self) -> list[Task[Binary]]:
        with self._changed:
            return [*self._running.values()]

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Wait until nothing compiles, and let no other thread start a build inside the block."""
        while True:
            count = self._scheduled_count
            self.wait_for_all()
            with self._changed:
                self._changed.wait_for(lambda: self._is_closed or not self._waiting)
                self._require_open()
                # A build may never end: one that a dying pool forgot is begun again by `finish`.
                if count == self._scheduled_count:
                    self._undisturbed += 1
                    break
        try:
            yield
        finally:
            with self._changed:
                self._undisturbed -= 1
                self._changed.notify_all()

    @contextmanager
    def _disturbing(self) -> Iterator[None]:
        """Wait for the end of undisturbed blocks; meanwhile no other begins."""
        self._waiting += 1
        try:
            self._changed.wait_for(lambda: self._is_closed or not self._undisturbed)
            self._require_open()
            yield
        finally:
            self._waiting -= 1
            self._changed.notify_all()

    def _require_open(self) -> None:
        if self._is_closed:
            raise RuntimeError("the builds were ended")

    def close(self) -> None:
        """End the builder processes; threads that wait for a build get an exception."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._processes is not None:
            self._processes.close()

    @property
    def _builders(self) -> BuildProcesses:
        """The builder processes, which start when the first is needed."""
        if self._processes is None:
            self._processes = Processes(self._at_once, partial(self._worker, self._backend))
        return self._processes


def _limit_s(program: Buildable) -> float:
    """Return when the process of a build is ended, if the compiler has not ended itself."""
    own_s = program.timeout_s
    return BUILD_TIMEOUT_S if own_s is None else own_s + _GRACE_S


def _reason(error: BuildFailed | ProcessLost) -> str:
    if isinstance(error, ProcessLost):
        return f"the compiler's process {error}"
    return str(error) or "the compiler refused the configuration without a reason"
