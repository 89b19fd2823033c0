"""Build several programs at once, each of them once, in other processes, and remember failures.

Several devices may share one queue, each from a thread of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from harness.core.errors import BuildFailed
from harness.core.machine import spare_cores
from harness.core.program import Binary
from harness.measure.builds.cache import BuildCache
from harness.measure.process.child import Child, ChildLost
from harness.measure.process.run_folder import require_room

BUILD_TIMEOUT_S = 150.0
"""Longer than nvcc's own limit, at which nvcc's children are ended as well."""

_GRACE_S = 5.0


class _Buildable(Protocol):
    """Anything that a compiler can build."""

    @property
    def timeout_s(self) -> float | None:
        """The seconds that a build may take; None for the compiler's default."""

    def key(self, compiler: str) -> str:
        """Return the build cache's key under a compiler and its target."""


B = TypeVar("B", bound=_Buildable)
B_contra = TypeVar("B_contra", bound=_Buildable, contravariant=True)


class _CompilerOf(Protocol[B_contra]):
    """Compiles one kind of program."""

    def compile(self, program: B_contra, /) -> Binary:
        """Compile; raises BuildFailed."""


class _BackendOf(Protocol[B_contra]):
    """Opens a compiler; a backend is sent to the builder processes."""

    def open_compiler(self) -> _CompilerOf[B_contra]:
        """Open the compiler in this process; raises BackendUnavailable."""


class BuildQueue(Generic[B]):
    """The builds of one run: on disk, under way, or failed.

    `compiler` is the identity of the compiler, a part of the build cache's keys. `at_once`
    processes compile, by default one less than there are cores.
    """

    def __init__(self, backend: _BackendOf[B], compiler: str, at_once: int | None = None) -> None:
        self._compiler = compiler
        self._cache = BuildCache()
        self._cache.trim()
        count = at_once or max(1, spare_cores())
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="harness-builds")
        self._children = [Child(backend.open_compiler) for _ in range(count)]
        self._idle = self._children.copy()
        self._builds: dict[str, Future[Binary]] = {}
        self._changed = threading.Condition()
        self._under_way = 0
        self._undisturbed = 0  # blocks in which nothing may compile
        self._waiting = 0  # threads with a build that waits for the end of these blocks
        self._is_closed = False

    def start(self, program: B) -> Future[Binary]:
        """Start a build, unless it is on disk, under way, or has failed; return its result."""
        key = program.key(self._compiler)
        with self._changed:
            if key not in self._builds:
                cached = self._cache.get(key)
                if cached is None:
                    self._wait_to_build()
                else:
                    self._builds[key] = Future()
                    self._builds[key].set_result(cached)
            if key not in self._builds:  # another thread may have started it meanwhile
                self._under_way += 1
                self._builds[key] = self._threads.submit(self._built, program)
            return self._builds[key]

    def finish(self, program: B) -> Binary:
        """Wait for a build, which is started if it was not.

        Raises BuildFailed, also at every later call for the same program.
        """
        binary = self.start(program).result()
        with self._changed:
            self._builds.pop(program.key(self._compiler), None)  # it is on disk
        return binary

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Wait until nothing compiles, and let no other thread start a build inside the block."""
        with self._changed:
            self._wait_for(lambda: not (self._under_way or self._waiting))
            self._undisturbed += 1
        try:
            yield
        finally:
            with self._changed:
                self._undisturbed -= 1
                self._changed.notify_all()

    def close(self) -> None:
        """End the builder processes; threads that wait for a build get an exception."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._threads.shutdown(wait=False, cancel_futures=True)
        for child in self._children:
            child.close()

    def _wait_to_build(self) -> None:
        """Wait for the end of undisturbed blocks; meanwhile no other begins."""
        self._waiting += 1
        try:
            self._wait_for(lambda: not self._undisturbed)
        finally:
            self._waiting -= 1
            self._changed.notify_all()

    def _wait_for(self, condition: Callable[[], bool]) -> None:
        self._changed.wait_for(lambda: self._is_closed or condition())
        if self._is_closed:
            raise RuntimeError("the builds were ended")

    def _built(self, program: B) -> Binary:
        """Build in another process; there is one for each thread."""
        child = self._idle.pop()
        # If the compiler has not ended itself, its process is ended.
        limit_s = BUILD_TIMEOUT_S
        if program.timeout_s is not None:
            limit_s = program.timeout_s + _GRACE_S
        try:
            return child.call_again(_build, program, timeout_s=limit_s)
        except ChildLost as lost:
            raise BuildFailed(f"the compiler's process {lost}") from None
        finally:
            self._idle.append(child)
            with self._changed:
                self._under_way -= 1
                self._changed.notify_all()


def _build(compiler: _CompilerOf[B], program: B) -> Binary:
    """Compile in a builder process, which has opened the compiler, and keep the binary on disk.

    Raises BuildFailed, or OSError where the temporary folder is full.
    """
    try:
        binary = compiler.compile(program)
    except BuildFailed:
        require_room()
        raise
    BuildCache().put(binary)
    return binary
