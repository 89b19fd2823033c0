"""Features: counts are those of kernels that count with atomics; cache lines are the true ones."""

from __future__ import annotations

import math
import random
import tracemalloc
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
import pytest

from harness.measure.opencl.driver import build_program
from harness.stencil.emit import OPENCL, emit
from harness.stencil.explore import derive, fused
from harness.stencil.features import COUNTS, EXACT, FEATURES, OWN, PUBLISHED, features
from harness.stencil.features import _share as share
from harness.stencil.ir import Node, user_fun
from harness.stencil.language import (
    grid,
    join,
    map2d,
    map_global,
    map_local,
    map_seq,
    map_workgroup,
    pad,
    pad2d,
    reduce_,
    slide,
    slide2d,
    split,
    to_local,
    transpose,
)
from harness.stencil.lower import lower
from harness.stencil.nest import (
    Assignment,
    Barrier,
    Call,
    Declaration,
    Inside,
    Load,
    Loop,
    LoopNest,
    NdRange,
    Number,
    Statement,
    Term,
    terms_of,
)
from tests.helpers.stencil_kernels import DEPTH, Pocl, inputs_of, load_definition, macros
from tests.stencil.test_stencil_rules import drawn_range

add = user_fun("add", "x y", "x + y")
square = user_fun("square", "x", "x * x")

# ------------------------------------------------------------------------------------ counting


class Counting:
    """An OpenCL C kernel with counters, written from its loop nest."""

    def __init__(self, kernel: LoopNest) -> None:
        self.kernel = kernel

    def text(self) -> str:
        *functions, whole = emit(self.kernel, OPENCL).rstrip("\n").split("\n\n")
        signature = whole[: whole.index("{")].replace(
            "*restrict result)", "*restrict result, __global int *counts)"
        )
        lines = whole[whole.index("{") :].split("\n")
        heads = [line for line in lines if line.startswith(("    __local", "    const int"))]
        body = [line for s in self.kernel.body for line in self.statement(s)]
        count = "#define COUNT(which) atomic_inc(counts + which)"
        return "\n".join(
            [macros(self.kernel) + count, *functions, signature + "{", *heads, *body, "}"]
        )

    def count(self, name: str) -> str:
        return f"COUNT({COUNTS.index(name)})"

    def statement(self, statement: Statement) -> Iterator[str]:
        if isinstance(statement, Barrier):
            yield f"{self.count('barriers')}; barrier(CLK_LOCAL_MEM_FENCE);"
        elif isinstance(statement, Declaration):
            sizes = "".join(f"[{n}]" for n in statement.buffer.shape)
            yield f"float {statement.buffer.name}{sizes};"
        elif isinstance(statement, Assignment):
            target = statement.target
            if statement.declares:
                yield f"float {target.buffer.name};"
            yield f"{self.count(f'{target.buffer.space}_stores')};"
            yield f"{element(target)} = {self.term(statement.value)};"
        else:
            yield from self.loop(statement)

    def loop(self, loop: Loop) -> Iterator[str]:
        name, number = loop.variable.name, loop.dim
        if loop.form == "for":
            begin, step = {
                "seq": ("0", "1"),
                "global": (f"get_global_id({number})", f"get_global_size({number})"),
                "workgroup": (f"get_group_id({number})", f"get_num_groups({number})"),
                "local": (f"get_local_id({number})", f"get_local_size({number})"),
            }[loop.kind]
            yield f"for (int {name} = {begin}; {name} < {loop.extent}; {name} += {step}) {{"
            yield f"{self.count('loop_bodies')};"
        elif loop.form == "if":
            yield f"{self.count('ifs')}; if ({name} < {loop.extent}) {{"
        else:
            yield "{"
        for statement in loop.body:
            yield from self.statement(statement)
        yield "}"

    def term(self, term: Term) -> str:
        if isinstance(term, Load):
            return f"({self.count(f'{term.buffer.space}_loads')}, {element(term)})"
        if isinstance(term, Call):
            arguments = ", ".join(map(self.argument, term.arguments))
            return f"{term.function.name}({arguments})"
        if isinstance(term, Inside):
            tests = " && ".join(f"({i.text}) >= 0 && ({i.text}) < {n}" for i, n in term.bounds)
            other = f"{self.term(term.term)} : {term.otherwise.text}"
            return f"({self.count('ifs')}, ({tests}) ? {other})"
        assert isinstance(term, Number)
        return term.text

    def argument(self, term: Term) -> str:
        if not isinstance(term, Call):
            return self.term(term)
        both = f"{self.count('private_stores')}, {self.count('private_loads')}"
        return f"({both}, {self.term(term)})"


def element(load: Load) -> str:
    """Write an element in C, with row-major strides in global memory."""
    if load.buffer.space != "global":
        return load.buffer.name + "".join(f"[{index.text}]" for index in load.indices)
    shape = load.buffer.shape
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    products = (f"({i.text}) * {s}" for i, s in zip(load.indices, strides, strict=True))
    return f"{load.buffer.name}[{' + '.join(products)}]"


def counted(pocl: Pocl, kernel: LoopNest) -> dict[str, int]:
    text = Counting(kernel).text()
    program = build_program(pocl.cl, pocl.cl.Program(pocl.context, text), ())
    counters = np.zeros(len(COUNTS), np.int32)
    pocl.run(program, kernel, inputs_of(kernel), counters)
    return dict(zip(COUNTS, counters.tolist(), strict=True))


def constant_borders(size: int) -> Node:
    """Sum 3 x 3 points with zeros around the grid: every load has conditions."""
    windows = slide2d(3, 1, pad2d(2, 1, "constant", grid("image", size, size - 4)))
    return map_global(
        1, lambda row: map_global(0, lambda w: square(reduce_(add, 0.0, join(w))), row), windows
    )


def nested_borders(size: int) -> Node:
    """Nest two constant borders and use strides: bounds share variables."""
    padded = pad2d(1, 2, "constant", pad2d(2, 1, "constant", grid("image", size, size)), value=1.0)
    windows = slide2d(4, 2, padded)
    return map2d(lambda w: reduce_(add, 0.0, join(w)), windows)


def stores(block: list[Statement]) -> Iterator[Assignment]:
    """Yield all assignments in a block."""
    for statement in block:
        if isinstance(statement, Loop):
            yield from stores(statement.body)
        elif isinstance(statement, Assignment):
            yield statement


def test_counts_agree_with_instrumented_kernels(pocl: Pocl) -> None:
    rng = random.Random(11)
    expressions: list[tuple[Node, NdRange]] = []
    for program in ("srad1", "srad2", "stencil2d", "hotspot2d"):
        for _ in range(2 * DEPTH):
            derived = derive(fused(load_definition(program).expression(30)), rng)
            assert derived is not None
            expressions.append((derived, drawn_range(derived, rng)))
    expressions.append((constant_borders(21), NdRange((8, 4, 1), (3, 4, 1))))
    for expression, ndrange in expressions:
        kernel = lower("k", expression, ndrange)
        found, threads = features(kernel), math.prod(ndrange.local + ndrange.groups)
        means = {name: count / threads for name, count in counted(pocl, kernel).items()}
        assert {name: found[name] for name in COUNTS} == means, str(expression)


def test_shares_of_dependent_bounds_agree_with_enumeration() -> None:
    """Windows with constant borders have bounds that share loop variables."""
    kernels = [
        lower("k", constant_borders(21), NdRange((8, 4, 1), (3, 4, 1))),
        lower("k", nested_borders(12), NdRange()),
    ]
    for kernel in kernels:
        inner = [x for s in stores(kernel.body) for x in terms_of(s.value) if isinstance(x, Inside)]
        assert inner
        for bounds in {x.bounds for x in inner}:
            variables = {v.name: v for index, _ in bounds for v in index.variables()}
            grids = np.meshgrid(*(np.arange(v.low, v.high + 1) for v in variables.values()))
            values = dict(zip(variables, grids, strict=True))
            positions = [(index.value(values), length) for index, length in bounds]
            held = np.all([(p >= 0) & (p < n) for p, n in positions], axis=0)
            assert share(bounds) == Fraction(int(held.sum()), held.size)


def test_features_of_a_large_grid_need_little_memory() -> None:
    """Nothing enumerates rows times columns."""
    whole = constant_borders(8192), NdRange((32, 8, 1), (256, 1024, 1))
    line = slide(3, 1, pad(1, 1, "constant", grid("x", 1 << 22)))
    sums = map_global(0, lambda w: reduce_(add, 0.0, w), line), NdRange((256, 1, 1), (64, 1, 1))
    for expression, ndrange in (whole, sums):
        kernel = lower("k", expression, ndrange)
        tracemalloc.start()
        features(kernel)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1 << 20


def test_a_call_is_one_store_of_its_result_and_a_load_for_each_argument() -> None:
    """Algorithm 1 of the paper counts a store for each argument."""
    x = grid("x", 64)
    kernel = lower("k", map_global(0, lambda e: add(square(e), e), x), NdRange((64, 1, 1)))
    found = features(kernel)
    assert found["global_loads"] == 2
    assert found["global_stores"] == 1
    assert found["private_stores"] == found["private_loads"] == 1  # from square to add


def test_sizes_and_local_memory_are_those_of_the_launch() -> None:
    tiles = split(32, grid("x", 256))
    copied = map_workgroup(
        0, lambda t: map_local(0, square, to_local(map_local(0, lambda e: e, t))), tiles
    )
    found = features(lower("k", copied, NdRange((16, 1, 1), (8, 1, 1))))
    assert [found[f"global_size_{axis}"] for axis in "xyz"] == [128, 1, 1]
    assert [found[f"local_size_{axis}"] for axis in "xyz"] == [16, 1, 1]
    assert found["local_bytes"] == 128
    assert found["barriers"] == 1
    assert found["loop_bodies"] == 2 * 2  # two loops in which a thread takes every 16th of 32

    cube = grid("x", 4, 6, 64)
    mapped = map_global(2, lambda p: map_global(1, lambda r: map_global(0, square, r), p), cube)
    found = features(lower("k", mapped, NdRange((32, 2, 2), (2, 3, 1))))
    assert [found[f"global_size_{axis}"] for axis in "xyz"] == [64, 6, 2]
    assert [found[f"local_size_{axis}"] for axis in "xyz"] == [32, 2, 2]


def test_counts_are_means_over_the_threads() -> None:
    """Points of a program differ in them, although all write the same results."""
    image = grid("image", 64, 64)
    whole = map_global(1, lambda row: map_global(0, square, row), image)
    for groups, stores in (((2, 64), 1), ((1, 64), 2), ((2, 16), 4), ((4, 64), 1 / 2)):
        found = features(lower("k", whole, NdRange((32, 1, 1), (*groups, 1))))
        assert found["global_stores"] == found["global_loads"] == stores


def test_the_papers_features_have_names_of_their_own() -> None:
    assert set(PUBLISHED).isdisjoint(OWN)
    assert FEATURES == PUBLISHED + OWN
    assert "private_loads" in OWN
    found = features(lower("k", map_global(0, square, grid("x", 64)), NdRange((64, 1, 1))))
    assert tuple(found) == FEATURES


# --------------------------------------------------------------------------------- cache lines


def lines(expression: Node, local: Sequence[int], groups: Sequence[int]) -> tuple[float, float]:
    """Count lines that loads touch, as the paper does and exactly."""
    ndrange = NdRange(tuple(local), tuple(groups))  # type: ignore[arg-type]
    kernel = lower("k", expression, ndrange)
    found = features(kernel, exact_lines=True)
    return found["cache_lines"], found[EXACT]


def test_neighbouring_threads_share_a_line() -> None:
    assert lines(map_global(0, square, grid("x", 256)), (64, 1, 1), (4, 1, 1)) == (1, 1)


@pytest.mark.parametrize(("size", "expected"), [(1, 1), (2, 2), (4, 4), (32, 32), (64, 32)])
def test_strided_threads_touch_a_line_for_each_32_words(size: int, expected: int) -> None:
    """Section 4.2.3 of the paper: split 4 with lines of 32 words touches 4 in a warp, not 8."""
    parts = split(size, grid("x", 64 * size))
    each = join(map_global(0, lambda part: map_seq(square, part), parts))
    sums = map_global(0, lambda part: reduce_(add, 0.0, part), parts)
    for expression, stored in ((each, expected), (sums, 1)):
        assert lines(expression, (32, 1, 1), (2, 1, 1)) == (expected, expected)
        found = features(lower("k", expression, NdRange((32, 1, 1), (2, 1, 1))))
        assert found["store_cache_lines"] == stored


def test_a_warp_is_32_consecutive_threads_and_spans_rows() -> None:
    image = grid("image", 64, 64)
    expression = map_global(1, lambda row: map_global(0, square, row), image)
    assert lines(expression, (8, 8, 1), (8, 8, 1)) == (4, 4)
    assert lines(expression, (32, 2, 1), (2, 32, 1)) == (1, 1)
    transposed = transpose(map_global(1, lambda c: map_global(0, square, c), transpose(image)))
    assert lines(transposed, (32, 2, 1), (2, 32, 1)) == (32, 32)


def test_the_papers_mode_ignores_borders_and_alignment() -> None:
    """Unaligned loads touch two lines, which distances do not show."""
    image = grid("image", 32, 64)
    windows = slide2d((1, 3), 1, map_pad(image))
    sums = map_global(
        1, lambda row: map_global(0, lambda w: reduce_(add, 0.0, join(w), "unroll"), row), windows
    )
    published, exact = lines(sums, (32, 1, 1), (2, 32, 1))
    # One of the three loads is aligned. The left and the right neighbour each cross a line in one
    # of two warps: (1 + 1.5 + 1.5) / 3.
    assert published == 1
    assert exact == pytest.approx(4 / 3)


def map_pad(image: Node) -> Node:
    """Pad by clamping along rows only."""
    from harness.stencil.language import map_, pad

    return map_(lambda row: pad(1, 1, "clamp", row), image)


def test_idle_threads_touch_no_line() -> None:
    assert lines(map_global(0, square, grid("x", 40)), (32, 1, 1), (2, 1, 1))[1] == 1
    strided = join(map_global(0, lambda p: map_seq(square, p), split(32, grid("x", 640))))
    assert lines(strided, (32, 1, 1), (1, 1, 1)) == (20, 20)
