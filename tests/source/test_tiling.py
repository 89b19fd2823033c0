"""Tiled loops: every iteration runs once, in the order of the tiles, and what is refused."""

import shutil
import subprocess
from pathlib import Path

import pytest

from harness.core.errors import SpecError
from harness.core.records import Input, Outcome
from harness.discover.facts import discover
from harness.source.kernel_source import Source
from harness.space_file import load_spec
from tests import ROOT
from tests.helpers.planted import measured

EXAMPLES = ROOT / "examples"

PRODUCT = """\
#define TI 0
void f(int m, int n, int p, const float *a, const float *b, float *c) {
#pragma tile k:TK, i:TI /* two
  lines */
#pragma unroll 2
    for (int i = 0; i < m; i++) {  // rows
        for (size_t j = 0; j < n; ++j)
            for (int k = 1 +
                     LO; k <= p - 1; k += 2)
                c[i * n + j] += a[i * p + k] * b[k * n + j];
    }  // end
}
"""


def _source(text, name="a.c"):
    return Source(Path(name), text, {})


def _body(text, sizes):
    return _source(text).with_macros(sizes).partition('#line 1 "a.c"\n')[2].split("\n")


def test_loops_over_tiles_stand_where_the_pragma_was_and_no_line_moves():
    changed = {
        1: "#define TI 4",
        3: "for (int harness_k = (1 + LO), harness_k_end; harness_k <= (p - 1); "
        "harness_k = harness_k_end) { "
        "harness_k_end = (p - 1) - harness_k >= 16 ? harness_k + 16 : (p - 1) + 1; "
        "for (int harness_i = 0, harness_i_end; harness_i < m; harness_i = harness_i_end) { "
        "harness_i_end = m - harness_i > 4 ? harness_i + 4 : m;",
        4: "",
        6: "    for (int i = harness_i; i < harness_i_end; i++) {  // rows",
        8: "            for (int k = harness_k",
        9: "; k < harness_k_end; k += 2)",
        11: "    } } }  // end",
    }
    lines = [changed.get(n, line) for n, line in enumerate(PRODUCT.split("\n"), 1)]
    assert _body(PRODUCT, {"TI": 4, "TK": 8}) == lines


def test_sizes_of_0_and_1_leave_the_loops_alone():
    cases = ({"TI": 0, "TK": 0}, {"TI": 1, "TK": 1}, {"TI": 0})
    for sizes in cases:
        changed = {1: f"#define TI {sizes['TI']}", 3: "", 4: ""}
        lines = [changed.get(n, line) for n, line in enumerate(PRODUCT.split("\n"), 1)]
        assert _body(PRODUCT, sizes) == lines


# ------------------------------------------------------------------- the iterations, compiled

# Nests with odd steps, types and bounds; the last one begins near the end of its type.
NESTS = [
    ("i:TA, j:TB", "for (int i = lo; i < hi; i++) for (int j = -3; j <= hi; j += 3) visit(i, j);"),
    ("j:TB, i:TA", "for (int i = lo; i <= hi; i += STEP) { { for (long j = 0; j < 5; j = j + 2) "
     "visit(i, j); } }"),
    ("i:TA", "for (unsigned i = lo & 3; i < (hi & 127); ++i) for (int j = 0; j < (int)i % 7; j++) "
     "if (j == 3) continue; else visit(i, j);"),
    ("i:TA", "for (unsigned char i = lo & 3; i < (hi & 127); i += 5) visit(i, 0);"),
    ("j:TB", "for (int i = lo; i < hi; i++) for (size_t j = 0; j < (hi & 63); j++) visit(i, j);"),
    ("i:TA", "for (int i = 2147483600 + (hi & 31); i < 2147483646; i += 2) for (int j = 0; j < 2; "
     "j++) visit(i, j);"),
    ("i:TA", "for (int i = lo; i <= SHIFTED; i++) visit(i, 0);"),
]  # fmt: skip
SIZES = [(0, 0), (2, 2), (3, 5), (7, 0), (0, 4), (64, 3), (100000, 100000)]
BEGIN = """\
#include <stdio.h>
#include <stdlib.h>
#define STEP 3
#define SHIFTED 1 << 3
static unsigned long count, sum, in_order;
static void visit(long i, long j) {
    unsigned long point = i * 1000 + j;
    count++, sum += point * point * point, in_order = in_order * 31 + point;
}
"""
MAIN = """\
int main(void) {
    unsigned long reordered = 0, counts = 0, sums = 0, orders = 0;
    for (int nest = 0; nest < NESTS; nest++)
        for (int lo = -2; lo < 4; lo++)
            for (int hi = -4; hi < 150; hi += hi < 19 ? 1 : 57)
                for (int size = 0; size < SIZES; size++) {
                    count = sum = in_order = 0;
                    functions[nest][size](lo, hi);
                    if (size == 0) counts = count, sums = sum, orders = in_order;
                    reordered += in_order != orders;
                    if (count != counts || sum != sums) {
                        printf("nest %d, size %d, lo=%d, hi=%d: %lu iterations of %lu\\n", nest,
                               size, lo, hi, count, counts);
                        return 1;
                    }
                }
    printf("the same, %s\\n", reordered ? "in another order" : "in the same order");
}
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not on PATH")
def test_every_iteration_runs_once_whatever_the_bounds_and_sizes(tmp_path):
    parts, names = [BEGIN], []
    for number, (pragma, loops) in enumerate(NESTS):
        text = f"static void f(int lo, int hi) {{\n#pragma tile {pragma}\n{loops}\n}}\n"
        for index, (ta, tb) in enumerate(SIZES):
            tiled = _source(BEGIN + text).with_macros({"TA": ta, "TB": tb}).rpartition(BEGIN)[2]
            parts.append(tiled.replace("f(", f"f_{number}_{index}(", 1))
            names.append(f"f_{number}_{index}")
    counts = f"enum {{ NESTS = {len(NESTS)}, SIZES = {len(SIZES)} }};\n"
    table = f"static void (*functions[NESTS][SIZES])(int, int) = {{{', '.join(names)}}};\n"
    (tmp_path / "all.c").write_text("".join([*parts, counts, table, MAIN]))
    checks = ["-fsanitize=undefined", "-fno-sanitize-recover=all", "-Wall", "-Werror"]
    build = ["gcc", "-O1", *checks, "-Wno-missing-braces", "-o", "all", "all.c"]
    subprocess.run(build, cwd=tmp_path, check=True, timeout=60)
    ran = subprocess.run([tmp_path / "all"], capture_output=True, text=True, timeout=60)
    assert (ran.stdout, ran.stderr) == ("the same, in another order\n", "")


# ------------------------------------------------------------------- what stays as it is


BODIES = (
    "{ switch (i) { case 0: break; } while (1) break; if (j) continue; y[i] = j; }",
    "{ int x = 0; x += n; y[i] = x; float v = y[j]; v++; }",
    "y[next_to(i)] = *rows == n;",
    "{\n#if n\n y[i] = 0;\n#else\n y[j] = 0;\n#endif\n }",
)
BOUNDS = (
    "n", "(n + 1) / 2", "s.n - (int)m", "THREAD_X", "(uint)get_global_id(0)", "threadIdx.x",
    "min(n, 16)", "0x10u", "SIZE", "(n > m ? n : m)", "(size_t)(n)", "sizeof(int)",
)  # fmt: skip


def test_plain_bounds_and_bodies_that_stay_in_the_loop_are_tiled():
    cases = [(BOUNDS[0], body) for body in BODIES] + [(bound, BODIES[0]) for bound in BOUNDS]
    for bound, body in cases:
        text = f"#define SIZE (4 * 8)\n{TWO_LOOPS.replace('; j < m', f'; j < {bound}')}{body} }}"
        header = {Path("own.h"): "#define THREAD_X ((int)threadIdx.x)\n"}
        source = Source(Path("a.cl"), text, header)
        assert source.pragma_faults() == ()
        assert "harness_j_end" in source.with_macros({"TJ": 2})


TWO_LOOPS = """\
void f(int n, int m, const int *rows, float *y, struct size s) {
#pragma tile i:TI, j:TJ
for (int i = 0; i < n; i++) for (int j = 0; j < m; j++)
"""


def test_pragmas_of_the_loop_stay_with_it():
    text = TWO_LOOPS.replace("for (int i", "#pragma unroll_range 1,4\n#pragma omp simd\nfor (int i")
    body = _body(f"{text}; }}", {"TI": 8, "UNROLL_1": 2})
    assert body[1].startswith("for (int harness_i = 0,")
    assert body[2:5] == ["#pragma unroll 2", "#pragma omp simd", "for (int i = harness_i; i < "
                         "harness_i_end; i++) for (int j = 0; j < m; j++)"]  # fmt: skip


def test_a_name_that_the_source_has_is_not_taken():
    head = _body(f"int harness_i_end;\n{TWO_LOOPS}; }}", {"TI": 8})[2]
    assert head.startswith("for (int harness_i_ = 0, harness_i__end; harness_i_ < n;")


def test_a_nest_in_the_body_of_a_nest_is_tiled_too():
    text = TWO_LOOPS + "{\n#pragma tile k:TI\nfor (int k = 0; k < 9; k++) y[k] += i + j; } }\n"
    assert " }" * 3 in "".join(_body(text, {"TI": 8, "TJ": 8}))
    assert "for (int k = harness_k; k < harness_k_end; k++)" in "".join(_body(text, {"TI": 8}))


# ------------------------------------------------------------------------------ refusals


def test_every_fault_of_a_file_is_reported_once():
    text = TWO_LOOPS + "break;\n#pragma tile i\n#pragma tile j:TI\nwhile (n) n--; }\n"
    text = text.replace("for (int j", "\n#pragma tile j:TI\nfor (int j").replace("break", "")
    faults = _source(text).pragma_faults()
    assert [fault.line for fault in faults] == [4, 7, 9]
    assert "line 2" in faults[0].text
    assert faults[1].text.startswith("`#pragma tile i`: found `i`")


HEAD = """\
#include "own.h"
#define LEAVE JUMP
#define SOME rows[0]
void f(
    int n, int m, const int *rows,
    float *y, float h, struct size s) {
"""
LOOP = "for (int i = 0; i < n; i++)"
NEST = f"{LOOP} for (int j = 0; j < m; j++)"
REFUSED = {
    # what stands below line 7: the line of the fault, and what was found there
    "int k;": "8: `int`",
    "": "9: `}`",
    "while (n) n--;": "8: `while`",
    "for (int i = 0; i < h; i++) ;": "8: the bound `h`",
    "for (int i = 0; i < 2.5f; i++) ;": "8: the bound `2.5f`",
    f"{LOOP} {{\n y[i] = 0;\n for (int j = 0; j < m; j++) y[j]++; }}": "9: `y[i] = 0;`",
    f"{LOOP}\n y[i] = 0;": "9: `y[i] = 0;`",
    f"{LOOP} {{\n for (int j = 0; j < m; j++) ;\n {LOOP} ; }}": f"10: `{LOOP} ;`",
    f"{LOOP}\n {LOOP} ;": f"9: `{LOOP} ;`",
    f"{LOOP}\n for (int j = i; j < m; j++) ;": "9: the bound `i`",
    f"{NEST}\n break;": "9: `break;`",
    f"{NEST}\n if (y[j]) return;": "9: `return;`",
    f"{NEST}\n goto end;": "9: `goto end;`",
    f"{NEST}\n LEAVE;": "9: the macro `LEAVE`",
    f"{NEST}\n i += 2;": "9: `i += 2`, which may change `i`",
    f"{NEST}\n --(n);": "9: `--(n)`, which may change `n`",
    f"{NEST}\n read(&m);": "9: `&m`, which may change `m`",
    f"{NEST} {{\n int &r = n; }}": "9: `&r = n`, which may change `n`",
    f'{NEST}\n asm("" : "+r"(i));': '9: `"+r"(i)`, which may change `i`',
    f"{NEST.replace('i < n', 'i < s.n')}\n s.n = 1;": "9: `s.n = 1`, which may change `s`",
    f"#ifdef A\n{NEST} ;\n#endif": "8: `#ifdef A`",
    f"{NEST} if (n)\n#if A\ny[i] = 0;\n#else\ny[j] = 0;\n#endif": "9: `#if A`",
    f"{NEST} {{\n y[0] = = 1; }}": "9: text that is not read as C",
}
for head in (
    "i = 0; i < n; i++", "int i = 0, k = 1; i < n; i++", "const int i = 0; i < n; i++",
    "float i = 0; i < n; i++", "auto i = 0; i < n; i++", "int i = n; i >= 0; i--",
    "int i = 0; i != n; i++", "int i = 0; n > i; i++", "int i = 0; i < n && m; i++",
    "int i = 0; ; i++", "int i = 0; i < n; ", "int i = 0; i < n; i *= 2",
    "int i = 0; i < n; i += m", "int i = 0; i < n; i += -1", "int i = 0; i < n; i += 010",
    "int i = 0; i < n; k++", "int i = 0; i < n; i = m + 1", "int i = 0; i < n; i--",
):  # fmt: skip
    REFUSED[f"for ({head}) ;"] = f"8: `for ({head}) ;`"
for bound in ("rows[0]", "*rows", "s->n", "SOME", "count(n)", "n++"):
    REFUSED[f"for (int i = {bound}; i < n; i++) ;"] = f"8: the bound `({bound})`"


def test_untileable_loops_are_refused_at_their_line():
    for text, fact in REFUSED.items():
        loops = "i:TI, j:TJ" if "int j" in text or text.startswith(LOOP) else "i:TI"
        whole = f"{HEAD}#pragma tile {loops}\n{text}\n}}\n"
        source = Source(Path("k.cu"), whole, {Path("own.h"): "#define JUMP break\n"})
        [fault] = source.pragma_faults()
        pragma, _, there = fault.text.partition(" found ")
        assert f"{fault.line}: {there}".startswith(fact)
        assert pragma.startswith(f"`#pragma tile {loops}` on line 7 ")
        with pytest.raises(SpecError, match=r"k\.cu"):
            source.with_macros({"TI": 2})


# --------------------------------------------------------------------- the parameter of a space

KERNEL = """\
#pragma values 0,8,16
#define TILE_X 0
__kernel void f(__global float *y, int n) {
#pragma tile x:TILE_X
    for (int x = 0; x < n; x++) y[x] = x;
}
"""
SPACE = """\
name: f
kernel: {function: f, source: {opencl: k.cl}, host: k.py}
parameters:
  TILE_X: {values: [0, 8, 16], default: 0}
launch: {group: [1], grid: [1]}
inputs: {features: [n], values: [{n: 64}]}
"""
HOST = """\
import numpy as np
def arguments(features, rng): return {"y": np.zeros(64, np.float32), "n": np.int32(features["n"])}
def reference(arguments): return {"y": np.arange(64, dtype=np.float32)}
"""


def _load(folder, kernel=KERNEL, space=SPACE):
    (folder / "k.cl").write_text(kernel)
    (folder / "k.py").write_text(HOST)
    (folder / "space.yaml").write_text(space)
    return load_spec(folder / "space.yaml")


def test_a_space_with_untileable_loops(tmp_path):
    cases = (
        ("x < n;", "x != n;", "k.cl:5: .* on line 4 .*x != n;"),
        ("tile x:TILE_X", "tile x:TILE_Z", "k.cl:4: `TILE_Z` .* `TILE_X`"),
        ("tile x:TILE_X", "tile x=TILE_X", "k.cl:4: .* `x=TILE_X`"),
        ("tile x:TILE_X", "tiles x:TILE_X", "k.cl:4: `#pragma tiles` .* `#pragma tile`"),
        ("[0, 8, 16]", "[0, 8, 0.5]", "`TILE_X` .* the value 0.5"),
        ("values: [0, 8, 16], default: 0", "type: boolean, default: false", "the value false"),
    )
    for old, new, fact in cases:
        with pytest.raises(SpecError, match=fact):
            _load(tmp_path, KERNEL.replace(old, new), SPACE.replace(old, new))


def test_a_space_may_leave_the_tiles_out(tmp_path):
    kernel = KERNEL.replace("y[x] = x", "y[x] = x * OTHER")
    [source] = _load(tmp_path, kernel, SPACE.replace("TILE_X", "OTHER")).sources.values()
    assert "harness_x" not in source.with_macros({"OTHER": 8})


def test_discover_declares_sizes_as_parameters_of_the_kernels_source(tmp_path):
    (tmp_path / "k.cl").write_text(KERNEL + "__kernel void g(__global int *z) { z[0] = 1; }\n")
    [size] = discover(tmp_path / "k.cl", "f").declared.tuned
    assert (size.name, size.role, list(size.pragma.values)) == ("TILE_X", "source", [0, 8, 16])
    other = discover(tmp_path / "k.cl", "g").declared
    assert (other.tuned, other.left_out) == ((), (size,))


# ------------------------------------------------------------------------- on the compilers


def test_the_example_is_right_with_every_kind_of_tile(opencl):
    spec = load_spec(EXAMPLES / "transpose_bands.yaml").with_measure({"warmup": 1, "repeats": 2})
    problem = Input({"width": 37, "height": 150})
    tiles = [{"TILE_X": x, "TILE_Y": y} for x, y in ((0, 0), (16, 128))]
    runs = measured(spec, opencl, problem, *tiles)
    assert [m.outcome for m in runs] == [Outcome.OK] * 2, [m.message for m in runs]
    assert len({m.build.key for m in runs if m.build}) == 2
