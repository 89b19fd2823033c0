"""Rewrite rules keep the meaning: each by itself, and many composed at random, against numpy."""

from __future__ import annotations

import random

import numpy as np
import pytest

from harness.stencil import (
    at,
    get,
    grid,
    iterate,
    map2d,
    map_,
    pad,
    pad2d,
    reduce_,
    rules,
    slide,
    slide2d,
    zip2d,
    zip_,
)
from harness.stencil.emit import OPENCL, emit
from harness.stencil.explore import configurations, derive, design, draw_mapping, explore, launch_of
from harness.stencil.ir import Node, user_fun
from harness.stencil.lower import lower
from harness.stencil.nest import LoopNest, NdRange
from tests.helpers.stencil_kernels import (
    DEPTH,
    PROGRAMS,
    Pocl,
    definition_of,
    drawn_range,
    inputs_of,
    wrong,
)

add = user_fun("add", "x y", "x + y")
twice = user_fun("twice", "x", "2.0f * x")


# ------------------------------------------------------------------------------- rule by rule


def line() -> Node:
    """Combine maps, iterations, a reduction and windows on lines a and b."""
    windows = slide(3, 1, pad(1, 1, "clamp", grid("a", 24)))
    sums = map_(lambda w: reduce_(add, 0.0, map_(twice, w)), windows)
    b = iterate(2, lambda x: map_(twice, x), grid("b", 24))
    added = map_(lambda pair: add(get(0, pair), get(1, pair)), zip_(b, sums))
    return map_(twice, added)


def plane() -> Node:
    """Add three grids: windows of 3 x 3, windows of 5 x 5, and points times two."""
    a, b, c = (grid(name, 12, 18) for name in "abc")
    windows = slide2d(3, 1, pad2d(1, 1, "clamp", a)), slide2d(5, 1, pad2d(2, 2, "wrap", c))
    parts = zip2d(windows[0], map2d(twice, b), windows[1])

    def total(point: Node) -> Node:
        small, large = at(0, at(2, get(0, point))), at(4, at(1, get(2, point)))
        return add(add(small, get(1, point)), large)

    return map2d(total, parts)


def expected(arrays: dict[str, np.ndarray]) -> np.ndarray:
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


def test_each_rule_preserves_the_result_wherever_it_applies(pocl: Pocl) -> None:
    applied = set()
    for make in (line, plane):
        kernels, names = [], []
        for name, rule in RULES.items():
            for new in rules.everywhere(rule, make()):
                assert new.type == make().type
                kernels.append(lower(f"k{len(kernels)}", new, NdRange()))
                names.append(f"{name}: {new}")
        arrays = inputs_of(kernels[0])
        for name, found in zip(names, pocl.run_all(kernels, arrays), strict=True):
            assert not wrong(found, expected(arrays)), name
        applied |= {name.partition(":")[0] for name in names}
    assert applied == set(RULES)


@pytest.mark.parametrize("copied", [["0"], ["2"], ["0", "2"]])
def test_any_subset_of_reused_arrays_goes_to_local_memory(pocl: Pocl, copied: list[str]) -> None:
    tiled = next(rules.everywhere(rules.tile2d(4, 6), plane()))
    kinds = [("workgroup", 1), ("workgroup", 0), ("local", 1), ("local", 0)]
    mapped = rules.mapped(kinds, tiled)
    assert rules.names_of(mapped) == ["0", "2"]
    (local,) = rules.everywhere(rules.in_local(copied, [1, 0]), mapped)
    kernel = lower("k", local, NdRange((5, 3, 1), (2, 3, 1)))
    sizes = [buffer.shape for buffer in kernel.locals]
    assert sorted(sizes) == sorted({"0": (6, 8), "2": (8, 10)}[name] for name in copied)
    arrays = inputs_of(kernel)
    assert not wrong(pocl.run_all([kernel], arrays)[0], expected(arrays))


# ---------------------------------------------------------------------------------- composed


def has_room(kernel: LoopNest) -> bool:
    """Return whether its local memory is small enough."""
    return sum(np.prod(buffer.shape) for buffer in kernel.locals) < 1 << 14


@pytest.mark.parametrize("program", PROGRAMS)
def test_random_compositions_of_rules_preserve_the_result(pocl: Pocl, program: str) -> None:
    rng = random.Random(f"{program} {DEPTH}")
    definition = definition_of(program)
    sizes = 45, 56  # programs take turns, unless asked for more
    for size in sizes if DEPTH > 1 else [sizes[PROGRAMS.index(program) % 2]]:
        kernels: list[LoopNest] = []
        expressions: list[Node] = []
        while len(kernels) < 3 * DEPTH:
            derived = derive(definition.expression(size), rng)
            kernel = lower(f"k{len(kernels)}", derived, drawn_range(derived, rng))
            # At least one of three has local memory. PoCL 3.0 aborts on many barriers under a
            # condition on the group id.
            is_wanted = kernel.locals or len(kernels) % 3
            if is_wanted and has_room(kernel) and emit(kernel, OPENCL).count("barrier(") < 4:
                kernels.append(kernel)
                expressions.append(derived)
        arrays = inputs_of(kernels[0])
        right = definition.function("reference")(arrays)
        found = pocl.run_all(kernels, arrays)
        for kernel, expression, result in zip(kernels, expressions, found, strict=True):
            assert not wrong(result, right), f"{kernel.ndrange} {expression}"


# ------------------------------------------------------------------------------- exploration


def test_mappings_nest_groups_outside_threads() -> None:
    rng = random.Random(1)
    drawn = {tuple(draw_mapping(4, 2, rng)) for _ in range(1000)}
    assert len(drawn) > 30
    for kinds in drawn:
        used = [kind for kind in kinds if kind[0] != "seq"]
        names = [name for name, _ in used]
        assert len(set(used)) == len(used) > 0
        assert set(names) == {"global"} or names == sorted(names, reverse=True)  # groups outside


def test_points_are_distinct_within_every_devices_limits_and_repeat_with_their_seed() -> None:
    expression = definition_of("stencil2d").expression(128)
    variants = explore("k", expression, 100, "3")
    again = explore("k", expression, 100, "3")
    texts = [str(v.expression) for v in variants]
    assert texts == [str(v.expression) for v in again]
    assert len(set(texts)) == len(texts)
    assert sum(len(v.kernels) for v in variants) == 100
    for variant in variants:
        for threads, kernel in variant.kernels.items():
            assert 32 <= np.prod(threads.local) <= 1024
            assert sum(4 * np.prod(b.shape) for b in kernel.locals) <= 48 << 10
            assert kernel.ndrange == launch_of(variant.expression, threads)
    assert any(kernel.locals for v in variants for kernel in v.kernels.values())


def test_tiles_and_local_memory_are_drawn_often() -> None:
    rng, whole = random.Random(5), definition_of("hotspot2d").expression(48)
    drawn = [derive(whole, rng) for _ in range(80)]
    assert sum(len(rules.spine(x)) >= 2 * len(rules.spine(whole)) for x in drawn) > 80 / 4
    assert sum("to_local(" in str(x) for x in drawn) > 80 / 20


def test_configurations_leave_no_thread_dimension_without_work() -> None:
    tiled = next(rules.everywhere(rules.tile2d(4, 6), plane()))
    mapped = rules.mapped([("workgroup", 0), ("seq", 0), ("local", 1), ("local", 0)], tiled)
    found = {threads.local for threads in configurations(mapped)}
    assert found == {(8, 4, 1)}


def test_equal_decisions_on_different_stencils_have_equal_designs() -> None:
    numbers = []
    for program in ("jacobi2d_5pt", "gradient", "gaussian"):
        (tiled,) = rules.everywhere(rules.tile2d(16, 16), definition_of(program).expression(64))
        mapped = rules.mapped([("global", 1), ("global", 0), ("seq", 0), ("seq", 0)], tiled)
        numbers.append(design(mapped, next(configurations(mapped), None)))  # type: ignore[arg-type]
    assert len(set(numbers)) == 1
