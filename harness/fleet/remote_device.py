"""A device of a worker, for the measurer on the driver; and builds on the workers of a fleet, where
each program is compiled once in the whole fleet."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from harness.core.errors import BackendUnavailable, HarnessError
from harness.core.program import Binary, Program
from harness.core.records import Config, Input, Measurement
from harness.fleet import wire
from harness.fleet.agent import RESULTS
from harness.fleet.bundle import Bundle, Packed
from harness.fleet.messages import (
    BuildRequest,
    Describe,
    DeviceCall,
    DeviceRequest,
    DeviceSession,
    MadeData,
    NameArguments,
    Release,
    RunInterleaved,
    RunOne,
    TryEmptyKernel,
    WorkerAnswer,
)
from harness.measure.backends.choose import Backend
from harness.measure.build_cache import BuildCache
from harness.measure.device_worker import DeviceFacts, DeviceWorker, Reply
from harness.measure.kernel_job import KernelJob
from harness.measure.occasions import SEARCH_SEED
from harness.measure.processes import Task

T = TypeVar("T")


class Channel(Protocol):
    """Carries requests to one worker; raises BackendUnavailable where the worker is lost."""

    def measure(self, request: bytes) -> bytes:
        """Carry out a call of a device."""

    def program(self, request: bytes) -> bytes:
        """Carry out a call of the machine, which runs programs."""

    def store(self, bundle: bytes) -> bytes:
        """Keep the files of a bundle."""


def ask(
    channel: Channel,
    carry: Callable[[bytes], bytes],
    kind: Any,
    request: bytes,
    bundle: Bundle,
) -> Any:
    """Send a request with a method of a channel, and the bundle where the worker lacks it; return
    the result. Raises what the worker raises, BackendUnavailable for garbage."""
    answer = _answer(carry, kind, request)
    if answer.lacks_bundle:
        channel.store(wire.encode(Bundle, bundle))
        answer = _answer(carry, kind, request)
    if answer.failure is not None:
        raise answer.failure.error()
    if answer.result is None:
        raise BackendUnavailable("the worker answered with nothing")
    return answer.result


def _answer(carry: Callable[[bytes], bytes], kind: Any, request: bytes) -> WorkerAnswer[Any]:
    text = carry(request)
    try:
        answer: WorkerAnswer[Any] = wire.decode(kind, text)
    except wire.GarbledMessage as error:
        raise BackendUnavailable(f"the worker's answer cannot be read: {error}") from None
    return answer


def require_asked(
    found: Sequence[Measurement],
    problem: Input,
    configs: Sequence[Config],
    samples: int | None = None,
) -> None:
    """Raise BackendUnavailable unless these are the measurements of an input and configurations,
    with so many samples of each that works."""
    for number, measured in enumerate(found[: len(configs)]):
        if (measured.config, measured.input) != (configs[number], problem):
            raise BackendUnavailable("the worker answered for another configuration or input")
        if samples is not None and measured.timing and measured.timing.count != samples:
            raise BackendUnavailable(
                f"the worker answered with {measured.timing.count} samples, not {samples}"
            )
    if len(found) != len(configs):
        raise BackendUnavailable(
            f"the worker answered with {len(found)} measurements, not {len(configs)}"
        )


class RemoteDevice:
    """The client of a worker's device; has the methods of a DeviceClient."""

    def __init__(self, channel: Channel, session: DeviceSession, bundle: Bundle) -> None:
        self._channel = channel
        self._session = session
        self._bundle = bundle
        self._made: dict[Input, MadeData] = {}

    def describe(self) -> DeviceFacts:
        """Open the device and describe it; raises BackendUnavailable."""
        facts: DeviceFacts = self._asked(Describe())
        return facts

    def require_working(self) -> None:
        """Raise BackendUnavailable where an empty kernel does not run on the device."""
        self._asked(TryEmptyKernel())

    def argument_names(self, problem: Input) -> tuple[str, ...]:
        """Return the names of the kernel's arguments; raises HostModuleError."""
        if problem not in self._made:
            self._made[problem] = self._asked(NameArguments(problem))
        return self._made[problem].names

    def run(
        self,
        problem: Input,
        method: Callable[..., Reply[T]],
        *args: Any,
        timeout_s: float,
        seed: int = SEARCH_SEED,
    ) -> T:
        """Call a method of the worker's DeviceWorker. The deadline begins when it runs.

        Raises ProcessLost, HostModuleError, and BackendUnavailable where the worker is lost.
        """
        call = _CALLS[method](*args, timeout_s=timeout_s, seed=seed)
        found = self._asked(call)
        _require_answered(call, found)
        return found  # type: ignore[no-any-return]

    def _asked(self, call: DeviceCall | Release) -> Any:
        request = wire.encode(DeviceRequest, DeviceRequest(self._session, call))
        kind = RESULTS[type(call)]
        return ask(self._channel, self._channel.measure, kind, request, self._bundle)

    def close(self) -> None:
        """Leave the device to others; a worker that is lost has left it."""
        with contextlib.suppress(HarnessError):
            self._asked(Release())


def _require_answered(call: DeviceCall, found: Any) -> None:
    """Raise BackendUnavailable unless this answers a call; its type is right."""
    if isinstance(call, RunOne):
        _require_of([found], [call.job])
    elif isinstance(call, RunInterleaved):
        _require_of(found.measured, call.jobs, call.block.rounds)


def _require_of(
    found: Sequence[Measurement], jobs: Sequence[KernelJob], samples: int | None = None
) -> None:
    require_asked(found, jobs[0].input, [job.config for job in jobs], samples)


_CALLS: dict[Callable[..., Any], Callable[..., DeviceCall]] = {
    DeviceWorker.run: RunOne,
    DeviceWorker.run_interleaved: lambda jobs, block, **limits: RunInterleaved(
        tuple(jobs), block, **limits
    ),
}


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
