"""Sampled exploration: an expression -> distinct variants, each with thread configurations.

A variant is derived in random stages: how to cut the work (overlapped tiles in two dimensions or
one, or not at all), which maps the threads share, which reused inputs to copy to local memory, and
what to unroll or keep in private variables. Each derivation has random numbers of its own, so
stencils of one structure that are explored with one seed have the same designs.
"""

from __future__ import annotations

import itertools
import math
import random
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from harness.stencil import rules
from harness.stencil.emit import OPENCL, emit
from harness.stencil.ir import Node
from harness.stencil.lower import lower, parallel_extents
from harness.stencil.nest import LoopNest, NdRange
from harness.stencil.types import StencilError, shape, size_bytes

MOST_LOCAL_BYTES = 48 << 10
"""The static local memory that every GPU has."""

THREADS_A_VARIANT = 10
"""The thread configurations of a variant, as in the paper."""

FEWEST_THREADS, MOST_THREADS = 32, 1024
"""Limits on the threads of a group."""

MOST_RESULTS = 1 << 14
"""The most results for each thread: a launch with more takes seconds."""

COARSENINGS = (1, 2, 4, 8)
_MOST_GROUPS = (2**31 - 1, 65_535, 65_535)
_PATIENCE = 400  # derivations in a row without a new variant
_MOST_TILE = 256


@dataclass(frozen=True)
class Threads:
    """A thread configuration: the threads of a group along x, y, z, and the coarsening.

    The coarsening is how many elements each thread of the grid, or each group, takes along the
    grid's last dimension.
    """

    local: tuple[int, int, int]
    coarsening: int


@dataclass
class Variant:
    """A mapped expression and its kernels by thread configuration."""

    expression: Node
    kernels: dict[Threads, LoopNest] = field(default_factory=dict)


def explore(
    name: str, expression: Node, count: int, seed: str, threads_each: int = THREADS_A_VARIANT
) -> list[Variant]:
    """Derive variants with `count` points in all, all different programs; fewer if no more exist.

    Each variant has at most `threads_each` thread configurations.
    The plain variant comes first, and its first point is the usual launch. The others are sorted,
    so that neighbours are similar.
    """
    variants: list[Variant] = []
    seen = set[object]()
    points = missed = 0
    for number in itertools.count() if rules.spine(expression) else ():
        if points == count or missed == _PATIENCE:
            break
        rng = random.Random(f"{seed} {number}")
        derived = _derive(expression, rng) if number else _plain(expression)
        missed += 1
        if str(derived) in seen:
            continue
        seen.add(str(derived))
        variant = Variant(derived)
        for threads, kernel in _launches(name, derived, rng):
            program = (emit(kernel, OPENCL), kernel.ndrange)
            if program not in seen:
                seen.add(program)
                variant.kernels[threads] = kernel
                points += 1
                if points == count or len(variant.kernels) == threads_each:
                    break
        if variant.kernels:
            missed = 0
            variants.append(variant)
    return variants[:1] + sorted(variants[1:], key=lambda v: _decisions(v.expression))


def _launches(
    name: str, expression: Node, rng: random.Random
) -> Iterator[tuple[Threads, LoopNest]]:
    """Lower an expression for the usual thread configuration, then for the others at random."""
    choices = list(_configurations(expression))
    rng.shuffle(choices)
    first = [_usual(choices)] if choices else []
    for threads in dict.fromkeys([*first, *choices]):
        try:
            kernel = lower(name, expression, _launch_of(expression, threads))
        except StencilError:
            return  # no thread configuration changes that
        if sum(size_bytes(buffer.type) for buffer in kernel.locals) > MOST_LOCAL_BYTES:
            return
        yield threads, kernel


def _derive(expression: Node, rng: random.Random) -> Node:
    """Draw a variant of an expression."""
    cut = _cut(expression, rng)
    kinds = _draw_mapping(len(rules.spine(cut)), len(shape(expression.type)), rng)
    mapped = rules.mapped(kinds, cut)
    dims = [dim for kind, dim in kinds if kind == "local"]
    names = [name for name in rules.names_of(mapped) if rng.random() < 0.5]
    if names:
        mapped = next(rules.everywhere(rules.in_local(names, dims), mapped), mapped)
    if rng.random() < 0.2:
        mapped = _drawn(rules.in_private, mapped, rng)
    while rng.random() < 0.5 and any(rules.everywhere(rules.unrolled, mapped)):
        mapped = _drawn(rules.unrolled, mapped, rng)
    return mapped


def _cut(expression: Node, rng: random.Random) -> Node:
    """Cut the work at random into tiles of two dimensions or one, or leave it whole."""
    form = rng.choice(("whole", "tiles", "tiles", "tiles2d", "tiles2d", "tiles2d"))
    lengths = [shape(node.type)[0] for node in rules.spine(expression)]
    if form == "tiles2d" and len(lengths) > 1:
        sizes = [rng.choice(_sizes(length)) for length in lengths[:2]]
        expression = _drawn(rules.tile2d(*sizes), expression, rng)
    elif form != "whole":
        expression = _tiled(expression, rng)
    return _tiled(expression, rng) if rng.random() < 0.3 else expression


def _tiled(expression: Node, rng: random.Random) -> Node:
    maps = rules.spine(expression)
    level = rng.randrange(len(maps))
    rule = rules.tile(rng.choice(_sizes(shape(maps[level].type)[0])))
    return next(rules.on_spine(rule, level, expression), expression)


def _sizes(length: int) -> list[int]:
    """List the sizes of tiles: divisors."""
    most = min(_MOST_TILE, length // 2)
    return [size for size in range(2, most + 1) if length % size == 0] or [length]


def _drawn(rule: rules.Rule, expression: Node, rng: random.Random) -> Node:
    """Apply a rule at one random position; return the expression itself if it applies nowhere."""
    return rng.choice(list(rules.everywhere(rule, expression)) or [expression])


# ------------------------------------------------------------------------------------- mappings


def _plain(expression: Node) -> Node:
    """Share the outermost maps among all threads."""
    depth = len(rules.spine(expression))
    dims = min(depth, len(shape(expression.type)), 3)
    return rules.mapped(_kinds(depth, {"global": range(dims)[::-1]}), expression)


def _draw_mapping(depth: int, dims: int, rng: random.Random) -> list[rules.Kind]:
    """Draw how threads share nested maps, along at most `dims` dimensions.

    Half of the draws share some maps among the whole grid; the others share some among groups, and
    some further in among a group's threads. Half of these are the classic tiling: a tile for each
    group, whose threads share its elements. The other maps run in sequence.
    """
    half = depth // 2
    if depth < 2 or rng.random() < 0.5:
        return _kinds(depth, {"global": _levels(range(depth), dims, rng)})
    if half <= dims and rng.random() < 0.5:
        inner = range(half, 2 * half)[::-1]
        return _kinds(depth, {"workgroup": range(half)[::-1], "local": inner})
    outer = _levels(range(depth - 1), dims, rng)
    within = _levels(range(max(outer) + 1, depth), dims, rng)
    return _kinds(depth, {"workgroup": outer, "local": within})


def _levels(levels: range, most: int, rng: random.Random) -> Sequence[int]:
    """Draw some levels, from outside in or from inside out: the first is along x."""
    count = rng.randint(1, min(most, 3, len(levels)))
    return sorted(rng.sample(levels, count), reverse=rng.random() < 0.5)


def _kinds(depth: int, shared: Mapping[str, Sequence[int]]) -> list[rules.Kind]:
    """Return how each map is carried out; `shared` has the levels of each kind, that of x first."""
    kinds: list[rules.Kind] = [("seq", 0)] * depth
    for kind, levels in shared.items():
        for dim, level in enumerate(levels):
            kinds[level] = (kind, dim)
    return kinds


# ----------------------------------------------------------------------- thread configurations


def _launch_of(expression: Node, threads: Threads) -> NdRange:
    """Compute the launch, with as many groups as there is work for."""
    extents = parallel_extents(expression)
    shared = [(d, e, threads.local[d] if kind == "global" else 1)
              for (kind, d), e in extents.items() if kind != "local"]  # fmt: skip
    last = max(d for d, _, _ in shared)
    groups = [1, 1, 1]
    for dim, extent, width in shared:
        times = threads.coarsening if dim == last else 1
        groups[dim] = -(-extent // (width * times))
    return NdRange(threads.local, (groups[0], groups[1], groups[2]))


def _configurations(expression: Node) -> Iterator[Threads]:
    """Yield powers of two within every device's limits and with no more threads than work."""
    extents = parallel_extents(expression)
    over = {dim: e for (kind, dim), e in extents.items() if kind != "workgroup"}
    outer = {dim: e for (kind, dim), e in extents.items() if kind != "local"}
    if not over or not outer:
        return
    sizes = [_powers(over.get(dim, 1)) for dim in range(3)]
    results = math.prod(shape(expression.type))
    for x, y, z in itertools.product(*sizes):
        if not FEWEST_THREADS <= x * y * z <= MOST_THREADS or z > 64:
            continue
        for coarsening in COARSENINGS:
            if coarsening > 1 and coarsening >= outer[max(outer)]:
                continue
            threads = Threads((x, y, z), coarsening)
            groups = _launch_of(expression, threads).groups
            fits = all(g <= most for g, most in zip(groups, _MOST_GROUPS, strict=True))
            if fits and results <= MOST_RESULTS * x * y * z * math.prod(groups):
                yield threads


def _usual(choices: Sequence[Threads]) -> Threads:
    """Choose the usual launch: 256 threads, 32 of them along x, one element each."""

    def oddity(threads: Threads) -> tuple[float, ...]:
        count, wide = math.prod(threads.local), threads.local[0]
        return threads.coarsening, abs(math.log2(count / 256)), abs(math.log2(wide / 32))

    return min(choices, key=oddity)


def _powers(extent: int) -> list[int]:
    """List 1, 2, 4, ... up to the first that is at least the extent."""
    return [1 << e for e in range((extent - 1).bit_length() + 1) if 1 << e <= MOST_THREADS]


# -------------------------------------------------------------------------------------- designs


def design(expression: Node, threads: Threads) -> int:
    """Hash the decisions behind a point; equal decisions on different stencils hash equally.

    Decisions are how the work is cut, shared, kept in memory and unrolled, and the threads.
    """
    return zlib.crc32(f"{_decisions(expression)} {threads}".encode())


def _decisions(expression: Node) -> tuple[object, ...]:
    """List the decisions, those with the largest effect first: sorted neighbours are similar."""
    nodes = list(expression.subexpressions())
    maps = rules.spine(expression)
    kinds = [f"{node.data[0]} {node.data[1]}" for node in maps]
    spaces = [node.data[0] for node in nodes if node.op == "memory"]
    unrolled = [node.op for node in nodes if node.data[:1] == ("unroll",)]
    return kinds, spaces, [shape(node.type)[0] for node in maps], unrolled
