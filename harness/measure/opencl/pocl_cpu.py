"""Give PoCL the name of a processor that its compiler accepts.

PoCL asks its LLVM for the processor's name. An LLVM older than the processor answers `generic`,
PoCL hands that to clang, and clang refuses every build: "unknown target CPU 'generic'" (PoCL
3.0, whose LLVM 14 ends with Zen 3; github.com/pocl/pocl/issues/1049). No option or environment
variable of PoCL sets the name, so it is replaced in PoCL's own record of the device.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from pathlib import Path

_REFUSED = b"generic\0"
_RECORD_BYTES = 1024  # PoCL's record of a device (struct _cl_device_id) is larger
_POINTER = struct.Struct("Q")
# The levels of the x86-64 psABI, and a feature that each of them adds to the one before.
_LEVELS = (("avx512vl", b"x86-64-v4"), ("avx2", b"x86-64-v3"), ("sse4_2", b"x86-64-v2"))

_names: dict[int, ctypes.Array[ctypes.c_char]] = {}  # by device; PoCL keeps pointers to them


def name_processor(device_version: str, device_address: int) -> None:
    """Replace the name that clang refuses by the x86-64 level of this processor.

    `device_version` is the OpenCL version text of a device of PoCL, which ends with the
    processor's name; `device_address` is where PoCL keeps the device. Does nothing where the name
    is another one, or the machine is not Linux on x86-64: there PoCL reports its own error.
    """
    memory = Path("/proc/self/mem")
    is_refused = device_version.endswith("-generic") and device_address not in _names
    if not is_refused or platform.machine() != "x86_64" or not os.access(memory, os.R_OK):
        return
    level = _level()
    field = _name_field(memory, device_address)
    if level is not None and field is not None:
        _names[device_address] = ctypes.create_string_buffer(level)
        ctypes.c_uint64.from_address(field).value = ctypes.addressof(_names[device_address])


def _level() -> bytes | None:
    """Return the highest level of this processor; None where it has none of them."""
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    _, _, after = text.partition("\nflags")
    flags = after.partition("\n")[0].split()
    return next((level for feature, level in _LEVELS if feature in flags), None)


def _name_field(memory: Path, address: int) -> int | None:
    """Return where PoCL's record of a device has the pointer to the refused name.

    Its other fields may be anything: reading the memory as a file fails where one leads nowhere.
    """
    with memory.open("rb", buffering=0) as file:
        for field in range(address, address + _RECORD_BYTES, _POINTER.size):
            try:
                (pointer,) = _POINTER.unpack(os.pread(file.fileno(), _POINTER.size, field))
                name = os.pread(file.fileno(), len(_REFUSED), pointer)
            except (OSError, OverflowError, struct.error):
                continue
            if name == _REFUSED:
                return field
    return None
