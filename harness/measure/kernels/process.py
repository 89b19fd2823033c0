"""The process that owns the device: its worker, with the data of inputs, and its client.

When may what is there be used again? A wrong result counts only where the inputs on the device are
as they were copied. After a run that did not end OK, the data are copied again. A process that
cannot be trusted any more, since the device does not answer or a kernel has left the guard zones,
is replaced. A crash counts once it happens in a second process. Of several that ran interleaved,
one may have made another's result wrong: then `Together` is not complete, and the measurer measures
each alone.
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
from harness.measure.kernels.data import KernelData, KernelJob, make_kernel_data, present_sha256
from harness.measure.kernels.trial import Together, measure_alone, measure_interleaved
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


class DataKey(NamedTuple):
    """The data of an input: which host module makes them, with which seed."""

    host: Path
    problem: Input
    seed: int = SEARCH_SEED


class NotPrepared(Exception):
    """The process does not have the data of a call on the device, or they were spoilt."""


@dataclass
class _DeviceData:
    """The sets of data of an input; `is_fresh` on the device until a kernel has run."""

    key: DataKey
    sets: Sequence[KernelData]
    is_fresh: bool = False


class DeviceWorker:
    """Own the device, which opens when it is first needed, and the data of one input.

    The device has the data of one host module at a time; those of others stay on the host. Once the
    device, or the memory of this process, cannot be trusted any more, it `must_be_replaced`.
    """

    def __init__(self, backend: Backend) -> None:
        self.must_be_replaced = False
        self._backend = backend
        self._data: dict[Path, _DeviceData] = {}
        self._bound: _DeviceData | None = None
        self._unread: dict[Path, frozenset[str]] = {}  # what no run of an input sees
        self._imports = ImportsApart()

    # --------------------------------------------------------------------------------- the device

    @cached_property
    def _device(self) -> Device:
        device = self._backend.open_device()
        if self._backend.clock == SUSTAINED:
            device.watch = SustainedWatch(device.watch.full_mhz)
        device.check_clock()
        return device

    @cached_property
    def _compiler(self) -> Compiler:
        return self._backend.open_compiler()

    @cached_property
    def _sensors(self) -> Sensors:
        return open_sensors(self._device.environment(""))

    def describe(self) -> _DeviceFacts:
        """Open the device, and describe it once it works; raises BackendUnavailable."""
        return self._facts

    @cached_property
    def _facts(self) -> _DeviceFacts:
        place = self._backend.device
        others: Sequence[str] = ()
        if place is not None:  # before this process is one of them
            others = other_processes(place.bus_id, place.instance)
        device = self._device
        compiler = self._compiler
        self._backend.require_working(device, compiler)
        environment = device.environment(compiler.identity)
        notes = dict(environment.notes)
        notices = list(device.notices)
        if others:
            notes[OTHER_PROCESSES] = ", ".join(others)
            text = "other processes use this GPU and may disturb its times"
            cure = "End them, or name another device with --device"
            notices.append(f"{text}: {first_few(others, ', ')}. {cure}")
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

    # ----------------------------------------------------------------------------------- the data

    def prepare(self, key: DataKey) -> tuple[tuple[str, ...], str | None]:
        """Have the data of an input on the device for what runs next; return the arguments' names,
        and the digest of the search's data.

        Raises HostModuleError, and LaunchFailed where the data do not fit.
        """
        self._imports.turn_to(key.host)
        data = self._data.get(key.host)
        if data is None or data.key != key:
            self._bound = None
            self._data.pop(key.host, None)  # frees the memory of the input before
            data = self._data[key.host] = _make(key)
        if data is not self._bound:
            self._copy(data)
        first = data.sets[0]
        return tuple(first.arguments), first.sha256 if key.seed == SEARCH_SEED else None

    def _copy(self, data: _DeviceData) -> None:
        """Copy data to the device.

        The sets of data change places each time, so that a result which a kernel remembers by
        address is wrong.
        """
        self._bound = None
        data.sets = data.sets[::-1]
        self._device.bind(*(each.arguments for each in data.sets))
        for each in data.sets:
            each.bound_again()
        data.is_fresh = True
        self._bound = data

    def _prepared(self, key: DataKey) -> _DeviceData:
        """Return the data of an input, which are on the device; raises NotPrepared where they are
        not, or were spoilt."""
        data = self._bound
        if data is None or data.key != key:
            raise NotPrepared("nothing is prepared")
        self._imports.turn_to(key.host)
        return data

    def data_sha256(self, host: Path, problem: Input, stored: Collection[str]) -> str | None:
        """Return `present_sha256` of an input."""
        self._imports.turn_to(host)
        return present_sha256(host, problem, stored, self._unread)

    def weak_tests(self, key: DataKey, tolerance: Tolerance) -> list[str]:
        """Return what verification would let pass on an input."""
        return list(weak_tests(key.problem, self._prepared(key).sets[0], tolerance))

    # ---------------------------------------------------------------------------------- measuring

    def run(self, key: DataKey, job: KernelJob) -> Measurement:
        """Measure one configuration; raises NotPrepared."""
        data = self._prepared(key)
        was_fresh = data.is_fresh
        self._begin(data)
        measured = measure_alone(self._device, data.sets[0], job, self._sensors)
        is_wrong = measured.outcome is Outcome.WRONG_RESULT
        if is_wrong and not was_fresh and why_overwritten(self._device, data.sets[0].read_only()):
            self._end(data, is_clean=False)
            raise NotPrepared("an earlier run has written a part of its inputs")
        is_refused = measured.outcome is Outcome.LAUNCH_FAILED and not measured.warmup_s
        ran_nothing = is_refused and len(job.launches) == 1
        self._end(data, is_clean=measured.outcome is Outcome.OK or ran_nothing)
        return measured

    def run_sustained(self, key: DataKey, job: KernelJob) -> Measurement:
        """Measure one configuration at the sustained clock, though the space says boost; it is
        waited for no longer than a check may take. Raises NotPrepared."""
        watch = self._device.watch
        self._device.watch = SustainedWatch(watch.full_mhz, longest_s=_CHECKED_S)
        try:
            return self.run(key, job)
        finally:
            self._device.watch = watch

    def run_interleaved(self, key: DataKey, jobs: Sequence[KernelJob], block: Block) -> Together:
        """Measure several configurations of one input, one sample of each per round.

        Raises NotPrepared.
        """
        data = self._prepared(key)
        if not data.is_fresh:
            self._bound = None
            raise NotPrepared("its data are not new")
        if block.is_reloaded:
            self._device.unload()
        self._begin(data)
        together = measure_interleaved(
            self._device, data.sets, jobs, block.rounds, block.order, self._sensors
        )
        are_right = all(each.outcome is Outcome.OK for each in together.measured)
        self._end(data, is_clean=are_right and together.is_complete)
        return together

    def _begin(self, data: _DeviceData) -> None:
        """Take the data for spoilt until a run has ended well."""
        data.is_fresh = False
        self._bound = None

    def _end(self, data: _DeviceData, is_clean: bool) -> None:
        """Let the data be used again after a run that wrote only what it may; else look whether
        this process may go on."""
        if is_clean:
            self._bound = data
            return
        with suppress(LaunchFailed):
            self._device.arguments.outside_writes()  # a failed run may have left a zone
        self.must_be_replaced = self._device.is_lost

    def compile(self, host: Path, program: Program) -> Binary:
        """Build a Python callable, and call it once so that it compiles; raises BuildFailed."""
        self._imports.turn_to(host)
        binary = self._compiler.compile(program)
        try:
            build_s = self._device.load(binary).build_s
        except LaunchFailed as error:
            raise BuildFailed(str(error)) from None
        finally:
            self.must_be_replaced = self._device.is_lost
        build = dataclasses.replace(binary.build, compile_s=build_s)
        return dataclasses.replace(binary, build=build)


def _make(key: DataKey) -> _DeviceData:
    """Make the data of an input; raises HostModuleError."""
    count = 1 if key.seed == SEARCH_SEED else DATA_SETS
    sets = []
    for number in range(count):
        sets.append(make_kernel_data(key.host, key.problem, key.seed + number))
    return _DeviceData(key, sets)


_PREPARE_TIMEOUT_S = 600.0

T = TypeVar("T")


class DeviceClient:
    """The process that owns the device, as a measurer calls it.

    A client with an `owner` uses the process of that client, and must be closed before it. Another
    one locks its device: raises DeviceBusy where another process measures on it.
    """

    def __init__(self, host: Path, backend: Backend, owner: DeviceClient | None = None) -> None:
        self._host = host
        self._language = backend.language
        self._owner = owner
        self._lock = ExitStack()
        self._names: dict[Input, tuple[str, ...]] = {}
        self.digests: dict[Input, str | None] = {}  # of the search's data; None: they differ
        if owner is not None:
            self._child: Child = owner._child
            return
        self._child = Child(partial(DeviceWorker, backend))  # which starts at the first call
        if backend.device is not None and not backend.is_locked:
            place = backend.device
            self._lock.enter_context(locked(place.identity, str(place)))

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
            self._prepare(DataKey(self._host, problem))
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

    def _prepare(self, key: DataKey) -> None:
        """Have the data of an input in the process; raises HostModuleError.

        Data that did fit before may fit again in a new process, and any other error of the driver
        may be due to this process.
        """
        for is_last in (False, True):
            try:
                names, sha256 = self._call(DeviceWorker.prepare, key)
            except OutOfDeviceMemory as error:
                if is_last or key.problem not in self._names:
                    raise DataDoesNotFit(
                        f"its data does not fit on the device: {error}. Run the same command again "
                        "when other programs have ended. If the data is too large even then, leave "
                        "the input out with --inputs"
                    ) from None
            except LaunchFailed as error:
                if is_last:
                    self._child.replace()  # the next input shall not find it broken
                    text = f"its data cannot be copied to the device: {error}"
                    raise HostModuleError(text) from None
            except ChildLost as lost:
                raise self._lost(key.problem, lost) from None
            else:
                self._names[key.problem] = names
                if sha256 is not None:
                    self.digests.setdefault(key.problem, sha256)
                return
            self._child.replace()

    def run(
        self,
        method: Callable[..., T],
        problem: Input,
        *args: object,
        timeout_s: float,
        seed: int = SEARCH_SEED,
    ) -> T:
        """Call a method of DeviceWorker that needs the data of an input, again where the process
        ended: it may have been killed, or an earlier configuration may have overwritten its memory.

        Raises ChildLost, LaunchFailed, and HostModuleError where the data cannot be made any more.
        """
        key = DataKey(self._host, problem, seed)
        is_prepared = False
        has_ended = False
        while True:
            if not self._child.is_running:  # to start takes time that is not the configuration's
                self._prepare(key)
                is_prepared = True
            try:
                return self._child.call(method, key, *args, timeout_s=timeout_s)
            except NotPrepared as error:
                if is_prepared:
                    text = f"its data cannot be copied to the device: {error}"
                    raise LaunchFailed(text) from None
                self._prepare(key)
                is_prepared = True
            except ChildLost as lost:
                if lost.hung or has_ended:
                    raise
                has_ended = True

    def compile(self, program: Program, timeout_s: float) -> Binary:
        """Build a Python callable, again where the process ended; raises BuildFailed, ChildLost."""
        has_ended = False
        while True:
            self.describe()  # to start takes time that is not the configuration's
            try:
                return self._child.call(
                    DeviceWorker.compile, self._host, program, timeout_s=timeout_s
                )
            except ChildLost as lost:
                if lost.hung or has_ended:
                    raise
                has_ended = True

    def close(self) -> None:
        """End the process, and free the device, unless they are another client's."""
        with self._lock:
            if self._owner is None:
                self._child.close()
