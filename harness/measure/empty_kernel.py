"""Compile, load and launch an empty kernel: an installation that cannot do this is one clear error.

Without it, each configuration would fail by itself, for a reason that is none of its own.
"""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path

from harness.core.errors import BackendUnavailable, BuildFailed, LaunchFailed
from harness.core.program import Binary, Launch, Program
from harness.measure.builds.cache import BuildCache
from harness.measure.cuda.nvcc import ENVIRONMENT
from harness.measure.device.base import Compiler, Device

_NAME = "harness_empty"
_TEXTS = {
    "cuda": f'extern "C" __global__ void {_NAME}() {{}}\n',
    "opencl": f"kernel void {_NAME}() {{}}\n",
}
_TO_BUILD = {
    "cuda": "Set NVCC_CCBIN to a C++ compiler that this nvcc supports, or CUDACXX to another nvcc",
    "opencl": "Update the device's driver, or see with clinfo whether another device works",
}
_TO_RUN = {
    "cuda": "See whether nvidia-smi works, and what the system's log (dmesg) says of the GPU",
    "opencl": "See whether clinfo works, and update the device's driver",
}


def require_working(device: Device, compiler: Compiler, language: str) -> None:
    """Raise BackendUnavailable, with the cause and the cure, where an empty kernel does not run."""
    try:
        binary = _compiled(compiler, language)
    except BuildFailed as error:
        raise BackendUnavailable(
            f"{compiler.identity} does not compile an empty kernel. {_TO_BUILD[language]}.\n{error}"
        ) from None
    try:
        module = device.load(binary)
        device.launch(module, [Launch(_NAME, (1,), (1,), ())])
    except LaunchFailed as error:
        raise BackendUnavailable(
            f"an empty kernel that {compiler.identity} compiled does not run on the device: "
            f"{error}. {_flags_advice() if language == 'cuda' else ''}{advice(language)}"
        ) from None


def advice(language: str) -> str:
    """Say what to do where an empty kernel does not run."""
    if language == "opencl" and shutil.which("ld") is None:
        return "PoCL links kernels with `ld`, which is not on PATH. Install binutils"
    return _TO_RUN[language]


def _compiled(compiler: Compiler, language: str) -> Binary:
    """Return the empty kernel from the build cache, or compile it."""
    program = Program(_TEXTS[language] + _host_compiler(language), (), ())
    key = program.key(compiler.identity)
    return BuildCache().get_or_build(key, partial(compiler.compile, program))


def _host_compiler(language: str) -> str:
    """Return a comment that changes with the host compiler: nvcc may refuse the next one."""
    found = shutil.which(os.environ.get("NVCC_CCBIN") or "gcc") if language == "cuda" else None
    if found is None:
        return ""
    path = Path(found).resolve()
    return f"// {path} of {path.stat().st_mtime_ns}\n"


def _flags_advice() -> str:
    """Name the variables that may have changed the architecture to compile for."""
    names = [name for name in ENVIRONMENT if os.environ.get(name)]
    return f"Unset {', '.join(names)}: flags may name another architecture. " if names else ""
