"""Binaries of CUDA kernels, each compiled once by NVRTC, which takes an eighth of nvcc's time."""

from __future__ import annotations

from functools import cache

from harness.core.program import Binary, Program
from harness.measure.cuda.nvrtc import Nvrtc


@cache
def open_nvrtc(arch: str = "sm_90") -> Nvrtc:
    """Open NVRTC, once in a process for each architecture."""
    return Nvrtc(arch)


@cache
def cubin(text: str, arch: str = "sm_90") -> Binary:
    """Compile kernels for an architecture."""
    return open_nvrtc(arch).compile(Program(text, (), ()))
