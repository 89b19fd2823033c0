"""The two compilers of CUDA kernels, nvcc and NVRTC: which can be used here, and open one."""

from __future__ import annotations

from collections.abc import Mapping

from harness.core.errors import BackendUnavailable
from harness.measure.cuda.nvcc import Nvcc
from harness.measure.cuda.nvrtc import Nvrtc
from harness.measure.device.base import Compiler

NVCC, NVRTC = "nvcc", "nvrtc"
CUDA_COMPILERS: Mapping[str, type[Nvcc] | type[Nvrtc]] = {NVCC: Nvcc, NVRTC: Nvrtc}


def open_cuda_compiler(name: str, arch: str, *, specific: bool = False) -> Compiler:
    """Open a compiler for an architecture; raises what its class raises."""
    return CUDA_COMPILERS[name](arch, specific=specific)


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
