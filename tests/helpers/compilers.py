"""Marks for tests that need a compiler."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

from harness.core.errors import BackendUnavailable
from harness.measure.cuda.nvcc import Nvcc, find_nvcc
from harness.measure.cuda.nvrtc import Nvrtc, load_nvrtc


def _missing(find: Callable[[], object]) -> str:
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
BOTH = (pytest.param(Nvcc, marks=needs_nvcc), pytest.param(Nvrtc, marks=needs_nvrtc))
"""The compilers of CUDA."""

CUDA_TWICE = """\
#define FACTOR 2.0f
#line 1 "kernel"
extern "C" __global__ void twice(const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = FACTOR * x[i];
}
"""
