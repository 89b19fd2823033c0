"""Ask the NVIDIA driver without PyCUDA, and without initialising it in this process."""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import sys
import uuid
from pathlib import Path

from harness.core.errors import BackendUnavailable
from harness.measure.backends import cuda_probe


def device_archs() -> tuple[str, ...]:
    """Ask another process for the architectures of this machine's devices, in the driver's order.

    Raises BackendUnavailable where the driver reports an error or no device (see cuda_probe).
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
            f"the NVIDIA driver did not answer ({error}). Check nvidia-smi and the kernel log"
        ) from error
    if answer["error"] or not answer["devices"]:
        reason = answer["error"] or "it lists no device"
        raise BackendUnavailable(f"the NVIDIA driver offers no GPU: {reason}. {_cure(reason)}")
    return tuple(answer["devices"])


def _cure(reason: str) -> str:
    """Return what may make the driver work."""
    forbidden = forbidden_files()
    if forbidden:
        return (
            f"This user may not read and write {', '.join(forbidden)}: join the group that owns "
            "them, or start the container with --gpus all"
        )
    if "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" in reason:
        return f"{cuda_probe.LIBRARY} and the kernel's driver differ, as after an update: reboot"
    return "Check nvidia-smi, CUDA_VISIBLE_DEVICES, and the devices of the container"


def forbidden_files(folder: Path = Path("/dev")) -> list[str]:
    """Return NVIDIA's device files that this user may not open, such as /dev/nvidia0."""
    files = (file for file in sorted(folder.glob("nvidia*")) if not file.is_dir())
    return [str(file) for file in files if not os.access(file, os.R_OK | os.W_OK)]


def require_driver() -> None:
    """Raise BackendUnavailable unless the driver's library can be loaded."""
    try:
        ctypes.CDLL(cuda_probe.LIBRARY)
    except OSError as error:
        raise BackendUnavailable(
            f"no NVIDIA driver: {error}. Install the driver, which brings {cuda_probe.LIBRARY} "
            "(the CUDA toolkit does not); in a container, start it with --gpus all"
        ) from error


def device_uuid(ordinal: int) -> str:
    """Return a device's UUID as nvidia-smi writes it, empty where the driver does not say it.

    The driver must have been initialised in this process.
    """
    library = ctypes.CDLL(cuda_probe.LIBRARY)
    device, content = ctypes.c_int(), (ctypes.c_ubyte * 16)()
    if library.cuDeviceGet(ctypes.byref(device), ordinal):
        return ""
    if library.cuDeviceGetUuid(ctypes.byref(content), device):
        return ""
    return f"GPU-{uuid.UUID(bytes=bytes(content))}"


def driver_version(path: Path = Path("/proc/driver/nvidia/version")) -> str | None:
    """Return the kernel driver's version, such as `580.65.06`; None where it is not found."""
    try:
        text = path.read_text()
    except OSError:
        return None
    found = re.search(r"\b(\d{3,}\.\d+(?:\.\d+)?)\b", text)
    return found[1] if found else None
