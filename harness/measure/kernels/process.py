"""The process that owns the device: its worker, with the data of inputs, and its client, which has
them prepared there, and replaces a process that is spoilt.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from harness.core.errors import (
    BackendUnavailable,
    BuildFailed,
    DataDoesNotFit,
    HostModuleError,
    LaunchFailed,
    OutOfDeviceMemory,
)
from harness.core.modules import ImportsApart
from harness.core.program import Binary, Program
from harness.core.records import (
    OTHER_PROCESSES,
    SUSTAINED,
    DeviceLimits,
    Environment,
    Input,
    Measurement,
    Outcome,
)
from harness.core.text import first_few
from harness.measure.device.clocks import SustainedWatch
from harness.measure.device.launcher import Compiler, Device
from harness.measure.device.verify import Tolerance
from harness.measure.devices import Backend, empty_kernel_advice
from harness.measure.kernels.checks import why_overwritten
from harness.measure.kernels.data import (
    KernelData,
    KernelJob,
    make_kernel_data,
    present_sha256,
)
from harness.measure.kernels.runner import measure_interleaved, measure_kernel, why_any_astray
from harness.measure.kernels.weak import weak_tests
from harness.measure.occasions import DATA_SETS, SEARCH_SEED, Block
from harness.measure.process.child import Child, ChildLost
from harness.measure.process.device_lock import locked
from harness.measure.sensors.nvml import Sensors, open_sensors, other_processes

_CHECKED_S = 1.5
"""A check waits so long for a sustained clock."""


@dataclass(frozen=True)
class _DeviceFacts:
    """What is known of the device. `arch` is an NVIDIA architecture such as `sm_90`, or None;
    `no_energy` is why energy cannot be measured, None where it can; `notices` are what the user
    should know."""

    environment: Environment
    limits: DeviceLimits
    shares_cpu: bool
    arch: str | None
    no_energy: str | None
    notices: tuple[str, ...]


class Together(NamedTuple):
    """What was measured in interleaved rounds. Where the device broke meanwhile, a result was
    wrong, or something was written elsewhere, the rounds are not `complete`: failures may be due to
    another configuration's fault.
    """

    measured: list[Measurement]
    complete: bool


class _DataLost(ChildLost):
    """The device does not take the data of an input any more, which a new process may change."""

    def __init__(self, message: str) -> None:
        super().__init__(message, by_chance=True)


@dataclass
class _DeviceData:
    """The sets of data of an input and a seed; `fresh` on the device until a kernel has run."""

    problem: Input
    seed: int
    sets: Sequence[KernelData]
    fresh: bool = True


class DeviceWorker:
    """Own the device, which opens when it is first needed, and the data of one input.

    The device holds the data of one host module at a time; those of others are kept aside. Once a
    device, or the memory of this process, cannot be trusted any more, the worker `is_spoilt`.
    """

    def __init__(self, backend: Backend) -> None:
        self.is_spoilt = False
        self._backend = backend
        self._data: dict[Path, _DeviceData] = {}
        self._bound: _DeviceData | None = None
        self._unread: dict[Path, frozenset[str]] = {}  # what no run of an input sees
        self._imports = ImportsApart()

    @cached_property
    def _device(self) -> Device:
        device = self._backend.open_device()
        if self._backend.clock == SUSTAINED:
            device.watch = SustainedWatch(device.watch.full_mhz)
        device.check_clock()
        return device

    @cached_property
    def _sensors(self) -> Sensors:
        return open_sensors(self._device.environment(""))

    def describe(self) -> _DeviceFacts:
        """Open the device, and describe it once it works; raises BackendUnavailable."""
        return self._facts

    @cached_property
    def _facts(self) -> _DeviceFacts:
        place = self._backend.device
        # First: this process is not one of them.
        others = () if place is None else other_processes(place.bus_id, place.instance)
        device, compiler = self._device, self._compiler
        self._backend.require_working(device, compiler)
        environment = device.environment(compiler.identity)
        note, notices = dict[str, str](), list(device.notices)
        if others:
            note[OTHER_PROCESSES] = ", ".join(others)
            text = "other processes use this GPU and may disturb its times"
            cure = "End them, or name another device with --device"
            notices.append(f"{text}: {first_few(others, ', ')}. {cure}")
        notes = {**environment.notes, **note}
        clock = self._backend.clock
        return _DeviceFacts(
            environment=dataclasses.replace(environment, clock=clock, notes=notes),
            limits=device.limits,
            shares_cpu=device.shares_cpu,
            arch=compiler.arch,
            no_energy=self._sensors.no_energy,
            notices=tuple(notices),
        )

    def require_working(self) -> None:
        """Raise BackendUnavailable where an empty kernel does not run on the device."""
        self._backend.run_empty_kernel(self._device, self._compiler)

    @cached_property
    def _compiler(self) -> Compiler:
        return self._backend.open_compiler()

    def prepare(
        self, host: Path, problem: Input, seed: int = SEARCH_SEED
    ) -> tuple[tuple[str, ...], str | None]:
        """Have the data of an input on the device for what runs next, made by a host module unless
        they are there; return the arguments' names, and the digest of the search's data.

        Raises HostModuleError, ChildLost, or LaunchFailed where the data does not fit.
        """
        self._imports.turn_to(host)
        data = self._data.get(host)
        if data is None or (data.problem, data.seed) != (problem, seed):
            data = self._bound = None
            self._data.pop(host, None)  # frees the memory of the input before
            count = 1 if seed == SEARCH_SEED else DATA_SETS
            sets = [make_kernel_data(host, problem, seed + number) for number in range(count)]
            self._device.bind(*(data.arguments for data in sets))
            data = self._bound = self._data[host] = _DeviceData(problem, seed, sets)
        elif data is not self._bound:
            self._copy(data)
        first = data.sets[0]
        return tuple(first.arguments), first.sha256 if seed == SEARCH_SEED else None

    def data_sha256(self, host: Path, problem: Input, stored: Collection[str]) -> str | None:
        """Return `present_sha256` of an input."""
        self._imports.turn_to(host)
        return present_sha256(host, problem, stored, self._unread)

    def run(self, job: KernelJob) -> Measurement:
        """Measure one configuration on the prepared data; raises ChildLost."""
        data = self._prepared
        measured = measure_kernel(self._device, data.sets[0], job, self._sensors)
        may_be_spoilt = _is_wrong(measured) and not data.fresh
        if may_be_spoilt and why_overwritten(self._device, data.sets[0].read_only()):
            # An earlier one may have overwritten a part that was not checked: measure on new data.
            self._copy(data)
            measured = measure_kernel(self._device, data.sets[0], job, self._sensors)
        data.fresh = False
        self._clean(data, [measured])
        return measured

    def run_sustained(self, job: KernelJob) -> Measurement:
        """Measure one configuration at the sustained clock, though the space says boost; it is
        waited for no longer than a check may take. Raises ChildLost."""
        watch = self._device.watch
        self._device.watch = SustainedWatch(watch.full_mhz, longest_s=_CHECKED_S)
        try:
            return self.run(job)
        finally:
            self._device.watch = watch

    def compile(self, host: Path, program: Program) -> Binary:
        """Build a Python callable, and call it once so that it compiles; raises BuildFailed."""
        self._imports.turn_to(host)
        binary = self._compiler.compile(program)
        try:
            build_s = self._device.load(binary).build_s
        except LaunchFailed as error:
            raise BuildFailed(str(error)) from None
        finally:
            self.is_spoilt = self._device.is_lost
        build = dataclasses.replace(binary.build, compile_s=build_s)
        return dataclasses.replace(binary, build=build)

    def weak_tests(self, problem: Input, tolerance: Tolerance) -> list[str]:
        """Return what verification would let pass on the prepared input."""
        return list(weak_tests(problem, self._prepared.sets[0], tolerance))

    def run_interleaved(self, jobs: Sequence[KernelJob], block: Block) -> Together:
        """Measure several configurations of one input, one sample of each per round.

        Raises ChildLost. One that overwrites an input makes the others' results wrong, so that
        after a wrong result of several, or a write elsewhere, this worker is spoilt.
        """
        data = self._prepared
        if block.is_reloaded:
            self._device.unload()
        if not data.fresh:
            self._copy(data)
        measured = measure_interleaved(
            self._device, data.sets, jobs, block.rounds, block.order, self._sensors
        )
        data.fresh = False
        complete = not self._device.is_lost and not (
            len(jobs) > 1
            and (any(map(_is_wrong, measured)) or why_any_astray(self._device, data.sets))
        )
        if complete:
            self._clean(data, measured)
        else:
            self.is_spoilt = True
        return Together(measured, complete)

    @property
    def _prepared(self) -> _DeviceData:
        """The data that were prepared last; raises ChildLost in a new process."""
        if self._bound is None:
            raise _DataLost("nothing is prepared")
        return self._bound

    def _clean(self, data: _DeviceData, measured: Sequence[Measurement]) -> None:
        """Copy the data again after a run that may have written elsewhere: the next configuration
        is not blamed for it."""
        is_clean = all(each.is_clean for each in data.sets) and not any(map(_is_wrong, measured))
        self.is_spoilt = self._device.is_lost or not is_clean
        if not self._device.is_lost and not is_clean:
            with suppress(_DataLost, LaunchFailed):
                # What failed before this check may have written there.
                self._device.arguments.outside_writes()
                self._copy(data)

    def _copy(self, data: _DeviceData) -> None:
        """Copy data to the device again. Raises ChildLost where the device does not take them any
        more, and after a kernel that may have overwritten this process's memory.

        The sets of data change places: what a kernel keeps by address is of the other one then.
        """
        data.sets = data.sets[::-1]
        self.is_spoilt = True
        try:
            if self._device.is_lost:
                raise LaunchFailed("its process does not work any more")
            self._device.bind(*(each.arguments for each in data.sets))
        except LaunchFailed as error:
            raise _DataLost(str(error)) from None
        self.is_spoilt = False
        for each in data.sets:
            each.bound_again()
        data.fresh = True
        self._bound = data


def _is_wrong(measured: Measurement) -> bool:
    return measured.outcome is Outcome.WRONG_RESULT


_PREPARE_TIMEOUT_S = 600.0

T = TypeVar("T")


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
        self.digests: dict[Input, str | None] = {}  # of the search's data; None: they differ
        self._child: Child
        self._used = 0  # the generation of the process in which a configuration ran last
        if owner is None:
            self._child = Child(partial(DeviceWorker, backend))  # which starts at the first call
            if backend.device is not None and not backend.is_locked:
                place = backend.device
                self._lock.enter_context(locked(place.identity, str(place)))
        else:
            self._child = owner._child

    def _call(self, method: Callable[..., T], *args: object) -> T:
        return self._child.call_again(method, *args, timeout_s=_PREPARE_TIMEOUT_S)

    def describe(self) -> _DeviceFacts:
        """Open the device and describe it; raises BackendUnavailable."""
        try:
            return self._call(DeviceWorker.describe)
        except ChildLost as lost:
            raise BackendUnavailable(
                f"the process that opens the {self._language} device {lost}. "
                f"{empty_kernel_advice(self._language)}"
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

    def data_sha256(self, problem: Input, stored: Collection[str]) -> str | None:
        """Return the digest of an input's data; see Measurer. Raises HostModuleError."""
        if problem not in self.digests:
            method = DeviceWorker.data_sha256
            try:
                self.digests[problem] = self._call(method, self._host, problem, stored)
            except ChildLost as lost:
                raise self._lost(problem, lost) from None
        return self.digests[problem]

    def _lost(self, problem: Input, lost: ChildLost) -> HostModuleError:
        what = f"{self._host}: the process that made the data of ({problem})"
        return HostModuleError(f"{what} {lost}; is there enough memory, and time?")

    def _prepare(self, problem: Input, seed: int = SEARCH_SEED) -> None:
        """Have the data of an input in the process; raises HostModuleError.

        Data that did fit before may fit again in a new process, and any other error of the driver
        may be due to this process.
        """
        for is_last in (False, True):
            try:
                names, sha256 = self._call(DeviceWorker.prepare, self._host, problem, seed)
                self._names[problem] = names
                if sha256 is not None:
                    self.digests.setdefault(problem, sha256)
                return
            except OutOfDeviceMemory as error:
                if is_last or problem not in self._names:
                    raise DataDoesNotFit(
                        f"its data does not fit on the device: {error}. Run the same command again "
                        "when other programs have ended. If the data is too large even then, leave "
                        "the input out with --inputs"
                    ) from None
            except (_DataLost, LaunchFailed) as error:
                if is_last:
                    self._child.replace()  # the next input shall not find it broken
                    text = f"its data cannot be copied to the device: {error}"
                    raise HostModuleError(text) from None
            except ChildLost as lost:
                raise self._lost(problem, lost) from None
            self._child.replace()

    def run(
        self,
        problem: Input | None,
        method: Callable[..., T],
        *args: object,
        timeout_s: float,
        seed: int = SEARCH_SEED,
    ) -> T:
        """Call a method of DeviceWorker, while the process has the data of an input and a seed
        where an input is given.

        It is called again where the process was lost by chance, or crashed and an earlier
        configuration may have spoilt it. Raises ChildLost, and HostModuleError where the data
        cannot be made any more.
        """
        is_last, owner = False, self._owner
        while True:
            if problem is not None:
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
