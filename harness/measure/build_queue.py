"""Build several programs at once, each of them once, and remember failures."""

from __future__ import annotations

from functools import cached_property, partial
from typing import Generic, Protocol, TypeVar

from harness.core.errors import BuildFailed
from harness.core.program import Binary, Buildable
from harness.measure.build_cache import BuildCache
from harness.measure.processes import Processes, ProcessLost, Task, count_of_builders
from harness.measure.run_folder import require_room

BUILD_TIMEOUT_S = 150.0
"""Longer than nvcc's own limit, at which nvcc's children are ended as well."""

_GRACE_S = 5.0

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
    processes compile, by default one less than there are cores.
    """

    def __init__(
        self,
        backend: BackendOf[B],
        compiler: str,
        worker: type[BuildWorker[B]] = BuildWorker,
        at_once: int | None = None,
    ) -> None:
        self._backend = backend
        self._compiler = compiler
        self._worker = worker
        self._at_once = at_once or count_of_builders()
        self._cache = BuildCache()
        self._cache.trim()
        self._processes: Processes | None = None
        self._found: dict[str, Binary] = {}
        self._running: dict[str, Task[Binary]] = {}
        self._failed: dict[str, str] = {}

    def start(self, program: B) -> None:
        """Start a build, unless it is on disk, under way, or has failed."""
        key = program.key(self._compiler)
        if key in self._found or key in self._running or key in self._failed:
            return
        cached = self._cache.get(key)
        if cached is not None:
            self._found[key] = cached
        else:
            self._running[key] = self._builders.schedule(
                self._worker.compile, program, timeout_s=_limit_s(program)
            )

    def finish(self, program: B) -> Binary:
        """Wait for a build, which is started if it was not.

        Raises BuildFailed, also at every later call for the same program.
        """
        self.start(program)
        key = program.key(self._compiler)
        if key in self._found:
            return self._found.pop(key)
        if key in self._failed:
            raise BuildFailed(self._failed[key])
        try:
            return self._builders.result_of(self._running.pop(key))
        except (BuildFailed, ProcessLost) as error:
            self._failed[key] = _reason(error)
            raise BuildFailed(self._failed[key]) from None

    def rebuild(self, program: B) -> Binary:
        """Build now, whatever is on disk; raises BuildFailed."""
        try:
            return self._builders.run(self._worker.compile, program, timeout_s=_limit_s(program))
        except ProcessLost as error:
            raise BuildFailed(_reason(error)) from None

    def wait_for_all(self) -> None:
        """Wait until nothing compiles."""
        if self._processes is not None:
            self._processes.settle(self._running.values())

    def close(self) -> None:
        """End the builder processes."""
        if self._processes is not None:
            self._processes.close()

    @property
    def _builders(self) -> Processes:
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
