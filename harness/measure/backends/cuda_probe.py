"""List the CUDA devices, in a process of its own.

`cuInit` in a process spoils CUDA for every process that is forked from it later. So harness runs
this file, which creates no context and prints one JSON object:
`{"error": null, "devices": [{"name": ..., "uuid": ..., ...}]}`, in the driver's order. It imports
only the standard library, to start fast.
"""

from __future__ import annotations

import ctypes
import json

LIBRARY = "libcuda.so.1"
_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76
_UUID_CALLS = ("cuDeviceGetUuid", "cuDeviceGetUuid_v2")  # the second since CUDA 11.4
_TEXT_BYTES = 256


class _DriverError(Exception):
    """The driver returned an error."""


def _check(library: ctypes.CDLL, call: str, status: int) -> None:
    if status == 0:
        return
    name = ctypes.c_char_p()
    library.cuGetErrorName(status, ctypes.byref(name))
    raise _DriverError(f"{call} failed: {(name.value or b'unknown error').decode()} ({status})")


def _ask(library: ctypes.CDLL, call: str, *arguments: object) -> int:
    """Return the number that a call writes through its first parameter."""
    answer = ctypes.c_int()
    _check(library, call, getattr(library, call)(ctypes.byref(answer), *arguments))
    return answer.value


def uuid_of(library: ctypes.CDLL, device: int) -> str:
    """Return the UUID as nvidia-smi writes it, empty where the driver does not say it.

    For an instance of a divided GPU (MIG), the first version of the call returns the UUID of the
    GPU, and the second one that of the instance.
    """
    found = [_uuid_bytes(library, call, device) for call in _UUID_CALLS]
    whole, own = found[0], found[1] or found[0]
    digits = own.hex()
    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    return f"{'GPU' if own == whole else 'MIG'}-{'-'.join(parts)}" if own else ""


def _uuid_bytes(library: ctypes.CDLL, call: str, device: int) -> bytes:
    function = getattr(library, call, None)
    content = (ctypes.c_ubyte * 16)()
    if function is None or function(ctypes.byref(content), device):
        return b""
    return bytes(content)


def _text(library: ctypes.CDLL, call: str, device: int) -> str:
    """Return the text that a call writes."""
    content = ctypes.create_string_buffer(_TEXT_BYTES)
    _check(library, call, getattr(library, call)(content, _TEXT_BYTES, device))
    return content.value.decode(errors="replace")


def _memory_bytes(library: ctypes.CDLL, device: int) -> int:
    size = ctypes.c_size_t()
    status = library.cuDeviceTotalMem_v2(ctypes.byref(size), device)
    _check(library, "cuDeviceTotalMem_v2", status)
    return size.value


def describe(library: ctypes.CDLL, ordinal: int) -> dict[str, object]:
    """Describe a device; the driver must have been initialised in this process."""
    device = _ask(library, "cuDeviceGet", ordinal)
    major = _ask(library, "cuDeviceGetAttribute", _CAPABILITY_MAJOR, device)
    minor = _ask(library, "cuDeviceGetAttribute", _CAPABILITY_MINOR, device)
    return {
        "ordinal": ordinal,
        "name": _text(library, "cuDeviceGetName", device),
        "uuid": uuid_of(library, device),
        "bus_id": _text(library, "cuDeviceGetPCIBusId", device),
        "arch": f"sm_{major}{minor}",
        "memory_bytes": _memory_bytes(library, device),
    }


def probe() -> dict[str, object]:
    """Return the object to print; an error and no devices where the driver fails."""
    try:
        library = ctypes.CDLL(LIBRARY)
        _check(library, "cuInit", library.cuInit(0))
        count = _ask(library, "cuDeviceGetCount")
        return {"error": None, "devices": [describe(library, i) for i in range(count)]}
    except (OSError, _DriverError) as error:
        return {"error": str(error), "devices": []}


if __name__ == "__main__":
    print(json.dumps(probe()))
