"""Pack the arguments of a CUDA kernel as its cubin says that they lie, and check that they fit.

The section `.nv.info.KERNEL` of a cubin holds the offset and the size of each parameter, but not
whether it is a pointer. The driver copies as many bytes as the kernel takes, whatever it is given.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from harness.core.errors import LaunchFailed
from harness.core.program import Launch
from harness.measure.backends.elf import sections

_RECORD = struct.Struct("<BBH")
_WITH_PAYLOAD = 0x04
_PARAMETER = 0x17  # EIATTR_KPARAM_INFO
_PARAMETER_BYTES = 0x19  # EIATTR_CBANK_PARAM_SIZE
_PAYLOAD = struct.Struct("<IHHI")
_SIZE_SHIFT = 18


class ParameterPlace(NamedTuple):
    """Where a parameter lies among a kernel's parameters, in bytes."""

    offset: int
    size_bytes: int


def parameter_places(cubin: bytes, symbol: str) -> tuple[ParameterPlace, ...] | None:
    """Return the places of a kernel's parameters, in order; None where the cubin does not say."""
    name = b".nv.info." + symbol.encode()
    records = next((s.content for s in sections(cubin) if s.name == name), None)
    if records is None:
        return None
    found: dict[int, ParameterPlace] = {}
    has_any = False
    begin = 0
    while begin < len(records):
        layout, attribute, value = _RECORD.unpack_from(records, begin)
        begin += _RECORD.size
        if attribute == _PARAMETER and layout == _WITH_PAYLOAD and value == _PAYLOAD.size:
            _, ordinal, offset, packed = _PAYLOAD.unpack_from(records, begin)
            found[ordinal] = ParameterPlace(offset, packed >> _SIZE_SHIFT)
        has_any = has_any or (attribute == _PARAMETER_BYTES and value > 0)
        begin += value if layout == _WITH_PAYLOAD else 0
    is_complete = sorted(found) == list(range(len(found))) and bool(found) == has_any
    return tuple(found[ordinal] for ordinal in sorted(found)) if is_complete else None


def packed_arguments(
    launch: Launch,
    values: Sequence[np.generic],
    are_arrays: Sequence[bool],
    places: Sequence[ParameterPlace] | None,
) -> bytes:
    """Return a launch's arguments as the driver takes them, each where the kernel has it.

    An array's value is its address. Raises LaunchFailed for another number of arguments than the
    kernel's, and for one of another size.
    """
    if places is None:
        return pack_arguments(values)
    if len(values) != len(places):
        named = ", ".join(map(str, launch.arguments)) or "none"
        raise LaunchFailed(
            f"{launch.function} takes {len(places)} arguments, but the host module passes "
            f"{len(values)}: {named}"
        )
    packed = bytearray()
    passed = zip(launch.arguments, values, are_arrays, places, strict=True)
    for position, (name, value, is_array, place) in enumerate(passed, start=1):
        content = value.tobytes()
        if len(content) != place.size_bytes:
            kind = "an array, whose address has" if is_array else f"{value.dtype}, which has"
            raise LaunchFailed(
                f"argument {position} of {launch.function}, {name}, has {place.size_bytes} bytes "
                f"in the kernel, but the host module passes {kind} {len(content)}"
            )
        packed += b"\0" * (place.offset - len(packed)) + content
    return bytes(packed)


def pack_arguments(values: Sequence[np.generic]) -> bytes:
    """Return arguments of a kernel that does not say where they lie: each at a multiple of its own
    size.

    This is the layout of C, and of CUDA's complex numbers (float2, double2), whose alignment
    is their size. Structures (numpy.void) have the alignment of their dtype.
    """
    packed = bytearray()
    for value in values:
        structure = isinstance(value, np.void)
        alignment = value.dtype.alignment if structure else value.dtype.itemsize
        packed += b"\0" * (-len(packed) % alignment)
        packed += value.tobytes()
    return bytes(packed)
