"""Give PoCL the name of a processor that its compiler accepts.

PoCL asks its LLVM for the processor's name. An LLVM older than the processor answers `generic`,
PoCL hands that to clang, and clang refuses every build: "unknown target CPU 'generic'" (PoCL
3.0, whose LLVM 14 ends with Zen 3; github.com/pocl/pocl/issues/1049). No option or environment
variable of PoCL sets the name, so it is replaced in PoCL's own record of the device.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Iterator, Sequence
from pathlib import Path

_REFUSED = b"generic\0"
_RECORD_BYTES = 1024  # PoCL's record of a device (struct _cl_device_id) is larger
_POINTER_BYTES = 8
_TRIES = 20
# The levels of the x86-64 psABI, and a feature that each of them adds to the one before.
_LEVELS = (("avx512vl", b"x86-64-v4"), ("avx2", b"x86-64-v3"), ("sse4_2", b"x86-64-v2"))

_names: dict[int, ctypes.Array[ctypes.c_char]] = {}  # by device; PoCL keeps pointers to them


def name_processor(device_version: str, device_address: int) -> None:
    """Replace the name that clang refuses by the x86-64 level of this processor.

    `device_version` is the OpenCL version text of a device of PoCL, which ends with the
    processor's name; `device_address` is where PoCL keeps the device. Does nothing where the name
    is another one, or the machine is not Linux on x86-64: there PoCL reports its own error.
    """
    if not device_version.endswith("-generic") or platform.machine() != "x86_64":
        return
    maps, level = Path("/proc/self/maps"), _level()
    if level is None or device_address in _names or not maps.exists():
        return
    for _ in range(_TRIES):
        # PoCL's threads are starting: a reading of the maps meanwhile may miss a range.
        readable = _readable(maps.read_text(encoding="utf-8"))
        pointer = next(_name_pointers(device_address, readable), None)
        if pointer is not None:
            _names[device_address] = ctypes.create_string_buffer(level)
            pointer.value = ctypes.addressof(_names[device_address])
            return


def _level() -> bytes | None:
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    flags = next((line for line in text.splitlines() if line.startswith("flags")), "").split()
    return next((level for feature, level in _LEVELS if feature in flags), None)


def _readable(maps: str) -> list[tuple[int, int]]:
    """Return the ranges of addresses that this process may read."""
    lines = [line.split()[:2] for line in maps.splitlines()]
    ranges = [span.split("-") for span, rights in lines if rights.startswith("r")]
    return [(int(low, 16), int(high, 16)) for low, high in ranges]


def _name_pointers(address: int, readable: Sequence[tuple[int, int]]) -> Iterator[ctypes.c_uint64]:
    """Yield the pointers in PoCL's record of a device that lead to the refused name."""

    def can_read(start: int, size_bytes: int) -> bool:
        return any(low <= start and start + size_bytes <= high for low, high in readable)

    for field in range(address, address + _RECORD_BYTES, _POINTER_BYTES):
        if can_read(field, _POINTER_BYTES):
            pointer = ctypes.c_uint64.from_address(field)
            if can_read(pointer.value, len(_REFUSED)) and (
                ctypes.string_at(pointer.value, len(_REFUSED)) == _REFUSED
            ):
                yield pointer
