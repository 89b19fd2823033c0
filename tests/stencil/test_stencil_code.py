"""The language of stencils: types with lengths, errors that name the expression, indices. The code
that is made of it: style, barriers, guards and padding; PoCL runs it, nvcc compiles it."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.errors import BackendUnavailable
from harness.core.program import Program
from harness.measure.cuda.nvcc import Nvcc
from harness.stencil import (
    Node,
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
    nest,
    number,
    pad,
    pad2d,
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
from harness.stencil.arith import PADDINGS, Index, Variable, constant
from harness.stencil.emit import CUDA, OPENCL, emit
from harness.stencil.explore import explore
from harness.stencil.lower import lower
from harness.stencil.nest import NdRange
from harness.stencil.types import StencilError
from tests.helpers.stencil_kernels import (
    DEPTH,
    PROGRAMS,
    Pocl,
    definition_of,
    inputs_of,
    together,
    wrong,
)

add = user_fun("add", "x y", "x + y")
LINE = grid("x", 64)


def sums(window: Node) -> Node:
    """Sum three neighbours."""
    return reduce_(add, 0.0, window)


def tiled(size: int) -> Node:
    """Sum three neighbours, from tiles of `size` in local memory."""
    tiles = slide(size + 2, size, pad(1, 1, "clamp", LINE))

    def one(tile: Node) -> Node:
        copied = to_local(map_local(0, lambda e: e, tile))
        return let(lambda own: map_local(0, sums, slide(3, 1, own)), copied)

    return join(map_workgroup(0, one, tiles))


def test_generated_code_is_readable() -> None:
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


def test_cuda_differs_only_in_its_keywords() -> None:
    text = emit(lower("sums", tiled(16), NdRange((16, 1, 1), (4, 1, 1))), CUDA)
    assert 'extern "C" __global__ void __launch_bounds__(LOCAL_X * LOCAL_Y * LOCAL_Z)\n' in text
    assert "__shared__ float tile[18];" in text
    assert "const int group_x = blockIdx.x;" in text
    assert text.count("__syncthreads();") == 1  # a group has one tile, and no next one to wait for


def test_loops_and_guards_stand_where_needed() -> None:
    cases = (
        (32, 2, "    result[global_x] = "),
        (48, 2, "    if (global_x < 64) {"),
        (32, 1, "    for (int i = global_x; i < 64; i += get_global_size(0)) {"),
    )
    for threads, groups, line in cases:
        doubled = map_global(0, lambda e: add(e, e), LINE)
        ndrange = NdRange((threads, 1, 1), (groups, 1, 1))
        assert line in emit(lower("doubled", doubled, ndrange), OPENCL)


def test_independent_accesses_need_no_barrier() -> None:
    """Two copies share one barrier; private memory needs none."""
    halves = map_(lambda tile: split(16, tile), split(32, LINE))

    def one(parts: Node) -> Node:
        first, second = (to_local(map_local(0, lambda e: e, at(k, parts))) for k in (0, 1))
        return let(lambda a: let(lambda b: _added(a, b), second), first)

    kernel = lower("k", map_workgroup(0, one, halves), NdRange((16, 1, 1), (2, 1, 1)))
    assert emit(kernel, OPENCL).count("barrier(") == 1
    private = map_global(0, lambda w: sums(to_private(map_seq(lambda e: e, w))), slide(3, 1, LINE))
    kernel = lower("k", private, NdRange((62, 1, 1), (1, 1, 1)))
    assert "barrier" not in emit(kernel, OPENCL)


def _added(a: Node, b: Node) -> Node:
    return map_local(0, lambda pair: add(get(0, pair), get(1, pair)), zip_(a, b))


def test_an_impossible_kernel_is_an_error() -> None:
    cases = (
        (lambda: join(slide(3, 1, map_global(0, lambda e: add(e, e), LINE))),
         "its result is not in memory"),
        (lambda: map_local(0, lambda e: e, LINE), "a local map must be inside a workgroup map"),
        (lambda: map_global(0, lambda r: map_global(0, lambda e: e, r), split(8, LINE)),
         "it is inside a global map of the same dimension"),
        (lambda: map_global(0, lambda r: to_local(map_seq(lambda e: e, r)), split(8, LINE)),
         "local memory belongs to a group"),
        (lambda: map_workgroup(0, lambda r: map_seq(sums, slide(3, 1, _own(r))), split(8, LINE)),
         "threads along local 0 all do the same work"),
        (lambda: map_global(0, user_fun("x", "a", "-a"), LINE),
         "the name x is used twice; rename one"),
    )  # fmt: skip
    for make, message in cases:
        with pytest.raises(StencilError, match=message):
            emit(lower("k", make(), NdRange((8, 1, 1), (8, 1, 1))), OPENCL)


def _own(row: Node) -> Node:
    return to_local(map_local(0, lambda e: e, row))


# ----------------------------------------------------------------------------------------- runs


def test_padding_agrees_with_numpy(pocl: Pocl) -> None:
    """Pad five points more than the window needs, on grids with prime sides."""
    image = grid("image", 11, 13)
    modes = {"clamp": "edge", "mirror": "symmetric", "wrap": "wrap", "constant": "constant"}
    kernels = []
    for mode in modes:
        windows = slide2d(5, 1, pad2d(3, 2, mode, image, value=0.25))
        blurred = map_global(
            1, lambda row: map_global(0, lambda w: reduce_(add, 0.0, join(w)), row), windows
        )
        kernels.append(lower(f"padded_{mode}", blurred, NdRange((8, 4, 1), (2, 2, 1))))
    arrays = inputs_of(kernels[0])
    for mode, found in zip(modes.values(), pocl.run_all(kernels, arrays), strict=True):
        value = {"constant_values": 0.25} if mode == "constant" else {}
        padded = np.pad(arrays["image"], ((3, 2), (3, 2)), mode=mode, **value)  # type: ignore[call-overload]
        windows_ = np.lib.stride_tricks.sliding_window_view(padded, (5, 5))
        assert not wrong(found, windows_.sum(axis=(2, 3))), mode


def test_sums_inside_a_constant_border_read_no_element_outside(pocl: Pocl) -> None:
    """A sum is computed before the test that may replace it by the constant."""
    image = grid("image", 11, 13)

    def blurred(x: Node) -> Node:
        return map2d(lambda w: reduce_(add, 0.0, join(w)), slide2d(3, 1, x))

    def surrounded(x: Node) -> Node:
        return pad2d(1, 1, "constant", x, value=0.25)

    kernel = lower("k", blurred(surrounded(blurred(image))), NdRange())
    unguarded = [*_unguarded(kernel.body)]
    assert {load.buffer.name for load in unguarded} >= {"image", "result"}
    for load in unguarded:
        for index, length in zip(load.indices, load.buffer.shape, strict=True):
            assert index.is_within(length), f"{load.buffer.name}[{index.text}]"
    arrays = inputs_of(kernel)
    once = np.lib.stride_tricks.sliding_window_view(arrays["image"], (3, 3)).sum(axis=(2, 3))
    padded = np.pad(once, 1, constant_values=0.25)
    twice = np.lib.stride_tricks.sliding_window_view(padded, (3, 3)).sum(axis=(2, 3))
    assert not wrong(pocl.run_all([kernel], arrays)[0], twice)


def _unguarded(block: list[nest.Statement]) -> Iterator[nest.Load]:
    """Yield the loads and stores outside all conditions."""
    for statement in block:
        if isinstance(statement, nest.Loop):
            yield from _unguarded(statement.body)
        elif isinstance(statement, nest.Assignment):
            yield statement.target
            guarded = [x for x in nest.terms_of(statement.value) if isinstance(x, nest.Inside)]
            within = {id(x) for whole in guarded for x in nest.terms_of(whole)}
            loads = (x for x in nest.terms_of(statement.value) if isinstance(x, nest.Load))
            yield from (x for x in loads if id(x) not in within)


def test_the_other_words_compute_their_definitions(pocl: Pocl) -> None:
    twice = user_fun("twice", "x", "2.0f * x")
    larger = user_fun("larger", "x y", "fmax(x, y)")
    surrounded = pad(1, 1, "constant", LINE, value=-math.inf)
    spread = map_(lambda w: sums(w), slide(3, 1, pad(1, 1, "clamp", LINE)))
    cases = {
        "transposed": (
            join(transpose(map_global(0, lambda r: map_seq(twice, r), split(4, LINE)))),
            lambda x: 2 * x.reshape(16, 4).T.ravel(),
        ),
        "recomputed": (
            map_global(0, sums, slide(3, 1, pad(1, 1, "clamp", spread))),
            lambda x: _three(_three(x)),
        ),
        "unrolled": (
            join(map_global(0, lambda r: map_(twice, r, "unroll"), split(4, LINE))),
            lambda x: 2 * x,
        ),
        "widest": (
            map_global(0, lambda w: reduce_(larger, -math.inf, w), slide(3, 1, surrounded)),
            lambda x: np.max([np.pad(x, 1)[k : k + 64] for k in range(3)], axis=0),
        ),
        "in_3d": (
            join(join(map_global(2, lambda p: map_global(1, lambda r: map_global(0, twice, r), p),
                                 split(4, split(4, LINE))))),
            lambda x: 2 * x,
        ),
    }  # fmt: skip
    one_d = NdRange((8, 1, 1), (3, 1, 1))
    kernels = [
        lower(name, expression, NdRange((4, 2, 2), (1, 1, 2)) if name == "in_3d" else one_d)
        for name, (expression, _) in cases.items()
    ]
    arrays = {"x": np.linspace(0.5, 1.5, 64, dtype=np.float32)}
    found = pocl.run_all(kernels, arrays)
    for name, result in zip(cases, found, strict=True):
        assert not wrong(result, cases[name][1](arrays["x"])), name


def _three(x: np.ndarray) -> np.ndarray:
    padded = np.pad(x, 1, mode="edge")
    return padded[:-2] + padded[1:-1] + padded[2:]


# ----------------------------------------------------------------------------------------- nvcc


@pytest.mark.slow
def test_variants_of_all_stencils_compile_for_sm_90_without_a_warning() -> None:
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


def test_types_have_lengths() -> None:
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


def test_an_error_names_the_expression() -> None:
    cases = (
        (lambda: slide(3, 1, at(0, X)), "slide(3, 1, at(0, x)): expected an array, but `at(0, x)`"),
        (lambda: slide(5, 3, X), "slide(5, 3, x): windows of 5, one every 3, do not end with the"),
        (lambda: split(5, X), "split(5, x): 5 does not divide 12"),
        (lambda: join(X), "join(x): expected an array of arrays, not [float]12"),
        (lambda: zip_(X, IMAGE), "zip(x, image): the lengths differ: 8, 12"),
        (lambda: at(12, X), "at(12, x): it takes element 12 of 12"),
        (lambda: get(0, X), "get(0, x): expected a tuple, but `x` is [float]12"),
        (lambda: pad(1, 1, "clmp", X), "pad(1, 1, clmp, x): the mode is one of constant, clamp,"),
        (lambda: map_(lambda e: add(e), X), "add(?): add takes 2 arguments, but gets 1"),
        (lambda: add(number(1), X), "add(1.0f, x): add takes float y, but `x` is [float]12"),
        (lambda: reduce_(lambda a, e: X, 0.0, X), "the function returns [float]12, not float"),
        (lambda: to_local(zip_(X, X)), "to_local(zip(x, x)): memory holds numbers, not [("),
        (lambda: reduce_(add, 0.0, X, "local"), "a reduction is one of any, seq, unroll, not"),
        (lambda: grid("global_x", 4), "grid('global_x', ...): 'global_x' is not a valid name, or"),
        (lambda: grid("été", 4), "'été' is not a valid name"),
        (lambda: user_fun("min", "x", "x"), "user_fun('min', 'x', ...): 'min' is not a valid"),
        (lambda: user_fun("f", "int x", "x"), "user_fun('f', 'int x', ...): 'int' is not a"),
        (lambda: user_fun("f", "x x", "x"), "parameters must have different names"),
    )
    for make, message in cases:
        with pytest.raises(StencilError) as error:
            make()
        assert message in str(error.value)


# ------------------------------------------------------------------------------ index arithmetic

VARIABLES = (Variable("x", 0, 6), Variable("y", 0, 10))


@st.composite
def indices(draw: st.DrawFn, depth: int = 3) -> Index:
    """Draw sums as views make them, without negative numerators."""
    if depth == 0:
        leaf = st.sampled_from([*(v.index for v in VARIABLES), constant(draw(st.integers(0, 9)))])
        return draw(leaf)
    inner = draw(indices(depth - 1))
    by = draw(st.integers(1, 7))
    kind = draw(st.sampled_from(["+", "*", "/", "%", *PADDINGS]))
    if kind == "+":
        return inner + draw(indices(depth - 1))
    if kind == "*":
        return inner * by
    if kind == "/":
        return inner // by
    if kind == "%":
        return inner % by
    # Padding may reach at most the array's length beyond it.
    least = max(by, (inner.high - by) // 2 + 1)
    return (inner + -by).padded(kind, max(least, inner.high - draw(st.integers(0, 3))))


@settings(max_examples=25, deadline=None)
@given(indices())
def test_text_in_c_range_and_value_agree(index: Index) -> None:
    """C's division is Python's, since nothing is negative."""
    names = {"min": min, "max": max}
    text = index.text.replace("/", "//")
    for x in range(7):
        for y in range(11):
            value = int(index.value({"x": x, "y": y}))
            assert eval(text, names, {"x": x, "y": y}) == value, text
            assert index.low <= value <= index.high, text


def test_indices_are_simplified_by_their_ranges() -> None:
    x, y = (v.index for v in VARIABLES)
    assert ((y * 7 + x) // 7, (y * 7 + x) % 7) == (y, x)
    assert (x * 8) // 4 == x * 2
    assert ((x + 3) // 4) * 4 + (x + 3) % 4 == x + 3
    assert x.padded("clamp", 7) == x
    assert (x + -1).padded("clamp", 7).text == "max(x - 1, 0)"
    assert (x // 2) // 3 == x // 6
