"""List the CUDA devices, in a process of its own.

`cuInit` in a process spoils CUDA for every process that is forked from it later. So harness runs
this file, which prints one JSON object,
`{"error": null, "devices": ["sm_90"]}`, and creates no
context. It imports only the standard library, to start fast.
"""

from __future__ import annotations

import ctypes
import json

LIBRARY = "libcuda.so.1"
_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76


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


def _device(library: ctypes.CDLL, ordinal: int) -> str:
    device = _ask(library, "cuDeviceGet", ordinal)
    major = _ask(library, "cuDeviceGetAttribute", _CAPABILITY_MAJOR, device)
    minor = _ask(library, "cuDeviceGetAttribute", _CAPABILITY_MINOR, device)
    return f"sm_{major}{minor}"


def probe() -> dict[str, object]:
    """Return the object to print; an error and no devices where the driver fails."""
    try:
        library = ctypes.CDLL(LIBRARY)
        _check(library, "cuInit", library.cuInit(0))
        count = _ask(library, "cuDeviceGetCount")
        return {"error": None, "devices": [_device(library, i) for i in range(count)]}
    except (OSError, _DriverError) as error:
        return {"error": str(error), "devices": []}


if __name__ == "__main__":
    print(json.dumps(probe()))
