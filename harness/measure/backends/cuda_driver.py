"""Ask the NVIDIA driver without any package, and without initialising it in this process."""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.errors import BackendUnavailable
from harness.measure.backends import cuda_probe

MIG = "MIG-"
"""How the UUID of an instance of a divided GPU begins."""

VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class CudaGpu:
    """A GPU as CUDA numbers it, which CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER change.

    `uuid` is empty where the driver does not say it.
    """

    ordinal: int
    name: str
    uuid: str
    bus_id: str
    arch: str
    memory_bytes: int

    @property
    def index(self) -> str:
        """The number by which `--device` names it."""
        return str(self.ordinal)

    @property
    def kind(self) -> tuple[str, str, int]:
        """What equal devices have in common."""
        return self.name, self.arch, round(self.memory_bytes / 2**30)

    @property
    def identity(self) -> str:
        """What distinguishes it from all devices of this machine, with OpenCL as well."""
        return self.instance or self.bus_id.upper()

    @property
    def instance(self) -> str:
        """The UUID of an instance of a divided GPU (MIG); empty for a whole GPU."""
        return self.uuid if self.uuid.startswith(MIG) else ""

    def __str__(self) -> str:
        memory = f"{self.memory_bytes / 2**30:.1f} GiB"
        return ", ".join(filter(None, (self.name, self.arch, memory, self.bus_id, self.uuid)))


def list_gpus() -> tuple[CudaGpu, ...]:
    """Ask another process for this machine's GPUs, in the driver's order.

    Raises BackendUnavailable where the driver reports an error or no device (see cuda_probe).
    """
    answer = _answer()
    if answer["error"] or not answer["devices"]:
        reason = answer["error"] or "it lists no device"
        raise BackendUnavailable(f"the NVIDIA driver offers no GPU: {reason}. {_cure(reason)}")
    return tuple(CudaGpu(**device) for device in answer["devices"])


def _answer() -> dict[str, Any]:
    """Return what the probe prints."""
    script = Path(cuda_probe.__file__)
    try:
        done = subprocess.run(
            [sys.executable, "-I", str(script)],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        answer: dict[str, Any] = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, json.JSONDecodeError) as error:
        raise BackendUnavailable(
            f"the NVIDIA driver did not answer ({error}). Check nvidia-smi and the kernel log"
        ) from error
    return answer


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
    library, device = ctypes.CDLL(cuda_probe.LIBRARY), ctypes.c_int()
    if library.cuDeviceGet(ctypes.byref(device), ordinal):
        return ""
    return cuda_probe.uuid_of(library, device.value)


def driver_version(path: Path = Path("/proc/driver/nvidia/version")) -> str | None:
    """Return the kernel driver's version, such as `580.65.06`; None where it is not found."""
    try:
        text = path.read_text()
    except OSError:
        return None
    found = re.search(r"\b(\d{3,}\.\d+(?:\.\d+)?)\b", text)
    return found[1] if found else None
