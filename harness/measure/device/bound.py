"""Arguments that are bound on a device between guard zones, which no kernel may write, and launches
that were checked with them.

Where an array has floating-point numbers, every second one in its zones is NaN, so that most reads
outside of the array spoil the result as well. The others, and the integers, are no content that a
kernel leaves as it is by chance: reading a zone and writing another one changes that. A kernel that
reads a zone could know by it that it is tested. So zones may have ordinary numbers as well.
"""

from __future__ import annotations

import math
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from harness.core.errors import LaunchFailed
from harness.core.program import Launch
from harness.core.records import Build, DeviceLimits
from harness.core.text import counted

ZONE_BYTES = 16384
"""The least size of a zone, a multiple of every alignment that kernels count on: an array behind
one begins where one in memory of its own would."""

MOST_ZONE_BYTES = 1 << 20

Bytes = npt.NDArray[np.uint8]

_QUIET_NAN = {2: 0x7E00, 4: 0x7FC0_0000, 8: 0x7FF8 << 48}


@dataclass(frozen=True)
class StrayWrite:
    """Elements that a kernel has written before or behind an array, counted from the array.

    One that `leaves_zone` has written the zone's far end, and perhaps other memory beyond it.
    """

    name: str
    elements: int
    behind: bool
    leaves_zone: bool = False

    def __str__(self) -> str:
        where = "behind its end" if self.behind else "before its start"
        return f"{self.name} ({counted(self.elements, 'element')} {where})"


def zone_bytes(array_bytes: int) -> int:
    """Return the size of a zone: that of the array, in whole least zones, up to a most."""
    zones = min(max(1, -(-array_bytes // ZONE_BYTES)), MOST_ZONE_BYTES // ZONE_BYTES)
    return zones * ZONE_BYTES


class BoundArray(NamedTuple):
    """An array argument: what kernels get, the memory around it with its guard zones, the array's
    shape and type on the host, and what each of the zones holds."""

    memory: Any
    whole: Any
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    zone: Bytes

    @property
    def begin(self) -> int:
        """Where the array begins in the memory, in bytes."""
        return self.zone.nbytes

    @property
    def whole_bytes(self) -> int:
        """The bytes of the array with its guard zones."""
        return self.size_bytes + 2 * self.zone.nbytes

    @property
    def size_bytes(self) -> int:
        """The bytes of the array, without the guard zones."""
        return math.prod(self.shape) * self.dtype.itemsize

    def zones(self) -> tuple[tuple[int, bool], ...]:
        """Return where each guard zone begins, in bytes, and whether it is behind the array."""
        return (0, False), (self.begin + self.size_bytes, True)


Bound = Mapping[str, BoundArray | np.generic]
"""The bound arguments of a device; another object after each `bind`."""


class KeptCopy(NamedTuple):
    """An array, and a copy of it on the device; no copy where the device has no room for one."""

    array: npt.NDArray[Any]
    memory: Any | None


class BoundSet(NamedTuple):
    """Arguments on the device, and copies of what some of them are given again and again."""

    arguments: dict[str, BoundArray | np.generic]
    copies: dict[str, KeptCopy]

    @property
    def size_bytes(self) -> int:
        """The device memory that it takes."""
        arrays = (each for each in self.arguments.values() if isinstance(each, BoundArray))
        kept = (each.array for each in self.copies.values() if each.memory is not None)
        return sum(each.whole_bytes for each in arrays) + sum(array.nbytes for array in kept)


@lru_cache(maxsize=64)
def zone_content(
    name: str, dtype: np.dtype[Any], size_bytes: int = ZONE_BYTES, is_ordinary: bool = False
) -> Bytes:
    """Return the bytes of each zone of an array, shape (size_bytes,); arrays' zones differ.

    Ordinary numbers are those from 0 to 1, and whole numbers from 0 to 127.
    """
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    noise = rng.integers(0, 256, size_bytes, np.uint8)
    size = dtype.itemsize // (2 if dtype.kind == "c" else 1)
    if is_ordinary:
        is_float = dtype.kind in "fc" and size in _QUIET_NAN
        kind = f"f{size}" if is_float else f"u{size}" if size in (1, 2, 4, 8) else "u1"
        numbers = rng.random(size_bytes // np.dtype(kind).itemsize)
        ordinary: Bytes = (numbers if is_float else 128 * numbers).astype(kind).view(np.uint8)
        return ordinary
    if dtype.kind not in "fc" or size not in _QUIET_NAN:  # such as numpy.longdouble
        noise |= 0x80
        return noise  # far from 0 and -1, and from every legal index
    numbers = rng.uniform(1e3, 1e4, size_bytes // size).astype(f"f{size}")
    bits = numbers.view(f"u{size}")
    bits[::2] = noise.view(bits.dtype)[::2] | bits.dtype.type(_QUIET_NAN[size])
    content: Bytes = bits.view(np.uint8)
    return content


def stray_write(
    name: str, dtype: np.dtype[Any], zone: Bytes, content: Bytes, behind: bool
) -> StrayWrite | None:
    """Return how far a zone's farthest written byte is from the array; None if none is."""
    if np.array_equal(zone, content):
        return None
    written = np.flatnonzero(zone != content)
    distance = int(written[-1]) + 1 if behind else zone.size - int(written[0])
    return StrayWrite(name, -(-distance // dtype.itemsize), behind, distance == zone.size)


def plain(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array in C order whose memory drivers can take: numpy hands out that of its own
    types alone, and ml_dtypes' bfloat16 is none."""
    listed = np.asarray(array, order="C")
    is_foreign = listed.dtype.kind == "V" and listed.dtype.names is None
    return listed.reshape(-1).view(np.uint8) if is_foreign else listed


_KEPT_LAUNCHES = 64  # more than are interleaved; host modules may yield new ones in every run


class LoadedModule(ABC):
    """A binary that was loaded; what does not change from launch to launch is found once.

    `errors` turns those of the driver into LaunchFailed, given what is being done.
    """

    def __init__(
        self, limits: DeviceLimits, errors: Callable[[str], AbstractContextManager[None]]
    ) -> None:
        self._limits, self._errors = limits, errors
        self._checked: dict[tuple[int, int], tuple[Any, Bound, Launch]] = {}

    def checked(self, launch: Launch, bound: Bound) -> Any:
        """Return a launch as the device queues it, checked once for these arguments.

        Raises LaunchFailed for what the device or the kernel does not allow.
        """
        key = id(bound), id(launch)  # which stay while both are kept
        if key not in self._checked:
            if len(self._checked) == _KEPT_LAUNCHES:
                self._checked.clear()
            self._checked[key] = self.check(launch, bound), bound, launch
        return self._checked[key][0]

    @abstractmethod
    def check(self, launch: Launch, bound: Bound) -> Any:
        """Check a launch, and look up what it needs; raises LaunchFailed."""


def values_of(launch: Launch, bound: Bound) -> list[BoundArray | np.generic]:
    """Return what a launch passes, in order; raises LaunchFailed where an argument is not bound."""
    missing = [n for n in launch.arguments if not isinstance(n, np.generic) and n not in bound]
    if missing:
        there = ", ".join(bound) or "none"
        raise LaunchFailed(
            f"{launch.function} takes an argument {missing[0]}, but bound are {there}"
        )
    return [n if isinstance(n, np.generic) else bound[n] for n in launch.arguments]


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
    shared_bytes = static_bytes + launch.shared_bytes
    if shared_bytes > limits.max_shared_bytes:
        return (
            f"{launch.function} needs {shared_bytes:,} bytes of shared memory per block "
            f"({static_bytes:,} static, {launch.shared_bytes:,} dynamic), but the device has "
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
