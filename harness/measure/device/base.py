"""The interfaces of a backend, which implements them in its own file.

A `Compiler` turns source text into something that a `Device` can load. Both live in worker
processes, so that neither a hang nor a crash reaches the main process. Whether a binary and a
launch fit a device is checked here, before its driver is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy.typing as npt

from harness.core.program import Argument, Binary, Contents, Launch, Program
from harness.core.records import Build, DeviceLimits, Environment
from harness.measure.clocks.watch import ClockWatch
from harness.measure.device.guard_zones import StrayWrite


class Compiler(Protocol):
    """Compile programs, in several builder processes at once."""

    @property
    def identity(self) -> str:
        """The compiler, its version and target: builds of two identities are never mixed."""

    @property
    def arch(self) -> str | None:
        """The NVIDIA architecture to compile for, such as `sm_90`; None for other devices."""

    def compile(self, program: Program) -> Binary:
        """Compile, or raise BuildFailed with the compiler's log."""


class Device(Protocol):
    """Run binaries, in one process at a time.

    Every method raises LaunchFailed where the driver fails, and nothing else for a failure that
    the configuration causes.
    """

    def environment(self, compiler: str) -> Environment:
        """Return the device and its software: times of one environment can be compared."""

    @property
    def limits(self) -> DeviceLimits:
        """The limits of a launch."""

    @property
    def tick_s(self) -> float:
        """The step of the clock that times launches, in seconds; 0 where it is far below any."""

    @property
    def shares_cpu(self) -> bool:
        """Whether kernels run on the cores that compile: then builds and launches never overlap."""

    @property
    def healthy(self) -> bool:
        """False once a failed launch has spoilt this process for further launches."""

    @property
    def overran(self) -> bool:
        """Whether a kernel wrote past a guard zone where this process may keep its own memory."""

    @property
    def watch(self) -> ClockWatch:
        """How warm the device is, and the clocks that it had in this process."""

    def bind(self, *sets: Mapping[str, Argument]) -> None:
        """Replace the arguments on the device by copies of these sets of them, and turn to the
        first."""

    @property
    def holds_all(self) -> bool:
        """Whether all sets of arguments are on the device at once; where its memory does not hold
        them, one is at a time."""

    def turn_to(self, number: int) -> None:
        """Let all that follows be about this one of the sets of arguments."""

    def write(self, name: str, array: npt.NDArray[Any]) -> None:
        """Overwrite one array argument; same shape and dtype as it was bound with."""

    def restore(self, contents: Mapping[str, Contents]) -> None:
        """Give array arguments a content that they are given again and again.

        The device may keep a copy of each array and copy that; the arrays must not change.
        """

    def read(self, name: str, part: slice | None = None) -> npt.NDArray[Any]:
        """Return a copy of one array argument as it now is on the device.

        A `part`, with start and stop, is one of its elements in C order, and comes flat.
        """

    def stray_writes(self) -> list[StrayWrite]:
        """Return what was written before or behind array arguments since they were bound, or
        since the last call, and repair it."""

    def load(self, binary: Binary) -> object:
        """Make a binary ready to launch; the result is only good for `launch`."""

    def unload(self) -> None:
        """Forget what was loaded, so that the next load may put the code elsewhere.

        A device whose driver never moves code may keep what it has loaded.
        """

    def launch(self, module: object, launches: Sequence[Launch]) -> float:
        """Run the launches in order, wait, and return the sum of their device times in seconds."""

    def sm_clock_mhz(self) -> float | None:
        """Return the mean clock of the multiprocessors around the last `launch`, in MHz; None
        where the device cannot say."""


def why_unlaunchable(launch: Launch, limits: DeviceLimits, static_bytes: int = 0) -> str | None:
    """Return why no kernel can be launched in this shape on a device; None where one can.

    `static_bytes` is the shared memory that the kernel declares with a fixed size.
    """
    group, grid = three(launch.group), three(launch.grid)
    size = group[0] * group[1] * group[2]
    shapes = (("group", group, limits.max_group_dims), ("grid", grid, limits.max_grid_dims))
    for what, shape, most in shapes:
        if any(not 1 <= extent <= bound for extent, bound in zip(shape, most, strict=True)):
            return f"{what} {shape} of {launch.function} must lie between (1, 1, 1) and {most}"
    if size > limits.max_group_size:
        return (
            f"group {group} of {launch.function} has {size:,} threads, "
            f"but the device takes {limits.max_group_size:,} at most"
        )
    dynamic_bytes = launch.shared_bytes
    if dynamic_bytes and static_bytes + dynamic_bytes > limits.max_shared_bytes:
        return (
            f"{launch.function} needs {static_bytes + dynamic_bytes:,} bytes of shared memory per "
            f"block ({static_bytes:,} static, {dynamic_bytes:,} dynamic), but the device has "
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
    """Return a shape of 1 to 3 dimensions with ones for the missing dimensions.

    The extents are Python's integers: CUDA's packages take no others, and host modules may yield
    numpy's.
    """
    x, y, z = (*map(int, shape), 1, 1)[:3]
    return x, y, z
