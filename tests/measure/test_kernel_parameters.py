"""Arguments lie where a cubin says that the kernel has its parameters."""

from __future__ import annotations

import shutil
import struct

import numpy as np
import pytest

from harness.core.program import Launch, Program
from harness.measure.backends.cubin import packed_arguments, parameter_places
from harness.measure.backends.nvcc import Nvcc

KERNEL = """\
struct __align__(16) Pair { float a; double b; int c; };
extern "C" __global__ void f(float *x, char n, float4 v, Pair p, short s) {
    x[0] = n + v.y + p.c + s;
}
extern "C" __global__ void none() {}
"""
PAIR = np.dtype({"names": ["a", "b", "c"], "formats": ["f4", "f8", "i4"],
                 "offsets": [0, 8, 16], "itemsize": 32})  # fmt: skip


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_vectors_and_structures_lie_where_the_kernel_has_them() -> None:
    cubin = Nvcc("sm_90").compile(Program(KERNEL, (), ())).data
    places = parameter_places(cubin, "f")
    assert places == ((0, 8), (8, 1), (16, 16), (32, 32), (64, 2))
    assert parameter_places(cubin, "none") == ()
    assert parameter_places(cubin, "missing") is None
    vector = np.void((1, 2, 3, 4), "f4, f4, f4, f4")
    values = [np.uintp(9), np.int8(5), vector, np.void((6, 7, 8), PAIR), np.int16(-1)]
    launch = Launch("f", (1,), (1,), ("x", "n", "v", "p", "s"))
    packed = packed_arguments(launch, values, [True, *[False] * 4], places)
    assert packed[:32] == struct.pack("<QB7x4f", 9, 5, 1, 2, 3, 4)
    assert np.frombuffer(packed[32:64], PAIR)[0].tolist() == (6, 7, 8)
    assert packed[64:] == struct.pack("<h", -1)
