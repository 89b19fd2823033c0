"""Features: counts are those of threads run one by one; cache lines are those of the paper."""

from __future__ import annotations

import itertools
import math
import random
import tracemalloc
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import pytest

from harness.stencil import (
    Node,
    grid,
    join,
    map_,
    map_global,
    map_local,
    map_seq,
    map_workgroup,
    nest,
    pad,
    pad2d,
    reduce_,
    slide2d,
    split,
    to_local,
    transpose,
    user_fun,
)
from harness.stencil.explore import derive
from harness.stencil.features import COUNTS, FEATURES, OWN, PUBLISHED, features
from harness.stencil.lower import lower
from harness.stencil.nest import LoopNest, NdRange
from tests.helpers.stencil_kernels import DEPTH, definition_of, drawn_range

add = user_fun("add", "x y", "x + y")
square = user_fun("square", "x", "x * x")

# ------------------------------------------------------------------------------------ counting


def counted(kernel: LoopNest) -> dict[str, int]:
    """Run each thread by itself, and count what it does."""
    counts: Counter[str] = Counter()
    local, groups = kernel.ndrange.local, kernel.ndrange.groups
    for ids in itertools.product(*map(range, (*groups, *local))):
        group, lane = ids[:3], ids[3:]
        own = [g * n + i for g, n, i in zip(group, local, lane, strict=True)]
        counts.update(run(kernel.body, {"global": own, "workgroup": group, "local": lane}))
    return {name: counts[name] for name in COUNTS}


def run(block: Sequence[nest.Statement], ids: Mapping[str, Sequence[int]]) -> Iterator[str]:
    """Yield the name of each count that a thread with these ids adds to."""
    for statement in block:
        if isinstance(statement, nest.Barrier):
            yield "barriers"
        elif isinstance(statement, nest.Assignment):
            yield f"{statement.target.buffer.space}_stores"
            yield from accesses(statement.value)
        elif isinstance(statement, nest.Loop):
            first = 0 if statement.kind == "seq" else ids[statement.kind][statement.dim]
            yield from ["ifs"] * (statement.form == "if")
            for _ in range(first, statement.extent, statement.workers):
                yield from ["loop_bodies"] * (statement.form == "for")
                yield from run(statement.body, ids)


def accesses(term: nest.Term) -> Iterator[str]:
    """Yield the counts of a value; a call stores its result for the call that takes it."""
    if isinstance(term, nest.Load):
        yield f"{term.buffer.space}_loads"
    elif isinstance(term, nest.Inside):
        yield "ifs"
        yield from accesses(term.term)
    elif isinstance(term, nest.Call):
        for argument in term.arguments:
            yield from ["private_stores", "private_loads"] * isinstance(argument, nest.Call)
            yield from accesses(argument)


def constant_borders(size: int) -> Node:
    """Sum 3 x 3 points with zeros around the grid: every load has conditions."""
    windows = slide2d(3, 1, pad2d(2, 1, "constant", grid("image", size, size - 4)))
    return map_global(
        1, lambda row: map_global(0, lambda w: square(reduce_(add, 0.0, join(w))), row), windows
    )


def test_counts_are_those_of_threads_that_run_one_after_the_other() -> None:
    rng = random.Random(11)
    expressions = [(constant_borders(21), NdRange((8, 4, 1), (3, 4, 1)))]
    for program in ("srad1", "srad2", "stencil2d", "hotspot2d"):
        for _ in range(2 * DEPTH):
            derived = derive(definition_of(program).expression(30), rng)
            expressions.append((derived, drawn_range(derived, rng)))
    for expression, ndrange in expressions:
        kernel = lower("k", expression, ndrange)
        found, threads = features(kernel), math.prod(ndrange.local + ndrange.groups)
        means = {name: count / threads for name, count in counted(kernel).items()}
        assert {name: found[name] for name in COUNTS} == means, str(expression)


def test_features_of_a_large_grid_need_little_memory() -> None:
    """Nothing enumerates rows times columns."""
    kernel = lower("k", constant_borders(8192), NdRange((32, 8, 1), (256, 1024, 1)))
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


def test_the_paper_has_fifteen_features_without_private_memory() -> None:
    assert len(PUBLISHED) == 15
    assert not [name for name in PUBLISHED if "private" in name]
    found = features(lower("k", map_global(0, square, grid("x", 64)), NdRange((64, 1, 1))))
    assert tuple(found) == FEATURES == PUBLISHED + OWN


# ------------------------------------------------------------------------- cache lines, working set


def feature(name: str, expression: Node, local: Sequence[int], groups: Sequence[int]) -> float:
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


@pytest.mark.parametrize(
    ("expression", "local", "groups", "lines"),
    [
        (map_global(0, square, grid("x", 256)), (64, 1, 1), (4, 1, 1), 1),
        (WHOLE, (8, 8, 1), (8, 8, 1), 4),  # a warp is 32 consecutive threads and spans rows
        (WHOLE, (32, 2, 1), (2, 32, 1), 1),
        (TRANSPOSED, (32, 2, 1), (2, 32, 1), 32),
        (BORDERS, (32, 1, 1), (2, 32, 1), 1),
        (IDLE, (32, 1, 1), (1, 1, 1), 20),  # of the 32 threads 20 have work
    ],
)
def test_cache_lines_are_the_distances_in_a_warp(
    expression: Node, local: Sequence[int], groups: Sequence[int], lines: int
) -> None:
    assert feature("cache_lines", expression, local, groups) == lines


@pytest.mark.parametrize(("size", "expected"), [(1, 1), (2, 2), (4, 4), (32, 32), (64, 32)])
def test_strided_threads_touch_a_line_for_each_32_words(size: int, expected: int) -> None:
    """Section 4.2.3 of the paper: split 4 with lines of 32 words touches 4 in a warp, not 8."""
    parts, launch = split(size, grid("x", 64 * size)), ((32, 1, 1), (2, 1, 1))
    squares = join(map_global(0, lambda part: map_seq(square, part), parts))
    sums = map_global(0, lambda part: reduce_(add, 0.0, part), parts)
    for expression, stored in ((squares, expected), (sums, 1)):
        assert feature("cache_lines", expression, *launch) == expected
        assert feature("store_cache_lines", expression, *launch) == stored


@pytest.mark.parametrize(
    ("expression", "local", "groups", "size_bytes"),
    [
        # A group reads and writes as many numbers as it has threads.
        (map_global(0, square, grid("x", 1024)), (128, 1, 1), (8, 1, 1), 16 * 2 * 128 * 4),
        (map_global(0, square, grid("x", 1024)), (1024, 1, 1), (1, 1, 1), 2 * 2 * 1024 * 4),
        # The same group reads a row more above and below, and a line more at both sides.
        (BORDERS, (32, 4, 1), (2, 8, 1), 16 * 4 * (2 + 1) * 128),
        # A column of 32 numbers is in 32 lines.
        (transpose(map_global(0, lambda c: map_seq(square, c), transpose(grid("x", 32, 64)))),
         (32, 1, 1), (2, 1, 1), 64 * 2 * 32 * 128),
    ],
)  # fmt: skip
def test_the_working_set_is_what_a_multiprocessor_touches_over_its_cache(
    expression: Node, local: Sequence[int], groups: Sequence[int], size_bytes: int
) -> None:
    """Its 2,048 threads are 2,048 / n groups of n; its cache has 128 KiB."""
    assert feature("working_set", expression, local, groups) == size_bytes / (128 << 10)
