"""What a cubin says of its kernels: names that are more than a word, and where parameters lie."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from harness.core.errors import BuildFailed
from harness.core.kernel_name import plain_name, reference_lines
from harness.core.program import Launch, Program
from harness.measure.cuda.cubin import (
    kernel_symbol,
    packed_arguments,
    parameter_places,
    readable,
)
from harness.measure.cuda.nvcc import Nvcc
from tests.helpers.compilers import BOTH, needs_nvcc

KERNELS = """\
struct Pair { int a, b; };
template <typename T, int N> __global__ void gemm(T *z, const T *x) { z[0] = x[N]; }
namespace lib {
using Real = float;
template <typename T, int N = 4> __global__ void fill(T *z, Pair p) { z[0].a = p.a * N; }
__global__ void scale(Real *z) { z[0] = 1; }
}
__global__ void over(float *z) { z[0] = 1; }
__global__ void over(int *z) { z[0] = 1; }
__global__ void plain(int *z) { z[0] = 1; }
static __global__ void inner(int *z) { z[0] = 1; }
namespace { __global__ void hidden(int *z) { z[0] = 1; } }
extern "C" __global__ void linked(int *z) { z[0] = 1; }
__device__ int other = 3;
"""
SYMBOLS = {
    "gemm<float, 2 * 8>": "_Z4gemmIfLi16EEvPT_PKS0_",
    "gemm<lib::Real, 8>": "_Z4gemmIfLi8EEvPT_PKS0_",
    "lib::fill<Pair>": "_ZN3lib4fillI4PairLi4EEEvPT_S1_",
    "lib::scale": "_ZN3lib5scaleEPf",
    "over(int *)": "_Z4overPi",
    "plain": "_Z5plainPi",
    "inner": "_Z5innerPi",
    "linked": "linked",
}


@pytest.fixture(scope="module", params=BOTH)
def cubin(request: pytest.FixtureRequest) -> bytes:
    lines = reference_lines(name for name in SYMBOLS if plain_name(name) != name)
    return request.param("sm_90").compile(Program("\n".join([KERNELS, *lines]), (), ())).data


def test_kernels_are_found_by_the_names_that_a_person_writes(cubin: bytes) -> None:
    assert {name: kernel_symbol(cubin, name) for name in SYMBOLS} == SYMBOLS
    assert readable(kernel_symbol(cubin, "hidden")) == "(anonymous namespace)::hidden(int*)"


@needs_nvcc
@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("gemm<flaot, 8>", 'identifier "flaot" is undefined\n  gemm<flaot, 8>'),
        ("over(double *)", 'overloaded function "over" is intended\n  over(double *)'),
        ("huge<int>", "Entry function 'huge<int>(int*)' uses too much shared data"),
    ],
)
def test_a_log_shows_kernels_as_a_person_names_them(name: str, shown: str) -> None:
    text = '#line 1 "k.cu"\n' + KERNELS + "template <typename T> __global__ void huge(T *z)"
    text += " { __shared__ T all[1 << 20]; all[z[1]] = z[2]; __syncthreads(); z[0] = all[z[3]]; }"
    with pytest.raises(BuildFailed) as failure:
        Nvcc("sm_90").compile(Program("\n".join([text, *reference_lines([name])]), (), ()))
    message = str(failure.value)
    assert shown in message
    for hidden in ("harness_kernel", "function(1)", "_Z", "kernel.cu"):
        assert hidden not in message


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("over", r"2 kernels are called `over`: `over\(float\*\)`, `over\(int\*\)`. Name one"),
        ("gemm", r"`gemm` is not in the binary; its kernels are .* A template needs its arg"),
        ("missing", r"`missing` is not in the binary; its kernels are `gemm<float, 16>.* and 5 m"),
        ("lib::scale(int *)", "does not say which kernel `lib::scale.* Declare it `__global__`"),
    ],
)
def test_name_of_no_kernel_or_of_several_lists_those_that_are_there(
    cubin: bytes, name: str, reason: str
) -> None:
    with pytest.raises(LookupError, match=reason):
        kernel_symbol(cubin, name)


# --------------------------------------------------------------------------------------- parameters

WITH_PARAMETERS = """\
struct __align__(16) Pair { float a; double b; int c; };
extern "C" __global__ void f(float *x, char n, float4 v, Pair p, short s) {
    x[0] = n + v.y + p.c + s;
}
extern "C" __global__ void none() {}
"""
PAIR = np.dtype({"names": ["a", "b", "c"], "formats": ["f4", "f8", "i4"],
                 "offsets": [0, 8, 16], "itemsize": 32})  # fmt: skip


@needs_nvcc
def test_vectors_and_structures_lie_where_the_kernel_has_them() -> None:
    cubin = Nvcc("sm_90").compile(Program(WITH_PARAMETERS, (), ())).data
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
