"""The agent of a worker process, and the functions that the engine calls there by their names."""

from __future__ import annotations

import contextlib
import multiprocessing
import platform
import threading
from collections.abc import Sequence
from pathlib import Path

from harness.core.errors import BackendUnavailable
from harness.core.machine import processor
from harness.fleet import wire
from harness.fleet.agent import Agent
from harness.fleet.messages import Offer, OfferedDevice
from harness.measure.devices import Backend, choose_offered
from harness.measure.processes import usable_cores

_making = threading.Lock()
_agents: list[Agent] = []
"""The agent of this process. The engine calls module-level functions, so that what a process keeps
from one call to the next must be kept by a module, as in harness.measure.processes."""


def offer() -> bytes:
    """Return what this worker has, as an Offer; raises BackendUnavailable under Dask's nanny."""
    if multiprocessing.current_process().daemon:
        raise BackendUnavailable(
            "Dask's nanny started it, and lets no child processes run; start it with "
            "`harness.worker ADDRESS`, or with `dask worker --no-nanny`"
        )
    return wire.encode(Offer, _agent().offer())


def call(method: str, message: bytes) -> bytes:
    """Call a method of this process's agent."""
    agent = _agent()
    methods = {
        "store": agent.store,
        "build": agent.build,
        "measure": agent.measure,
        "program": agent.program,
    }
    return methods[method](message)


def open_agent(names: Sequence[str], builders: int | None) -> Offer:
    """Make the agent of this process, for the devices with these names, and return its offer."""
    with _making:
        _agents.append(_made(names, builders))
        return _agents[0].offer()


def _agent() -> Agent:
    """Return the agent of this process; one that the engine's own command started offers all."""
    with _making:
        if not _agents:
            _agents.append(_made((), None))
        return _agents[0]


def _made(names: Sequence[str], builders: int | None) -> Agent:
    """Make an agent; where no device is named and none is found, of the machine alone."""
    unavailable: tuple[str, ...] = ()
    devices: tuple[OfferedDevice, ...] = ()
    try:
        devices = find_devices(names)
    except BackendUnavailable as error:
        if names:
            raise
        unavailable = (f"only programs run here: {error}",)
    return Agent((*devices, this_machine()), builders, unavailable)


def close() -> None:
    """End the child processes of this process's agent."""
    with _making:
        while _agents:
            _agents.pop().close()


def find_devices(names: Sequence[str] = ()) -> tuple[OfferedDevice, ...]:
    """Find the devices of this machine that a worker offers; all equal ones without names.

    Raises UsageError for an unknown name, BackendUnavailable where there is no device.
    """
    return tuple(map(_offered, choose_offered(names)))


def this_machine() -> OfferedDevice:
    """Return this machine as a device: it runs the programs of one driver at a time."""
    name = f"{processor() or platform.machine()}, {usable_cores()} cores"
    return OfferedDevice(_machine(), name, None)


def _offered(backend: Backend) -> OfferedDevice:
    device = backend.device
    assert device is not None, "a device of this machine has a name"
    local = f"{_machine()}/{backend.language}:{device.index}"
    return OfferedDevice(device.uuid or local, device.name, backend)


def _machine() -> str:
    """Return the identity of this machine since it was booted.

    Two processes of one machine may offer the same device, and must call it the same; two machines
    may have the same name.
    """
    boot = ""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{platform.node()}/{boot}"
