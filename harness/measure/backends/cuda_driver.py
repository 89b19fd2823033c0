"""What the NVIDIA driver tells without PyCUDA and without being initialised in this process."""

from __future__ import annotations

import ctypes
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from harness.core.errors import BackendUnavailable
from harness.measure.backends import cuda_probe


class FoundDevice(NamedTuple):
    """A device that the driver lists, in the driver's order."""

    name: str
    arch: str


def found_devices() -> tuple[FoundDevice, ...]:
    """The devices of this machine, at least one; asked in another process (see cuda_probe).

    Raises BackendUnavailable where the driver reports an error or no device.
    """
    script = Path(cuda_probe.__file__)
    try:
        done = subprocess.run(
            [sys.executable, "-I", str(script)],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        answer = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, json.JSONDecodeError) as error:
        raise BackendUnavailable(
            f"the NVIDIA driver did not answer ({error}). Look at nvidia-smi and the kernel's log"
        ) from error
    if answer["error"] or not answer["devices"]:
        reason = answer["error"] or "it lists no device"
        raise BackendUnavailable(
            f"the NVIDIA driver offers no GPU: {reason}. "
            "Look at nvidia-smi, at CUDA_VISIBLE_DEVICES, and at what the container may see"
        )
    return tuple(FoundDevice(**device) for device in answer["devices"])


def require_driver() -> None:
    """Raise BackendUnavailable unless the driver's library can be loaded."""
    try:
        ctypes.CDLL(cuda_probe.LIBRARY)
    except OSError as error:
        raise BackendUnavailable(
            f"no NVIDIA driver: {error}. Install the driver, which brings {cuda_probe.LIBRARY} "
            "(the CUDA toolkit does not); in a container, start it with --gpus all"
        ) from error


def driver_version(path: Path = Path("/proc/driver/nvidia/version")) -> str | None:
    """The kernel driver's version, such as `580.65.06`; None where it does not tell."""
    try:
        text = path.read_text()
    except OSError:
        return None
    found = re.search(r"\b(\d{3,}\.\d+(?:\.\d+)?)\b", text)
    return found[1] if found else None
