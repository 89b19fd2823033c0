"""The agent of a worker process, and the functions that the engine calls there by their names."""

from __future__ import annotations

import multiprocessing
import platform
import threading
from collections.abc import Sequence
from pathlib import Path

from harness.core.errors import BackendUnavailable
from harness.fleet import wire
from harness.fleet.agent import Agent
from harness.fleet.messages import Offer, OfferedDevice
from harness.measure.backends.choose import Backend, choose_offered

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
    methods = {"store": agent.store, "build": agent.build, "measure": agent.measure}
    return methods[method](message)


def open_agent(names: Sequence[str], builders: int | None) -> Offer:
    """Make the agent of this process, for the devices with these names, and return its offer."""
    with _making:
        _agents.append(Agent(find_devices(names), builders))
        return _agents[0].offer()


def _agent() -> Agent:
    """Return the agent of this process; one that the engine's own command started offers all."""
    with _making:
        if not _agents:
            _agents.append(Agent(find_devices()))
        return _agents[0]


def close() -> None:
    """End the child processes of this process's agent."""
    with _making:
        while _agents:
            _agents.pop().close()


def find_devices(names: Sequence[str] = ()) -> tuple[OfferedDevice, ...]:
    """Find the devices of this machine that a worker offers; all equal ones without names, those of
    all models where they are asked for.

    Raises UsageError for an unknown name, BackendUnavailable where there is no device.
    """
    return tuple(map(_offered, choose_offered(names)))


def _offered(backend: Backend) -> OfferedDevice:
    device = backend.device
    assert device is not None, "a device of this machine has a name"
    # Two processes of one machine may offer the same device, and must call it the same; two
    # machines may have the same name.
    local = f"{platform.node()}/{_boot()}/{backend.language}:{device.index}"
    return OfferedDevice(device.uuid or local, device.name, backend)


def _boot() -> str:
    """Return the identity of this machine since it was booted; empty where it has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
