"""Builds on the workers of a fleet; each program is compiled once in the whole fleet."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, Protocol, TypeVar

from harness.core.errors import BackendUnavailable
from harness.core.program import Binary, Program
from harness.fleet import wire
from harness.fleet.bundle import Packed
from harness.fleet.messages import BuildRequest, WorkerAnswer
from harness.measure.backends.choose import Backend
from harness.measure.build_cache import BuildCache
from harness.measure.processes import Task

T = TypeVar("T")

_TRIES = 3  # of a build whose worker is lost, or lacks the files


class Builders(Protocol):
    """Workers that build."""

    def build(self, request: bytes) -> bytes:
        """Compile on any worker; raises BackendUnavailable where none is left."""

    def store(self, bundle: bytes) -> None:
        """Keep the files of a bundle on all workers."""


class RemoteBuilds:
    """The builder processes of a fleet; has the methods of Processes that a BuildQueue calls."""

    def __init__(self, builders: Builders, backend: Backend, packed: Packed, at_once: int) -> None:
        self._builders = builders
        self._backend = backend
        self._packed = packed
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="harness-build")

    def schedule(self, function: Callable[..., T], *args: Any, timeout_s: float) -> Task[T]:
        """Send a build to a worker; `function` is that of a BuildWorker, which runs there."""
        future: Any = self._threads.submit(self._built, args[0], timeout_s)
        return Task(function, args, timeout_s, future)

    def _built(self, program: Program, timeout_s: float) -> Binary:
        folders = tuple(map(self._packed.inside, program.include_dirs))
        there = dataclasses.replace(program, include_dirs=folders)
        digest = self._packed.bundle.digest
        request = BuildRequest(self._backend, there, digest, timeout_s)
        answer = self._answer(wire.encode(BuildRequest, request))
        if answer.failure is not None:
            raise answer.failure.error()
        if answer.result is None:
            raise BackendUnavailable("no worker could keep the files of this space")
        BuildCache().put(answer.result)
        return answer.result

    def _answer(self, request: bytes) -> WorkerAnswer[Binary]:
        for _ in range(_TRIES):
            answer: WorkerAnswer[Binary] = wire.decode(
                WorkerAnswer[Binary], self._builders.build(request)
            )
            if not answer.lacks_bundle:
                break
            self._builders.store(wire.encode(type(self._packed.bundle), self._packed.bundle))
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
