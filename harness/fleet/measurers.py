"""Open a measurer for each device of a fleet that can measure a space."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from harness.core.errors import BackendUnavailable, DeviceBusy, UsageError
from harness.core.text import counted
from harness.fleet.address import check_address, local_count
from harness.fleet.bundle import pack
from harness.fleet.cluster import Cluster
from harness.fleet.fleet_device import FleetDevice, devices_of
from harness.fleet.held import IDLE_S
from harness.fleet.late import LateDevices
from harness.fleet.messages import DeviceSession, OfferedDevice
from harness.fleet.remote_builds import Builders, RemoteBuilds
from harness.fleet.remote_device import RemoteDevice
from harness.fleet.remote_programs import ProgramOpener
from harness.fleet.serving import local_cluster
from harness.measure.backends.choose import Backend
from harness.measure.backends.device_names import ALL_MODELS, are_all_models, names_in
from harness.measure.choose import with_arch, with_cache
from harness.measure.kernels import Elsewhere, KernelMeasurer
from harness.measure.measurer import Measurer
from harness.space_file import Spec
from harness.space_file.compiler import AUTO

JOIN_S = 60.0
"""A cluster without workers is given so long for the first one to come."""

_BUSY_S = IDLE_S + 5.0
"""A device whose driver was killed is free after so long."""

_BUSY_LOOK_S = 1.0


@dataclass(frozen=True)
class FleetRequest:
    """What a driver wants of a cluster.

    `address` is a scheduler's, or `local:N`. Of devices of several models, `names` choose those
    whose model, UUID or machine is named, or all models; of each model, at most `most` are used.
    `driver` identifies the campaign to the workers. `say` shows what is waited for.
    """

    address: str
    names: Sequence[str]
    most: int
    insecure: bool
    driver: str
    say: Callable[[str], None]


@dataclass(frozen=True)
class FleetMeasurers:
    """The measurers of a cluster's equal devices, and the devices that join them."""

    opened: OpenedMeasurers
    late: LateDevices | None


@contextmanager
def fleet_measurers(spec: Spec, request: FleetRequest) -> Iterator[list[FleetMeasurers]]:
    """Open a measurer for each device of a cluster, by groups of equal ones; there is one group
    unless all models are asked for. Of each group, close the first one last, inside the block.

    Raises UsageError and BackendUnavailable.
    """
    count = local_count(request.address)
    if spec.program is not None and count is not None:
        raise UsageError(
            f"{spec.path} tunes a program, and a machine runs one program at a time, so "
            "--cluster local:N would be no faster; leave --cluster out"
        )
    if count is None:
        check_address(request.address, request.insecure)
        yield from _connected(spec, request, 1)
        return
    with local_cluster(count, request.names) as address:
        names = request.names if are_all_models(request.names) else ()
        started = dataclasses.replace(request, address=address, names=names)
        yield from _connected(spec, started, count)


def _connected(spec: Spec, request: FleetRequest, least: int) -> Iterator[list[FleetMeasurers]]:
    cluster = Cluster.connect(request.address)
    try:
        members = cluster.wait_for_members(JOIN_S, least, request.say)
        found = [device for member in members for device in devices_of(cluster, member)]
        at_once = sum(member.builders for member in members)
        if at_once == 0 and spec.program is None:
            raise BackendUnavailable(
                f"no worker of {request.address} compiles; start one with `harness.worker` and "
                "--builders 1 or more, or `dask worker` with --resources build=1"
            )
        models = _chosen(spec, found, request.names)
        make = partial(_opener, spec, builders=cluster, at_once=at_once, driver=request.driver)
        groups = _opened_groups(make, models, request)
        there = [member.address for member in members]
        yield list(_with_late(cluster, groups, request.most, there))
    finally:
        cluster.close()


def _with_late(
    cluster: Cluster,
    groups: Sequence[tuple[DeviceOpener, OpenedMeasurers]],
    most: int,
    there: Sequence[str],
) -> Iterator[FleetMeasurers]:
    """Yield the groups with the devices that join them. Of groups of one model, the first is joined
    alone: a device would be opened for both. The first group of all reports what is not used."""
    models: dict[str, list[FleetDevice]] = {}
    for _, opened in groups:
        models.setdefault(opened.model, []).extend(opened.used)
    tuned: Collection[str] = tuple(models)
    for opener, opened in groups:
        used = models.pop(opened.model, None)
        late = LateDevices(cluster, opener.open, used, most, tuned, there) if used else None
        yield FleetMeasurers(opened, late)
        tuned = ()


def _opened_groups(
    make: Callable[..., DeviceOpener],
    models: Sequence[Sequence[FleetDevice]],
    request: FleetRequest,
) -> list[tuple[DeviceOpener, OpenedMeasurers]]:
    """Open the devices of each model. Where all models are asked for, one that cannot be opened is
    skipped, and devices of a model with another driver or compiler are a group of their own."""
    groups: list[tuple[DeviceOpener, OpenedMeasurers]] = []
    skipped: list[str] = []
    try:
        for model in models:
            left: Sequence[FleetDevice] = model
            while left:
                opener = make(first=left[0].offered)
                try:
                    opened = open_measurers(opener, left[: request.most], request.say)
                except BackendUnavailable as error:
                    skipped.append(f"{left[0].offered.name} is not used: {error}")
                    if model is models[-1] and not groups:
                        raise
                    break
                left = opened.give_up_unequal() if are_all_models(request.names) else ()
                groups.append((opener, opened))
    except BaseException:
        for _, opened in groups:
            opened.close()
        raise
    groups[0][1].skipped.extend(skipped)
    return groups


def _chosen(
    spec: Spec, found: Sequence[FleetDevice], names: Sequence[str]
) -> list[list[FleetDevice]]:
    """Return the devices to measure on by model, each of them once; one model, unless `names` ask
    for all."""
    once = {device.offered.uuid: device for device in reversed(found)}
    devices = [
        device
        for device in found
        if once[device.offered.uuid] is device
        and (device.offered.backend is None) == (spec.program is not None)
    ]
    wanted = [] if are_all_models(names) else [name.casefold() for name in names_in(names)]
    fitting = [
        device
        for device in devices
        if (device.offered.backend is None or device.offered.backend.language in spec.sources)
        and (not wanted or any(name in _words(device) for name in wanted))
    ]
    if not fitting:
        listed = "\n".join(f"  {device.name}: {device.offered.name}" for device in devices)
        languages = " or ".join(spec.sources) or "programs"
        raise BackendUnavailable(
            f"no device of the cluster runs {languages}{' and has that name' if names else ''}; "
            f"{counted(len(devices), 'device')}:\n{listed}"
        )
    models: dict[str, list[FleetDevice]] = {}
    for device in fitting:
        models.setdefault(device.offered.name, []).append(device)
    if len(models) > 1 and not are_all_models(names):
        raise UsageError(
            "the cluster has devices of several models, whose times cannot be compared; choose one "
            f"with --device, or tune each of them with --device {ALL_MODELS}: "
            f"{', '.join(sorted(models))}"
        )
    return [*models.values()]


def _words(device: FleetDevice) -> str:
    return f"{device.offered.name} {device.offered.uuid} {device.name}".casefold()


class Opener:
    """Opens measurers of equal devices of a fleet, which share their builds."""

    def __init__(
        self, spec: Spec, first: OfferedDevice, builders: Builders, at_once: int, driver: str
    ) -> None:
        """`first` is the device opened first, `at_once` how many builds run in the fleet."""
        self._spec = spec
        self._driver = driver
        self._run = os.urandom(8).hex()
        backend = _backend_of(first)
        self._packed = pack(spec, backend.language)
        self._builds = RemoteBuilds(builders, _wanted(spec, backend), self._packed, at_once)
        self._first: KernelMeasurer | None = None

    def open(self, device: FleetDevice) -> KernelMeasurer:
        """Open the measurer of a device; close the first one last.

        Raises BackendUnavailable where it cannot be opened.
        """
        backend = _wanted(self._spec, _backend_of(device.offered))
        session = DeviceSession(
            driver=self._driver,
            run=self._run,
            uuid=device.offered.uuid,
            cache=backend.cache,
            arch_specific=backend.arch_specific,
            cuda_compiler=backend.cuda_compiler,
            bundle=self._packed.bundle.digest,
            host=self._packed.host,
        )
        remote = RemoteDevice(device.channel, session, self._packed.bundle)
        elsewhere = Elsewhere(remote, self._builds, device.host_name)
        opened = KernelMeasurer(self._spec, backend, equal=self._first, elsewhere=elsewhere)
        if self._first is None:
            self._first = opened
            self._builds.compiler = opened.environment.compiler
        return opened


def _opener(
    spec: Spec, first: OfferedDevice, builders: Builders, at_once: int, driver: str
) -> DeviceOpener:
    """Return what opens measurers of a space."""
    if spec.program is not None:
        return ProgramOpener(spec, driver)
    return Opener(spec, first, builders, at_once, driver)


def _backend_of(offered: OfferedDevice) -> Backend:
    assert offered.backend is not None, "a device that runs kernels"
    return offered.backend


class DeviceOpener(Protocol):
    """Opens the measurers of equal devices."""

    def open(self, device: FleetDevice) -> Measurer:
        """Open the measurer of a device; close the first one last.

        Raises BackendUnavailable where it cannot be opened.
        """


@dataclass
class OpenedMeasurers:
    """The measurers of devices by the devices' names, and why other devices were skipped."""

    measurers: dict[str, Measurer]
    used: list[FleetDevice]
    skipped: list[str]

    @property
    def model(self) -> str:
        """The name of the devices' model."""
        return self.used[0].offered.name

    def give_up_unequal(self) -> list[FleetDevice]:
        """Close the measurers of devices that are not equal to the first; return the devices."""
        first = next(iter(self.measurers.values())).environment.fingerprint
        unequal = []
        for device, (name, measurer) in zip([*self.used], [*self.measurers.items()], strict=True):
            if measurer.environment.fingerprint != first:
                measurer.close()
                del self.measurers[name]
                unequal.append(device)
        self.used = [device for device in self.used if device not in unequal]
        return unequal

    def close(self) -> None:
        """Close all measurers, the first one last."""
        for measurer in reversed(self.measurers.values()):
            measurer.close()


def open_measurers(
    opener: DeviceOpener, devices: Sequence[FleetDevice], say: Callable[[str], None]
) -> OpenedMeasurers:
    """Open a measurer for each of these devices that can be opened; close the first one last.

    Where all are used by other drivers, which may have ended, waits and says so. Raises
    BackendUnavailable where none can be opened.
    """
    end_s = time.monotonic() + _BUSY_S
    is_said = False
    while True:
        try:
            return _opened_now(opener, devices)
        except DeviceBusy as error:
            if time.monotonic() >= end_s:
                raise
            if not is_said:
                say(f"waiting for up to {_BUSY_S:g} s: {error}")
            is_said = True
            time.sleep(_BUSY_LOOK_S)


def _opened_now(opener: DeviceOpener, devices: Sequence[FleetDevice]) -> OpenedMeasurers:
    opened: dict[str, Measurer] = {}
    used, skipped = list[FleetDevice](), list[str]()
    try:
        for device in devices:
            name = device.name
            if name in opened:
                name = f"{name}, {device.offered.uuid}"
            try:
                opened[name] = opener.open(device)
            except BackendUnavailable as error:
                if device is devices[-1] and not opened:
                    raise
                skipped.append(f"{name} is not used: {error}")
            else:
                used.append(device)
    except BaseException:
        for measurer in reversed(opened.values()):
            measurer.close()
        raise
    return OpenedMeasurers(opened, used, skipped)


def _wanted(spec: Spec, backend: Backend) -> Backend:
    """Return a worker's backend as the space wants it; a compiler that the space does not name is
    the worker's choice."""
    compiler = backend.cuda_compiler if spec.cuda_compiler == AUTO else spec.cuda_compiler
    return dataclasses.replace(with_arch(spec, with_cache(spec, backend)), cuda_compiler=compiler)
