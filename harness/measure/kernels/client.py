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


class DeviceClient:
    """The process that owns the device, and which inputs of one host module it has prepared.

    A client with an `owner` uses the process of that client, and must be closed before it. Another
    one locks its device: raises DeviceBusy where another process measures on it.
    """

    def __init__(self, host: Path, backend: Backend, owner: DeviceClient | None = None) -> None:
        self._host = host
        self._language = backend.language
        self._owner = owner or self
        self._lock = ExitStack()
        self._names: dict[Input, tuple[str, ...]] = {}
        self._child: Child
        self._used = 0  # the generation of the process in which a configuration ran last
        if owner is None:
            self._lock.enter_context(device_locked(backend))
            self._child = Child(partial(DeviceWorker, backend))
        else:
            self._child = owner._child

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
        """Have the data of an input in the process; raises HostModuleError.

        Data that did fit before may fit again in a new process, and any other error of the driver
        may be due to this process.
        """
        for is_last in (False, True):
            try:
                self._names[problem] = self._call(DeviceWorker.prepare, self._host, problem, seed)
                return
            except OutOfDeviceMemory as error:
                if is_last or problem not in self._names:
                    raise _does_not_fit(error) from None
            except (DataLost, LaunchFailed) as error:
                if is_last:
                    self._child.replace()  # the next input shall not find it broken
                    text = f"its data cannot be copied to the device: {error}"
                    raise HostModuleError(text) from None
            except ChildLost as lost:
                raise HostModuleError(
                    f"{self._host}: the process that made the data of ({problem}) {lost}; "
                    "is there enough memory, and time?"
                ) from None
            self._child.replace()

    def run(
        self,
        problem: Input,
        method: Callable[..., T],
        *args: object,
        timeout_s: float,
        seed: int = SEARCH_SEED,
    ) -> T:
        """Call a method of DeviceWorker while the process has the data of an input and a seed.

        It is called again where the process was lost by chance, or crashed and an earlier
        configuration may have spoilt it. Raises ChildLost, and HostModuleError where the data
        cannot be made any more.
        """
        is_last, owner = False, self._owner
        while True:
            self._prepare(problem, seed)
            is_used = owner._used == self._child.generation
            owner._used = self._child.generation
            try:
                return self._child.call(method, *args, timeout_s=timeout_s)
            except ChildLost as lost:
                if is_last or not (lost.by_chance or (is_used and not lost.hung)):
                    raise
            is_last = True

    def close(self) -> None:
        """End the process, and free the device, unless they are another client's."""
        with self._lock:
            if self._owner is self:
                self._child.close()


def _does_not_fit(error: OutOfDeviceMemory) -> DataDoesNotFit:
    return DataDoesNotFit(
        f"its data does not fit on the device: {error}. Run the same command again when other "
        "programs have ended. If the data is too large even then, leave the input out with --inputs"
    )
