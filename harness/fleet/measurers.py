"""Open a measurer for each device of a fleet that can measure a space."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from harness.core.errors import BackendUnavailable, UsageError
from harness.core.text import counted
from harness.fleet.address import check_address, local_count
from harness.fleet.bundle import pack
from harness.fleet.cluster import Cluster
from harness.fleet.fleet_device import FleetDevice, devices_of
from harness.fleet.late import LateDevices
from harness.fleet.messages import DeviceSession, OfferedDevice
from harness.fleet.remote_builds import Builders, RemoteBuilds
from harness.fleet.remote_device import RemoteDevice
from harness.fleet.serving import local_cluster
from harness.measure.backends.choose import Backend
from harness.measure.choose import with_arch, with_cache
from harness.measure.kernels import Elsewhere, KernelMeasurer
from harness.space_file import Spec
from harness.space_file.compiler import AUTO

JOIN_S = 60.0
"""A cluster without workers is given so long for the first one to come."""


@dataclass(frozen=True)
class FleetRequest:
    """What a driver wants of a cluster.

    `address` is a scheduler's, or `local:N`. Of devices of several models, `names` choose those
    whose model, UUID or machine is named; at most `most` are used. `driver` identifies the campaign
    to the workers.
    """

    address: str
    names: Sequence[str]
    most: int
    insecure: bool
    driver: str


@dataclass(frozen=True)
class FleetMeasurers:
    """The measurers of a cluster's devices, and the devices that join."""

    opened: OpenedMeasurers
    late: LateDevices


@contextmanager
def fleet_measurers(spec: Spec, request: FleetRequest) -> Iterator[FleetMeasurers]:
    """Open a measurer for each device of a cluster; close the first one last, inside the block.

    Raises UsageError and BackendUnavailable.
    """
    if spec.program is not None:
        raise UsageError(
            f"{spec.path} tunes a program, which --cluster cannot send to workers; leave --cluster "
            "out"
        )
    count = local_count(request.address)
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
        members = cluster.wait_for_members(JOIN_S, least)
        found = [device for member in members for device in devices_of(cluster, member)]
        at_once = sum(member.builders for member in members)
        if at_once == 0:
            raise BackendUnavailable(
                f"no worker of {request.address} compiles; start one with `harness.worker` and "
                "--builders 1 or more, or `dask worker` with --resources build=1"
            )
        devices = _chosen(spec, found, request.names)[: request.most]
        opener = Opener(spec, devices[0].offered, cluster, at_once, request.driver)
        opened = open_measurers(opener, devices)
        late = LateDevices(cluster, opener.open, opened.used, request.most)
        yield FleetMeasurers(opened, late)
    finally:
        cluster.close()


def _chosen(spec: Spec, found: Sequence[FleetDevice], names: Sequence[str]) -> list[FleetDevice]:
    """Return the equal devices to measure on, each of them once."""
    once = {device.offered.uuid: device for device in reversed(found)}
    devices = [device for device in found if once[device.offered.uuid] is device]
    wanted = [name.casefold() for names_ in names for name in names_.split(",")]
    fitting = [
        device
        for device in devices
        if device.offered.backend.language in spec.sources
        and (not wanted or any(name in _words(device) for name in wanted))
    ]
    if not fitting:
        listed = "\n".join(f"  {device.name}: {device.offered.name}" for device in devices)
        languages = " or ".join(spec.sources)
        raise BackendUnavailable(
            f"no device of the cluster runs {languages}{' and has that name' if names else ''}; "
            f"{counted(len(devices), 'device')}:\n{listed}"
        )
    models = sorted({device.offered.name for device in fitting})
    if len(models) > 1:
        raise UsageError(
            "the cluster has devices of several models, whose times cannot be compared; choose one "
            f"with --device: {', '.join(models)}"
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
        self._packed = pack(spec, first.backend.language)
        self._builds = RemoteBuilds(builders, _wanted(spec, first.backend), self._packed, at_once)
        self._first: KernelMeasurer | None = None

    def open(self, device: FleetDevice) -> KernelMeasurer:
        """Open the measurer of a device; close the first one last.

        Raises BackendUnavailable where it cannot be opened.
        """
        backend = _wanted(self._spec, device.offered.backend)
        session = DeviceSession(
            driver=self._driver,
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


@dataclass(frozen=True)
class OpenedMeasurers:
    """The measurers of devices by the devices' names, and why other devices were skipped."""

    measurers: dict[str, KernelMeasurer]
    used: Sequence[FleetDevice]
    skipped: Sequence[str]


def open_measurers(opener: Opener, devices: Sequence[FleetDevice]) -> OpenedMeasurers:
    """Open a measurer for each of these devices that can be opened; close the first one last.

    Raises BackendUnavailable where none can.
    """
    opened: dict[str, KernelMeasurer] = {}
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
