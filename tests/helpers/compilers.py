"""Compilers that tests use, and marks for those that need one."""

import shutil

import pytest

from harness.core.errors import BackendUnavailable
from harness.core.program import Program
from harness.measure.cuda.nvcc import Nvcc, find_nvcc
from harness.measure.cuda.nvrtc import Nvrtc, load_nvrtc
from harness.measure.opencl.device import OpenClDevice
from harness.measure.opencl.driver import OpenClCompiler, usable_devices


def _missing(find):
    try:
        find()
    except BackendUnavailable as error:
        return str(error)
    return ""


_NO_GCC = "" if shutil.which("gcc") else "gcc is not on PATH"
_NO_NVCC, _NO_NVRTC = _missing(find_nvcc) or _NO_GCC, _missing(load_nvrtc)

needs_gcc = pytest.mark.skipif(bool(_NO_GCC), reason=_NO_GCC)
needs_nvcc = pytest.mark.skipif(bool(_NO_NVCC), reason=_NO_NVCC)
needs_nvrtc = pytest.mark.skipif(bool(_NO_NVRTC), reason=_NO_NVRTC)
BOTH = (
    pytest.param(Nvcc, marks=[needs_nvcc, pytest.mark.slow]),
    pytest.param(Nvrtc, marks=needs_nvrtc),
)
"""The compilers of CUDA; nvcc takes eight times as long."""

CUDA_TWICE = """\
#define FACTOR 2.0f
#line 1 "kernel"
extern "C" __global__ void twice(const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = FACTOR * x[i];
}
"""


def fake_nvcc(folder, compiling="exit 0"):
    """Write a program that answers nvcc's questions and otherwise runs a shell command."""
    path = folder / "nvcc"
    path.write_text(
        "#!/bin/sh\n"
        'case "$1" in\n'
        '  --version) echo "Cuda compilation tools, release 13.0, V13.0.88"\n'
        '             echo "Build cuda_13.0.r13.0/compiler.36424714_0";;\n'
        "  --list-gpu-code) echo sm_80; echo sm_90;;\n"
        f"  *) {compiling};;\n"
        "esac\n"
    )
    path.chmod(0o755)
    return path


def open_opencl(kind=OpenClDevice):
    """Open the OpenCL device that is here, or its compiler."""
    return kind(usable_devices()[0])


def opencl_binary(text):
    """Compile kernels for that device."""
    return open_opencl(OpenClCompiler).compile(Program(text, (), ()))
