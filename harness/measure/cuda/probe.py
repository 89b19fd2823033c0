"""List the CUDA devices, in a process of its own.

`cuInit` in a process spoils CUDA for every process that is forked from it later. So harness runs
this file, which creates no context and prints one JSON object:
`{"error": null, "devices": [{"name": ..., "uuid": ..., ...}]}`, in the driver's order. It imports
only the standard library, to start fast.
"""

from __future__ import annotations

import ctypes
import json
import uuid
from typing import Any

LIBRARY = "libcuda.so.1"
_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76
_TEXT_BYTES = 256
_UUID_BYTES = 16


def _call(call: str, *arguments: object) -> None:
    library = ctypes.CDLL(LIBRARY)
    status = getattr(library, call)(*arguments)
    if status != 0:
        name = ctypes.c_char_p()
        library.cuGetErrorName(status, ctypes.byref(name))
        text = (name.value or b"unknown error").decode()
        raise OSError(f"{call} failed: {text} ({status})")


def _ask(call: str, answer: Any, *arguments: object) -> Any:
    """Return what a call writes to its first parameter."""
    _call(call, ctypes.byref(answer), *arguments)
    return answer.value


def _text(call: str, device: int) -> str:
    content = ctypes.create_string_buffer(_TEXT_BYTES)
    return str(_ask(call, content, _TEXT_BYTES, device).decode(errors="replace"))


def _uuid(device: int) -> str:
    """Return the UUID as nvidia-smi writes it.

    For an instance of a divided GPU (MIG), the first version of the call returns the UUID of the
    GPU, and the second one that of the instance.
    """
    whole = ctypes.create_string_buffer(_UUID_BYTES)
    instance = ctypes.create_string_buffer(_UUID_BYTES)
    _call("cuDeviceGetUuid", whole, device)
    try:
        _call("cuDeviceGetUuid_v2", instance, device)  # since CUDA 11.4
    except (AttributeError, OSError):
        instance = whole
    kind = "GPU" if instance.raw == whole.raw else "MIG"
    return f"{kind}-{uuid.UUID(bytes=instance.raw)}"


def cuda_version() -> int:
    """Return the newest CUDA that the driver supports; 13020 is CUDA 13.2. Raises OSError."""
    return int(_ask("cuDriverGetVersion", ctypes.c_int()))


def describe(number: int) -> dict[str, Any]:
    """Describe a device; the driver must have been initialised in this process.

    Raises OSError where the driver fails.
    """
    device = _ask("cuDeviceGet", ctypes.c_int(), number)
    major = _ask("cuDeviceGetAttribute", ctypes.c_int(), _CAPABILITY_MAJOR, device)
    minor = _ask("cuDeviceGetAttribute", ctypes.c_int(), _CAPABILITY_MINOR, device)
    return {
        "number": number,
        "name": _text("cuDeviceGetName", device),
        "uuid": _uuid(device),
        "bus_id": _text("cuDeviceGetPCIBusId", device),
        "arch": f"sm_{major}{minor}",
        "memory_bytes": _ask("cuDeviceTotalMem_v2", ctypes.c_size_t(), device),
    }


def probe() -> dict[str, object]:
    """Return the object to print; an error and no devices where the driver fails."""
    try:
        _call("cuInit", 0)
        count = _ask("cuDeviceGetCount", ctypes.c_int())
        return {"error": None, "devices": [describe(i) for i in range(count)]}
    except OSError as error:
        return {"error": str(error), "devices": []}


if __name__ == "__main__":
    print(json.dumps(probe()))
