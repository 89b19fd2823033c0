"""OpenCL beyond the contract: includes, arguments that do not fit, logs, caches."""

import ctypes
import os
import platform
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.core.errors import BackendUnavailable, BuildFailed, LaunchFailed, UsageError
from harness.core.program import Launch, Program
from harness.core.records import DEVICE_UUID
from harness.measure.opencl.device import OpenClDevice
from harness.measure.opencl.driver import OpenClCompiler, usable_devices
from harness.measure.opencl.pocl_cpu import name_processor
from harness.source.inlining import inlined
from tests.helpers.compilers import open_opencl

KERNEL = """\
kernel void f(global float *y, int n, float a) {
    y[get_global_id(0)] = a * n;
}
kernel __attribute__((reqd_work_group_size(8, 2, 1))) void sized(global float *y) {}
kernel void large(global float *y) {
    local float big[1 << 22];
    big[get_local_id(0)] = y[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    y[0] = big[1];
}
kernel void neighbours(global float *y, local float *tile, int n) {
    local float fixed[1];
    tile[get_local_id(0)] = get_local_id(0);
    if (get_local_id(0) == 0) fixed[0] = n;
    barrier(CLK_LOCAL_MEM_FENCE);
    y[get_local_id(0)] = tile[(get_local_id(0) + 1) % get_local_size(0)] + fixed[0];
}
kernel void two(global float *y, local float *a, local int *b) { a[0] = b[0] = y[0]; }
kernel void vectors(global float4 *y, float2 c, uchar b, global uint *u) {
    y[get_global_id(0)] = (float4)(c.x, c.y, b, u[0]);
}
"""

Y = np.zeros(16, np.float32)
FITTING = {"y": Y, "n": np.int32(2), "a": np.float32(3)}


@pytest.fixture(scope="module")
def compiler():
    return open_opencl(OpenClCompiler)


@pytest.fixture(scope="module")
def device():
    return open_opencl()


@pytest.fixture(scope="module")
def run(device, compiler):
    """Binds the arguments, and launches a kernel with them unless the launch names others."""
    module = device.load(compiler.compile(Program(KERNEL, (), ())))

    def launched(launch, arguments):
        device.bind(arguments)
        named = launch.arguments or tuple(arguments)
        device.launch(module, [replace(launch, arguments=named)])

    return launched


# ------------------------------------------------------------------------------------ includes


@pytest.fixture
def write(tmp_path):
    """Writes headers into a folder with a space in its name; a program that includes them."""
    folder = tmp_path / "in a folder"

    def written(text, **headers):
        for name, content in headers.items():
            path = folder / f"{name.replace('__', '/')}.h"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        return Program(text, (), (str(folder),), tuple(headers.values()))

    return written


def test_messages_name_the_line_in_and_after_an_include(write, compiler):
    cases = [
        ('\n#include "k.h"\n\nint bad = wrong;\n', {"k": "#define K 1\n\n\n"}, r"source\.cl:4:11"),
        (
            '#include "k.h"\n',
            {"k": '#include "deep/m.h"\n\nint bad = wrong;\n', "deep__m": ""},
            r"k\.h:3:11",
        ),
    ]
    for text, headers, place in cases:
        with pytest.raises(BuildFailed, match=rf"{place}: .*'wrong'"):
            compiler.compile(write(f'#line 1 "source.cl"\n{text}', **headers))


def test_include_is_looked_for_beside_the_including_file_first(write):
    program = write('#include "deep/k.h"', deep__k='#include "m.h"', deep__m="near", m="far")
    text = inlined(program)
    assert "near" in text
    assert "far" not in text


def test_include_in_brackets_is_in_those_folders(write, compiler):
    text = "#include <deep/k.h>\n#include <not_there.h>"
    program = write(text, deep__k="#include <m.h>", deep__m="near", m="far")
    lines = inlined(program).split("\n")
    assert "far" in lines
    assert "near" not in lines
    assert "#include <not_there.h>" in lines
    compiler.compile(write("#include <k.h>\nkernel void f() { int i = K; }", k="#define K 1\n"))


def test_include_within_a_comment_stays_one_and_a_file_is_written_in_once(write):
    text = '/* "quoted\n#include "k.h"\n// */ int a; // /*\n#include "k.h"\n'
    lines = inlined(write(text, k="included")).split("\n")
    assert lines.count("included") == 1
    assert lines[1] == '#include "k.h"'
    itself = write('#include "k.h"\n', k='#ifndef K\n#define K\n#include "k.h"\n#endif\n')
    assert inlined(itself).count("#define K") == 1


def test_pragma_once_holds(write, compiler):
    once = "#pragma once\nconstant int k = 1;\n"
    compiler.compile(write('#include "k.h"\n#include "k.h"\nkernel void f() {}', k=once))


def test_include_that_changed_meanwhile_is_refused(write, compiler):
    program = write('#include "k.h"\n', k="#define K 1\n")
    write("", k="#define K 2\n")
    with pytest.raises(BuildFailed, match=r"k\.h has changed"):
        compiler.compile(program)


# ----------------------------------------------------------------------------------- arguments


def launch_of(function, *group, **more):
    """A launch of one group, by default of 8, with all that is bound."""
    return Launch(function, group or (8,), (1,) * max(1, len(group)), (), **more)


F, VECTORS, TILE = launch_of("f"), launch_of("vectors", 4), launch_of("neighbours", shared_bytes=64)
COMPLEX = {"y": Y, "c": np.complex64(1 + 2j), "b": np.bool_(1), "u": np.array([4], np.int32)}
WITH_N = {"y": Y, "n": np.int32(10)}
ALONE = {"y": Y}


def test_launch_that_does_not_fit_the_kernel_fails_and_the_next_one_works(device, run):
    cases = [
        (F, WITH_N, r"3 arguments.* 2: y, n"),
        (F, FITTING | {"y": np.int64(1)}, r"y, is float\*, .* int64"),
        (F, FITTING | {"n": Y}, r"n, is int, .* array"),
        (F, FITTING | {"n": np.int64(2)}, r"n, is int,.* int64"),
        (F, FITTING | {"a": np.int32(3)}, r"a, is float, .* int32"),
        (F, FITTING | {"y": np.zeros(16)}, r"y, is float\*, .* float64"),
        (VECTORS, COMPLEX | {"c": np.float32(1)}, r"c, is float2, .* float32; .* np\.void"),
        (VECTORS, COMPLEX | {"c": np.void((1, 2, 3), "f4, f4, f4")}, r"float2, .* 12 bytes"),
        (VECTORS, COMPLEX | {"c": Y}, r"float2, .* array"),
        (launch_of("large"), ALONE, r"16,777,216 .*device has [\d,]+"),
        (launch_of("neighbours"), WITH_N, r"parameter 2 .*shared"),
        (launch_of("two", shared_bytes=8), ALONE, "2 `local`"),
        (launch_of("neighbours", shared_bytes=1 << 40), WITH_N, "4 static, 1,099,511,627,776 dyn"),
        (TILE, ALONE, "2 arguments.* 1: y"),
        (launch_of("sized", 8, 2, carveout=75), ALONE, "carveout"),
        (launch_of("sized"), ALONE, r"\(8, 2, 1\).* \(8, 1, 1\)"),
    ]
    for launch, arguments, reason in cases:
        with pytest.raises(LaunchFailed, match=reason):
            run(launch, arguments)
        run(F, FITTING)
        assert (device.arguments.read("y")[:8] == 6).all()


def test_a_launch_is_checked_again_with_other_arguments(device, run):
    launch = replace(F, arguments=("y", np.int32(3), np.float32(2)))
    for _ in range(2):
        run(launch, {"y": Y.copy()})
        assert device.arguments.read("y")[:8].tolist() == [6] * 8
    with pytest.raises(LaunchFailed, match="y, is float"):
        run(launch, {"y": Y.astype(np.int32)})


def test_vectors_complex_and_booleans_fit_their_elements(device, run):
    for number in (np.complex64(1 + 2j), np.void((1, 2), "f4, f4")):
        run(VECTORS, COMPLEX | {"c": number})
        np.testing.assert_array_equal(device.arguments.read("y").reshape(4, 4), [[1, 2, 1, 4]] * 4)


def test_local_pointer_gets_the_launchs_shared_memory(device, run):
    for shared_bytes in (64, device.limits.max_local_bytes - 4):
        run(launch_of("neighbours", 16, shared_bytes=shared_bytes), WITH_N)
        np.testing.assert_array_equal(device.arguments.read("y"), np.roll(np.arange(16), -1) + 10)
    run(launch_of("f", shared_bytes=64), FITTING)
    run(launch_of("sized", 8, 2), {"y": Y})


# ------------------------------------------------------------------------------ logs and caches


def test_build_reports_the_local_memory_of_its_kernels(compiler):
    text = "kernel void f(global int *y) { local int a[64]; a[y[0]] = 1; y[1] = a[y[2]]; }"
    assert compiler.compile(Program(text, (), ())).build.shared_bytes == 256


def test_log_of_a_failed_build_holds_the_compilers_words_alone(compiler):
    with pytest.raises(BuildFailed, match=r"^.*undeclared identifier 'b'") as caught:
        compiler.compile(Program("kernel void f() { int a = b; }", ("-DX=1",), ()))
    for word in ("clBuildProgram", "options"):
        assert word not in str(caught.value)


def test_options_of_the_environment_are_part_of_the_identity(compiler, monkeypatch):
    monkeypatch.delenv("PYOPENCL_BUILD_OPTIONS", raising=False)
    before = compiler.identity
    monkeypatch.setenv("PYOPENCL_BUILD_OPTIONS", "-cl-fast-relaxed-math")
    assert compiler.identity == f"{before}, PYOPENCL_BUILD_OPTIONS=-cl-fast-relaxed-math"


BUILD = """
from harness.measure.device.launcher import Program
from harness.measure.opencl.driver import OpenClCompiler, usable_devices
from harness.measure.opencl.device import OpenClDevice
text = "kernel void f(global float *y) { y[get_global_id(0)] = 1; }"
name = usable_devices()[0]
OpenClDevice(name).load(OpenClCompiler(name).compile(Program(text, (), ())))
"""


@pytest.mark.slow
def test_pocl_keeps_its_code_in_our_cache(tmp_path):
    # PoCL looks for its folder once a process.
    environment = {name: v for name, v in os.environ.items() if name != "POCL_CACHE_DIR"}
    environment["HARNESS_CACHE_DIR"] = str(tmp_path)
    subprocess.run([sys.executable, "-c", BUILD], env=environment, check=True)
    assert list((tmp_path / "pocl").rglob("program.bc"))


@pytest.mark.parametrize("missing", ["PyOpenCL is missing", "no OpenCL device"])
def test_what_is_missing_says_the_install(monkeypatch, missing):
    if "PyOpenCL" in missing:
        monkeypatch.setitem(sys.modules, "pyopencl", None)
    else:
        monkeypatch.setattr("pyopencl.get_platforms", list)
    install = rf'{missing}.*pip install "pyopencl\[pocl\]"'
    with pytest.raises(BackendUnavailable, match=install):
        usable_devices()[0]


def test_unpinned_threads_are_another_environment(monkeypatch):
    name = usable_devices()[0]
    if name.is_gpu:
        pytest.skip("a GPU's driver has no threads to pin")
    assert os.environ["POCL_AFFINITY"] == "1"
    pinned = OpenClDevice(name).environment("a compiler")
    monkeypatch.setenv("POCL_AFFINITY", "0")
    free = OpenClDevice(name).environment("a compiler")
    assert free.device == f"{pinned.device}, threads not pinned"
    assert free.fingerprint != pinned.fingerprint


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="a CPU with one core has no parts")
def test_parts_of_a_cpu_are_equal_devices_side_by_side(monkeypatch):
    if usable_devices()[0].is_gpu:
        pytest.skip("there is a GPU")
    whole = usable_devices()[0].units
    monkeypatch.setenv("HARNESS_CPU_PARTS", "2")
    parts = usable_devices()
    assert [part.index for part in parts] == ["0:0", "0:1"]
    assert {(part.kind, part.units) for part in parts} == {(parts[0].kind, whole // 2)}
    assert parts[0].identity != parts[1].identity
    environments = []
    for part in parts:
        device = OpenClDevice(part)
        environments.append(device.environment("a compiler"))
        assert environments[-1].notes[DEVICE_UUID] == part.index
        binary = OpenClCompiler(part).compile(Program(KERNEL, (), ()))
        device.bind(FITTING)
        device.launch(device.load(binary), [Launch("f", (8,), (1,), tuple(FITTING))])
        assert device.arguments.read("y")[:8].tolist() == [6.0] * 8
    assert environments[0] == environments[1]
    monkeypatch.setenv("HARNESS_CPU_PARTS", "1024")
    with pytest.raises(UsageError, match=f"HARNESS_CPU_PARTS=1024, .* {whole} core"):
        usable_devices()


# ----------------------------------------------------------------------------- the processor's name

VERSION = "OpenCL 3.0 PoCL HSTR: pthread-x86_64-unknown-linux-gnu-"
needs_linux = pytest.mark.skipif(
    platform.machine() != "x86_64" or not Path("/proc/self/maps").exists(),
    reason="the name is replaced on Linux on x86-64",
)


class Record(ctypes.Structure):
    """A device's record: what stands around the pointer to the name does not matter."""

    _around = ctypes.c_uint64 * 80
    _fields_ = (("before", _around), ("name", ctypes.c_char_p), ("after", _around))


@needs_linux
def test_refused_name_becomes_a_level_of_x86_64():
    cases = [
        (b"generic", "generic", b"x86-64-v"),
        (b"generic", "znver3", b"generic"),  # PoCL knows it
        (b"znver3", "generic", b"znver3"),  # the record is without the name
    ]
    for recorded, device, named in cases:
        record = Record(name=recorded)
        name_processor(f"{VERSION}{device}", ctypes.addressof(record))
        assert record.name.startswith(named)
