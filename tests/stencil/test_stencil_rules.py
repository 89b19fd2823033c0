"""Rewrite rules keep the meaning, each by itself and many composed at random, against numpy. The
features of what they make: counts are those of threads run one by one, cache lines the paper's."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter

import numpy as np
import pytest

from harness.stencil import (
    Node,
    at,
    get,
    grid,
    join,
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
    rules,
    slide,
    slide2d,
    split,
    to_local,
    transpose,
    user_fun,
    zip2d,
    zip_,
)
from harness.stencil.emit import OPENCL, emit
from harness.stencil.explore import explore
from harness.stencil.features import COUNTS, features
from harness.stencil.lower import lower, parallel_extents
from harness.stencil.nest import LoopNest, NdRange
from tests.helpers.stencil_kernels import (
    DEPTH,
    PROGRAMS,
    definition_of,
    drawn_range,
    inputs_of,
    wrong,
)

add = user_fun("add", "x y", "x + y")
twice = user_fun("twice", "x", "2.0f * x")


# ------------------------------------------------------------------------------- rule by rule


def line():
    """Combine maps, a reduction and windows on lines a and b."""
    windows = slide(3, 1, pad(1, 1, "clamp", grid("a", 24)))
    sums = map_(lambda w: reduce_(add, 0.0, map_(twice, w)), windows)
    b = map_(twice, map_(twice, grid("b", 24)))
    added = map_(lambda pair: add(get(0, pair), get(1, pair)), zip_(b, sums))
    return map_(twice, added)


def plane():
    """Add three grids: windows of 3 x 3, windows of 5 x 5, and points times two."""
    a, b, c = (grid(name, 12, 18) for name in "abc")
    small = slide2d(3, 1, pad2d(1, 1, "clamp", a))
    large = slide2d(5, 1, pad2d(2, 2, "wrap", c))

    def total(point):
        of_a, of_c = at(0, at(2, get(0, point))), at(4, at(1, get(2, point)))
        return add(add(of_a, get(1, point)), of_c)

    return map2d(total, zip2d(small, map2d(twice, b), large))


def expected(arrays):
    """Compute the result of `line` or `plane` with numpy."""
    a, b = arrays["a"], arrays["b"]
    if a.ndim == 1:
        padded = 2 * np.pad(a, 1, mode="edge")
        return 2 * (padded[:-2] + padded[1:-1] + padded[2:] + 4 * b)
    small = np.pad(a, 1, mode="edge")[2:, :-2]
    return small + 2 * b + np.pad(arrays["c"], 2, mode="wrap")[1:-3, 4:]


RULES = {
    "tile": rules.tile(6),
    "tile2d": rules.tile2d(4, 9),
    "in_private": rules.in_private,
    "unrolled": rules.unrolled,
}


def test_each_rule_preserves_the_result_wherever_it_applies(pocl):
    applied = set()
    for make in (line, plane):
        kernels = []
        for name, rule in RULES.items():
            for new in rules.everywhere(rule, make()):
                assert new.type == make().type
                kernels.append(lower(f"{name}_{len(kernels)}", new, NdRange()))
                applied.add(name)
        arrays = inputs_of(kernels[0])
        for kernel, result in zip(kernels, pocl.run_all(kernels, arrays), strict=True):
            assert not wrong(result, expected(arrays)), kernel.name
    assert applied == set(RULES)


def test_any_subset_of_reused_arrays_goes_to_local_memory(pocl):
    tiled = next(rules.everywhere(rules.tile2d(4, 6), plane()))
    kinds = [("workgroup", 1), ("workgroup", 0), ("local", 1), ("local", 0)]
    mapped = rules.mapped(kinds, tiled)
    assert rules.names_of(mapped) == ["0", "2"]
    kernels = []
    for copied, shapes in {"0": {(6, 8)}, "2": {(8, 10)}, "02": {(6, 8), (8, 10)}}.items():
        (local,) = rules.everywhere(rules.in_local(list(copied), [1, 0]), mapped)
        kernels.append(lower(f"k{copied}", local, NdRange((5, 3, 1), (2, 3, 1))))
        assert {buffer.shape for buffer in kernels[-1].locals} == shapes
    arrays = inputs_of(kernels[0])
    for result in pocl.run_all(kernels, arrays):
        assert not wrong(result, expected(arrays))


# ---------------------------------------------------------------------------------- composed


def local_numbers(kernel):
    """Count the numbers in its local memory."""
    return sum(math.prod(buffer.shape) for buffer in kernel.locals)


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_random_compositions_of_rules_preserve_the_result(pocl, program):
    rng = random.Random(program)
    definition = definition_of(program)
    sizes = [45, 56]
    if DEPTH == 1:  # programs take turns
        sizes = [sizes[PROGRAMS.index(program) % 2]]
    for size in sizes:
        kernels: list[LoopNest] = []
        expressions: list[Node] = []
        for variant in explore("k", definition.expression(size), 60 * DEPTH, "1", threads_each=1):
            derived = variant.expression
            kernel = lower(f"k{len(kernels)}", derived, drawn_range(derived, rng))
            # At least one of three has local memory. PoCL 3.0 aborts on many barriers under a
            # condition on the group id.
            is_wanted = kernel.locals or len(kernels) % 3
            if (
                is_wanted
                and local_numbers(kernel) < 1 << 14
                and emit(kernel, OPENCL).count("barrier(") < 4
            ):
                kernels.append(kernel)
                expressions.append(derived)
            if len(kernels) == 3 * DEPTH:
                break
        arrays = inputs_of(kernels[0])
        right = definition.function("reference")(arrays)
        results = pocl.run_all(kernels, arrays)
        for kernel, expression, result in zip(kernels, expressions, results, strict=True):
            assert not wrong(result, right), f"{kernel.ndrange} {expression}"


# ------------------------------------------------------------------------------- exploration


def test_points_are_distinct_within_every_devices_limits_and_repeat_with_their_seed():
    expression = definition_of("stencil2d").expression(128)
    variants = explore("k", expression, 40, "3")
    texts = [str(v.expression) for v in variants]
    assert texts == [str(v.expression) for v in explore("k", expression, 40, "3")]
    assert len(set(texts)) == len(texts)
    kernels = []
    for variant in variants:
        extents = parallel_extents(variant.expression)
        worked = {dim for kind, dim in extents if kind != "workgroup"}
        for threads, kernel in variant.kernels.items():
            assert 32 <= np.prod(threads.local) <= 1024
            assert {dim for dim in range(3) if threads.local[dim] > 1} <= worked
            assert local_numbers(kernel) * 4 <= 48 << 10
            kernels.append(kernel)
    assert len(kernels) == 40
    assert any(kernel.locals for kernel in kernels)
    # The first is the usual launch: 32 x 8 threads, an element each.
    assert kernels[0].ndrange == NdRange((32, 8, 1), (4, 16, 1))


def test_tiles_local_memory_and_mappings_are_drawn_often():
    whole = definition_of("hotspot2d").expression(48)
    drawn = [v.expression for v in explore("k", whole, 40, "5", threads_each=1)]
    assert sum(len(rules.spine(x)) >= 2 * len(rules.spine(whole)) for x in drawn) > 40 / 4
    assert sum("to_local(" in str(x) for x in drawn) > 40 / 20
    mappings = {tuple(node.data for node in rules.spine(x)) for x in drawn}
    assert len(mappings) > 15
    for kinds in mappings:
        used = [kind for kind in kinds if kind[0] not in ("seq", "unroll")]
        names = [name for name, _ in used]
        assert len(set(used)) == len(used) > 0
        # Groups are outside.
        assert set(names) == {"global"} or names == sorted(names, reverse=True)


# -------------------------------------------------------------------- features of what rules make


square = user_fun("square", "x", "x * x")

# ------------------------------------------------------------------------------------ counting


def counted(kernel):
    """Run each thread by itself, and count what it does."""
    counts: Counter[str] = Counter()
    local, groups = kernel.ndrange.local, kernel.ndrange.groups
    for group, lane in itertools.product(np.ndindex(groups), np.ndindex(local)):
        place = np.multiply(group, local) + lane
        counts.update(run(kernel.body, {"global": place, "workgroup": group, "local": lane}))
    return counts


def run(block, ids):
    """Yield the name of each count that a thread with these ids adds to."""
    for statement in block:
        if isinstance(statement, nest.Barrier):
            yield "barriers"
        elif isinstance(statement, nest.Assignment):
            yield f"{statement.target.buffer.space}_stores"
            yield from accesses(statement.value)
        elif isinstance(statement, nest.Loop):
            first = 0 if statement.kind == "seq" else ids[statement.kind][statement.dim]
            if statement.form == "if":
                yield "ifs"
            for _ in range(first, statement.extent, statement.workers):
                if statement.form == "for":
                    yield "loop_bodies"
                yield from run(statement.body, ids)


def accesses(term):
    """Yield the counts of a value; a call stores its result for the call that takes it."""
    if isinstance(term, nest.Load):
        yield f"{term.buffer.space}_loads"
    elif isinstance(term, nest.Inside):
        yield "ifs"
        yield from accesses(term.term)
    elif isinstance(term, nest.Call):
        for argument in term.arguments:
            if isinstance(argument, nest.Call):
                yield from ("private_stores", "private_loads")
            yield from accesses(argument)


def constant_borders(size):
    """Sum 3 x 3 points with zeros around the grid: every load has conditions."""
    windows = slide2d(3, 1, pad2d(2, 1, "constant", grid("image", size, size - 4)))
    return map_global(
        1, lambda row: map_global(0, lambda w: square(reduce_(add, 0.0, join(w))), row), windows
    )


def test_counts_are_those_of_threads_that_run_one_after_the_other():
    rng = random.Random(11)
    expressions = [(constant_borders(21), NdRange((8, 4, 1), (3, 4, 1)))]
    for program in ("srad1", "srad2", "stencil2d", "hotspot2d"):
        whole = definition_of(program).expression(20)
        for variant in explore("k", whole, 2 * DEPTH, "11", threads_each=1):
            expressions.append((variant.expression, drawn_range(variant.expression, rng)))
    for expression, ndrange in expressions:
        kernel = lower("k", expression, ndrange)
        threads = math.prod(ndrange.local + ndrange.groups)
        computed, counts = features(kernel), counted(kernel)
        for name in COUNTS:
            assert computed[name] == counts[name] / threads, f"{name} of {expression}"


def test_sizes_and_local_memory_are_those_of_the_launch():
    tiles = split(32, grid("x", 256))
    copied = map_workgroup(
        0, lambda t: map_local(0, square, to_local(map_local(0, lambda e: e, t))), tiles
    )
    counts = features(lower("k", copied, NdRange((16, 1, 1), (8, 1, 1))))
    assert counts["local_bytes"] == 128
    assert counts["barriers"] == 1
    assert counts["loop_bodies"] == 2 * 2  # two loops in which a thread takes every 16th of 32

    cube = grid("x", 4, 6, 64)
    mapped = map_global(2, lambda p: map_global(1, lambda r: map_global(0, square, r), p), cube)
    sizes = features(lower("k", mapped, NdRange((32, 2, 2), (2, 3, 1))))
    assert [sizes[f"global_size_{axis}"] for axis in "xyz"] == [64, 6, 2]
    assert [sizes[f"local_size_{axis}"] for axis in "xyz"] == [32, 2, 2]


# ------------------------------------------------------------------------- cache lines, working set


def feature(name, expression, local, groups):
    ndrange = NdRange(tuple(local), tuple(groups))  # type: ignore[arg-type]
    return features(lower("k", expression, ndrange))[name]


IMAGE = grid("image", 64, 64)
WHOLE = map_global(1, lambda row: map_global(0, square, row), IMAGE)
TRANSPOSED = transpose(map_global(1, lambda c: map_global(0, square, c), transpose(IMAGE)))
# Unaligned loads touch two lines, which distances do not show.
BORDERS = map_global(
    1,
    lambda row: map_global(0, lambda w: reduce_(add, 0.0, join(w), "unroll"), row),
    slide2d((1, 3), 1, map_(lambda row: pad(1, 1, "clamp", row), grid("image", 32, 64))),
)
IDLE = join(map_global(0, lambda part: map_seq(square, part), split(32, grid("x", 640))))


def test_cache_lines_are_the_distances_in_a_warp():
    cases = (
        (map_global(0, square, grid("x", 256)), (64, 1, 1), (4, 1, 1), 1),
        (WHOLE, (8, 8, 1), (8, 8, 1), 4),  # a warp is 32 consecutive threads and spans rows
        (WHOLE, (32, 2, 1), (2, 32, 1), 1),
        (TRANSPOSED, (32, 2, 1), (2, 32, 1), 32),
        (BORDERS, (32, 1, 1), (2, 32, 1), 1),
        (IDLE, (32, 1, 1), (1, 1, 1), 20),  # of the 32 threads 20 have work
    )
    for expression, local, groups, lines in cases:
        assert feature("cache_lines", expression, local, groups) == lines


def test_strided_threads_touch_a_line_for_each_32_words():
    """Section 4.2.3 of the paper: split 4 with lines of 32 words touches 4 in a warp, not 8."""
    for size, lines in {1: 1, 4: 4, 32: 32, 64: 32}.items():
        parts, launch = split(size, grid("x", 64 * size)), ((32, 1, 1), (2, 1, 1))
        squares = join(map_global(0, lambda part: map_seq(square, part), parts))
        sums = map_global(0, lambda part: reduce_(add, 0.0, part), parts)
        for expression, stored in ((squares, lines), (sums, 1)):
            assert feature("cache_lines", expression, *launch) == lines
            assert feature("store_cache_lines", expression, *launch) == stored


def test_wavefront_of_64_touches_twice_the_lines_of_a_warp():
    kernel = lower("k", TRANSPOSED, NdRange((64, 1, 1), (1, 64, 1)))
    assert features(kernel)["cache_lines"] == 32
    assert features(kernel, warp=64)["cache_lines"] == 64


def test_the_working_set_is_what_a_multiprocessor_touches_over_its_cache():
    """Its 2,048 threads are 2,048 / n groups of n; its cache has 128 KiB."""
    cases = (
        # A group reads and writes as many numbers as it has threads.
        (map_global(0, square, grid("x", 1024)), (128, 1, 1), (8, 1, 1), 16 * 2 * 128 * 4),
        (map_global(0, square, grid("x", 1024)), (1024, 1, 1), (1, 1, 1), 2 * 2 * 1024 * 4),
        # The same group reads a row more above and below, and a line more at both sides.
        (BORDERS, (32, 4, 1), (2, 8, 1), 16 * 4 * (2 + 1) * 128),
        # A column of 32 numbers is in 32 lines.
        (transpose(map_global(0, lambda c: map_seq(square, c), transpose(grid("x", 32, 64)))),
         (32, 1, 1), (2, 1, 1), 64 * 2 * 32 * 128),
    )  # fmt: skip
    for expression, local, groups, size_bytes in cases:
        assert feature("working_set", expression, local, groups) == size_bytes / (128 << 10)
