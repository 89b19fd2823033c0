"""Guard zones: memory before and behind every array argument, which no kernel may write.

Where an array has floating-point numbers, every second one in its zones is NaN, so that most reads
outside of the array spoil the result as well. The others, and the integers, are no content that a
kernel leaves as it is by chance: reading a zone and writing another one changes that. A kernel that
reads a zone could know by it that it is tested. So zones may have ordinary numbers as well.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

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
        unit = "element" if self.elements == 1 else "elements"
        where = "behind its end" if self.behind else "before its start"
        return f"{self.name} ({self.elements:,} {unit} {where})"


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
