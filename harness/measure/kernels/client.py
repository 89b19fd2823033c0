"""The client of the device's process: it prepares inputs there, and replaces a spoilt process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from harness.core.errors import (
    BackendUnavailable,
    DataDoesNotFit,
    HostModuleError,
    LaunchFailed,
    OutOfDeviceMemory,
)
from harness.core.records import Input
from harness.measure.devices import Backend, empty_kernel_advice
from harness.measure.kernels.worker import DataLost, DeviceFacts, DeviceWorker
from harness.measure.process.child import Child, ChildLost, repeated
from harness.measure.process.device_lock import locked
from harness.measure.trial.occasions import SEARCH_SEED

_PREPARE_TIMEOUT_S = 600.0

T = TypeVar("T")


@contextmanager
def device_locked(backend: Backend) -> Iterator[None]:
    """Hold the lock of a backend's device."""
    if backend.device is None:
        yield
        return
    with locked(backend.device.identity, str(backend.device)):
        yield


class _DeviceProcess:
    """The process that owns the device, and what its clients know of it: which data each host
    module has there, and whether a configuration has run in it."""

    def __init__(self, make_worker: Callable[[], DeviceWorker]) -> None:
        self.child = Child(make_worker)
        self.generation = 0
        self.prepared: dict[Path, tuple[Input, int]] = {}
        self.is_used = False

    def start(self) -> None:
        """Start the process where there is none, of which nothing is known yet."""
        if self.child.start() != self.generation:
            self.generation = self.child.generation
            self.prepared.clear()
            self.is_used = False


class DeviceClient:
    """The process that owns the device, and which inputs of one host module it has prepared.

    A client with an `owner` uses the process of that client, and must be closed before it. Another
    one locks its device: raises DeviceBusy where another process measures on it.
    """

    def __init__(self, host: Path, backend: Backend, owner: DeviceClient | None = None) -> None:
        self._host = host
        self._language = backend.language
        self._is_guest = owner is not None
        self._process: _DeviceProcess
        self._lock = ExitStack()
        if owner is None:
            with ExitStack() as lock:  # which is free again where no process can be started
                lock.enter_context(device_locked(backend))
                self._process = _DeviceProcess(partial(DeviceWorker, backend, host))
                self._lock = lock.pop_all()
        else:
            self._process = owner._process
        self._names: dict[Input, tuple[str, ...]] = {}

    @property
    def _child(self) -> Child:
        return self._process.child

    def _call(self, method: Callable[..., T], *args: object) -> T:
        call = partial(self._child.call, method, *args, timeout_s=_PREPARE_TIMEOUT_S)
        return repeated(call)

    def describe(self) -> DeviceFacts:
        """Open the device and describe it; raises BackendUnavailable."""
        try:
            return self._call(DeviceWorker.describe)
        except ChildLost as lost:
            raise BackendUnavailable(
                f"the process that opens the {self._language} device {lost}; see whether the "
                "driver's own tools work (clinfo, nvidia-smi)"
            ) from None

    def require_working(self) -> None:
        """Raise BackendUnavailable where an empty kernel does not run on the device."""
        try:
            self._call(DeviceWorker.require_working)
        except ChildLost as lost:
            raise BackendUnavailable(
                f"an empty kernel does not run on the {self._language} device: its process {lost}\n"
                f"{empty_kernel_advice(self._language)}"
            ) from None

    def argument_names(self, problem: Input) -> tuple[str, ...]:
        """Return the names of the kernel's arguments; raises HostModuleError."""
        if problem not in self._names:
            self._prepare(problem)
        return self._names[problem]

    def _prepare(self, problem: Input, seed: int = SEARCH_SEED) -> None:
        """Make the data of an input in the process; raises HostModuleError.

        Data that did fit before may fit again in a new process, and any other error of the driver
        may be due to this process.
        """
        try:
            return self._make_data(problem, seed)
        except OutOfDeviceMemory as error:
            if problem not in self._names:
                raise _does_not_fit(error) from None
        except LaunchFailed:
            pass
        self._child.replace()
        try:
            self._make_data(problem, seed)
        except OutOfDeviceMemory as error:
            raise _does_not_fit(error) from None
        except LaunchFailed as error:
            self._child.replace()  # the next input shall not find it broken
            raise HostModuleError(f"its data cannot be copied to the device: {error}") from None

    def _make_data(self, problem: Input, seed: int) -> None:
        self._process.prepared.pop(self._host, None)
        prepare = DeviceWorker.prepare
        try:
            self._names[problem] = self._call(
                DeviceWorker.serve, self._host, prepare, problem, seed
            )
        except ChildLost as lost:
            raise HostModuleError(
                f"{self._host}: the process that made the data of ({problem}) {lost}; "
                "is there enough memory, and time?"
            ) from None
        self._process.start()
        self._process.prepared[self._host] = problem, seed

    def run(
        self,
        problem: Input,
        method: Callable[..., T],
        *args: object,
        timeout_s: float,
        seed: int = SEARCH_SEED,
    ) -> T:
        """Call a method of DeviceWorker while the process holds the data of an input and a seed.

        Raises ChildLost, and HostModuleError where the data cannot be made any more.
        """

        def run() -> T:
            self._process.start()
            if self._process.prepared.get(self._host) != (problem, seed):
                self._prepare(problem, seed)
            self._process.is_used = True
            generation = self._process.generation
            call = partial(self._child.call, DeviceWorker.serve, self._host, method, *args)
            try:
                result: T = call(timeout_s=timeout_s, generation=generation)
            except DataLost as lost:
                raise ChildLost(f"has lost its data: {lost}", by_chance=True) from None
            return result

        self._process.start()
        # An earlier configuration may have spoilt the process.
        return repeated(run, may_be_spoilt=self._process.is_used)

    def close(self) -> None:
        """End the process, and free the device, unless they are another client's."""
        with self._lock:
            if not self._is_guest:
                self._child.close()


def _does_not_fit(error: OutOfDeviceMemory) -> DataDoesNotFit:
    return DataDoesNotFit(
        f"its data does not fit on the device: {error}. Run the same command again when other "
        "programs have ended. If the data is too large even then, leave the input out with --inputs"
    )
