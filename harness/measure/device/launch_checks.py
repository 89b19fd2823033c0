"""Checks of launches and binaries: a driver may crash on a wrong one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from harness.core.errors import LaunchFailed
from harness.core.program import Launch
from harness.core.records import Build, DeviceLimits
from harness.measure.device.arguments import Bound, BoundArray, Errors

_MOST_CHECKED = 64  # more than are interleaved; host modules may yield new ones in every run


class LoadedModule(ABC):
    """A binary that was loaded, which checks each launch once."""

    def __init__(self, limits: DeviceLimits, errors: Errors) -> None:
        self._limits = limits
        self._errors = errors
        self._checked: dict[tuple[int, int], tuple[Any, Bound, Launch]] = {}

    def checked(self, launch: Launch, bound: Bound) -> Any:
        """Return a launch as the device queues it, checked once for these arguments.

        Raises LaunchFailed for what the device or the kernel does not allow.
        """
        key = id(bound), id(launch)  # of objects that live as long as the entry
        entry = self._checked.get(key)
        if entry is None:
            if len(self._checked) == _MOST_CHECKED:
                self._checked.clear()
            entry = self.check(launch, bound), bound, launch
            self._checked[key] = entry
        return entry[0]

    @abstractmethod
    def check(self, launch: Launch, bound: Bound) -> Any:
        """Check a launch, and look up what it needs; raises LaunchFailed."""


def values_of(launch: Launch, bound: Bound) -> list[BoundArray | np.generic]:
    """Return what a launch passes, in order; raises LaunchFailed where an argument is not bound."""
    values: list[BoundArray | np.generic] = []
    for argument in launch.arguments:
        if isinstance(argument, np.generic):
            values.append(argument)
        elif argument in bound:
            values.append(bound[argument])
        else:
            there = ", ".join(bound) or "none"
            raise LaunchFailed(
                f"{launch.function} takes an argument {argument}, but bound are {there}"
            )
    return values


def why_unlaunchable(launch: Launch, limits: DeviceLimits, static_bytes: int = 0) -> str | None:
    """Return why no kernel can be launched in this shape on a device; None where one can.

    `static_bytes` is the shared memory that the kernel declares with a fixed size.
    """
    group = three(launch.group)
    grid = three(launch.grid)
    shapes = (("group", group, limits.max_group_dims), ("grid", grid, limits.max_grid_dims))
    for what, shape, most in shapes:
        for extent, most_extent in zip(shape, most, strict=True):
            if not 1 <= extent <= most_extent:
                return f"{what} {shape} of {launch.function} must lie between (1, 1, 1) and {most}"
    threads, shared_bytes = launch.block
    if threads > limits.max_group_size:
        return (
            f"group {group} of {launch.function} has {threads:,} threads, "
            f"but the device takes {limits.max_group_size:,} at most"
        )
    needed_bytes = static_bytes + shared_bytes
    if needed_bytes > limits.max_shared_bytes:
        return (
            f"{launch.function} needs {needed_bytes:,} bytes of shared memory per block "
            f"({static_bytes:,} static, {shared_bytes:,} dynamic), but the device has "
            f"{limits.max_shared_bytes:,}"
        )
    if launch.cooperative and not limits.is_cooperative:
        return f"{launch.function} is launched cooperatively, which the device cannot do"
    return None


def why_unloadable(build: Build, limits: DeviceLimits) -> str | None:
    """Return why a binary needs more than a device has; None where it fits."""
    if (build.shared_bytes or 0) > limits.max_local_bytes:
        return (
            f"the binary uses {build.shared_bytes:,} bytes of static shared memory a block, "
            f"but the device has {limits.max_local_bytes:,}"
        )
    return None


def three(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Return a shape of 1 to 3 dimensions with ones for the missing dimensions."""
    extents = [*shape, 1, 1]
    return extents[0], extents[1], extents[2]
