"""Binaries of CUDA kernels, each compiled once by NVRTC, which takes an eighth of nvcc's time."""

from functools import cache

from harness.core.program import Program
from harness.measure.cuda.nvrtc import Nvrtc


@cache
def open_nvrtc(arch="sm_90"):
    """Open NVRTC, once in a process for each architecture."""
    return Nvrtc(arch)


@cache
def cubin(text, arch="sm_90"):
    """Compile kernels for an architecture."""
    return open_nvrtc(arch).compile(Program(text, (), ()))
