"""nvcc, and what NVRTC does alike: real compilations, and recorded reports everywhere."""

import importlib
import re
import shutil
import struct
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from harness.core.errors import BackendUnavailable, BuildFailed, UsageError
from harness.core.kernel_name import plain_name, reference_lines
from harness.core.program import Launch, Program
from harness.measure.builds.cache import digests
from harness.measure.builds.elf import sections
from harness.measure.cuda import nvcc, nvrtc
from harness.measure.cuda.binary import includes_others, parse_resources, readable_log
from harness.measure.cuda.cubin import (
    kernel_symbol,
    machine_code_sha256,
    packed_arguments,
    parameter_places,
    readable,
)
from harness.measure.cuda.gpus import NVRTC, first_usable
from harness.measure.cuda.nvcc import Nvcc, find_nvcc
from harness.measure.cuda.nvrtc import Nvrtc, load_nvrtc
from tests.helpers.compilers import BOTH, fake_nvcc, needs_nvcc, needs_nvrtc
from tests.helpers.cubins import cubin, open_nvrtc
from tests.helpers.planted import SOON_S, is_running, until

# U and N are names that CUDA's own headers use as template parameters. The function and the
# variable with internal linkage get names in which nvcc hashes the folder of the source.
SOURCE = """\
#define U 4
#define N 7
#define BLOCK 128
#line 1 "two_kernels.cu"
namespace { __device__ int counter; }
static __device__ __noinline__ float scaled(float v) { return v * N; }
extern "C" __global__ void copy(float *x, const float *y) { x[threadIdx.x] = scaled(y[0]); }
extern "C" __global__ void turn(float *x, const float *y) {
    __shared__ float tile[BLOCK * U];
    const int unused = 1;
    tile[threadIdx.x] = y[threadIdx.x];
    atomicAdd(&counter, 1);
    __syncthreads();
    x[threadIdx.x] = tile[(N * threadIdx.x) % BLOCK];
}
"""


def program(text=SOURCE, *options, include_dirs=()):
    return Program(text, options, include_dirs)


@pytest.fixture(scope="module", params=BOTH)
def either(request):
    """Each compiler of CUDA."""
    return open_nvrtc() if request.param is Nvrtc else Nvcc("sm_90")


@pytest.fixture(scope="module")
def made(either):
    """What each compiler makes of the source."""
    return either.compile(program())


# ------------------------------------------------------------------------- by either compiler


def test_build_has_the_resources_of_its_kernels_and_records_what_it_was_made_with(made, either):
    assert made.data.startswith(b"\x7fELF")
    assert made.build.shared_bytes == 4 * 128 * 4
    assert made.build.spill_bytes == 0
    assert 8 <= made.build.registers <= 255
    assert re.fullmatch(r"(nvcc|nvrtc) \d+\.\d+\.\d+ .*sm_90", either.identity)


def test_log_keeps_warnings_at_their_source_lines_and_no_resources(made):
    assert 'two_kernels.cu(6): warning #177-D: variable "unused"' in made.build.log
    assert "ptxas info" not in made.build.log
    assert "stack frame" not in made.build.log


def test_flags_that_change_nothing_give_the_same_machine_code_and_others_do_not(made, either):
    again = either.compile(program(SOURCE, "-Xptxas", "-O3"))
    assert again.build.binary_sha256 == made.build.binary_sha256
    assert again.build.options == "-Xptxas -O3"
    unoptimised = either.compile(program(SOURCE, "-Xptxas", "-O0"))
    assert unoptimised.build.binary_sha256 != made.build.binary_sha256


def test_too_much_static_shared_memory_is_a_failed_build(either):
    body = "__shared__ int s[20000]; s[*x] = 1; __syncthreads(); *x = s[1];"
    text = f"__global__ void f(int *x) {{ {body} }}"
    with pytest.raises(BuildFailed, match=r"(?s)uses too much shared data.*in launch\.shared"):
        either.compile(program(text))


# ------------------------------------------------------------------------- by nvcc


# nvcc ends with status 0, but a time of such a build would stand beside flags that were not obeyed.
@needs_nvcc
@pytest.mark.slow
def test_flags_that_nvcc_warns_it_does_not_obey_are_a_failed_build():
    options = ("-maxrregcount", "64", "-Xptxas", "--maxrregcount=96", "-arch=sm_80")
    with pytest.raises(BuildFailed, match="did not obey") as failure:
        Nvcc("sm_90").compile(program(SOURCE, *options))
    for option in ("maxrregcount", "gpu-architecture"):
        assert f"'{option}'" in str(failure.value)


@needs_nvcc
@pytest.mark.slow
def test_macro_in_an_unroll_pragma_is_a_failed_build_with_advice():
    source = """
#define UNROLL 4
extern "C" __global__ void f(float *x) {
#pragma unroll UNROLL
    for (int i = 0; i < 8; i++)
        x[i] += 1;
}"""
    with pytest.raises(BuildFailed, match="constexpr int factor = UNROLL"):
        Nvcc("sm_90").compile(program(source))


@needs_nvcc
def test_headers_are_found_in_relative_folders_and_known_after(tmp_path, monkeypatch):
    headers = [tmp_path / "headers/size.h", tmp_path / "of the user/first.h"]
    for header in headers:
        header.parent.mkdir()
        header.write_text(f"#define {header.stem.upper()} 96\n")
    monkeypatch.setenv("CPATH", str(headers[1].parent))
    monkeypatch.chdir(tmp_path)
    source = """#include "size.h"
#include <first.h>
__global__ void f(char *x) { x[FIRST] = SIZE; }"""
    built = Nvcc("sm_90").compile(program(source, include_dirs=("headers",)))
    assert built.read == digests(str(header.resolve()) for header in headers)


# ------------------------------------------------------------------------- architectures


def test_unknown_architecture_is_refused_with_the_next_step(either):
    cases = [
        ("sm90", UsageError, "`sm_90`"),
        ("sm_20", BackendUnavailable, "toolkit|wheel"),
        ("sm_80a", BackendUnavailable, "sm_80a"),
    ]
    for arch, error, reason in cases:
        with pytest.raises(error, match=reason):
            type(either)(arch)


# ------------------------------------------------------------------------- the machine code


def test_one_changed_byte_of_code_changes_the_hash(made):
    (code,) = [part.content for part in sections(made.data) if part.name == b".text.turn"]
    changed = bytearray(made.data)
    changed[made.data.index(code)] ^= 1
    assert machine_code_sha256(bytes(changed)) != made.build.binary_sha256


def test_what_is_no_cubin_has_no_machine_code():
    for junk in [b"", b"\x7fELF", b"// PTX\n" * 40]:
        with pytest.raises(ValueError, match="cubin"):
            machine_code_sha256(junk)


# ------------------------------------------------------------------------- ptxas' report

REPORT = """\
kernel.cu(5): warning #177-D: variable "s" was declared but never referenced
ptxas warning : For profile sm_90 adjusting per thread register count of 16 to lower bound of 24
ptxas info    : Overriding maximum register limit 256 for 'fine' with  32 of maxrregcount option
ptxas info    : 4 bytes gmem
ptxas info    : Compiling entry function '_Z1cILi3EEvPi' for 'sm_90'
ptxas info    : Function properties for _Z1cILi3EEvPi
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
ptxas info    : Compile time = 22.817 ms
ptxas info    : Compiling entry function 'b' for 'sm_90'
ptxas info    : Function properties for b
    5080 bytes stack frame, 5248 bytes spill stores, 10440 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 5080 bytes cumulative stack size, 2048 bytes smem
ptxas info    : Compile time = 122.066 ms
ptxas info    : Function properties for _ZN32_INTERNAL_47d4193a_9_kernel_cu_a1hEi
    8 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
"""  # noqa: E501


OLDER_REPORT = """\
ptxas info    : Function properties for f
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 20 registers, 4096+16 bytes smem, 360 bytes cmem[0]
"""


def test_the_largest_of_each_resource_is_read():
    assert parse_resources(REPORT) == (32, 2048, 5248 + 10440)
    assert parse_resources("".join(REPORT.splitlines(keepends=True)[-2:])) == (None, None, 12)
    assert parse_resources("nvcc warning : no resources") == (None,) * 3
    assert parse_resources(OLDER_REPORT) == (20, 4096, 0)


def test_warnings_remain_when_resources_are_taken_out():
    assert readable_log(REPORT).splitlines() == REPORT.splitlines()[:2]


# ------------------------------------------------------------------------- finding and running


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """A machine where nothing is installed, but for a gcc that nobody runs."""
    for name in ("CUDACXX", "CUDA_HOME", "CUDA_PATH", *nvcc.ENVIRONMENT):
        monkeypatch.delenv(name, raising=False)
    which = shutil.which

    def looked_up(name, path=None):
        return None if name == "nvcc" else which(name)

    monkeypatch.setattr(nvcc.shutil, "which", looked_up)
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", None)
    return tmp_path


def test_nvcc_is_where_cudacxx_says_or_in_its_wheel(bare, monkeypatch):
    with pytest.raises(BackendUnavailable, match=r"CUDACXX.*pip install nvidia-cuda-nvcc"):
        find_nvcc()
    pathfinder = SimpleNamespace(find_nvidia_binary_utility=lambda name: f"/site-packages/{name}")
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", pathfinder)
    assert find_nvcc() == Path("/site-packages/nvcc")
    monkeypatch.setenv("CUDACXX", str(executable := fake_nvcc(bare)))
    assert find_nvcc() == executable
    monkeypatch.setenv("CUDACXX", "/nowhere/nvcc")
    with pytest.raises(BackendUnavailable, match=r"CUDACXX.*/nowhere/nvcc"):
        find_nvcc()
    monkeypatch.delenv("CUDACXX")
    monkeypatch.setenv("CUDA_HOME", str(bare))
    monkeypatch.setattr(nvcc.shutil, "which", lambda name, path: f"{path.split(':')[0]}/{name}")
    assert find_nvcc() == bare / "bin/nvcc", "before those on PATH"


def test_missing_host_compiler_is_reported_before_any_build(bare, monkeypatch):
    executable = fake_nvcc(bare)
    monkeypatch.setattr(nvcc.shutil, "which", lambda _: None)
    with pytest.raises(BackendUnavailable, match="gcc"):
        Nvcc("sm_90", executable)


def test_program_that_is_no_nvcc_is_refused():
    with pytest.raises(BackendUnavailable, match="CUDACXX"):
        Nvcc("sm_90", Path("/bin/echo"))


def test_identity_names_release_build_architecture_and_flags_of_the_environment(bare, monkeypatch):
    executable = fake_nvcc(bare)
    monkeypatch.setenv("NVCC_CCBIN", "g++-12")
    identity = "nvcc 13.0.88 (compiler.36424714_0) sm_90 NVCC_CCBIN=g++-12"
    assert Nvcc("sm_90", executable).identity == identity


@pytest.mark.parametrize("usual_s, own_s", [(1.0, None), (300.0, 1.0)])
def test_build_past_its_deadline_fails_and_leaves_no_process(bare, monkeypatch, usual_s, own_s):
    executable = fake_nvcc(bare, f"(sleep 300; :) & echo $! > {bare}/child; sleep 300")
    monkeypatch.setattr(nvcc, "COMPILE_TIMEOUT_S", usual_s)
    compiler = Nvcc("sm_90", executable)
    begin = time.monotonic()
    with pytest.raises(BuildFailed, match=r"1 s .*build_timeout_s"):
        compiler.compile(Program("", (), (), timeout_s=own_s))
    assert time.monotonic() - begin < SOON_S
    child = int((bare / "child").read_text())
    assert until(lambda: not is_running(child))


IN_PRAGMA = """\
kernel.cu(4): error: identifier "UNROLL" is undefined
  #pragma unroll UNROLL"""


@pytest.mark.parametrize(
    "compiling, message",
    [
        ("exit 3", r"status 3\n"),
        ("echo text > kernel.cubin", "no cubin"),
        (f"echo '{IN_PRAGMA}'; exit 1", "constexpr int factor = UNROLL"),
        (
            'echo "$PWD/kernel.cu: $TMPDIR/tmpxft_0001c8_00000000-6_kernel.ptx, line 3"; exit 1',
            r"\nkernel\.cu: kernel\.ptx, line 3$",  # no temporary folder, no numbered file
        ),
    ],
)
def test_compiler_that_fails_otherwise_is_a_failed_build(bare, compiling, message):
    with pytest.raises(BuildFailed, match=message):
        Nvcc("sm_90", fake_nvcc(bare, compiling)).compile(program())


def test_options_reach_nvcc_unchanged_and_before_ours(bare):
    # No shell takes part: what looks like a command stays an option.
    executable = fake_nvcc(bare, f'printf "%s\\n" "$@" > {bare}/arguments; exit 1')
    with pytest.raises(BuildFailed):
        Nvcc("sm_90", executable).compile(program(SOURCE, "-DNAME=$(id) ;", "-arch=sm_80"))
    arguments = (bare / "arguments").read_text().splitlines()
    assert arguments[:3] == ["-DNAME=$(id) ;", "-arch=sm_80", "-arch=sm_90"]
    assert arguments[-1] == "kernel.cubin"


# ------------------------------------------------------------------------- what is refused


@needs_nvrtc
def test_refused_build_says_why_and_what_helps():
    cases = [
        ("", ("-Xcompiler", "-Wall"), "-Xcompiler.*nvcc"),
        ("", ("-Xptxas", "--none"), "ptxas fatal.*-none"),
        ("#include <iostream>", (), "headers of the host"),
        ("#include <curand_none.h>", (), "pip install"),
        ("__device__ uint32_t x;", (), "<cuda/std/cstdint>"),
        ("int main() {}", (), r"main\(\)"),
        ("#include NAME", (), "NAME"),
        ("", ("-include", "x.h"), "`-include`"),
        ("", ("-maxrregcount=64", "-maxrregcount=96"), "did not obey"),
        ("", ("-arch=sm_80",), "did not obey"),
        ('#line 7 "odd.cu"\n__device__ int x = NAME;', (), r"^odd\.cu\(7\):"),
    ]
    for text, options, reason in cases:
        with pytest.raises(BuildFailed, match=f"(?s){reason}"):
            open_nvrtc().compile(program(text, *options))


@pytest.mark.parametrize("fault", [ImportError("no module"), RuntimeError("no libnvrtc.so.13\n")])
def test_missing_library_says_what_to_install(monkeypatch, fault):
    def fails(*_):
        raise fault

    library = SimpleNamespace(nvrtcVersion=fails)
    looked_up = fails if isinstance(fault, ImportError) else lambda name: library
    monkeypatch.setattr(importlib, "import_module", looked_up)
    with pytest.raises(BackendUnavailable, match="pip install cuda-bindings nvidia-cuda-nvrtc"):
        load_nvrtc()


@needs_nvrtc
def test_library_that_hangs_is_a_failed_build(monkeypatch):
    compiler = open_nvrtc()
    monkeypatch.setattr(load_nvrtc(), "nvrtcCompileProgram", lambda *_: time.sleep(300))
    with pytest.raises(BuildFailed, match=r"0\.2 s .*build_timeout_s"):
        compiler.compile(Program("", (), (), timeout_s=0.2))


# ------------------------------------------------------------------------- headers


@needs_nvrtc
def test_headers_of_headers_are_known_afterwards(tmp_path):
    (tmp_path / "size.h").write_text("#include <deeper.h>\n")
    (tmp_path / "deeper.h").write_text("#define SIZE 96\n")
    text = '#include "size.h"\n#include <cuda_fp16.h>\n__global__ void f(char *x) { x[0] = SIZE; }'
    built = open_nvrtc().compile(program(text, include_dirs=(str(tmp_path),)))
    headers = digests(str((tmp_path / name).resolve()) for name in ("deeper.h", "size.h"))
    assert set(headers) <= set(built.read)


@needs_nvrtc
def test_file_in_the_processs_own_folder_is_no_header(tmp_path, monkeypatch):
    (tmp_path / "mine.h").write_text("#define MINE 1\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BuildFailed, match=r"mine\.h"):
        open_nvrtc().compile(program('#include "mine.h"\n'))


@needs_nvrtc
def test_header_includes_one_of_its_own_folder(tmp_path):
    parts = tmp_path / "parts"
    parts.mkdir()
    (parts / "outer.h").write_text('#include "inner.h"\n')
    (parts / "inner.h").touch()
    open_nvrtc().compile(program("#include <parts/outer.h>\n", include_dirs=(str(tmp_path),)))


def test_toolkit_headers_are_looked_for_where_no_folder_has_a_file(tmp_path):
    cases = [
        ("int a;", False),
        ('#include "mine.h"', False),
        ("#include <mine.h>", False),
        ("# include <cuda_fp16.h>", True),
        ('#include "other.h"', True),
    ]
    (tmp_path / "mine.h").touch()
    for text, needs in cases:
        asked = Program(text, (), (str(tmp_path),))
        assert includes_others(asked, ()) == needs


@needs_nvrtc
def test_nvrtc_compiles_where_there_is_no_nvcc(monkeypatch):
    monkeypatch.setenv("CUDACXX", "/nowhere/nvcc")
    assert first_usable("sm_90") == NVRTC


def test_library_that_does_not_compile_is_not_used(monkeypatch):
    class Broken:
        class Status(int):
            name = "NVRTC_ERROR_INTERNAL_ERROR"

        def nvrtcGetSupportedArchs(self):  # noqa: N802
            return 0, [80, 90]

        def nvrtcCreateProgram(self, *_):  # noqa: N802
            return self.Status(11), None

    monkeypatch.setattr(nvrtc, "load_nvrtc", Broken)
    with pytest.raises(BackendUnavailable, match="empty kernel"):
        Nvrtc("sm_90")


# ------------------------------------------------------------------------- names of kernels

NAMED_KERNELS = """\
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
def named(request):
    lines = reference_lines(name for name in SYMBOLS if plain_name(name) != name)
    text = "\n".join([NAMED_KERNELS, *lines])
    if request.param is Nvrtc:
        return cubin(text).data
    return Nvcc("sm_90").compile(program(text)).data


def test_kernels_are_found_by_the_names_that_a_person_writes(named):
    assert {name: kernel_symbol(named, name) for name in SYMBOLS} == SYMBOLS
    assert readable(kernel_symbol(named, "hidden")) == "(anonymous namespace)::hidden(int*)"


def test_a_log_shows_kernels_as_a_person_names_them(either):
    cases = [
        ("gemm<flaot, 8>", "\n  gemm<flaot, 8>"),
        ("over(double *)", "\n  over(double *)"),
        ("huge<int>", "'huge<int>(int*)'"),
    ]
    text = '#line 1 "k.cu"\n' + NAMED_KERNELS + "template <typename T> __global__ void huge(T *z)"
    text += " { __shared__ T all[1 << 20]; all[z[1]] = z[2]; __syncthreads(); z[0] = all[z[3]]; }"
    for name, shown in cases:
        with pytest.raises(BuildFailed) as failure:
            either.compile(program("\n".join([text, *reference_lines([name])])))
        message = str(failure.value)
        assert shown in message
        for hidden in ("harness_kernel", "function(1)", "_Z", "kernel.cu"):
            assert hidden not in message


def test_wrong_name_of_a_kernel_lists_those_there(named):
    cases = [
        ("over", r"`over\(float\*\)`, `over\(int\*\)`"),
        ("gemm", "A template"),
        ("missing", "`gemm<float, 16>.* and 5 more"),
        ("lib::scale(int *)", "`__global__`"),
    ]
    for name, reason in cases:
        with pytest.raises(LookupError, match=reason):
            kernel_symbol(named, name)


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


@needs_nvrtc
def test_vectors_and_structures_lie_where_the_kernel_has_them():
    named = cubin(WITH_PARAMETERS).data
    places = parameter_places(named, "f")
    assert places == ((0, 8), (8, 1), (16, 16), (32, 32), (64, 2))
    assert parameter_places(named, "none") == ()
    assert parameter_places(named, "missing") is None
    vector = np.void((1, 2, 3, 4), "f4, f4, f4, f4")
    values = [np.uintp(9), np.int8(5), vector, np.void((6, 7, 8), PAIR), np.int16(-1)]
    launch = Launch("f", (1,), (1,), ("x", "n", "v", "p", "s"))
    packed = packed_arguments(launch, values, [True, *[False] * 4], places)
    assert packed[:32] == struct.pack("<QB7x4f", 9, 5, 1, 2, 3, 4)
    assert np.frombuffer(packed[32:64], PAIR)[0].tolist() == (6, 7, 8)
    assert packed[64:] == struct.pack("<h", -1)
