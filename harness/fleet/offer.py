"""What a worker offers: the devices of its machine, and the machine itself."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import harness
from harness.core.errors import BackendUnavailable
from harness.core.machine import processor, usable_cores
from harness.measure.devices import Backend, choose_offered


@dataclass(frozen=True)
class OfferedDevice:
    """A device of a worker; `uuid` identifies it in the whole fleet.

    Without a backend it is the machine itself, which runs programs.
    """

    uuid: str
    name: str
    backend: Backend | None


@dataclass(frozen=True)
class Offer:
    """What a worker has: its devices, and why it has no others.

    At most `builders` builds run at once; None stands for as many as there are spare cores.
    """

    harness_version: str
    host_name: str
    devices: tuple[OfferedDevice, ...]
    builders: int | None = None
    unavailable: tuple[str, ...] = ()


def make_offer(names: Sequence[str], builders: int | None) -> Offer:
    """Offer the devices of this machine with these names, or all equal ones, and the machine.

    Raises UsageError for an unknown name, BackendUnavailable where a named device cannot be used.
    """
    unavailable: tuple[str, ...] = ()
    devices: tuple[OfferedDevice, ...] = ()
    try:
        devices = tuple(map(_offered, choose_offered(names)))
    except BackendUnavailable as error:
        if names:
            raise
        unavailable = (f"only programs run here: {error}",)
    offered = (*devices, _this_machine())
    return Offer(harness.__version__, platform.node(), offered, builders, unavailable)


def _this_machine() -> OfferedDevice:
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
