"""Open a measurer for each device of a fleet that can measure a space."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from harness.core.errors import BackendUnavailable, DeviceBusy, UsageError
from harness.core.text import counted
from harness.fleet.address import check_address, local_count
from harness.fleet.bundle import pack
from harness.fleet.cluster import Cluster, FleetDevice
from harness.fleet.late import LateDevices
from harness.fleet.remote import RemoteAgent, RemoteMeasurer
from harness.fleet.serving import local_cluster
from harness.measure.devices import names_in
from harness.measure.measurer import Measurer
from harness.space_file import Spec

JOIN_S = 60.0
"""A cluster without workers is given so long for the first one to come."""

_BUSY_S = 60.0
"""A device whose driver was killed is free when its last measurement has ended."""

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
    """The measurers of a cluster's equal devices by the devices' names, why other devices were
    skipped, and the devices that join."""

    measurers: Mapping[str, Measurer]
    skipped: Sequence[str]
    late: LateDevices


@contextmanager
def fleet_measurers(spec: Spec, request: FleetRequest) -> Iterator[FleetMeasurers]:
    """Open a measurer for each device of a cluster; close them inside the block.

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
    cluster = Cluster.connect(request.address, request.say)
    try:
        members = cluster.wait_for_members(JOIN_S, least)
        found = [device for member in members for device in member.devices]
        chosen = _chosen(spec, found, request.names)
        opener = Opener(spec, cluster, request.driver)
        opened, used, skipped = _opened(opener, chosen[: request.most], request.say)
        there = [member.address for member in members]
        late = LateDevices(cluster, opener.open, used, request.most, there)
        yield FleetMeasurers(opened, skipped, late)
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
    """Opens the measurers of devices of a fleet; those of one worker share an agent."""

    def __init__(self, spec: Spec, cluster: Cluster, driver: str) -> None:
        self._cluster = cluster
        self._driver = driver
        self._packed = pack(spec)
        self._agents: dict[str, RemoteAgent] = {}  # by the worker's address

    def open(self, device: FleetDevice) -> RemoteMeasurer:
        """Open the measurer of a device; raises BackendUnavailable where it cannot be opened."""
        address = device.address
        agent = self._agents.get(address)
        if agent is None or agent.is_lost:
            agent = RemoteAgent(self._cluster, address, self._driver, *self._packed)
            self._agents[address] = agent
        return RemoteMeasurer(agent, device.offered.uuid)


_Opened = tuple[dict[str, Measurer], list[FleetDevice], list[str]]
"""The measurers by the devices' names, their devices, and why others were skipped."""


def _opened(opener: Opener, devices: Sequence[FleetDevice], say: Callable[[str], None]) -> _Opened:
    """Open a measurer for each of these devices that can be opened.

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


def _opened_now(opener: Opener, devices: Sequence[FleetDevice]) -> _Opened:
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
    return opened, used, skipped
