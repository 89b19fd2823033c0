"""The arguments of kernels on a device, each array between two guard zones that no kernel may
write.

Where an array has floating-point numbers, every second one in its zones is NaN, so that most reads
outside of the array spoil the result as well. The others, and the integers, are no content that a
kernel leaves as it is by chance: reading a zone and writing another one changes that. A kernel that
reads a zone could know by it that it is tested. So zones may have ordinary numbers as well.
"""

from __future__ import annotations

import contextlib
import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.core.errors import LaunchFailed, OutOfDeviceMemory
from harness.core.program import Argument, Contents, Fill
from harness.core.text import counted
from harness.measure.device.memory import Array, DeviceMemory

ZONE_BYTES = 16384
"""The least size of a zone, a multiple of every alignment that kernels count on: an array behind
one begins where one in separate memory would."""

MOST_ZONE_BYTES = 1 << 20

Bytes = npt.NDArray[np.uint8]

_QUIET_NAN = {2: 0x7E00, 4: 0x7FC0_0000, 8: 0x7FF8 << 48}

Errors = Callable[[str], contextlib.AbstractContextManager[None]]
"""Turns the driver's errors into LaunchFailed, given what is being done."""


@dataclass(frozen=True)
class OutsideWrite:
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


@dataclass(eq=False)
class BoundArray:
    """An array argument on the device.

    Kernels get `memory`, the part of the `whole` memory between its guard zones; each zone holds
    the bytes `zone`. `copy` is a copy on the device of `original`, the array that was restored
    last; None where the device has no room for one.
    """

    memory: Any
    whole: Any
    begin: int
    size_bytes: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    zone: Bytes
    original: Array | None = None
    copy: Any | None = None


Bound = dict[str, BoundArray | np.generic]
"""The bound arguments of a device; another object after each `bind`."""


class Arguments:
    """Sets of a kernel's arguments on a device, of which one is the current set.

    Raises LaunchFailed where the driver fails. A kernel `left_zone` where it has written the far
    end of a guard zone, and perhaps other memory. `was_restored` is for the device, which resets
    it at a launch.
    """

    def __init__(self, memory: DeviceMemory, errors: Errors) -> None:
        self.bound: Bound = {}  # the current set
        self.left_zone = False
        self.was_restored = False
        self._memory = memory
        self._errors = errors
        self._sets: Sequence[Mapping[str, Argument]] = ()
        self._bound_sets: dict[int, Bound] = {}  # all of them, or one at a time
        self._outside_writes: list[OutsideWrite] = []  # of sets that are bound no more

    def bind(self, *sets: Mapping[str, Argument]) -> None:
        """Replace all sets by copies of these, and turn to the first; where memory does not hold
        all, the others are copied when it is turned to them."""
        self.release()
        self._outside_writes.clear()
        self._sets = sets
        self.turn_to(0)
        with contextlib.suppress(OutOfDeviceMemory):
            for number in range(1, len(sets)):
                self._bind_set(number)

    def turn_to(self, number: int) -> None:
        """Make this set the current one."""
        if number not in self._bound_sets:
            self._outside_writes = self.outside_writes()
            self.release()
            self._bind_set(number)
        self.bound = self._bound_sets[number]

    def _bind_set(self, number: int) -> None:
        """Copy a set to the device."""
        bound: Bound = {}
        self._bound_sets[number] = bound
        has_ordinary_zones = number % 2 == 1
        try:
            for name, value in self._sets[number].items():
                if isinstance(value, np.ndarray):
                    with self._errors(f"allocating {value.nbytes:,} bytes for {name}"):
                        bound[name] = self._between_zones(name, value, has_ordinary_zones)
                else:
                    bound[name] = value
        except LaunchFailed:
            with contextlib.suppress(self._memory.error):  # of a lost device, which frees nothing
                self._free_set(number)
            raise

    def _between_zones(self, name: str, array: Array, has_ordinary_zones: bool) -> BoundArray:
        """Return a copy of an array on the device, between two guard zones."""
        begin = zone_bytes(array.nbytes)
        zone = zone_content(name, array.dtype, begin, has_ordinary_zones)
        memory = self._memory
        whole = memory.allocate(array.nbytes + 2 * begin)
        memory.write(whole, zone)
        memory.write(whole, zone, begin + array.nbytes)
        memory.write(whole, plain(array), begin)
        return BoundArray(
            memory=memory.part(whole, begin, array.nbytes),
            whole=whole,
            begin=begin,
            size_bytes=array.nbytes,
            shape=array.shape,
            dtype=array.dtype,
            zone=zone,
        )

    def array(self, name: str) -> BoundArray:
        """Return an array of the current set; raises ValueError for other names."""
        value = self.bound.get(name)
        if isinstance(value, BoundArray):
            return value
        arrays = [n for n, v in self.bound.items() if isinstance(v, BoundArray)]
        raise ValueError(f"{name} is not a bound array; arrays are {', '.join(arrays) or 'none'}")

    def write(self, name: str, array: Array) -> None:
        """Overwrite one array; same shape and dtype as it was bound with."""
        bound = self._array_like(name, array)
        with self._errors(f"writing {name}"):
            self._memory.write(bound.whole, plain(array), bound.begin)

    def restore(self, contents: Mapping[str, Contents]) -> None:
        """Give arrays a content that they are given again and again; the content must not change.

        Need not wait: what comes next on the device finds them restored. ValueError unless the
        arrays' shapes and dtypes are as bound.
        """
        memory = self._memory
        with self._errors(f"restoring {', '.join(contents)}"):
            for name, content in contents.items():
                if isinstance(content, Fill):
                    bound = self.array(name)
                    memory.fill(bound.whole, content.byte, bound.size_bytes, bound.begin)
                    continue
                bound = self._array_like(name, content)
                if bound.original is not content:
                    self._copy_original(bound, content)
                if bound.copy is None:
                    memory.write(bound.whole, plain(content), bound.begin)
                else:
                    memory.copy(bound.whole, bound.copy, bound.size_bytes, bound.begin)
        self.was_restored = True

    def _copy_original(self, bound: BoundArray, original: Array) -> None:
        """Copy an array to the device for later restores, if there is room."""
        if bound.copy is not None:
            self._memory.free(bound.copy)
        bound.copy = None
        bound.original = original
        with contextlib.suppress(LaunchFailed), self._errors("copying an array"):
            copy = self._memory.allocate(bound.size_bytes)
            self._memory.write(copy, plain(original))
            bound.copy = copy

    def read(self, name: str, part: slice | None = None) -> Array:
        """Return a copy of one array as it now is on the device.

        A `part`, with start and stop, is one of its elements in C order, and comes flat.
        """
        bound = self.array(name)
        offset = bound.begin
        if part is None:
            array = np.empty(bound.shape, bound.dtype)
        else:
            array = np.empty(part.stop - part.start, bound.dtype)
            offset += part.start * bound.dtype.itemsize
        with self._errors(f"reading {name}"):
            self._memory.read(plain(array), bound.whole, offset)
        return array

    def outside_writes(self) -> list[OutsideWrite]:
        """Return what was written before or behind arrays since they were bound, or since the last
        call, and repair it."""
        writes = self._outside_writes
        self._outside_writes = []
        with self._errors("reading the memory around the arguments"):
            for arguments in self._bound_sets.values():
                for name, value in arguments.items():
                    if isinstance(value, BoundArray):
                        writes.extend(self._writes_around(name, value))
        if any(write.leaves_zone for write in writes):
            self.left_zone = True
        return writes

    def _writes_around(self, name: str, bound: BoundArray) -> Iterator[OutsideWrite]:
        zone = np.empty_like(bound.zone)
        end = bound.begin + bound.size_bytes
        for offset, is_behind in ((0, False), (end, True)):
            self._memory.read(zone, bound.whole, offset)
            write = outside_write(name, bound.dtype, zone, bound.zone, is_behind)
            if write is not None:
                self._memory.write(bound.whole, bound.zone, offset)
                yield write

    @property
    def size_bytes(self) -> int:
        """The device memory that all sets take."""
        total = 0
        for arguments in self._bound_sets.values():
            for value in arguments.values():
                if isinstance(value, BoundArray):
                    total += value.size_bytes + 2 * value.zone.nbytes
                    if value.copy is not None:
                        total += value.size_bytes
        return total

    def release(self) -> None:
        """Free the memory of all sets."""
        self.bound = {}
        with self._errors("freeing device memory"):
            for number in list(self._bound_sets):
                self._free_set(number)

    def _free_set(self, number: int) -> None:
        for value in self._bound_sets.pop(number).values():
            if isinstance(value, BoundArray):
                if value.copy is not None:
                    self._memory.free(value.copy)
                self._memory.free(value.whole, value.memory)

    def _array_like(self, name: str, array: Array) -> BoundArray:
        """Return an array of the current set; raises ValueError unless it is like this one."""
        bound = self.array(name)
        if array.shape != bound.shape or array.dtype != bound.dtype:
            raise ValueError(
                f"{name} is bound as {bound.dtype}{list(bound.shape)}, "
                f"but written as {array.dtype}{list(array.shape)}"
            )
        return bound


def zone_bytes(array_bytes: int) -> int:
    """Return the size of a zone: that of the array, in whole least zones, up to a most."""
    zones = max(1, math.ceil(array_bytes / ZONE_BYTES))
    return min(zones * ZONE_BYTES, MOST_ZONE_BYTES)


@lru_cache(maxsize=64)
def zone_content(
    name: str, dtype: np.dtype[Any], size_bytes: int = ZONE_BYTES, is_ordinary: bool = False
) -> Bytes:
    """Return the bytes of each zone of an array, shape (size_bytes,); arrays' zones differ.

    Ordinary numbers are those from 0 to 1, and whole numbers from 0 to 127.
    """
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    noise = rng.integers(0, 256, size_bytes, np.uint8)
    size = dtype.itemsize
    if dtype.kind == "c":
        size //= 2
    is_float = dtype.kind in "fc" and size in _QUIET_NAN  # numpy.longdouble is none
    content: Bytes
    if is_float and is_ordinary:
        content = rng.random(size_bytes // size).astype(f"f{size}").view(np.uint8)
    elif is_float:
        numbers = rng.uniform(1e3, 1e4, size_bytes // size).astype(f"f{size}")
        bits = numbers.view(f"u{size}")
        bits[::2] = noise.view(bits.dtype)[::2] | bits.dtype.type(_QUIET_NAN[size])
        content = bits.view(np.uint8)
    elif is_ordinary:
        kind = f"u{size}" if size in (1, 2, 4, 8) else "u1"
        numbers = 128 * rng.random(size_bytes // np.dtype(kind).itemsize)
        content = numbers.astype(kind).view(np.uint8)
    else:
        content = noise | np.uint8(0x80)  # far from 0 and -1, and from every legal index
    return content


def outside_write(
    name: str, dtype: np.dtype[Any], zone: Bytes, content: Bytes, behind: bool
) -> OutsideWrite | None:
    """Return how far a zone's farthest written byte is from the array; None if none is."""
    if np.array_equal(zone, content):
        return None
    written = np.flatnonzero(zone != content)
    distance = zone.size - int(written[0])
    if behind:
        distance = int(written[-1]) + 1
    elements = math.ceil(distance / dtype.itemsize)
    return OutsideWrite(name, elements, behind, leaves_zone=distance == zone.size)


def plain(array: Array) -> Array:
    """Return an array in C order whose memory drivers can take: numpy hands out that of its own
    types alone, and ml_dtypes' bfloat16 is none."""
    in_order = np.asarray(array, order="C")
    if in_order.dtype.kind == "V" and in_order.dtype.names is None:
        return in_order.reshape(-1).view(np.uint8)
    return in_order
