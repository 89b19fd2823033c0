"""Builds on the workers of a fleet; each program is compiled once in the whole fleet."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from harness.core.errors import BackendUnavailable
from harness.core.program import Binary, Program
from harness.fleet import wire
from harness.fleet.bundle import Bundle, Packed
from harness.fleet.messages import BuildRequest, WorkerAnswer
from harness.measure.backends.choose import Backend
from harness.measure.build_cache import BuildCache
from harness.measure.processes import Task

T = TypeVar("T")


class Builders(Protocol):
    """Workers that build, by their addresses."""

    def builder(self, avoid: Collection[str] = ()) -> AbstractContextManager[str]:
        """Take the worker that is least busy with builds.

        Raises BackendUnavailable where none is left, other than those to `avoid`.
        """

    def call(self, address: str, method: str, message: bytes) -> bytes:
        """Call a method of a worker's agent; raises BackendUnavailable."""


class RemoteBuilds:
    """The builder processes of a fleet; has the methods of Processes that a BuildQueue calls."""

    def __init__(self, builders: Builders, backend: Backend, packed: Packed, at_once: int) -> None:
        self._builders = builders
        self._backend = backend
        self._packed = packed
        self.compiler: str | None = None  # the only one whose binaries are taken, once it is known
        self._avoided: dict[str, str] = {}  # why, by the addresses of workers that cannot build
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="harness-build")

    def schedule(self, function: Callable[..., T], *args: Any, timeout_s: float) -> Task[T]:
        """Send a build to a worker; `function` is that of a BuildWorker, which runs there."""
        future: Any = self._threads.submit(self._built, args[0], timeout_s)
        return Task(function, args, timeout_s, future)

    def _built(self, program: Program, timeout_s: float) -> Binary:
        there, digest = self._packed.sent(program), self._packed.bundle.digest
        request = BuildRequest(self._backend, there, digest, timeout_s)
        answer = self._answer(wire.encode(BuildRequest, request), program)
        if answer.failure is not None:
            raise answer.failure.error()
        assert answer.result is not None
        BuildCache().put(answer.result)
        return answer.result

    def _answer(self, request: bytes, program: Program) -> WorkerAnswer[Binary]:
        """Ask one worker after another, and none again that has no compiler, no room on its disk,
        or another fault of its own. Raises BackendUnavailable where all have."""
        while True:
            try:
                taken = self._builders.builder(tuple(self._avoided))
                with taken as address:
                    try:
                        return self._asked(address, request, program)
                    except (BackendUnavailable, wire.GarbledMessage) as error:
                        self._avoided[address] = str(error)
            except BackendUnavailable as error:
                reasons = "".join(f"\n  {reason}" for reason in self._avoided.values())
                self._avoided.clear()  # by the next build they may work again
                raise BackendUnavailable(f"{error}{reasons}") from None

    def _asked(self, address: str, request: bytes, program: Program) -> WorkerAnswer[Binary]:
        """Build on a worker; raises BackendUnavailable, GarbledMessage."""
        answer = self._answer_of(address, request)
        if answer.lacks_bundle:
            bundle = wire.encode(Bundle, self._packed.bundle)
            self._builders.call(address, "store", bundle)
            answer = self._answer_of(address, request)
        error = answer.failure.error() if answer.failure else None
        if isinstance(error, BackendUnavailable):
            raise error
        if error is None:
            self._check(address, answer.result, program)
        return answer

    def _check(self, address: str, binary: Binary | None, program: Program) -> None:
        if binary is None:
            raise BackendUnavailable(f"the worker {address} cannot keep the files of this space")
        if self.compiler not in (None, binary.build.compiler):
            raise BackendUnavailable(
                f"the worker {address} compiles with {binary.build.compiler}, and the device's own "
                f"with {self.compiler}; install the same compiler"
            )
        if binary.build.key != program.key(binary.build.compiler):
            raise BackendUnavailable(f"the worker {address} answered with another binary")

    def _answer_of(self, address: str, request: bytes) -> WorkerAnswer[Binary]:
        text = self._builders.call(address, "build", request)
        answer: WorkerAnswer[Binary] = wire.decode(WorkerAnswer[Binary], text)
        return answer

    @staticmethod
    def result_of(task: Task[T]) -> T:
        """Wait for a build; raises BuildFailed, ProcessLost and BackendUnavailable."""
        return task.future.result()

    @staticmethod
    def settle(tasks: Iterable[Task[Any]]) -> None:
        """Wait until these builds have ended."""
        wait([task.future for task in tasks])

    def close(self) -> None:
        """Start no other build."""
        self._threads.shutdown(wait=False, cancel_futures=True)
