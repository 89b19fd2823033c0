"""Find the devices that a person names: by index, UUID, or a part of the name."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Protocol, TypeVar

from harness.core.errors import UsageError
from harness.core.text import nearest

_UUID = re.compile(r"(gpu|mig)-", re.IGNORECASE)


class Nameable(Protocol):
    """A device of CUDA or OpenCL. `uuid` and `bus_id` are empty where they are not known."""

    @property
    def index(self) -> str:
        """Its number, or those of its platform and of itself: `0:1`."""

    @property
    def name(self) -> str:
        """The name of its model."""

    @property
    def uuid(self) -> str:
        """Its UUID, as nvidia-smi writes it."""

    @property
    def bus_id(self) -> str:
        """Its PCI bus id."""

    @property
    def kind(self) -> Hashable:
        """What equal devices have in common."""


D = TypeVar("D", bound=Nameable)

ALL = "all"
"""The name of all equal devices."""


def names_in(options: Sequence[str]) -> list[str]:
    """Return the names that `--device` options hold, each of them separated by commas."""
    return [name.strip() for option in options for name in option.split(",")]


class UnknownDevice(Exception):
    """No device has the name that is this exception's argument."""


def find_device(name: str, devices: Sequence[D]) -> tuple[D, str]:
    """Return the device that a name means, and why it is this one.

    A part of the name of several equal devices means the first of them. Raises UnknownDevice, and
    UsageError where devices differ that fit the name.
    """
    found = _fitting(name, devices)
    if not found:
        raise UnknownDevice(name)
    first = found[0]
    if len(found) == 1:
        return first, f"--device {name} names it"
    if len({device.kind for device in found}) == 1 and not _UUID.match(name):
        which = first.uuid or first.bus_id
        which = f"{first.index} ({which})" if which else first.index
        return first, f"device {which} is the first of {len(found)} that --device {name} names"
    raise UsageError(
        f"--device {name} fits {len(found)} devices; name one of them by its index:\n"
        + "\n".join(device_line(device) for device in found)
    )


def device_line(device: Nameable) -> str:
    """Describe a device in a line that begins with its index."""
    return f"  {device.index:<4} {device}"


def suggest_device(name: str, devices: Sequence[Nameable]) -> str:
    """Return the end of an error about an unknown name: `; did you mean ...?`, or a full stop."""
    words = [word for device in devices for word in _names(device)]
    near = nearest(name, [*words, ALL])
    return f"; did you mean `{near}`?" if near else "."


def _names(device: Nameable) -> Iterator[str]:
    words = [word for word in device.name.split() if len(word) > 1]
    yield from filter(None, (device.index, device.uuid, device.name, *words))


def _fitting(name: str, devices: Sequence[D]) -> list[D]:
    """Return the devices that a name fits, by the first rule that fits any."""
    for rule in _rules(name):
        found = [device for device in devices if rule(device)]
        if found:
            return found
    return []


def _rules(name: str) -> Iterator[Callable[[Nameable], bool]]:
    """Yield what a name may be, the most exact first."""
    folded = name.casefold()
    yield lambda device: device.index == name
    if name.isdecimal():
        yield lambda device: device.index.rpartition(":")[2] == str(int(name))
    if _UUID.match(name):
        yield lambda device: device.uuid.casefold().startswith(folded)
    yield lambda device: device.name.casefold() == folded
    yield lambda device: folded in device.name.casefold()
