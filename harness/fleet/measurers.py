"""Open a measurer for each device of a fleet that can measure a space."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from harness.core.errors import BackendUnavailable, UsageError
from harness.core.text import counted
from harness.fleet.address import check_address, local_count
from harness.fleet.bundle import pack
from harness.fleet.cluster import AgentChannel, Cluster
from harness.fleet.messages import DeviceSession, OfferedDevice
from harness.fleet.remote_builds import Builders, RemoteBuilds
from harness.fleet.remote_device import Channel, RemoteDevice
from harness.fleet.serving import local_cluster
from harness.measure.backends.choose import Backend
from harness.measure.choose import with_arch, with_cache
from harness.measure.kernels import Elsewhere, KernelMeasurer
from harness.space_file import Spec
from harness.space_file.compiler import AUTO

JOIN_S = 60.0
"""A cluster without workers is given so long for the first one to come."""


@dataclass(frozen=True)
class FleetDevice:
    """A device that a worker offers, the machine that it is in, and the way to it."""

    offered: OfferedDevice
    host_name: str
    channel: Channel

    @property
    def name(self) -> str:
        """The name for messages."""
        device = self.offered.backend.device
        return f"{self.host_name} device {device.index if device else 0}"


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


@contextmanager
def fleet_measurers(spec: Spec, request: FleetRequest) -> Iterator[dict[str, KernelMeasurer]]:
    """Open a measurer for each device of a cluster, by the devices' names; close the first one
    last, inside the block. Raises UsageError and BackendUnavailable.
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


def _connected(
    spec: Spec, request: FleetRequest, least: int
) -> Iterator[dict[str, KernelMeasurer]]:
    cluster = Cluster.connect(request.address)
    try:
        members = cluster.wait_for_members(JOIN_S, least)
        found = [
            FleetDevice(device, member.offer.host_name, AgentChannel(cluster, member.address))
            for member in members
            for device in member.offer.devices
        ]
        at_once = sum(member.builders for member in members)
        if at_once == 0:
            raise BackendUnavailable(
                f"no worker of {request.address} compiles; start one with `harness.worker` and "
                "--builders 1 or more"
            )
        devices = _chosen(spec, found, request.names)[: request.most]
        yield open_measurers(spec, devices, cluster, at_once, request.driver)
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


def open_measurers(
    spec: Spec, devices: Sequence[FleetDevice], builders: Builders, at_once: int, driver: str
) -> dict[str, KernelMeasurer]:
    """Open a measurer for each of these devices, by their names; they share their builds,
    `at_once` of them. Close the first one last.

    Raises BackendUnavailable where a device cannot be opened.
    """
    opened: dict[str, KernelMeasurer] = {}
    first = devices[0].offered.backend
    packed = pack(spec, first.language)
    compiling = _wanted(spec, first)
    builds = RemoteBuilds(builders, compiling, packed, at_once)
    session = partial(
        DeviceSession,
        driver=driver,
        bundle=packed.bundle.digest,
        host=packed.host,
    )
    try:
        for device in devices:
            backend = _wanted(spec, device.offered.backend)
            asks = session(
                uuid=device.offered.uuid,
                cache=backend.cache,
                arch_specific=backend.arch_specific,
                cuda_compiler=backend.cuda_compiler,
            )
            elsewhere = Elsewhere(RemoteDevice(device.channel, asks, packed.bundle), builds)
            equal = next(iter(opened.values()), None)
            name = device.name if device.name not in opened else f"{device.name}, {asks.uuid}"
            opened[name] = KernelMeasurer(spec, backend, equal=equal, elsewhere=elsewhere)
            builds.compiler = opened[name].environment.compiler
    except BaseException:
        for measurer in reversed(opened.values()):
            measurer.close()
        raise
    return opened


def _wanted(spec: Spec, backend: Backend) -> Backend:
    """Return a worker's backend as the space wants it; a compiler that the space does not name is
    the worker's choice."""
    compiler = backend.cuda_compiler if spec.cuda_compiler == AUTO else spec.cuda_compiler
    return dataclasses.replace(with_arch(spec, with_cache(spec, backend)), cuda_compiler=compiler)
