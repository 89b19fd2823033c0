"""The check command: spaces described, and their configurations compiled."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from collections.abc import Sequence
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
from tests.helpers.compilers import needs_nvcc

MVMUL = Path(__file__).parents[2] / "spaces" / "mvmul.yaml"

DATA = Path(__file__).parents[1] / "data" / "check"
HOST = (DATA / "scale.py").read_text()


@pytest.fixture(scope="module", autouse=True)
def _own_build_cache(tmp_path_factory):
    """Builds of these tests come from a compiler, not from an earlier run of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def write(tmp_path):
    """Writes a space with some of its sections replaced, and returns its path."""

    def write_space(name: str = "scale", **sections: object) -> Path:
        shutil.copytree(DATA, tmp_path, dirs_exist_ok=True)
        space = yaml.safe_load((DATA / "space.yaml").read_text()) | {"name": name, **sections}
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump(space, sort_keys=False))
        return path

    return write_space


def blocks(
    *values: int, default: int, unroll: Sequence[int] = (1, 2, 4), default_unroll: int = 1
) -> dict[str, object]:
    return {
        "BLOCK": {"values": list(values), "role": "launch", "default": default},
        "UNROLL": {"values": list(unroll), "role": "source", "default": default_unroll},
    }


SM_90 = CompileTarget(
    "sm_90", Backend("cuda", "nvcc", "named", arch="sm_90"), "nvcc 13 sm_90", ARCHITECTURE_LIMITS
)

# ------------------------------------------------------------------------- what a space holds


@pytest.mark.usefixtures("opencl")
def test_a_failing_host_module_is_reported_with_its_line_and_input(write, capsys):
    path = write()
    (path.parent / "scale.py").write_text(HOST.replace("(4, np", "(features['N'], np"))
    assert main([str(path), "--backend", "opencl"]) == 1
    text = " ".join(capsys.readouterr().out.split())
    assert "scale.py:2: arguments() raised KeyError: 'N' on the input (n=16)" in text


def test_a_space_without_a_title_is_headed_by_its_name(write, capsys):
    path = write()
    path.write_text(path.read_text().replace("title: Scaling\n", ""))
    assert main([str(path), "--no-compile"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"scale ({path})"


def test_counts_that_differ_name_the_inputs_at_both_ends(write, capsys):
    main([str(write(constraints=["BLOCK <= 2 * n or BLOCK == 64"])), "--no-compile"])
    assert "9 points, from 6 (n=16) to 9 (n=100) of them legal" in capsys.readouterr().out


def test_of_many_inputs_the_first_and_the_extremes_are_counted(write, capsys):
    values = [{"n": 500}, *({"n": n} for n in range(16, 400))]
    path = write(constraints=["BLOCK <= 4 * n"], inputs={"features": ["n"], "values": values})
    assert main([str(path), "--no-compile"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "from 6 (n=16) to 9 (n=500) of them legal, counted on 2 of 385 inputs" in text


def test_size_that_cannot_be_counted_is_called_an_estimate(write, capsys, monkeypatch):
    monkeypatch.setattr("harness.constraints.solutions.MOST_EDGES", (100,))
    names = [f"P{index}" for index in range(12)]
    many = {name: {"type": "integer", "min": 1, "max": 9, "default": 1, "role": "launch"}
            for name in names}  # fmt: skip
    path = write(
        parameters={**blocks(64, default=64), **many},
        constraints=[" + ".join(f"{name} * {name}" for name in names) + " <= 300"],
        launch={"group": ["BLOCK"], "grid": [" + ".join(names)]},
    )
    assert main([str(path), "--no-compile"]) == 0
    text = capsys.readouterr().out
    assert "of them legal on the input (n=16): an estimate by random points" in text
    assert " +- " in text


# --------------------------------------------------------------------------------- the schema


def test_the_schema_of_spaces_is_printed(capsys):
    schema_main([])
    schema = json.loads(capsys.readouterr().out)
    assert schema == {"$schema": SCHEMA_DIALECT, **space_schema()}


# ---------------------------------------------------------------------------------- bad usage


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a space, for example spaces/mvmul.yaml"),
        (["SPACE", "--no-compile", "--compile", "2"], "--no-compile does not go with"),
        (["SPACE", "--no-compile", "--arch", "sm_90"], "--no-compile does not go with"),
        (["SPACE", "--arch", "sm_90", "--backend", "opencl"], "--backend opencl has none"),
        (["SPACE", "--strict"], "--strict judges what --compile N compiles"),
    ],
)
def test_bad_usage_is_one_clear_error(write, capsys, arguments, message):
    path = str(write())
    assert main([path if word == "SPACE" else word for word in arguments]) == 2
    error = capsys.readouterr().err
    assert message in error


@needs_nvcc
def test_a_space_without_the_source_for_a_named_target_is_refused(write, capsys):
    kernel = {"function": "scale", "source": {"opencl": "scale.cl"}, "host": "scale.py"}
    assert main([str(write(kernel=kernel)), "--arch", "sm_90"]) == 2
    error = capsys.readouterr().err
    assert "it has no cuda source, only opencl; --backend opencl compiles that" in error


# -------------------------------------------------------------- limits without a device


def legal(spec, name):
    """Return the values of a parameter that are legal within an architecture's limits."""
    space = checked_spaces(spec, SM_90.limits, "nvcc")[spec.inputs[0]]
    return {config[name] for config in space}


def test_configurations_for_an_architecture_keep_its_limits(write):
    spec = load_spec(write(parameters=blocks(512, 1024, 2048, default=512), constraints=[]))
    assert legal(spec, "BLOCK") == {512, 1024}


def test_grid_beyond_an_architectures_second_dimension_is_illegal(write):
    launch = {"group": ["BLOCK", "1"], "grid": ["1", "n * UNROLL"]}
    spec = load_spec(write(launch=launch, inputs={"features": ["n"], "values": [{"n": 20000}]}))
    assert legal(spec, "UNROLL") == {1, 2}


def test_an_architecture_has_an_assumed_number_of_compute_units(write):
    constraints = ["BLOCK * compute_units <= 64 * 100", "BLOCK >= warp_size * 2"]
    spec = load_spec(write(constraints=constraints))
    (note,) = target_notes(spec, SM_90)
    assert "compute_units is taken to be 100 for sm_90" in note
    assert legal(spec, "BLOCK") == {64}
    assert not [*target_notes(spec, dataclasses.replace(SM_90, has_device=True))]
    launch = {"group": ["BLOCK"], "grid": ["compute_units * 4"]}
    assert [*target_notes(load_spec(write(launch=launch)), SM_90)]
    assert not [*target_notes(load_spec(write()), SM_90)]


# ------------------------------------------------------------------------------ what comes out


def test_headline_is_the_first_error_of_a_failure_and_the_warning_of_a_build():
    log = "nvcc ended with status 2\nk.cu(1): warning: odd\n  k.cu(3): error: bad\n1 error detected"
    assert Compiled(Config({}), failure=log).headline == "k.cu(3): error: bad"
    assert Compiled(Config({}), failure="\nkilled\nlater").headline == "killed"
    build = Build("key", "", "nvcc", 0.1, log="k.cu(1): warning: odd")
    assert Compiled(Config({}), build).headline == "k.cu(1): warning: odd"


@needs_nvcc
def test_arguments_that_do_not_fit_are_found_without_a_gpu(write, capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path / "cache"))
    path = write()
    Path(path.parent, "scale.py").write_text(HOST.replace(', "n": np.int32(1)', ""))
    assert main([str(path), "--arch", "sm_90"]) == 1
    failure = "host module FAILED: scale takes 2 arguments, but the host module passes 1: x"
    assert capsys.readouterr().out.splitlines()[-1] == f"  scale, {failure}"


@pytest.mark.usefixtures("opencl")
@pytest.mark.parametrize(("sign", "is_named"), [("+=", True), ("-=", False)])
def test_kernel_that_adds_to_its_output_is_told_to_declare_it(write, capsys, sign, is_named):
    kernel = {"function": "scale", "source": {"opencl": "scale.cl"}, "host": "scale.py"}
    path = write(kernel=kernel, launch={"group": ["BLOCK"], "grid": [1]})
    (path.parent / "scale.cl").write_text(
        "kernel void scale(global const int *x, global int *y) {\n"
        f"    int i = get_global_id(0); y[i] {sign} x[i] * UNROLL;\n}}\n"
    )
    (path.parent / "scale.py").write_text(
        "import numpy as np\ndef arguments(features, rng):\n"
        "    return {'x': np.arange(1, 65, dtype=np.int32), 'y': np.zeros(64, np.int32)}\n"
        "def reference(arguments): return {'y': arguments['x']}\n"
    )
    assert main([str(path), "--backend", "opencl", "--compile", "0", "--run"]) == 1
    text = " ".join(capsys.readouterr().out.split())
    why = "y looks like what was there before plus the expected value: does the kernel add to it?"
    assert (f'{why} Then write in the host module INOUT = ("y",)' in text) == is_named
    host = path.parent / "scale.py"
    host.write_text(host.read_text() + 'INOUT = ("y",)\n')
    status = main([str(path), "--backend", "opencl", "--compile", "0", "--run"])
    assert status == (0 if is_named else 1)
    assert why not in capsys.readouterr().out


SIGNATURE = "global const half *a, global float4 *b, int m, unsigned n, local float *t, ulong k"


def host(**arguments: str) -> str:
    """Return a host module with these arguments, and nothing to expect of them."""
    made = ", ".join(f'"{name}": {value}' for name, value in arguments.items())
    return (
        f"import numpy as np\ndef arguments(features, rng): return {{{made}}}\n"
        "def reference(arguments): return {'b': arguments['b']}\n"
    )


FITTING = {
    "a": "np.zeros(4, np.float16)",
    "b": "np.zeros((4, 4), np.float32)",
    "m": "np.int32(1)",
    "n": "np.uint32(1)",
    "k": "np.uint64(1)",
}


@pytest.fixture
def compared(write, capsys):
    """Checks a kernel with this head and these arguments in one language; returns what it prints
    on the host module."""

    def of(
        head: str,
        arguments: dict[str, str],
        language: str = "opencl",
        launches: str = "",
        **sections: object,
    ) -> str:
        suffix, mark = {"opencl": ("cl", "kernel"), "cuda": ("cu", "__global__")}[language]
        kernel = {"function": "scale", "source": {language: f"scale.{suffix}"}, "host": "scale.py"}
        path = write(kernel=kernel, **sections)
        before, _, parameters = head.rpartition("|")
        source = f"{before}\n{mark} void scale({parameters}) {{ int i = BLOCK * UNROLL; }}\n"
        (path.parent / f"scale.{suffix}").write_text(source)
        (path.parent / "scale.py").write_text(host(**arguments) + launches)
        spec = load_spec(path)
        try:
            return describe_host(spec, [])
        except LaunchFailed as error:
            return str(error)

    return of


@pytest.mark.usefixtures("opencl")
def test_check_refuses_arguments_in_another_order_and_shows_both(write, capsys):
    path = write()
    swapped = '"m": np.int32(1), "n": np.int32(1)'
    (path.parent / "scale.py").write_text(HOST.replace('"n": np.int32(1)', swapped))
    source = path.parent / "scale.cl"
    source.write_text(source.read_text().replace("int n)", "int n, int m)"))
    assert main([str(path), "--backend", "opencl", "--compile", "0"]) == 1
    assert (
        "host module FAILED: scale takes its arguments in another order: it takes x, n, m; the "
        "host module passes x, m, n" in " ".join(capsys.readouterr().out.split())
    )


@pytest.mark.parametrize("language", ["opencl", "cuda"])
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({}, ""),
        ({"a": "np.zeros(4, np.float32)"}, "argument 1 of scale, a, is half*, but the host module "
         "passes float32"),
        ({"b": "np.zeros(4, np.float64)"}, "argument 2 of scale, b, is float4*, but the host "
         "module passes float64"),
        ({"b": "np.zeros(4, np.complex64)"}, ""),
        ({"a": "np.zeros(4, 'f2, f2')"}, ""),
        ({"m": "np.float32(1)"}, "argument 3 of scale, m, is int, but the host module passes "
         "float32"),
        ({"m": "np.int64(1)"}, "argument 3 of scale, m, is int, but the host module passes int64"),
        ({"m": "np.uint32(1)"}, ""),
        ({"k": "np.zeros(4)"}, "argument 5 of scale, k, is ulong, but the host module passes an"),
    ],
)  # fmt: skip
def test_types_of_arguments_are_compared_with_the_source(compared, changed, message, language):
    head = SIGNATURE
    if language == "cuda":
        head = "const __half *a, float4 *__restrict__ b, int m, unsigned n, unsigned long k"
    text = compared(head, FITTING | changed, language)
    assert (message or "arguments a, b, m, n, k; outputs b") in text


@pytest.mark.parametrize(
    ("head", "changed"),
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
    assert "a, is double*, but the host module passes float16" in compared(head, FITTING)


@pytest.mark.parametrize(
    ("last", "message"), [("np.int32(1)", "launches scale"), ("np.int64(1)", "passes int64")]
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
    ("text", "shared", "is_missing"),
    [
        ("extern __shared__ float tile[];", None, True),
        ("extern __align__(16) __shared__ char tile[];", None, True),
        ("extern __shared__ float tile[];", "BLOCK * 4", False),
        ("// extern __shared__ float tile[];", None, False),
        ('extern "C" __global__ void f() { __shared__ int x; }', None, False),
    ],
)
def test_a_dynamic_array_without_bytes_is_noted(text, shared, is_missing, write, tmp_path):
    launch = {"group": ["BLOCK"], "grid": [1], **({"shared": shared} if shared else {})}
    path = write(launch=launch)
    source = tmp_path / "scale.cu"
    source.write_text(f"{source.read_text()}\n{text}\n")
    notes = " ".join(target_notes(load_spec(path), SM_90))
    assert ("has an `extern __shared__` array" in notes) == is_missing


@needs_nvcc
def test_default_and_another_compile_for_several_architectures(write, capsys):
    path = str(write())
    assert main([path, "--arch", "sm_90,sm_80", "--arch", "sm_90", "--compile", "1"]) == 0
    text = capsys.readouterr().out
    for part in ("sm_90", "sm_80"):
        counts = "2 configurations with the default: 2 compiled to 2 different machine codes"
        assert f"{part}: {counts}, 0 not compiled" in text
    assert re.search(r"occupancy, % +\d+ +\d+ +\d+", text)
    assert "256 bytes of static" in text  # 64 floats of the default
    assert "cached" not in text


@needs_nvcc
def test_failure_of_another_configuration_is_no_failure_of_the_command(write, capsys):
    parameters = blocks(64, default=64, unroll=(1, 8))
    path = write(parameters=parameters, constraints=[])
    assert main([str(path), "--arch", "sm_90"]) == 0
    text = capsys.readouterr().out
    assert text.count("eight is too many") == 1
    assert "not compiled: 1 x " in text
    assert "1 compiled to 1 different machine code, 1 not compiled" in text
    assert "only 1 of 8 other legal configurations were found" in text
    assert text.splitlines()[-3:] == [
        "1 space valid; the default compiles in 1 of 1",
        '  scale for sm_90, not compiled: 1 x scale.cu:2:2: error: #error "eight is too many"',
        "    for example (BLOCK=64, UNROLL=8)",
    ]


@needs_nvcc
def test_default_that_does_not_compile_gives_the_log_and_exit_code_1(write, capsys):
    parameters = blocks(64, default=64, unroll=(1, 8), default_unroll=8)
    path = write(parameters=parameters, constraints=[])
    assert main([str(path), str(MVMUL), "--arch", "sm_90", "--compile", "0"]) == 1
    text = capsys.readouterr().out
    assert "default for sm_90: FAILED" in text
    assert "eight is too many" in text
    assert "default for sm_90: OK" in text
    summary, failure, example = text.splitlines()[-3:]
    assert summary == "2 spaces valid; the default failed in 1 of 2: scale"
    assert failure.startswith("  scale for sm_90, not compiled: 1 x scale.cu:2:2: error: #error")
    assert example == "    for example (BLOCK=64, UNROLL=8)"


@needs_nvcc
def test_default_that_an_architecture_does_not_allow_gives_exit_code_1(write, capsys):
    path = write(parameters=blocks(64, 2048, default=2048), constraints=[])
    assert main([str(path), "--arch", "sm_90", "--compile", "0"]) == 1
    text = capsys.readouterr().out
    assert "sm_90 does not allow it on the input (n=16)" in text
    assert "<= 1024" in text


@pytest.mark.usefixtures("opencl")
def test_default_compiles_on_opencl_with_its_local_memory(write, capsys):
    path = write(parameters=blocks(64, default=64), constraints=["UNROLL <= 2"])
    assert main([str(path), "--backend", "opencl", "--compile", "1"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"shared memory, bytes +256 +384 +512", text)
    assert "2 compiled to at most 2 different" in text


@pytest.mark.usefixtures("opencl")
def test_a_space_without_a_source_for_this_device_is_passed_over(write, capsys, monkeypatch):
    of_device = CompileTarget.of_device
    monkeypatch.setattr(
        "harness.checking.targets.CompileTarget.of_device", lambda *_: of_device("opencl")
    )
    kernel = {"function": "scale", "source": {"cuda": "scale.cu"}, "host": "scale.py"}
    assert main([str(write(kernel=kernel)), str(write("both"))]) == 0
    text = capsys.readouterr().out
    assert "it has no opencl source, only cuda; --arch sm_90 compiles that" in text
    assert "2 spaces valid; the default compiles in 1 of 2" in text


# ------------------------------------------------------------------------- many at once


def test_failures_that_differ_in_numbers_alone_are_one_reason():
    texts = [
        "error: too much data (0x13880 bytes, 0xc000 max)",
        "error: too much data (0x1 bytes, 7 max)",
    ]
    trials = [Compiled(Config({"A": k}), failure=text) for k, text in enumerate([*texts, "killed"])]
    found = group_failures(trials, lambda trial: trial.headline)
    assert [(g.headline, len(g.members)) for g in found] == [(texts[0], 2), ("killed", 1)]
    assert str(found[0].members[0].config) == "A=0"


@needs_nvcc
def test_sweep_counts_codes_and_failures_and_uses_the_cache(write, capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path / "cache"))
    parameters = blocks(64, default=64, unroll=(1, 8))
    # Level 3 is what ptxas does of itself: the same machine code.
    flags = {"nvcc": {"level": {"values": [3], "option": "-Xptxas -O{value}"}}}
    launch = {"group": ["BLOCK"], "grid": ["n"], "shared": "BLOCK"}
    path = write(parameters=parameters, constraints=[], flags=flags, launch=launch)
    line = [str(path), "--arch", "sm_90"]
    assert main([*line, "--compile", "9"]) == 0
    text = capsys.readouterr().out
    assert "only 3 of 9 other legal configurations were found" in text
    assert "4 configurations with the default: 2 compiled to 1 different machine code" in text
    assert "4 compiled now, 0 from the build cache" in text
    assert "not compiled: 2 x " in text
    assert "eight is too many" in text
    assert "registers" in text
    assert re.search(r"shared memory, bytes +320 +320 +320", text), "static and dynamic"
    assert main([*line, "--compile", "9", "--strict"]) == 1
    text = capsys.readouterr().out
    assert "2 compiled now, 2 from the build cache" in text
    assert "a configuration failed in 1 of 1: scale" in text


@needs_nvcc
@pytest.mark.parametrize(
    ("before", "there"),
    [
        ("namespace lib {", "its kernels are `lib::scale(float*)`"),
        ("template <int N>", "it has no kernel"),
    ],
    ids=["namespace", "template"],
)
def test_a_kernel_that_cannot_be_launched_by_its_name_fails(write, capsys, before, there):
    path, body = write(), "__global__ void scale(float *x) { x[0] = UNROLL * BLOCK; }"
    (path.parent / "scale.cu").write_text(f"{before} {body}" + "}" * ("{" in before))
    assert main([str(path), "--arch", "sm_90", "--compile", "3"]) == 1
    text = " ".join(capsys.readouterr().out.split())
    assert f"`scale` is not in the binary; {there}. A template needs its arguments" in text


def test_what_the_module_of_a_callable_prints_is_no_json(tmp_path, capfd):
    folder = DATA.with_name("callables")
    kernel = (
        (folder / "faults.py")
        .read_text()
        .replace("    fault, calls", "    print('build')\n    fault, calls")
    )
    (tmp_path / "faults.py").write_text(
        kernel.replace("    n = features", "    print('data')\n    n = features")
    )
    (tmp_path / "faults.yaml").write_text(
        (folder / "faults.yaml").read_text().replace(", {n: 1, work_ms: 0}", "")
    )
    assert main([str(tmp_path / "faults.yaml"), "--run", "--json"]) == 0
    printed = capfd.readouterr()
    assert json.loads(printed.out)["is_ok"]
    assert printed.err.count("data") > 1
    assert "build" in printed.err
