"""The worker of the device's process: it owns the device, and the data of one input on it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from harness.core.errors import LaunchFailed
from harness.core.modules import ImportsApart
from harness.core.records import (
    OTHER_PROCESSES,
    DeviceLimits,
    Environment,
    Input,
    Measurement,
    Outcome,
)
from harness.measure.backends.base import Compiler, Device
from harness.measure.backends.choose import Backend
from harness.measure.kernel_checks import weak_tests, why_overwritten
from harness.measure.kernel_data import KernelData, make_kernel_data
from harness.measure.kernel_job import KernelJob
from harness.measure.kernel_runner import measure_interleaved, measure_kernel
from harness.measure.occasions import SEARCH_SEED, Block, data_seeds
from harness.measure.sensors.choose import SensorFacts, Sensors, open_sensors
from harness.measure.sensors.nvml import other_processes
from harness.measure.verify import Tolerance

T = TypeVar("T")


@dataclass(frozen=True)
class DeviceFacts:
    """What is known of the device. `arch` is an NVIDIA architecture such as `sm_90`, or None;
    `others` are the processes of others that use the device."""

    environment: Environment
    limits: DeviceLimits
    shares_cpu: bool
    arch: str | None
    sensors: SensorFacts
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reply(Generic[T]):
    """The answer of the device's process.

    `result` is None where the process does not hold the input's data. Where it is not `healthy`,
    it must be replaced.
    """

    result: T | None
    healthy: bool = True


class Together(NamedTuple):
    """What was measured in interleaved rounds. Where the device broke meanwhile, the rounds are not
    `complete`: failures may be due to another configuration's fault. Where the device `holds_all`,
    all sets of the input's data were on it at once.
    """

    measured: list[Measurement]
    complete: bool
    holds_all: bool = True


class _DataLost(Exception):
    """The device does not take the data of an input any more."""


@dataclass
class _HeldData:
    """The sets of data of an input and a seed on the device; `fresh` until a kernel has run."""

    problem: Input
    seed: int
    sets: Sequence[KernelData]
    fresh: bool = True


class DeviceWorker:
    """Own the device, which opens when it is first needed, and the data of one input.

    The device holds the data of one host module at a time; those of others are kept aside.
    """

    def __init__(self, backend: Backend, host: Path) -> None:
        self._backend = backend
        self._host = host
        self._held: _HeldData | None = None
        self._aside: dict[Path, _HeldData | None] = {}
        self._imports = ImportsApart()
        self._imports.turn_to(host)

    @cached_property
    def _device(self) -> Device:
        # harness.stats.timing needs it later, while the deadline of a kernel runs.
        import scipy.special  # noqa: F401

        return self._backend.open_device()

    @cached_property
    def _sensors(self) -> Sensors:
        return open_sensors(self._device.environment(""), self._device.shares_cpu)

    def describe(self) -> DeviceFacts:
        """Open the device, and describe it once it works; raises BackendUnavailable."""
        return self._facts

    @cached_property
    def _facts(self) -> DeviceFacts:
        others = self._other_processes()  # first: this process is not one of them
        device, compiler = self._device, self._compiler
        self._backend.require_working(device, compiler)
        environment = device.environment(compiler.identity)
        note = {OTHER_PROCESSES: ", ".join(others)} if others else {}
        return DeviceFacts(
            environment=dataclasses.replace(environment, notes={**environment.notes, **note}),
            limits=device.limits,
            shares_cpu=device.shares_cpu,
            arch=compiler.arch,
            sensors=self._sensors.facts,
            others=others,
        )

    def require_working(self) -> None:
        """Raise BackendUnavailable where an empty kernel does not run on the device."""
        self._backend.run_empty_kernel(self._device, self._compiler)

    @cached_property
    def _compiler(self) -> Compiler:
        return self._backend.open_compiler()

    def _other_processes(self) -> tuple[str, ...]:
        device = self._backend.device
        return () if device is None else other_processes(device.bus_id, device.instance)

    def serve(self, host: Path, method: Callable[..., Reply[T]], *args: object) -> Reply[T]:
        """Call a method while the device holds the data that a host module has made."""
        if host != self._host:
            self._turn_to(host)
            if self._held is not None and not self._renew(self._held):
                self._held = None
        return method(self, *args)

    def _turn_to(self, host: Path) -> None:
        """Put the data and imports of the other host module aside, and take this one's back."""
        self._imports.turn_to(host)
        self._aside[self._host] = self._held
        self._host, self._held = host, self._aside.pop(host, None)

    def prepare(
        self, problem: Input, seed: int = SEARCH_SEED, host: Path | None = None
    ) -> tuple[str, ...]:
        """Make the data of an input and copy it to the device; return the arguments' names.

        Raises HostModuleError, or LaunchFailed where the data does not fit on the device.
        """
        if host not in (None, self._host):
            self._turn_to(host)
        self._held = None  # frees the memory of the input before
        sets = self._made(problem, seed)
        self._device.bind(*(data.arguments for data in sets))
        self._held = _HeldData(problem, seed, sets)
        return tuple(sets[0].arguments)

    def _made(self, problem: Input, seed: int) -> list[KernelData]:
        return [make_kernel_data(self._host, problem, each) for each in data_seeds(seed)]

    def run(self, job: KernelJob) -> Reply[Measurement]:
        """Measure one configuration."""
        held = self._holds(job.input, SEARCH_SEED)
        if held is None:
            return Reply(None)
        measured = measure_kernel(self._device, held.sets[0], job, self._sensors)
        if _is_wrong(measured) and not held.fresh and self._is_overwritten(held):
            # An earlier one may have overwritten a part that was not checked: measure on new data.
            if not self._renew(held):
                return self._without_data()
            measured = measure_kernel(self._device, held.sets[0], job, self._sensors)
        held.fresh = False
        return Reply(measured, self._leaves_clean(held, [measured]))

    def weak_tests(self, problem: Input, tolerance: Tolerance) -> Reply[list[str]]:
        """Return what verification would let pass on an input."""
        held = self._holds(problem, SEARCH_SEED)
        return Reply(list(weak_tests(problem, held.sets[0], tolerance)) if held else None)

    def run_interleaved(self, jobs: Sequence[KernelJob], block: Block) -> Reply[Together]:
        """Measure several configurations of one input, one sample of each per round.

        One that overwrites an input makes the others' results wrong. So what is wrong is measured
        alone, and where that shows which one it was, all others together once more.
        """
        held = self._holds(jobs[0].input, block.seed)
        if held is None:
            return Reply(None)
        if block.is_reloaded:
            self._device.unload()
        try:
            found, healthy = self._together(held, jobs, block)
            if len(jobs) > 1 and healthy and any(map(_is_wrong, found)):
                found, healthy = self._apart(held, jobs, block, found)
        except _DataLost:
            return self._without_data()
        clean = healthy and self._leaves_clean(held, found)
        return Reply(Together(found, healthy, self._device.holds_all), clean)

    def _apart(
        self,
        held: _HeldData,
        jobs: Sequence[KernelJob],
        block: Block,
        found: Sequence[Measurement],
    ) -> tuple[list[Measurement], bool]:
        """Measure again what was wrong; return all measurements, and whether the device works.

        Where all work alone, none has spoilt another's data: then what was wrong is wrong at some
        of its runs, and stays so.
        """
        again, healthy = list(found), True
        for number, job in enumerate(jobs):
            if healthy and _is_wrong(found[number]):
                (alone,), healthy = self._together(held, [job], block)
                again[number] = _after(found[number], alone)
        works = [number for number, each in enumerate(again) if each.outcome is Outcome.OK]
        if not healthy or len(works) == len(jobs):
            return list(found), healthy
        rest, healthy = self._together(held, [jobs[number] for number in works], block)
        for number, each in zip(works, rest, strict=True):
            again[number] = _after(again[number], each)
        return again, healthy

    def _together(
        self, held: _HeldData, jobs: Sequence[KernelJob], block: Block
    ) -> tuple[list[Measurement], bool]:
        """Measure on data that was just copied; return whether the device still works, too.

        Raises _DataLost where the device does not take the data any more.
        """
        if not held.fresh and not self._renew(held):
            raise _DataLost
        found = measure_interleaved(
            self._device, held.sets, jobs, block.rounds, block.order, self._sensors
        )
        held.fresh = False
        return found, self._device.healthy

    def _without_data(self) -> Reply[Any]:
        """Reply that the data must be made anew: nothing is measured on what is left of it."""
        self._held = None
        return Reply(None)

    def _holds(self, problem: Input, seed: int) -> _HeldData | None:
        """Return the data on the device if it is of this input and seed."""
        held = self._held
        return held if held and (held.problem, held.seed) == (problem, seed) else None

    def _is_overwritten(self, held: _HeldData) -> bool:
        """Whether the device holds other inputs of the search than were copied to it."""
        return why_overwritten(self._device, held.sets[0].read_only()) is not None

    def _leaves_clean(self, held: _HeldData, found: Sequence[Measurement]) -> bool:
        """Copy the data again after a run that may have written elsewhere: the next configuration
        is not blamed for it. False where only a new process, with data made anew, is clean."""
        is_clean = all(data.is_clean for data in held.sets)
        if not self._device.healthy or (is_clean and not any(map(_is_wrong, found))):
            return self._device.healthy
        try:
            self._device.stray_writes()  # what failed before this check may have written there, too
        except LaunchFailed:
            return False
        return not self._device.overran and self._renew(held)

    def _renew(self, held: _HeldData) -> bool:
        """Copy the data to the device again; False where the device does not take it any more.

        The sets of data change places: what a kernel keeps by address is of the other one then.
        After a kernel that may have overwritten this process's memory, the data are made anew.
        """
        if self._device.overran:
            held.sets = self._made(held.problem, held.seed)
        held.sets = held.sets[::-1]
        try:
            self._device.bind(*(data.arguments for data in held.sets))
        except LaunchFailed:
            return False
        for data in held.sets:
            data.bound_again()
        held.fresh = True
        return True


def _is_wrong(measured: Measurement) -> bool:
    return measured.outcome is Outcome.WRONG_RESULT


def _after(first: Measurement, again: Measurement) -> Measurement:
    """Return a later measurement, with the first runs of the earlier one before its own: only they
    were on data that nothing had run on."""
    return dataclasses.replace(again, warmup_s=(*first.warmup_s, *again.warmup_s))
