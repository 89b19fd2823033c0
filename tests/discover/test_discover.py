"""Kernel source to space: discovered facts, messages, and a space that can be tuned."""

import itertools
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from harness.core.errors import HostModuleError, SpecError, UsageError
from harness.core.records import Input, Outcome
from harness.discover.facts import discover
from harness.discover.space_file import host_text, space_text, to_do
from harness.measure.cuda.nvrtc import Nvrtc
from harness.measure.kernels.data import make_kernel_data
from harness.source.pragmas import EXAMPLES
from harness.space import ConstrainedSpace
from harness.space.constrained import make_program
from harness.space_file import load_spec
from tests.helpers.commands import discover as main
from tests.helpers.compilers import needs_nvrtc
from tests.helpers.pages import read_page
from tests.helpers.planted import measured

DATA = Path(__file__).parents[1] / "data" / "discover"

HOST = """\
import numpy as np

def arguments(features, rng):
    return {"x": rng.random(features["n"] + 64, np.float32),
            "y": np.zeros(features["n"], np.float32), "n": np.int32(features["n"])}

def reference(arguments):
    x, n = arguments["x"], int(arguments["n"])
    return {"y": np.convolve(x[: n + 15].astype(np.float64), np.full(16, 1 / 16), "valid")}
"""


def _facts(folder, text, function=None, name="k.cu"):
    (folder / name).write_text(text)
    return discover(folder / name, function)


def _space(folder, text, function=None, name="k.cu"):
    facts = _facts(folder, text, function, name)
    return space_text(facts, folder, folder / "k.py")


def _line(text, start):
    """Return the only line that begins with `start`, without its comment."""
    [line] = [line for line in text.splitlines() if line.strip().startswith(start)]
    return line.strip().split("  #")[0]


COOPERATIVE = (DATA / "cooperative.cu").read_text()


def test_kernel_whose_groups_wait_for_each_other_is_launched_cooperatively(tmp_path):
    text = _space(tmp_path, COOPERATIVE, "waits")
    assert _line(text, "cooperative:") == "cooperative: true"
    assert any("this_grid(), whose sync() needs it" in mark for mark in to_do(text))
    assert "cooperative" not in _space(tmp_path, COOPERATIVE, "plain")


# ----------------------------------------------------------------------------- parameters


def test_a_macro_that_changes_the_result_is_no_parameter_without_a_word(tmp_path):
    source = "__global__ void f(int *y) { y[0] = RADIUS * UNROLL * BLOCK * (FAST ? 2 : 1); }\n"
    for name, number in {"RADIUS": 3, "UNROLL": 1, "FAST": 1, "BLOCK": 64}.items():
        source = f"#ifndef {name}\n#define {name} {number}\n#endif\n{source}"
    text = _space(tmp_path, source)
    assert "  UNROLL: {type: power_of_two, min: 1, max: 8, default: 1}  # CONFIRM: " in text
    assert "  FAST: {values: [0, 1], role: choice, default: 1}  # CONFIRM: " in text
    assert "\n  BLOCK: {" in text
    assert "\n  # RADIUS: {type: integer" in text


def test_the_page_names_every_pragma():
    assert set(EXAMPLES) <= set(re.findall(r"`(\w+) ", read_page("docs/reference/pragmas.md")))


DEFINE = '{}\nextern "C" __global__ void f(int *y) {{ y[0] = 1; }}\n'
LOOP = 'extern "C" __global__ void f(int *y) {{\n{}\nfor (int i = 0; i < 8; i++) y[i] = i; }}\n'


def test_a_pragma_is_a_parameter(tmp_path):
    cases = (
        (DEFINE, "#pragma erange 64,512\n#define BLOCK 64",
         "BLOCK: {type: power_of_two, min: 64, max: 512, role: launch, default: 64}"),
        (DEFINE, "#pragma erange 1,27,3\n#define N 9", "N: {values: [1, 3, 9, 27], default: 9}"),
        (DEFINE, "#pragma erange 3,24\n#define N 6", "N: {values: [3, 6, 12, 24], default: 6}"),
        (DEFINE, "#pragma range 0,9,4\n#define N (4)",
         "N: {type: integer, min: 0, max: 8, step: 4, default: 4}"),
        (DEFINE, "#pragma values 1, 0.5 choice\n#define N 0.5",
         "N: {values: [1, 0.5], role: choice, default: 0.5}"),
        (DEFINE, "#pragma select float,double\n#define REAL double",
         "REAL: {values: [float, double], role: choice, default: double}"),
        (DEFINE, "#pragma select on,true\n#define N on",
         'N: {values: ["on", "true"], role: choice, default: "on"}'),
        (DEFINE, "#pragma range 1,3\n/* c */\n#if !defined(N)\n// c\n#define N 2 // c\n#endif",
         "N: {type: integer, min: 1, max: 3, default: 2}"),
        (DEFINE, "#pragma range \\\n 1,3 /* c\n */ launch\n#define N 2",
         "N: {type: integer, min: 1, max: 3, role: launch, default: 2}"),
        (DEFINE, "#pragma range 1,3\n#pragma constraint N < 3\n#define N 2",
         "N: {type: integer, min: 1, max: 3, default: 2}"),
        (LOOP, "#pragma unroll_range 1,8", "UNROLL_1: {type: integer, min: 1, max: 8, default: 1}"),
        (LOOP, "#pragma unroll_range 0,8", "UNROLL_1: {type: integer, min: 0, max: 8, default: 0}"),
        (LOOP, "#pragma unroll_values 2,8", "UNROLL_1: {values: [2, 8], default: 2}"),
        (LOOP, "#pragma unroll_values U 1,2,4\n#pragma unroll 4",
         "U: {type: power_of_two, min: 1, max: 4, default: 4}"),
        (LOOP, "#pragma unroll_range 1,8\n#pragma unroll(2)",
         "UNROLL_1: {type: integer, min: 1, max: 8, default: 2}"),
        (LOOP, "#pragma unroll_range 1,8\n#pragma nounroll // c",
         "UNROLL_1: {type: integer, min: 1, max: 8, default: 1}"),
    )  # fmt: skip
    for place, pragmas, parameter in cases:
        text = _space(tmp_path, place.format(pragmas))
        assert _line(text, parameter[: parameter.index(":") + 1]) == parameter


def test_loops_that_share_a_name_share_a_parameter(tmp_path):
    text = LOOP.format("#pragma unroll_range U 1,8\nwhile (*y) y++;\n#pragma unroll_range U 1,8")
    assert [t.name for t in _facts(tmp_path, text).declared.tuned] == ["U"]


def test_a_fault_names_its_lines_and_the_nearest_word(tmp_path):
    cases = {
        "#pragma eragne 1,2\n#define A 1": ":1: .* `#pragma erange`",
        "\n#pragma range 1,2\nint x;": ":2: .* `int`",
        "#pragma range 1,2\n#include <a.h>\n#define A 1": "`#include <a.h>` on line 2",
        "#pragma range 1,2\n#ifndef A\n#define B 1\n#endif": "A VALUE` .* B 1` on line 3",
        "#pragma range 1,2\n#define A(x) 1": r"A\(x\) 1` on line 2",
        "#pragma range 1,2": "`extern`",
        "#pragma range 2,4\n#define A 1": "`1` in `#define A` on line 2, .* 2, 3, 4",
        "#pragma range 1,4\n#define A 1u": "suffix",
        "#pragma values 1,2\n#define A 1.0": "`1.0` in `#define A` on line 2",
        "#pragma select a,b\n#define A c": "`c` in `#define A` on line 2, .* a, b",
        "#pragma range 1,4\n#define A 1\n#pragma range 1,4\n#define A 1": "`A` .* on line 1",
        "#pragma unroll_range 1,8\nint x;": "a loop .* `int`",
        "#pragma unroll_range 1,8\n#define A 1": "a loop .* `#define A 1` on line 2",
        "void g() {\n#pragma unroll_range 1,8\n#pragma unroll 16\nfor (;;); }": "16` on line 3",
        "void g() {\n#pragma unroll_range 1,8\n#pragma unroll\nfor (;;); }": "unroll` on line 3",
        "void g(int UNROLL_1) {\n#pragma unroll_range 1,8\nfor (;;); }": "NAME 1,8",
        "#pragma constraint BLOC <= 4\n#pragma range 1,4\n#define BLOCK 4": ":1: .*`BLOCK`",
        "#pragma range\x1b[2J 1,2\n": r"range\\x1b\[2J 1,2",
    }
    for text, fact in cases.items():
        with pytest.raises(SpecError, match=f"k.cu.*{fact}") as fault:
            _facts(tmp_path, f'{text}\nextern "C" __global__ void f(int *y) {{}}\n')
        assert len(fault.value.faults) == 1


def test_all_faults_are_reported_and_nothing_is_written(tmp_path, capsys):
    source, output = tmp_path / "k.cu", tmp_path / "s.yaml"
    source.write_text("#pragma range 1\n#pragma eragne 1\n__global__ void f(int n) {}\n")
    assert main([source, "--output", output, "--host", tmp_path / "h.py"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert re.search(r"k.cu:1: (.|\n)*k.cu:2: (.|\n)*2 faults", printed.err)
    assert [p.name for p in tmp_path.iterdir()] == ["k.cu"]


# ---------------------------------------------------------------------------- suggestions


PLAIN = (DATA / "constants.cu").read_text()


def test_without_pragmas_sizes_and_guarded_constants_are_parameters(tmp_path):
    text = _space(tmp_path, PLAIN)
    assert re.findall(r"^  (\w+: \{.*\})  # CONFIRM: ", text, re.MULTILINE) == [
        "BLOCK_X: {type: power_of_two, min: 32, max: 512, role: launch, default: 128}",
        "FAST: {values: [0, 1], role: choice, default: 1}",
        "FACTOR: {type: integer, min: 1, max: 8, default: 2}",
    ]
    assert re.findall(r"^  # (\w+: \{.*)", text, re.MULTILINE) == [
        "DEPTH: {type: integer, min: 1, max: 12, default: 6}",
        "MAYBE: {type: power_of_two, min: 1, max: 8, default: 1}",
    ]


SWITCH = "values: [0, 1], role: choice"


def test_only_conditions_are_offered_0_not_loops(tmp_path):
    conditions = (
        "if (K) y[0] = 1;",
        "y[0] = n > 1 && K;",
        "\n#if !K\n#endif\n",
        "y[0] = K ? 2 : 1;",
    )
    loops = ("for (int k = 0; k <= K && k < n; k += K) ;", "for (int k = 0; k < n; k += K) ;")
    for use in (*conditions, *loops, "\n#ifdef K\ny[K] = 1;\n#endif\n"):
        text = _space(tmp_path, f"#define K 1\n__global__ void f(int *y, int n) {{ {use} }}\n")
        values = SWITCH if use in conditions else "type: power_of_two, min: 1, max: 8"
        assert f"# K: {{{values}, default: 1}}" in text


def test_with_pragmas_no_other_constant_is_tuned(tmp_path):
    text = _space(tmp_path, "#pragma range 1,9\n#define N 3\n" + PLAIN)
    assert "  # FAST: {" in text
    assert _line(text, "N:") == "N: {type: integer, min: 1, max: 9, default: 3}"
    assert not re.search(r"^  (BLOCK_X|FAST|FACTOR):", text, re.MULTILINE)


def test_the_present_value_is_guessed_too(tmp_path):
    uses = {"FACTOR": "\n#pragma unroll FACTOR\nfor (;;) {}", "ON": "if (ON) y[0] = n;"}
    for name, value in itertools.product(
        ("TILE", "BLOCK", "FACTOR", "ITEMS", "ON", "WINDOW"), (0, 1, 2, 100, 4096)
    ):
        kernel = f"kernel void f(global int *y, int n) {{ {uses.get(name, f'y[{name}] = n;')} }}"
        source = f"#ifndef {name}\n#define {name} {value}\n#endif\n{kernel}"
        assert f"default: {value}}}" in _line(_space(tmp_path, source, name="k.cl"), f"{name}:")


FREE = (DATA / "undefined.cu").read_text()


def test_macros_that_nothing_defines_are_parameters_to_confirm(tmp_path):
    assert "nothing defines" not in _space(tmp_path, FREE, "f"), "a missing file may define all"
    (tmp_path / "k.h").write_text("#define OURS 1\nconst int THEIRS = 2;\n")
    text = _space(tmp_path, FREE, "f")
    assert re.findall(r"# line \d+: nothing defines \w+\n  (\w+: \{.*\})  # (\w+)", text) == [
        ("BLOCK: {type: power_of_two, min: 16, max: 256, role: launch, default: 64}", "CONFIRM"),
        ("IS_FAST: {values: [0, 1], role: choice, default: 0}", "CONFIRM"),
        ("ITEMS: {type: power_of_two, min: 1, max: 8, default: 1}", "CONFIRM"),
        ("RADIUS: {values: [1], default: 1}", "FILL"),
        ("STRIDE: {type: power_of_two, min: 1, max: 8, default: 1}", "CONFIRM"),
    ]
    assert _line(text, "group:") == "group: [BLOCK]"


TEMPLATE_TO_FILL = "# FILL IN: f is a template"


def test_a_source_gives_this_line_of_its_space(tmp_path):
    cases = (
        ("#define U 0\n" + LOOP.format("#pragma unroll U"),
         "  # U: {type: integer, min: 0, max: 8, default: 0}"),
        ("#pragma range 1,9\n#define N 3\n#pragma constraint N <= DEPTH\n" + PLAIN,
         "  DEPTH: {type: integer, min: 1, max: 12, default: 6}  # CONFIRM: the guessed values"),
        ("#pragma range 1,4\n#define N 2\n__global__ void f(int *y) { y[N] = BLOCK; }\n",
         "  BLOCK: {type: power_of_two"),
        ("__global__ void f(float *y, int n) {}\n", "  # FILL IN: the parameters to tune"),
        ('extern "C" __global__ void f(float (*a)[4], int n) {}\n', "# FILL IN: `float (*a)[4]`"),
        ("__global__ void f(float **b, int n) {}\n", "# FILL IN: `float **b`"),
        ("template <Op O>\n__global__ void f(float *y, int n) {}\n", TEMPLATE_TO_FILL),
        ("template <int... N>\n__global__ void f(float *y, int n) {}\n", TEMPLATE_TO_FILL),
        ("template <template <class> class C>\n__global__ void f(int n) {}\n", TEMPLATE_TO_FILL),
        ("struct node_t;\nkernel void f(local node_t *tile, int n) {}",
         "# FILL IN: the bytes of tile, with the size of node_t"),
        ('#include "portable.h"\nKERNEL f(GLOBAL int *y, LOCAL_POINTER float *a) {}\n',
         "# FILL IN: a: CUDA passes no local memory as an argument"),
        ("kernel __attribute__((reqd_work_group_size(2 * SIDE, 1, 1))) void f(int n) {}",
         "# FILL IN: the size that the source declares as (2 * SIDE, 1, 1)"),
        ("#define S 64\nkernel __attribute__((reqd_work_group_size(S, 2, 1))) void f(int n) {}",
         "group: [S, 2]"),
        ("kernel void f(global int *y) { y[get_local_id(2) + BLOCK * get_local_id(1)] = 1; }",
         "max: 32, role: launch, default: 8}"),
    )  # fmt: skip
    for source, line in cases:
        name = "k.cl" if "kernel" in source else "k.cu"
        assert line in _space(tmp_path, source, None, name)


# ---------------------------------------------------------------------------- the kernel


OPENCL = (DATA / "arguments.cl").read_text()


def test_opencl_qualifiers_are_not_part_of_types(tmp_path):
    facts = _facts(tmp_path, OPENCL, "first", "k.cl")
    assert facts.dialect == "opencl"
    assert facts.kernel.sizes == ("64", "2", "1")
    arguments = facts.kernel.arguments
    assert {a.name: a.type_name for a in arguments} == {
        "x": "REAL",
        "y": "float4",
        "c": "double",
        "n": "uint",
        "big": "ulong",
        "alpha": "float",
        "scratch": "float",
        "image": "image2d_t",
    }
    assert [a.name for a in arguments if a.is_pointer] == ["x", "y", "c", "scratch"]
    assert [a.name for a in arguments if a.is_const] == ["x", "c", "n"]
    assert [a.name for a in arguments if a.is_local] == ["scratch"]
    assert [a.name for a in facts.counts] == ["n", "big"]


def test_an_attribute_before_the_kernel_belongs_to_it_alone(tmp_path):
    text = (
        "__attribute__((reqd_work_group_size(8, 4, 1))) /* c */\n__kernel void f(int n) {}\n"
        "__kernel void g(int n) {}\n"
    )
    assert _facts(tmp_path, text, "f", "k.cl").kernel.sizes == ("8", "4", "1")
    assert _facts(tmp_path, text, "g", "k.cl").kernel.sizes == ()


def test_an_ifdef_in_a_signature_is_read_with_all_its_branches(tmp_path):
    kernel = _facts(tmp_path, OPENCL, "second", "k.cl").kernel
    assert [(a.name, a.type_name) for a in kernel.arguments] == [("a", "long"), ("b", "int")]
    text = "#ifdef A\nkernel void f(int n) {}\n#else\nkernel void f(int m) {}\n#endif\n"
    assert _facts(tmp_path, text, None, "k.cl").kernel.line == 2, "two versions need no choice"


def test_an_argument_in_local_memory_gets_its_size_from_the_launch(tmp_path):
    text = _space(tmp_path, OPENCL, "first", "k.cl")
    assert _line(text, "shared:") == "shared: 64 * 4"
    assert "CONFIRM: the bytes of scratch" in "".join(to_do(text))
    assert _line(text, "source:") == "source: {opencl: k.cl}"
    assert "shared:" not in _space(tmp_path, OPENCL, "second", "k.cl")
    several = _space(tmp_path, "kernel void f(local float *a, local double2 *b) {}", None, "k.cl")
    assert "# FILL IN: a, b are local pointers" in several
    assert _line(several, "shared:") == "shared: 64 * 4 + 64 * 16"


def test_with_several_kernels_one_must_be_chosen(tmp_path):
    with pytest.raises(UsageError, match=r"first \(line 7\), second \(line 13\)"):
        _facts(tmp_path, OPENCL, None, "k.cl")
    with pytest.raises(UsageError, match="`second`"):
        _facts(tmp_path, OPENCL, "secund", "k.cl")


def test_a_constraint_on_another_kernels_arguments_is_left_out(tmp_path):
    text = (
        "#pragma constraint BLOCK <= n\n#pragma constraint BLOCK <= m\n"
        '#pragma range 1,4\n#define BLOCK 4\nextern "C" {\n'
        "__global__ void one(float *y, int n) {}\n__global__ void two(float *y, int m) {}\n}\n"
    )
    facts = _facts(tmp_path, text, "one")
    assert [c.operands for c in facts.constraints] == ["BLOCK <= n"]


SEVERAL = (DATA / "several.cu").read_text()


def test_parameters_of_other_kernels_are_left_out_and_listed(tmp_path):
    for function, tuned, suggested, lines in (
        ("one", "BOTH ONES UNROLL_1 UNROLL_2", "", []),
        ("two", "BOTH TWOS UNROLL_1 UNROLL_3 EACH", "SCALED", [13, 14]),
    ):
        facts = _facts(tmp_path, SEVERAL, function)
        assert " ".join(t.name for t in facts.declared.tuned) == tuned
        assert " ".join(s.name for s in facts.suggested) == suggested
        assert [c.line for c in facts.constraints] == lines
    text = _space(tmp_path, SEVERAL, "one")
    assert "# Left out, " in text
    assert ": TWOS (line 6), UNROLL_3 (line 26), EACH (line 28)\n" in text


def test_a_fault_in_another_kernel_is_reported(tmp_path):
    text = SEVERAL.replace("EACH 1,4", "EACH 4,1")
    with pytest.raises(SpecError, match=r"k\.cu:28: .*lo=4 .* hi=1"):
        _facts(tmp_path, text, "one")


def test_macros_and_loops_that_a_kernel_reaches_are_in_scope(tmp_path):
    """Also by an included file, or before its launch; another's loop has its own parameter."""
    (tmp_path / "k.h").write_text("__device__ int of(int n) { return n * DEEP; }\n")
    loop = "\n#pragma unroll_range U 1,8\nfor (;;); "
    text = (
        "#pragma range 1,4\n#define DEEP 2\n#pragma range 1,4\n#define GROUP 2\n"
        "#pragma range 1,4\n#define HERS 2\n"
        f'#include "k.h"\n__global__ void f(int n) {{ n = of(n); {loop} }}\n'
        f"__global__ void g(int n) {{ n = DEEP + HERS; {loop} }}\n"
        "int main() { f<<<1, GROUP>>>(2); g<<<1, HERS>>>(2); }\n"
    )
    first, other = (_facts(tmp_path, text, name).declared.tuned for name in "fg")
    assert [(t.name, t.pragma.line) for t in first] == [("DEEP", 1), ("GROUP", 3), ("U", 9)]
    assert (other[-1].name, other[-1].pragma.line) == ("U", 12)


TEMPLATE = (DATA / "template.cu").read_text()


def test_a_template_kernel_is_read_and_its_types_are_guessed(tmp_path):
    facts = _facts(tmp_path, TEMPLATE)
    assert facts.kernel.name == "all"
    assert [(a.name, a.type_name) for a in facts.kernel.arguments] == [
        ("kernel", "T"), ("n", "std::int64_t"), ("p", "float3")
    ]  # fmt: skip
    text = _space(tmp_path, TEMPLATE)
    assert _line(text, "function:") == "function: inner::all<float>"
    assert "CONFIRM: the types T of the template" in " ".join(to_do(text))


def test_whole_numbers_of_a_template_are_parameters_to_confirm(tmp_path):
    cases = (
        ("int BLOCK, unsigned ITEMS = 4", "f<BLOCK, ITEMS>",
         ["BLOCK: {type: power_of_two, min: 16, max: 256, role: launch, default: 64}",
          "ITEMS: {type: integer, min: 1, max: 8, default: 4}"]),
        ("typename T, class U = double, bool FAST = true, std::size_t WIDTH",
         "f<float, double, FAST, WIDTH>",
         ["FAST: {values: [0, 1], role: choice, default: 1}",
          "WIDTH: {type: power_of_two, min: 1, max: 8, default: 1}"]),
    )  # fmt: skip
    for head, function, parameters in cases:
        text = _space(tmp_path, f"template <{head}>\n__global__ void f(float *y, int n) {{}}\n")
        assert _line(text, "function:") == f"function: {function}"
        assert re.findall(r"^  (\w+: \{.*\})  # CONFIRM", text, re.MULTILINE) == parameters


# ---------------------------------------------------------------------- launch and inputs


def test_the_launch_has_the_sizes_and_dimensions_that_the_source_tells(tmp_path):
    cases = (
        ("#define TILE 16", "threadIdx . y", "width height", "TILE TILE", "width height"),
        ("#define TILE 16", "threadIdx.x + blockDim.y", "width height", "TILE", "width"),
        ("#define X 16\n#define Y 16", "0", "M N K", "X Y", "N M"),
        ("#define DEPTH 3", "blockIdx.y", "hA wA wB", "16 16", "wB hA"),
        ("#define DEPTH 3", "get_global_id(2)", "nx ny nz", "8 8 8", "nx ny nz"),
        ('#include "portable.h"\n#define RBLOCK 64', "THREAD_X", "n", "RBLOCK", "n"),
        ("#pragma range 1,9\n#define BLOCK 4", "0", "m n", "BLOCK", "n"),
        ("#pragma range 1,9\n#define TILE_Y 4\n#pragma range 1,9\n#define TILE_X 4", "0", "m n",
         "TILE_X TILE_Y", "n m"),
        ("#pragma range 1,9\n#define DEPTH 4", "0", "n", "64", "n"),
        ("#pragma range 1,9 launch\n#define W 4", "0", "n", "W", "n"),
    )  # fmt: skip
    for define, body, features, group, along in cases:
        names = " + ".join(re.findall(r"define (\w+)", define))
        bounds = "__launch_bounds__(W)" if names == "W" else ""
        arguments = ", ".join(f"int {name}" for name in features.split())
        head = f"__global__ void {bounds} f(float *y, {arguments})"
        space = _space(tmp_path, f"{define}\n{head} {{ y[{body}] = {names}; }}\n")
        sizes = group.split()
        assert _line(space, "group:") == f"group: [{', '.join(sizes)}]"
        grid = ", ".join(f'"ceil_div({n}, {s})"' for n, s in zip(along.split(), sizes, strict=True))
        assert _line(space, "grid:") == f"grid: [{grid}]"


def test_features_avoid_the_words_of_expressions(tmp_path):
    text = "__global__ void f(float *y, int lambda, unsigned warp_size, float alpha) {}\n"
    assert _line(_space(tmp_path, text), "features:") == "features: [lambda_, warp_size_]"
    assert '"lambda": np.int32(features["lambda_"])' in host_text(_facts(tmp_path, text))


# ------------------------------------------------------------------------------ the files


def test_the_host_skeleton_gives_arguments_of_the_right_types(tmp_path):
    facts = _facts(tmp_path, OPENCL.replace(", read_only image2d_t image", ""), "first", "k.cl")
    text = re.sub("raise .*", 'return {"y": arguments["y"]}', host_text(facts))
    (tmp_path / "host.py").write_text(text)
    case = make_kernel_data(tmp_path / "host.py", Input({"n": 4, "big": 2}))
    kinds = {name: f"{np.asarray(v).dtype}{np.shape(v)}" for name, v in case.arguments.items()}
    assert kinds == {
        "x": "float32(8,)",
        "y": "float32(8, 4)",
        "c": "float64(8,)",
        "n": "uint32()",
        "big": "uint64()",
        "alpha": "float32()",
    }


def test_integers_that_are_not_filled_in_are_refused(tmp_path, opencl, capsys):
    source = (
        "#ifndef F\n#define F 1\n#endif\n"
        "kernel void f(global const int *row, global float *y, local float *t, int n)\n"
        "{ t[get_local_id(0)] = n; if (F * row[0] < n) y[get_global_id(0)] = t[get_local_id(0)]; }"
    )
    space, host = _discovered(tmp_path, source)
    listed = capsys.readouterr().err
    assert re.search(r"k\.py, line \d+: FILL IN: offsets, counts or indices\?", listed)
    text = re.sub("raise .*", 'return {"y": np.full(64, 64, np.float32)}', host.read_text())
    host.write_text(text)
    problem = Input({"n": 64})
    with pytest.raises(HostModuleError, match="`row` with the type NoneType"):
        make_kernel_data(host, problem)
    host.write_text(text.replace("None,", "np.zeros(size, np.int32),"))
    [run] = measured(load_spec(space), opencl, problem, {})
    assert run.outcome is Outcome.OK, run.message


def test_the_host_skeleton_invents_no_reference(tmp_path):
    text = host_text(_facts(tmp_path, TEMPLATE))
    compile(text, "host.py", "exec")
    assert 'raise NotImplementedError("FILL IN: reference() must return' in text
    marks = "".join(to_do(text))
    assert "FILL IN: the dtype of T" in marks
    assert "FILL IN: return a dict of the expected arrays: kernel" in marks


def test_files_are_written_once_and_the_rest_is_listed(tmp_path, capsys):
    output, host = tmp_path / "s.yaml", tmp_path / "s.py"
    command = [str(DATA / "scale.cu"), "--output", str(output), "--host", str(host)]
    assert main(command) == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"{output}, line 28: FILL IN: inputs" in printed.err
    assert f"{host}, line " in printed.err
    before = output.read_text(), host.read_text()
    assert main(command) == main(command[:3]) == 2
    assert "already exists" in capsys.readouterr().err
    assert (output.read_text(), host.read_text()) == before


def test_an_impossible_command_is_refused(tmp_path, monkeypatch, capsys):
    cases = {
        "not_there.cu": "not_there.cu cannot be read",
        ".": ". is a folder",
        "empty.cu": "empty.cu defines no kernel",
        "binary.cu": "binary.cu is not UTF-8 text (line 2, byte 3)",
        "scale.cu --host host.txt": ".py",
        "scale.cu --output no/s.yaml": "no/s.yaml cannot be written",
        "scale.cu --output a.py --host a.py": "both",
    }
    monkeypatch.chdir(tmp_path)
    shutil.copy(DATA / "scale.cu", tmp_path)
    Path("empty.cu").touch()
    Path("binary.cu").write_bytes(b"\x7fE\n\xff\0")
    for words, fact in cases.items():
        assert main(words.split()) == 2
        assert fact in capsys.readouterr().err


# ---------------------------------------------------------------------------- end to end


def _discovered(folder, source, suffix="cl"):
    """Write the source, its space and its host module; return the last two."""
    place, space, host = (folder / f"k.{end}" for end in (suffix, "yaml", "py"))
    place.write_text(source)
    assert main([place, "--output", space, "--host", host]) == 0
    return space, host


def test_a_kernel_is_measured_from_its_pragmas_alone(tmp_path, opencl):
    """A person fills in the host module only."""
    space, host = _discovered(tmp_path, (DATA / "smooth.cl").read_text())
    host.write_text(HOST)
    changed = {"READS": "cached", "CHUNK": 2, "BLKSZ": 64, "UNROLL_1": 4}
    for run in measured(load_spec(space), opencl, Input({"n": 5000}), {}, changed):
        assert run.outcome is Outcome.OK, run.message


@needs_nvrtc
def test_the_space_of_a_template_compiles_at_once(tmp_path):
    source = (
        "namespace lib {\ntemplate <typename T, int BLOCK>\n__global__ void f(T *y, int n) {\n"
        "    __shared__ T part[BLOCK * PAD];\n    part[threadIdx.x] = n;\n    __syncthreads();\n"
        "    y[threadIdx.x] = part[n];\n}\n}\n"
    )
    space, _ = _discovered(tmp_path, source, "cu")
    spec = load_spec(space)
    legal = ConstrainedSpace.of(spec, spec.inputs[0], None)
    Nvrtc("sm_90").compile(make_program(spec, legal, legal.default, "cuda"))
