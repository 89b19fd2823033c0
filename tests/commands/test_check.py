"""The check command: spaces described, and their configurations compiled."""

import dataclasses
import json
import re
import shutil
from pathlib import Path

import pytest
import yaml

from harness.analysis.failures import group_failures
from harness.api.documents import SCHEMA_DIALECT
from harness.checking.inspection import Compiled
from harness.checking.space_check import describe_host
from harness.checking.targets import (
    ARCHITECTURE_LIMITS,
    CompileTarget,
    checked_spaces,
    target_notes,
)
from harness.core.errors import LaunchFailed
from harness.core.records import Build, Config
from harness.measure.devices import Backend
from harness.space_file import load_spec, space_schema
from tests.helpers.commands import check as main
from tests.helpers.commands import schema as schema_main
from tests.helpers.compilers import needs_nvrtc

DATA = Path(__file__).parents[1] / "data" / "check"
HOST = (DATA / "scale.py").read_text()
SM_90 = CompileTarget(
    "sm_90", Backend("cuda", "nvcc", "named", arch="sm_90"), "nvcc 13 sm_90", ARCHITECTURE_LIMITS
)


@pytest.fixture
def nvrtc(kernels_here, monkeypatch):
    """Compiles CUDA in this process by NVRTC, which takes an eighth of nvcc's time."""
    monkeypatch.setenv("CUDACXX", "/nowhere/nvcc")


@pytest.fixture
def write(tmp_path):
    """Writes a space with some of its sections replaced, and returns its path."""

    def write_space(name="scale", **sections):
        shutil.copytree(DATA, tmp_path, dirs_exist_ok=True)
        space = yaml.safe_load((DATA / "space.yaml").read_text()) | {"name": name, **sections}
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump(space, sort_keys=False))
        return path

    return write_space


@pytest.fixture
def check(capsys):
    """Runs the command; returns its exit code and what it prints, as one line."""

    def run(*words):
        status = main([str(word) for word in words])
        out, err = capsys.readouterr()
        return status, " ".join((out + err).split())

    return run


def blocks(*values, default, unroll=(1, 2, 4), default_unroll=1):
    return {
        "BLOCK": {"values": list(values), "role": "launch", "default": default},
        "UNROLL": {"values": list(unroll), "role": "source", "default": default_unroll},
    }


def kernel_of(language):
    suffix = {"opencl": "cl", "cuda": "cu"}[language]
    return {"function": "scale", "source": {language: f"scale.{suffix}"}, "host": "scale.py"}


# ------------------------------------------------------------------------- what a space holds


def test_a_failing_host_module_is_reported_with_its_line_and_input(opencl, write, check):
    path = write()
    (path.parent / "scale.py").write_text(HOST.replace("(4, np", "(features['N'], np"))
    status, text = check(path, "--backend", "opencl", "--compile", "0")
    assert status == 1
    assert "scale.py:2: arguments() raised KeyError: 'N' on the input (n=16)" in text


def test_a_space_without_a_title_is_headed_by_its_name(write, check):
    path = write()
    path.write_text(path.read_text().replace("title: Scaling\n", ""))
    status, text = check(path, "--no-compile")
    assert status == 0
    assert text.startswith(f"scale ({path})")


def test_of_many_inputs_the_first_and_the_extremes_are_counted(write, check):
    values = [{"n": n} for n in (500, *range(16, 400))]
    path = write(constraints=["BLOCK <= 4 * n"], inputs={"features": ["n"], "values": values})
    _, text = check(path, "--no-compile")
    assert "from 6 (n=16) to 9 (n=500) of them legal, counted on 2 of 385 inputs" in text


def test_size_that_cannot_be_counted_is_called_an_estimate(write, check, monkeypatch):
    monkeypatch.setattr("harness.constraints.solutions.MOST_EDGES", (100,))
    names = [f"P{index}" for index in range(12)]
    many = {"type": "integer", "min": 1, "max": 9, "default": 1, "role": "launch"}
    path = write(
        parameters=blocks(64, default=64) | dict.fromkeys(names, many),
        constraints=[" + ".join(f"{name} * {name}" for name in names) + " <= 300"],
        launch={"group": ["BLOCK"], "grid": [" + ".join(names)]},
    )
    status, text = check(path, "--no-compile")
    assert status == 0
    assert "on the input (n=16): an estimate" in text
    assert " +- " in text


def test_the_schema_of_spaces_is_printed(capsys):
    schema_main([])
    schema = json.loads(capsys.readouterr().out)
    assert schema == {"$schema": SCHEMA_DIALECT, **space_schema()}


@pytest.mark.parametrize(
    "words, message",
    [
        ("", "name a space"),
        ("SPACE --no-compile --compile 2", "--no-compile"),
        ("SPACE --no-compile --arch sm_90", "--no-compile"),
        ("SPACE --arch sm_90 --backend opencl", "--backend opencl"),
        ("SPACE --strict", "--strict"),
    ],
)
def test_bad_usage_is_an_error(write, check, words, message):
    status, text = check(*words.replace("SPACE", str(write())).split())
    assert status == 2
    assert message in text


@needs_nvrtc
def test_a_space_without_the_source_for_a_named_target_is_refused(write, check, nvrtc):
    status, text = check(write(kernel=kernel_of("opencl")), "--arch", "sm_90")
    assert status == 2
    assert "no cuda source, only opencl" in text


# -------------------------------------------------------------- limits without a device


def legal(path, name):
    """Return the values of a parameter that are legal within an architecture's limits."""
    spec = load_spec(path)
    space = checked_spaces(spec, SM_90.limits, "nvcc")[spec.inputs[0]]
    return {config[name] for config in space}


def test_grid_beyond_an_architectures_second_dimension_is_illegal(write):
    launch = {"group": ["BLOCK", "1"], "grid": ["1", "n * UNROLL"]}
    path = write(launch=launch, inputs={"features": ["n"], "values": [{"n": 20000}]})
    assert legal(path, "UNROLL") == {1, 2}


def test_an_architecture_has_an_assumed_number_of_compute_units(write):
    path = write(constraints=["BLOCK * compute_units <= 64 * 100", "BLOCK >= warp_size * 2"])
    assert legal(path, "BLOCK") == {64}
    (note,) = target_notes(load_spec(path), SM_90)
    assert "100 for sm_90" in note
    on_device = dataclasses.replace(SM_90, has_device=True)
    assert list(target_notes(load_spec(path), on_device)) == []
    launch = {"group": ["BLOCK"], "grid": ["compute_units * 4"]}
    assert list(target_notes(load_spec(write(launch=launch)), SM_90))
    assert list(target_notes(load_spec(write()), SM_90)) == []


# ------------------------------------------------------------------------------ what comes out


def test_headline_is_the_first_error_of_a_failure_and_the_warning_of_a_build():
    log = "nvcc ended with status 2\nk.cu(1): warning: odd\n  k.cu(3): error: bad\n1 error detected"
    assert Compiled(Config({}), failure=log).headline == "k.cu(3): error: bad"
    assert Compiled(Config({}), failure="\nkilled\nlater").headline == "killed"
    build = Build("key", "", "nvcc", 0.1, log="k.cu(1): warning: odd")
    assert Compiled(Config({}), build).headline == "k.cu(1): warning: odd"


def test_failures_that_differ_in_numbers_alone_are_one_reason():
    first = "error: too much data (0x13880 bytes, 0xc000 max)"
    texts = [first, "error: too much data (0x1 bytes, 7 max)", "killed"]
    trials = [Compiled(Config({"A": k}), failure=text) for k, text in enumerate(texts)]
    groups = group_failures(trials, lambda trial: trial.headline)
    assert [(g.headline, len(g.members)) for g in groups] == [(first, 2), ("killed", 1)]
    assert str(groups[0].members[0].config) == "A=0"


SCALE = """\
kernel void scale(global const int *x, global int *y) {
    int i = get_global_id(0); y[i] SIGN x[i] * UNROLL;
}
"""
SCALE_HOST = """\
import numpy as np
def arguments(features, rng):
    return {'x': np.arange(1, 65, dtype=np.int32), 'y': np.zeros(64, np.int32)}
def reference(arguments): return {'y': arguments['x']}
"""


@pytest.mark.parametrize("sign, is_named", [("+=", True), ("-=", False)])
def test_kernel_that_adds_to_its_output_is_told_to_declare_it(opencl, write, check, sign, is_named):
    path = write(kernel=kernel_of("opencl"), launch={"group": ["BLOCK"], "grid": [1]})
    (path.parent / "scale.cl").write_text(SCALE.replace("SIGN", sign))
    (path.parent / "scale.py").write_text(SCALE_HOST)
    words = path, "--backend", "opencl", "--compile", "0", "--run"
    advice = 'INOUT = ("y",)'
    status, text = check(*words)
    assert (status, advice in text) == (1, is_named)
    (path.parent / "scale.py").write_text(f"{SCALE_HOST}{advice}\n")
    status, text = check(*words)
    assert (status == 0) == is_named
    assert advice not in text


# ----------------------------------------------------- arguments of the source and of the host


@pytest.fixture
def compared(write):
    """Checks a kernel with this head and these arguments in a language; returns what is said of the
    host module."""

    def of(head, arguments, language="opencl", launches="", **sections):
        kernel = kernel_of(language)
        path = write(kernel=kernel, **sections)
        mark = "kernel" if language == "opencl" else "__global__"
        before, _, parameters = head.rpartition("|")
        source = f"{before}\n{mark} void scale({parameters}) {{ int i = BLOCK * UNROLL; }}\n"
        (path.parent / kernel["source"][language]).write_text(source)
        made = ", ".join(f'"{name}": {value}' for name, value in arguments.items())
        (path.parent / "scale.py").write_text(
            f"import numpy as np\ndef arguments(features, rng): return {{{made}}}\n"
            f"def reference(arguments): return {{'b': arguments['b']}}\n{launches}"
        )
        try:
            return describe_host(load_spec(path), [])
        except LaunchFailed as error:
            return str(error)

    return of


SIGNATURES = {
    "opencl": "global const half *a, global float4 *b, int m, unsigned n, local float *t, ulong k",
    "cuda": "const __half *a, float4 *__restrict__ b, int m, unsigned n, unsigned long k",
}
FITTING = {
    "a": "np.zeros(4, np.float16)",
    "b": "np.zeros((4, 4), np.float32)",
    "m": "np.int32(1)",
    "n": "np.uint32(1)",
    "k": "np.uint64(1)",
}


@pytest.mark.parametrize("language", SIGNATURES)
@pytest.mark.parametrize(
    "name, value, expected",
    [
        ("a", FITTING["a"], ""),
        ("a", "np.zeros(4, np.float32)", "half*"),
        ("b", "np.zeros(4, np.float64)", "float4*"),
        ("b", "np.zeros(4, np.complex64)", ""),
        ("a", "np.zeros(4, 'f2, f2')", ""),
        ("m", "np.float32(1)", "int"),
        ("m", "np.int64(1)", "int"),
        ("m", "np.uint32(1)", ""),
        ("k", "np.zeros(4)", "ulong"),
    ],
)
def test_types_of_arguments_are_compared_with_the_source(compared, name, value, expected, language):
    text = compared(SIGNATURES[language], FITTING | {name: value}, language)
    refused = f"argument {list(FITTING).index(name) + 1} of scale, {name}, is {expected}, but"
    assert (refused if expected else "arguments a, b, m, n, k; outputs b") in text


def test_arguments_in_another_order_are_refused_and_both_are_shown(compared):
    head = "global half *a, global float4 *b, unsigned n, int m, ulong k"
    assert "a, b, n, m, k; the host module passes a, b, m, n, k" in compared(head, FITTING)


@pytest.mark.parametrize(
    "head, changed",
    [
        ("void *a, float *b, int m, unsigned n, size_t k", {"a": "np.zeros(4)"}),
        ("typedef double real;|real *a, float *b, int m, unsigned n, size_t k", {}),
        ("using half = double;|half *a, float *b, int m, unsigned n, size_t k",
         {"a": "np.zeros(4)"}),
        ("#ifdef F\n#define R half\n#else\n#define R float\n#endif\n|"
         "R *a, float *b, int m, unsigned n, size_t k", {"a": "np.zeros(4, np.float32)"}),
        ("#ifndef R\n#define R float\n#endif\n|R *a, float *b, int m, unsigned n, size_t k", {}),
        ("template <typename half>\n|half *a, float *b, int m, unsigned n, size_t k",
         {"a": "np.zeros(4)"}),
        ("template <typename T>\n|T *a, float *b, int m, unsigned n, size_t k", {}),
        ("|\n#ifdef F\nfloat *a,\n#else\nint a,\n#endif\nfloat *b, int m, size_t k", {}),
        ("float *a, float *b, float3 m, unsigned n, size_t k",
         {"a": "np.uint64(0)", "m": "np.void((1, 1, 1), 'f4, f4, f4')"}),
        ("half *in, float *out, int rows, unsigned columns, size_t k", {}),
        ("half *a, float *b, int m", {}),
        ("half *a, float *b, int, unsigned n, float **m", {}),
    ],
)  # fmt: skip
def test_what_the_source_leaves_open_is_not_refused(compared, head, changed):
    compiler = {"nvcc": {"options": ["-DR=half"]}}
    assert "outputs b" in compared(head, FITTING | changed, "cuda", compiler=compiler)


def test_a_macro_that_stands_for_a_type_is_followed(compared):
    head = "#define R double\n|global R *a, global float *b, int m, unsigned n, ulong k"
    assert "a, is double*" in compared(head, FITTING)


@pytest.mark.parametrize(
    "last, message", [("np.int32(1)", "launches scale"), ("np.int64(1)", "passes int64")]
)
def test_launches_of_the_host_module_are_compared_by_type_alone(compared, last, message):
    launches = (
        "from harness.host import Launch\ndef launches(arguments, config):\n"
        "    size = config['BLOCK'] * config['UNROLL']\n"
        f"    yield Launch('scale', (size,), (1,), ('b', 'a', {last}))\n"
    )
    arguments = {"a": "np.zeros(4, np.float32)", "b": "np.zeros(4, np.float32)"}
    head = "global float *a, global float *b, int m"
    assert message in compared(head, arguments, launches=launches, launch="host")


@pytest.mark.parametrize(
    "text, shared, is_missing",
    [
        ("extern __shared__ float tile[];", {}, True),
        ("extern __align__(16) __shared__ char tile[];", {}, True),
        ("extern __shared__ float tile[];", {"shared": "BLOCK * 4"}, False),
        ("// extern __shared__ float tile[];", {}, False),
        ('extern "C" __global__ void f() { __shared__ int x; }', {}, False),
    ],
)
def test_a_dynamic_array_without_bytes_is_noted(text, shared, is_missing, write, tmp_path):
    path = write(launch={"group": ["BLOCK"], "grid": [1], **shared})
    with (tmp_path / "scale.cu").open("a") as source:
        source.write(text)
    notes = " ".join(target_notes(load_spec(path), SM_90))
    assert ("extern __shared__" in notes) == is_missing


# ------------------------------------------------------------------------------ compiled


@needs_nvrtc
def test_arguments_that_do_not_fit_are_found_without_a_gpu(write, check, nvrtc):
    path = write()
    (path.parent / "scale.py").write_text(HOST.replace(', "n": np.int32(1)', ""))
    status, text = check(path, "--arch", "sm_90", "--compile", "0")
    assert status == 1
    assert "host module FAILED: scale takes 2 arguments, but the host module passes 1: x" in text


@needs_nvrtc
def test_default_and_another_compile_for_several_architectures(write, check, nvrtc, own_cache):
    status, text = check(write(), "--arch", "sm_90,sm_80", "--arch", "sm_90", "--compile", "1")
    assert status == 0
    for part in ("sm_90", "sm_80"):
        assert text.count(f"{part}: 2 configurations with the default: 2 compiled to 2") == 1
    assert re.search(r"occupancy, % +\d+ +\d+ +\d+", text)
    assert "256 bytes of static" in text  # 64 floats of the default
    assert "cached" not in text


@needs_nvrtc
def test_default_that_does_not_compile_gives_the_log_and_exit_code_1(write, check, nvrtc):
    unrolled = blocks(64, default=64, unroll=(1, 8), default_unroll=8)
    broken = write("broken", parameters=unrolled, constraints=[])
    status, text = check(broken, write(), "--arch", "sm_90", "--compile", "0")
    assert status == 1
    assert "default for sm_90: FAILED" in text
    assert "default for sm_90: OK" in text
    _, end = text.split("2 spaces valid; ")
    assert end.startswith("the default failed in 1 of 2: broken broken for sm_90")
    assert "eight is too many" in end
    assert end.endswith("for example (BLOCK=64, UNROLL=8)")


@needs_nvrtc
def test_default_that_an_architecture_does_not_allow_gives_exit_code_1(write, check, nvrtc):
    path = write(parameters=blocks(64, 2048, default=2048), constraints=[])
    status, text = check(path, "--arch", "sm_90", "--compile", "0")
    assert status == 1
    assert "sm_90 does not allow it on the input (n=16)" in text
    assert "<= 1024" in text


def test_default_compiles_on_opencl_with_its_local_memory(opencl, write, check):
    path = write(parameters=blocks(64, default=64), constraints=["UNROLL <= 2"])
    status, text = check(path, "--backend", "opencl", "--compile", "1")
    assert status == 0
    assert "shared memory, bytes 256 384 512" in text
    assert "2 compiled to at most 2 different" in text


def test_a_space_without_a_source_for_this_device_is_passed_over(opencl, write, check, monkeypatch):
    of_device = CompileTarget.of_device
    monkeypatch.setattr(CompileTarget, "of_device", lambda *_: of_device("opencl"))
    status, text = check(write(kernel=kernel_of("cuda")), write("both"), "--compile", "0")
    assert status == 0
    assert "no opencl source, only cuda" in text
    assert "2 spaces valid; the default compiles in 1 of 2" in text


@needs_nvrtc
def test_sweep_counts_codes_and_failures_and_uses_the_cache(write, check, nvrtc, own_cache):
    """Another configuration that fails is no failure of the command, unless it is strict."""
    launch = {"group": ["BLOCK"], "grid": ["n"], "shared": "BLOCK"}
    division = {"values": ["true"], "option": "--prec-div={value}"}  # nothing is divided
    path = write(
        parameters=blocks(64, default=64, unroll=(1, 8)),
        constraints=[],
        flags={"nvcc": {"division": division}},
        launch=launch,
    )
    words = path, "--arch", "sm_90", "--compile", "9"
    status, text = check(*words)
    assert status == 0
    assert "only 3 of 9 other legal configurations were found" in text
    assert "4 configurations with the default: 2 compiled to 1 different machine code" in text
    assert "4 compiled now, 0 from the build cache" in text
    assert "not compiled: 2 x " in text
    assert "eight is too many" in text
    assert "registers" in text
    assert "shared memory, bytes 320 320 320" in text, "static and dynamic"
    status, text = check(*words, "--strict")
    assert status == 1
    assert "2 compiled now, 2 from the build cache" in text
    assert "a configuration failed in 1 of 1: scale" in text


@needs_nvrtc
@pytest.mark.parametrize(
    "before, after, there",
    [
        ("namespace lib {", "}", "its kernels are `lib::scale(float*)`"),
        ("template <int N>", "", "it has no kernel"),
    ],
)
def test_a_kernel_that_cannot_be_launched_by_its_name_fails(
    write, check, nvrtc, before, after, there
):
    path = write()
    body = "__global__ void scale(float *x) { x[0] = UNROLL * BLOCK; }"
    (path.parent / "scale.cu").write_text(f"{before} {body}{after}")
    status, text = check(path, "--arch", "sm_90", "--compile", "0")
    assert status == 1
    assert f"`scale` is not in the binary; {there}" in text


def test_what_the_module_of_a_callable_prints_is_no_json(tmp_path, capfd):
    for file in DATA.with_name("callables").glob("faults.*"):
        text = file.read_text().replace(", {n: 1, work_ms: 0}", "")
        text = text.replace("    fault, calls", "    print('build')\n    fault, calls")
        text = text.replace("    n = features", "    print('data')\n    n = features")
        (tmp_path / file.name).write_text(text)
    assert main([tmp_path / "faults.yaml", "--run", "--json"]) == 0
    printed = capfd.readouterr()
    assert json.loads(printed.out)["is_ok"]
    assert printed.err.count("data") > 1
    assert "build" in printed.err
