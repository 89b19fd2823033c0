"""Builds under way: several at once, each program once, failures remembered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.core.errors import BuildFailed
from harness.core.program import Binary, Buildable
from harness.measure.build_cache import BuildCache
from harness.measure.device_worker import compile_program
from harness.measure.processes import Processes, ProcessLost, Task, count_of_builders

BUILD_TIMEOUT_S = 150.0
"""Above nvcc's own limit, which ends nvcc's children as well."""


class Builds:
    """The builds of one run: on disk, under way, or failed.

    `compiler` is the compiler's identity, which the build cache's keys hold; `function` builds
    one program with a backend, in a process of its own, and keeps it in the cache; `at_once` is
    how many of these processes there are, by default one less than there are cores.
    """

    def __init__(
        self,
        backend: object,
        compiler: str,
        function: Callable[[Any, Any], Binary] = compile_program,
        at_once: int | None = None,
    ) -> None:
        self._backend = backend
        self._compiler = compiler
        self._function = function
        self._at_once = at_once or count_of_builders()
        self._cache = BuildCache()
        self._processes: Processes | None = None
        self._found: dict[str, Binary] = {}
        self._running: dict[str, Task[Binary]] = {}
        self._failed: dict[str, str] = {}

    def start(self, program: Buildable) -> None:
        """Begin a build, unless it is on disk, under way, or known to fail."""
        key = program.key(self._compiler)
        if key in self._found or key in self._running or key in self._failed:
            return
        cached = self._cache.get(key)
        if cached is not None:
            self._found[key] = cached
        else:
            self._running[key] = self._builders.schedule(
                self._function, self._backend, program, timeout_s=BUILD_TIMEOUT_S
            )

    def finish(self, program: Buildable) -> Binary:
        """The binary of a build, which is begun unless it was; waits for it.

        Raises BuildFailed, and again whenever it is asked again.
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
            self._failed[key] = _told(error)
            raise BuildFailed(self._failed[key]) from None

    def anew(self, program: Buildable) -> Binary:
        """The binary of a build that runs now, whatever is on disk; raises BuildFailed."""
        try:
            return self._builders.run(
                self._function, self._backend, program, timeout_s=BUILD_TIMEOUT_S
            )
        except ProcessLost as error:
            raise BuildFailed(_told(error)) from None

    def wait_for_all(self) -> None:
        """Wait until nothing compiles."""
        if self._processes is not None:
            self._processes.settle(self._running.values())

    def close(self) -> None:
        """End the builders."""
        if self._processes is not None:
            self._processes.close()

    @property
    def _builders(self) -> Processes:
        """The builder processes, begun when the first is needed."""
        if self._processes is None:
            self._processes = Processes(self._at_once)
        return self._processes


def _told(error: BuildFailed | ProcessLost) -> str:
    if isinstance(error, ProcessLost):
        return f"the compiler's process {error}"
    return str(error) or "the compiler refused the configuration and said nothing"
