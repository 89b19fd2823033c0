"""The language of stencils: types with lengths, errors that name the expression, indices. The code
that is made of it: style, barriers, guards and padding; PoCL runs it, nvcc compiles it."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.errors import BackendUnavailable
from harness.core.program import Program
from harness.measure.cuda.nvcc import Nvcc
from harness.stencil import (
    at,
    get,
    grid,
    join,
    let,
    map2d,
    map_,
    map_global,
    map_local,
    map_seq,
    map_workgroup,
    number,
    pad,
    reduce_,
    slide,
    slide2d,
    split,
    to_local,
    to_private,
    transpose,
    user_fun,
    zip_,
)
from harness.stencil.arith import PADDINGS, Variable, constant
from harness.stencil.emit import CUDA, OPENCL, emit
from harness.stencil.explore import explore
from harness.stencil.lower import lower
from harness.stencil.nest import NdRange
from harness.stencil.types import StencilError
from tests.helpers.stencil_kernels import (
    DEPTH,
    PROGRAMS,
    definition_of,
    inputs_of,
    together,
    wrong,
)

add = user_fun("add", "x y", "x + y")
LINE = grid("x", 64)


def sums(window):
    """Sum three neighbours."""
    return reduce_(add, 0.0, window)


def tiled(size):
    """Sum three neighbours, from tiles of `size` in local memory."""
    tiles = slide(size + 2, size, pad(1, 1, "clamp", LINE))

    def summed(tile):
        return let(lambda copy: map_local(0, sums, slide(3, 1, copy)), _copied(tile))

    return join(map_workgroup(0, summed, tiles))


def _copied(row):
    return to_local(map_local(0, lambda e: e, row))


def test_generated_code_is_readable():
    kernel = lower("sums", tiled(16), NdRange((16, 1, 1), (2, 1, 1)))
    assert (
        emit(kernel, OPENCL)
        == """\
static float add(float x, float y) {
    return x + y;
}

__kernel __attribute__((reqd_work_group_size(LOCAL_X, LOCAL_Y, LOCAL_Z)))
void sums(__global const float *restrict x, __global float *restrict result) {
    __local float tile[18];
    const int group_x = get_group_id(0);
    const int local_x = get_local_id(0);
    for (int i = group_x; i < 4; i += get_num_groups(0)) {
        for (int j = local_x; j < 18; j += LOCAL_X) {
            tile[j] = x[min(max(i * 16 + j - 1, 0), 63)];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        float sum = 0.0f;
        for (int j = 0; j < 3; j++) {
            sum = add(sum, tile[j + local_x]);
        }
        result[i * 16 + local_x] = sum;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
"""
    )


def test_cuda_differs_only_in_its_keywords():
    text = emit(lower("sums", tiled(16), NdRange((16, 1, 1), (4, 1, 1))), CUDA)
    assert 'extern "C" __global__ void __launch_bounds__(LOCAL_X * LOCAL_Y * LOCAL_Z)\n' in text
    assert "__shared__ float tile[18];" in text
    assert "const int group_x = blockIdx.x;" in text
    assert text.count("__syncthreads();") == 1  # a group has one tile, and no next one to wait for


def test_loops_and_guards_stand_where_needed():
    doubled = map_global(0, lambda e: add(e, e), LINE)
    for threads, groups, line in (
        (32, 2, "    result[global_x] = "),
        (48, 2, "    if (global_x < 64) {"),
        (32, 1, "    for (int i = global_x; i < 64; i += get_global_size(0)) {"),
    ):
        ndrange = NdRange((threads, 1, 1), (groups, 1, 1))
        assert line in emit(lower("doubled", doubled, ndrange), OPENCL)


def test_independent_accesses_need_no_barrier():
    """Two copies share one barrier; private memory needs none."""
    halves = map_(lambda tile: split(16, tile), split(32, LINE))

    def added(a, b):
        return map_local(0, lambda pair: add(get(0, pair), get(1, pair)), zip_(a, b))

    def both(parts):
        second = _copied(at(1, parts))
        return let(lambda a: let(lambda b: added(a, b), second), _copied(at(0, parts)))

    local = map_workgroup(0, both, halves)
    private = map_global(0, lambda w: sums(to_private(map_seq(lambda e: e, w))), slide(3, 1, LINE))
    for expression, threads, barriers in ((local, 16, 1), (private, 62, 0)):
        kernel = lower("k", expression, NdRange((threads, 1, 1), (2, 1, 1)))
        assert emit(kernel, OPENCL).count("barrier(") == barriers


def test_an_impossible_kernel_is_an_error():
    cases = (
        (lambda: join(slide(3, 1, map_global(0, lambda e: add(e, e), LINE))),
         "its result is not in memory"),
        (lambda: map_local(0, lambda e: e, LINE), "a local map must be inside a workgroup map"),
        (lambda: map_global(0, lambda r: map_global(0, lambda e: e, r), split(8, LINE)),
         "it is inside a global map of the same dimension"),
        (lambda: map_global(0, lambda r: to_local(map_seq(lambda e: e, r)), split(8, LINE)),
         "local memory belongs to a group"),
        (lambda: map_workgroup(0, lambda r: map_seq(sums, slide(3, 1, _copied(r))), split(8, LINE)),
         "threads along local 0 all do the same work"),
        (lambda: map_global(0, user_fun("x", "a", "-a"), LINE),
         "the name x is used twice; rename one"),
    )  # fmt: skip
    for make, message in cases:
        with pytest.raises(StencilError, match=message):
            emit(lower("k", make(), NdRange((8, 1, 1), (8, 1, 1))), OPENCL)


# ----------------------------------------------------------------------------------------- runs


def test_padding_agrees_with_numpy(pocl):
    """Pad more points than the window needs, on a line with a prime length."""
    line = grid("x", 13)
    modes: Any = {"clamp": "edge", "mirror": "symmetric", "wrap": "wrap", "constant": "constant"}
    kernels = []
    for mode in modes:
        windows = slide(3, 1, pad(3, 2, mode, line, value=0.0))
        kernels.append(lower(f"k_{mode}", map_global(0, sums, windows), NdRange((8, 1, 1))))
    arrays = inputs_of(kernels[0])
    for mode, result in zip(modes.values(), pocl.run_all(kernels, arrays), strict=True):
        padded = np.pad(arrays["x"], (3, 2), mode=mode)
        assert not wrong(result, np.convolve(padded, np.ones(3), "valid")), mode


def test_sums_inside_a_constant_border_read_no_element_outside():
    """A sum is computed before the test that may replace it by the constant."""
    inner = map_(sums, slide(3, 1, LINE))
    windows = slide(3, 1, pad(1, 1, "constant", inner, value=0.25))
    text = emit(lower("k", map_(sums, windows), NdRange()), OPENCL)
    assert "sum_1 = add(sum_1, x[k + min(max(i + j - 1, 0), 61)]);" in text
    assert "(i + j - 1 >= 0 && i + j - 1 < 62 ? sum_1 : 0.25f)" in text


def test_the_other_words_compute_their_definitions(pocl):
    twice = user_fun("twice", "x", "2.0f * x")
    larger = user_fun("larger", "x y", "fmax(x, y)")
    quarters = split(4, LINE)
    surrounded = slide(3, 1, pad(1, 1, "constant", LINE, value=2.0))
    sums_of_sums = slide(3, 1, pad(1, 1, "wrap", map_(sums, slide(3, 1, pad(1, 1, "wrap", LINE)))))
    x = np.linspace(0.5, 1.5, 64, dtype=np.float32)
    around = np.roll(x, 2) + 2 * np.roll(x, 1) + 3 * x + 2 * np.roll(x, -1) + np.roll(x, -2)
    cases = (
        (join(transpose(map_global(0, lambda r: map_seq(twice, r), quarters))),
         2 * x.reshape(16, 4).T.ravel()),
        (map_global(0, sums, sums_of_sums), around),
        (join(map_global(0, lambda r: map_(twice, r, "unroll"), quarters)), 2 * x),
        (map_global(0, lambda w: reduce_(larger, -math.inf, w), surrounded), [2.0, *x[2:], 2.0]),
        (join(join(map_global(2, lambda p: map_global(1, lambda r: map_global(0, twice, r), p),
                              split(4, quarters)))), 2 * x),
    )  # fmt: skip
    kernels = []
    for index, (expression, _) in enumerate(cases):
        kernels.append(lower(f"k{index}", expression, NdRange((4, 2, 2), (3, 1, 2))))
    for (expression, right), result in zip(cases, pocl.run_all(kernels, {"x": x}), strict=True):
        assert not wrong(result, right), expression


# ----------------------------------------------------------------------------------------- nvcc


@pytest.mark.slow
def test_variants_of_all_stencils_compile_for_sm_90_without_a_warning():
    try:
        nvcc = Nvcc("sm_90")
    except BackendUnavailable as reason:
        pytest.skip(str(reason))
    kernels = []
    for program in PROGRAMS:
        expression = definition_of(program).expression(96)
        variants = explore("k", expression, 7 * DEPTH, "7", threads_each=1)
        kernels += [
            lower(f"{program}_{number}", v.expression, next(iter(v.kernels.values())).ndrange)
            for number, v in enumerate(variants)
        ]
    # In one run: nvcc takes longer to read CUDA's headers than to compile a kernel.
    build = nvcc.compile(Program(together(kernels, CUDA), ("-Werror", "all-warnings"), ()))
    assert build.build.log == ""


# ----------------------------------------------------------------------------------- the language


X = grid("x", 12)
IMAGE = grid("image", 8, 6)


def test_types_have_lengths():
    cases = (
        (slide(3, 1, pad(1, 1, "clamp", X)), "[[float]3]12"),
        (slide(5, 2, pad(1, 0, "wrap", X)), "[[float]5]5"),
        (split(4, X), "[[float]4]3"),
        (join(split(4, X)), "[float]12"),
        (transpose(IMAGE), "[[float]8]6"),
        (zip_(X, split(1, X)), "[(float, [float]1)]12"),
        (slide2d((3, 2), 1, IMAGE), "[[[[float]2]3]5]6"),
        (map2d(lambda x: add(x, x), IMAGE), "[[float]6]8"),
        (reduce_(add, 0.0, X), "float"),
        (at(2, IMAGE), "[float]6"),
    )
    for expression, kind in cases:
        assert str(expression.type) == kind


def test_an_error_names_the_expression():
    cases = (
        (lambda: slide(3, 1, at(0, X)), "slide(3, 1, at(0, x)): "),
        (lambda: slide(5, 3, X), "slide(5, 3, x): windows of 5"),
        (lambda: split(5, X), "split(5, x): 5 does not divide 12"),
        (lambda: join(X), "join(x): expected an array of arrays"),
        (lambda: zip_(X, IMAGE), "zip(x, image): the lengths differ: 8, 12"),
        (lambda: at(12, X), "at(12, x): it takes element 12 of 12"),
        (lambda: get(0, X), "get(0, x): expected a tuple"),
        (lambda: pad(1, 1, "clmp", X), "pad(1, 1, clmp, x): "),
        (lambda: map_(lambda e: add(e), X), "add(?): "),
        (lambda: add(number(1), X), "add(1.0f, x): "),
        (lambda: reduce_(lambda a, e: X, 0.0, X), "[float]12, not float"),
        (lambda: to_local(zip_(X, X)), "to_local(zip(x, x)): "),
        (lambda: reduce_(add, 0.0, X, "local"), "local"),
        (lambda: grid("global_x", 4), "grid('global_x', ...): "),
        (lambda: grid("été", 4), "'été'"),
        (lambda: user_fun("min", "x", "x"), "user_fun('min', 'x', ...): "),
        (lambda: user_fun("f", "int x", "x"), "'int'"),
        (lambda: user_fun("f", "x x", "x"), "different names"),
    )
    for make, fact in cases:
        with pytest.raises(StencilError, match=re.escape(fact)):
            make()


# ------------------------------------------------------------------------------ index arithmetic

VARIABLES = (Variable("x", 0, 6), Variable("y", 0, 10))


@st.composite
def indices(draw, depth=3):
    """Draw sums as views make them, without negative numerators."""
    if depth == 0:
        variables = st.sampled_from([variable.index for variable in VARIABLES])
        return draw(variables | st.integers(0, 9).map(constant))
    inner = draw(indices(depth - 1))
    by = draw(st.integers(1, 7))
    kind = draw(st.sampled_from(["+", "*", "/", "%", *PADDINGS]))
    if kind in PADDINGS:
        # Padding may reach at most the array's length beyond it.
        least = max(by, (inner.high - by) // 2 + 1)
        return (inner + -by).padded(kind, max(least, inner.high - draw(st.integers(0, 3))))
    if kind == "+":
        return inner + draw(indices(depth - 1))
    made = {"*": inner * by, "/": inner // by, "%": inner % by}
    return made[kind]


@settings(max_examples=25, deadline=None)
@given(indices())
def test_text_in_c_range_and_value_agree(index):
    """C's division is Python's, since nothing is negative."""
    text = index.text.replace("/", "//")
    for x, y in itertools.product(range(7), range(11)):
        value = int(index.value({"x": x, "y": y}))
        assert eval(text, {"min": min, "max": max}, {"x": x, "y": y}) == value, text
        assert index.low <= value <= index.high, text


def test_indices_are_simplified_by_their_ranges():
    x, y = (v.index for v in VARIABLES)
    assert ((y * 7 + x) // 7, (y * 7 + x) % 7) == (y, x)
    assert (x * 8) // 4 == x * 2
    assert ((x + 3) // 4) * 4 + (x + 3) % 4 == x + 3
    assert x.padded("clamp", 7) == x
    assert (x + -1).padded("clamp", 7).text == "max(x - 1, 0)"
    assert (x // 2) // 3 == x // 6
