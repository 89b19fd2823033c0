"""Find this machine's NVIDIA GPUs, the Python package that calls their driver, and the compilers of
CUDA kernels, nvcc and NVRTC.

Nothing here initialises the driver in this process.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from harness.core.errors import BackendUnavailable
from harness.measure.cuda import probe
from harness.measure.cuda.bindings import BindingsDriver
from harness.measure.cuda.pycuda import PyCudaDriver
from harness.measure.device.launcher import Compiler
from harness.measure.listed_device import CUDA, ListedDevice

VISIBLE = "CUDA_VISIBLE_DEVICES"

PACKAGE = "HARNESS_CUDA_PACKAGE"
"""The variable that names the package which calls the driver."""

PYCUDA, BINDINGS = "pycuda", "cuda-bindings"

CudaDriver = BindingsDriver | PyCudaDriver
"""What calls the driver; both make the same calls."""

_DRIVERS: dict[str, type[CudaDriver]] = {PYCUDA: PyCudaDriver, BINDINGS: BindingsDriver}


def list_gpus() -> tuple[ListedDevice, ...]:
    """Ask another process for this machine's GPUs, in the driver's order.

    Raises BackendUnavailable where the driver reports an error or no device.
    """
    try:
        command = [sys.executable, "-I", str(Path(probe.__file__))]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        answer: dict[str, Any] = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, json.JSONDecodeError) as error:
        raise BackendUnavailable(
            f"the NVIDIA driver did not answer ({error}). Check nvidia-smi and the kernel log"
        ) from error
    if answer["error"] or not answer["devices"]:
        reason = answer["error"] or "it lists no device"
        cure = (
            "Check nvidia-smi, CUDA_VISIBLE_DEVICES, the devices of the container, and "
            "whether this user may read and write /dev/nvidia*"
        )
        if "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" in reason:
            cure = f"{probe.LIBRARY} and the kernel's driver differ, as after an update: reboot"
        raise BackendUnavailable(f"the NVIDIA driver offers no GPU: {reason}. {cure}")
    return tuple(listed_gpu(facts) for facts in answer["devices"])


def listed_gpu(facts: dict[str, Any]) -> ListedDevice:
    """Return the record of a GPU that `probe` describes."""
    return ListedDevice(CUDA, is_gpu=True, **facts)


def usable_gpus() -> tuple[ListedDevice, ...]:
    """Return this machine's GPUs; raises BackendUnavailable, with the next step, where CUDA kernels
    cannot run here."""
    require_driver()
    load_driver()
    return list_gpus()


def require_driver() -> None:
    """Raise BackendUnavailable unless the driver's library can be loaded."""
    try:
        ctypes.CDLL(probe.LIBRARY)
    except OSError as error:
        raise BackendUnavailable(
            f"no NVIDIA driver: {error}. Install the driver, which brings {probe.LIBRARY} "
            "(the CUDA toolkit does not); in a container, start it with --gpus all"
        ) from error


def driver_version(path: Path = Path("/proc/driver/nvidia/version")) -> str | None:
    """Return the kernel driver's version, such as `580.65.06`; None where it is not found."""
    try:
        text = path.read_text()
    except OSError:
        return None
    match = re.search(r"\b\d{3,}\.\d+(\.\d+)?\b", text)
    return match[0] if match else None


def load_driver() -> CudaDriver:
    """Import the package that calls the driver: PyCUDA where it works, else cuda-bindings; or the
    one that HARNESS_CUDA_PACKAGE names.

    Both make the same calls. Raises BackendUnavailable, with the next step.
    """
    reason = (
        "neither cuda-bindings nor PyCUDA is installed. In the clone of harness, run: "
        "pip install -e '.[cuda]', which brings cuda-bindings and needs no CUDA toolkit"
    )
    named = os.environ.get(PACKAGE)
    if named and named not in _DRIVERS:
        raise BackendUnavailable(
            f"{PACKAGE} is {named!r}, but must be {' or '.join(_DRIVERS)}, or unset"
        )
    for package in [named] if named else _DRIVERS:
        try:
            return _DRIVERS[package]()
        except ModuleNotFoundError as error:
            if named:
                raise BackendUnavailable(
                    f"{PACKAGE} is {named}, which is not installed ({error}): pip install {named}, "
                    "or unset it"
                ) from None
        except ImportError as error:
            again = f"Install it again: pip install --force-reinstall {package}"
            if package == PYCUDA:
                again = (
                    "Install it again for this machine's NVIDIA driver: "
                    "pip install --force-reinstall --no-cache-dir --no-binary pycuda pycuda"
                )
            reason = f"{package} is installed but cannot be imported: {error}. {again}"
    raise BackendUnavailable(reason)


def require_cooperative() -> None:
    """Raise BackendUnavailable where the package has no call for cooperative launches."""
    driver = load_driver()
    if not driver.is_cooperative:
        raise BackendUnavailable(
            f"the space's launches are cooperative, but {driver.package} has no call for that; set "
            f"{PACKAGE}={BINDINGS}, which `pip install {BINDINGS}` installs"
        )


NVCC, NVRTC = "nvcc", "nvrtc"
CUDA_COMPILERS = (NVCC, NVRTC)


def open_cuda_compiler(name: str, arch: str, *, specific: bool = False) -> Compiler:
    """Open a compiler for an architecture; raises what its class raises."""
    if name == NVRTC:
        from harness.measure.cuda.nvrtc import Nvrtc  # here: processes of OpenCL never need it

        return Nvrtc(arch, specific=specific)
    from harness.measure.cuda.nvcc import Nvcc  # here: processes of OpenCL never need it

    return Nvcc(arch, specific=specific)


def name_of(identity: str) -> str | None:
    """Return the name of the compiler with an identity; None for another kind of compiler."""
    name = identity.partition(" ")[0]
    return name if name in CUDA_COMPILERS else None


def why_unusable(name: str, arch: str) -> str | None:
    """Return why a compiler cannot compile for an architecture; None where it can.

    Raises UsageError for a malformed architecture.
    """
    try:
        open_cuda_compiler(name, arch)
    except BackendUnavailable as error:
        return str(error)
    return None


def first_usable(arch: str) -> str:
    """Return the name of the first compiler that can be used; raises BackendUnavailable."""
    reasons = []
    for name in CUDA_COMPILERS:
        reason = why_unusable(name, arch)
        if reason is None:
            return name
        reasons.append(f"  {name}: {reason}")
    lines = "\n".join(reasons)
    raise BackendUnavailable(f"no compiler of CUDA works for {arch}:\n{lines}")
