"""Open a measurer for each device of a fleet that can measure a space."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from harness.core.errors import BackendUnavailable, DeviceBusy, UsageError
from harness.core.text import counted
from harness.fleet.bundle import pack
from harness.fleet.cluster import Cluster, FleetDevice, devices_of
from harness.fleet.engine import check_address, local_count
from harness.fleet.held import IDLE_S
from harness.fleet.late import LateDevices
from harness.fleet.messages import DeviceSession, OfferedDevice
from harness.fleet.remote_device import Builders, RemoteBuilds, RemoteDevice
from harness.fleet.remote_programs import ProgramOpener
from harness.fleet.serving import local_cluster
from harness.measure.choose import with_arch, with_cache
from harness.measure.devices import Backend, names_in
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
    whose model, UUID or machine is named; at most `most` devices are used.
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
    late: LateDevices


@contextmanager
def fleet_measurers(spec: Spec, request: FleetRequest) -> Iterator[FleetMeasurers]:
    """Open a measurer for each device of a cluster; close the first one last, inside the block.

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
        started = dataclasses.replace(request, address=address, names=())
        yield from _connected(spec, started, count)


def _connected(spec: Spec, request: FleetRequest, least: int) -> Iterator[FleetMeasurers]:
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
        chosen = _chosen(spec, found, request.names)
        opener = _opener(spec, chosen[0].offered, cluster, at_once, request.driver)
        opened = open_measurers(opener, chosen[: request.most], request.say)
        there = [member.address for member in members]
        late = LateDevices(cluster, opener.open, opened.used, request.most, there)
        yield FleetMeasurers(opened, late)
    finally:
        cluster.close()


def _chosen(spec: Spec, found: Sequence[FleetDevice], names: Sequence[str]) -> list[FleetDevice]:
    """Return the devices to measure on, of one model, each of them once."""
    once = {device.offered.uuid: device for device in reversed(found)}
    devices = [
        device
        for device in found
        if once[device.offered.uuid] is device
        and (device.offered.backend is None) == (spec.program is not None)
    ]
    wanted = [name.casefold() for name in names_in(names)]
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
    models = {device.offered.name for device in fitting}
    if len(models) > 1:
        raise UsageError(
            "the cluster has devices of several models, whose times cannot be compared; choose one "
            f"with --device, and run the command once for each: {', '.join(sorted(models))}"
        )
    return fitting


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
        elsewhere = Elsewhere(remote, self._builds)
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
