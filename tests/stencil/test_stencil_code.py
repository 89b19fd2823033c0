"""Generated code: style, barriers, guards and padding; PoCL runs it, nvcc compiles it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from harness.core.errors import BackendUnavailable
from harness.core.program import Program
from harness.measure.cuda.nvcc import Nvcc
from harness.stencil import (
    Node,
    array,
    at,
    get,
    grid,
    iterate,
    join,
    let,
    map2d,
    map_,
    map_global,
    map_local,
    map_seq,
    map_workgroup,
    nest,
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
from harness.stencil.emit import CUDA, OPENCL, emit
from harness.stencil.explore import explore
from harness.stencil.lower import lower
from harness.stencil.nest import NdRange
from harness.stencil.types import INT, StencilError
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
X = grid("x", 64)


def sums(window: Node) -> Node:
    """Sum three neighbours."""
    return reduce_(add, 0.0, window)


def tiled(size: int) -> Node:
    """Sum three neighbours, from tiles of `size` in local memory."""
    tiles = slide(size + 2, size, pad(1, 1, "clamp", X))

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
    assert (
        'extern "C" __global__ void __launch_bounds__(LOCAL_X * LOCAL_Y * LOCAL_Z)\nsums(' in text
    )
    assert "__shared__ float tile[18];" in text
    assert "const int group_x = blockIdx.x;" in text
    assert text.count("__syncthreads();") == 1  # a group has one tile, and no next one to wait for


@pytest.mark.parametrize(
    ("threads", "groups", "line"),
    [
        (32, 2, "    result[global_x] = "),
        (48, 2, "    if (global_x < 64) {"),
        (32, 1, "    for (int i = global_x; i < 64; i += get_global_size(0)) {"),
    ],
)
def test_loops_and_guards_stand_where_needed(threads: int, groups: int, line: str) -> None:
    doubled = map_global(0, lambda e: add(e, e), X)
    ndrange = NdRange((threads, 1, 1), (groups, 1, 1))
    assert line in emit(lower("doubled", doubled, ndrange), OPENCL)


def test_independent_accesses_need_no_barrier() -> None:
    """Two copies share one barrier; private memory needs none."""
    halves = map_(lambda tile: split(16, tile), split(32, X))

    def one(parts: Node) -> Node:
        first, second = (to_local(map_local(0, lambda e: e, at(k, parts))) for k in (0, 1))
        return let(lambda a: let(lambda b: _added(a, b), second), first)

    kernel = lower("k", map_workgroup(0, one, halves), NdRange((16, 1, 1), (2, 1, 1)))
    assert emit(kernel, OPENCL).count("barrier(") == 1
    private = map_global(0, lambda w: sums(to_private(map_seq(lambda e: e, w))), slide(3, 1, X))
    kernel = lower("k", private, NdRange((62, 1, 1), (1, 1, 1)))
    assert "barrier" not in emit(kernel, OPENCL)


def _added(a: Node, b: Node) -> Node:
    return map_local(0, lambda pair: add(get(0, pair), get(1, pair)), zip_(a, b))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: join(slide(3, 1, map_global(0, lambda e: add(e, e), X))),
         "its result is not in memory"),
        (lambda: map_local(0, lambda e: e, X), "a local map must be inside a workgroup map"),
        (lambda: map_global(0, lambda r: map_global(0, lambda e: e, r), split(8, X)),
         "it is inside a global map of the same dimension"),
        (lambda: map_global(0, lambda r: to_local(map_seq(lambda e: e, r)), split(8, X)),
         "local memory belongs to a group"),
        (lambda: map_workgroup(0, lambda r: map_seq(sums, slide(3, 1, _own(r))), split(8, X)),
         "threads along local 0 all do the same work"),
        (lambda: map_global(0, user_fun("x", "a", "-a"), X),
         "the name x is used twice; rename one"),
    ],
)  # fmt: skip
def test_an_impossible_kernel_is_an_error(make: Callable[[], Node], message: str) -> None:
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
    ramp = user_fun("ramp", "i n", "(float)i / n", (INT, INT))
    twice = user_fun("twice", "x", "2.0f * x")
    larger = user_fun("larger", "x y", "fmax(x, y)")
    surrounded = pad(1, 1, "constant", X, value=-math.inf)
    spread = map_(lambda w: sums(w), slide(3, 1, pad(1, 1, "clamp", X)))
    cases = {
        "iterated": (
            map_global(0, lambda e: e, iterate(3, lambda x: map_(twice, x), X)),
            lambda x: 8 * x,
        ),
        "generated": (map_global(0, lambda e: e, array(64, ramp)), lambda x: np.arange(64) / 64),
        "transposed": (
            join(transpose(map_global(0, lambda r: map_seq(twice, r), split(4, X)))),
            lambda x: 2 * x.reshape(16, 4).T.ravel(),
        ),
        "recomputed": (
            map_global(0, sums, slide(3, 1, pad(1, 1, "clamp", spread))),
            lambda x: _three(_three(x)),
        ),
        "unrolled": (
            join(map_global(0, lambda r: map_(twice, r, "unroll"), split(4, X))),
            lambda x: 2 * x,
        ),
        "widest": (
            map_global(0, lambda w: reduce_(larger, -math.inf, w), slide(3, 1, surrounded)),
            lambda x: np.max([np.pad(x, 1)[k : k + 64] for k in range(3)], axis=0),
        ),
        "in_3d": (
            join(join(map_global(2, lambda p: map_global(1, lambda r: map_global(0, twice, r), p),
                                 split(4, split(4, X))))),
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
