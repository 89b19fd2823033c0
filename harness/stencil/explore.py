"""Sampled exploration: an expression -> distinct variants, each with thread configurations.

A variant is derived in random stages: how to cut the work (overlapped tiles in two dimensions or
one, parts, or not at all), which maps the threads share, which reused inputs to copy to local
memory, and what to unroll or keep in private variables.
"""

from __future__ import annotations

import itertools
import random
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from harness.stencil import rules
from harness.stencil.emit import OPENCL, emit
from harness.stencil.ir import Node, subexpressions
from harness.stencil.lower import lower
from harness.stencil.ndrange import Threads, configurations, grid, usual
from harness.stencil.nest import LoopNest, NdRange
from harness.stencil.types import StencilError, divisors, shape, size_bytes

MOST_LOCAL_BYTES = 48 << 10
"""The static local memory that every GPU has."""

THREADS_A_VARIANT = 10
"""The thread configurations of a variant, as in the paper."""

_PATIENCE = 400  # derivations in a row without a new variant
_MOST_TILE = 256


@dataclass
class Variant:
    """A mapped expression and its kernels by thread configuration."""

    expression: Node
    kernels: dict[Threads, LoopNest] = field(default_factory=dict)


def explore(
    name: str,
    expression: Node,
    count: int,
    rng: random.Random,
    threads_each: int = THREADS_A_VARIANT,
) -> list[Variant]:
    """Derive variants with `count` points in all, all different programs; fewer if no more exist.

    Each variant has at most `threads_each` thread configurations.
    The plain variant comes first, and its first point is the usual launch. The others are sorted,
    so that neighbours are similar.
    """
    found: list[Variant] = []
    seen: set[str] = set()
    programs: set[tuple[str, NdRange]] = set()
    points = missed = 0
    for derived in _derivations(expression, rng):
        if points == count or missed == _PATIENCE:
            break
        missed += 1
        if derived is None or derived.key in seen:
            continue
        seen.add(derived.key)
        variant = Variant(derived)
        for threads, kernel in _launches(name, derived, rng):
            program = (emit(kernel, OPENCL), kernel.ndrange)
            if program not in programs and points < count:
                programs.add(program)
                variant.kernels[threads] = kernel
                points += 1
                if len(variant.kernels) == threads_each:
                    break
        if variant.kernels:
            missed = 0
            found.append(variant)
    return found[:1] + sorted(found[1:], key=lambda variant: _decisions(variant.expression))


def _derivations(expression: Node, rng: random.Random) -> Iterator[Node | None]:
    """Yield the plain mapping, then random ones; nothing if no map computes the result."""
    whole = fused(expression)
    depth = len(rules.spine(whole))
    if depth:
        dims = min(depth, len(shape(expression.type)), 3)
        shared = [(level, "global", dims - 1 - level) for level in range(dims)]
        yield rules.mapped(_kinds(depth, shared))(whole)
        while True:
            yield derive(whole, rng)


def _launches(
    name: str, expression: Node, rng: random.Random
) -> Iterator[tuple[Threads, LoopNest]]:
    """Lower an expression for the usual thread configuration, then for the others at random."""
    choices = list(configurations(expression))
    rng.shuffle(choices)
    first = [usual(choices)] if choices else []
    for threads in dict.fromkeys([*first, *choices]):
        try:
            kernel = lower(name, expression, grid(expression, threads))
        except StencilError:
            return  # no thread configuration changes that
        if sum(size_bytes(buffer.type) for buffer in kernel.locals) > MOST_LOCAL_BYTES:
            return
        yield threads, kernel


def derive(expression: Node, rng: random.Random) -> Node | None:
    """Draw a mapping of a fused expression; return None if the draw cannot be mapped."""
    cut = _cut(expression, rng)
    choices = list(mappings(len(rules.spine(cut)), len(shape(expression.type))))
    if not choices:
        return None
    # Half of the draws use groups, however many mappings do. Half of these are the classic tiling:
    # a tile for each group, whose threads share its elements.
    in_groups = rng.random() < 0.5
    fitting = [c for c in choices if (("workgroup" in dict(c)) == in_groups)] or choices
    tiled = _tiled(len(rules.spine(cut)))
    kinds = tiled if in_groups and tiled in fitting and rng.random() < 0.5 else rng.choice(fitting)
    mapped = rules.mapped(kinds)(cut)
    dims = [dim for kind, dim in kinds if kind == "local"]
    arrays = [name for name in rules.names_of(mapped) if rng.random() < 0.5]
    if arrays:
        mapped = next(iter(rules.everywhere(rules.in_local(arrays, dims), mapped)), mapped)
    if rng.random() < 0.2:
        mapped = _drawn(rules.in_private, mapped, rng)
    while rng.random() < 0.5 and any(rules.everywhere(rules.unrolled, mapped)):
        mapped = _drawn(rules.unrolled, mapped, rng)
    return mapped


def fused(expression: Node) -> Node:
    """Write iterations out, and fuse maps of maps and reductions of maps."""
    for rule in (rules.written_out, rules.fuse_maps, rules.fuse_reduce):
        while (new := next(rules.everywhere(rule, expression), None)) is not None:
            expression = new
    return expression


def _cut(expression: Node, rng: random.Random) -> Node:
    """Cut the work at random into tiles or parts, or leave it whole."""
    form = rng.choice(("whole", "parts", "tiles", "tiles2d", "tiles2d", "tiles2d"))
    lengths = rules.lengths(expression)
    if form == "tiles2d" and len(lengths) > 1:
        sizes = [rng.choice(_sizes(length)) for length in lengths[:2]]
        expression = _drawn(rules.tile2d(*sizes), expression, rng)
    elif form in ("tiles", "tiles2d"):
        level = rng.randrange(len(lengths))
        rule = rules.tile(rng.choice(_sizes(lengths[level])))
        expression = next(rules.on_spine(rule, level, expression), expression)
    if form == "parts" or rng.random() < 0.3:
        lengths = rules.lengths(expression)
        level = rng.randrange(len(lengths))
        rule = rules.split_join(rng.choice(_sizes(lengths[level])))
        expression = next(rules.on_spine(rule, level, expression), expression)
    if rng.random() < 0.1:
        expression = _drawn(rules.interchange, expression, rng)
    return expression


def _sizes(length: int) -> list[int]:
    return [d for d in divisors(length) if 1 < d <= min(_MOST_TILE, length // 2)] or [length]


def _drawn(rule: rules.Rule, expression: Node, rng: random.Random) -> Node:
    """Apply a rule at one random position; return the expression itself if it applies nowhere."""
    return rng.choice(list(rules.everywhere(rule, expression)) or [expression])


def mappings(depth: int, dims: int) -> Iterator[tuple[tuple[str, int], ...]]:
    """Yield the ways to share nested maps among threads along at most `dims` dimensions.

    Some maps are shared by the whole grid; or some by groups, and some further in by a group's
    threads. The other maps run in sequence.
    """
    for levels in _chosen(range(depth), dims):
        for order in _orders(len(levels)):
            yield _kinds(depth, [(n, "global", d) for n, d in zip(levels, order, strict=True)])
    for outer in _chosen(range(depth), dims):
        for inner in _chosen(range(outer[-1] + 1, depth), dims):
            orders = itertools.product(_orders(len(outer)), _orders(len(inner)))
            for of_groups, of_threads in orders:
                shared = [(n, "workgroup", d) for n, d in zip(outer, of_groups, strict=True)]
                shared += [(n, "local", d) for n, d in zip(inner, of_threads, strict=True)]
                yield _kinds(depth, shared)


def _tiled(depth: int) -> tuple[tuple[str, int], ...]:
    """Share the outer half of nested maps among groups, the inner half among their threads."""
    half = depth // 2
    shared = [(level, "workgroup", half - 1 - level) for level in range(half)]
    shared += [(half + level, "local", half - 1 - level) for level in range(half)]
    return _kinds(depth, shared)


def _chosen(levels: range, most: int) -> Iterator[tuple[int, ...]]:
    counts = range(1, min(most, 3) + 1)
    return itertools.chain.from_iterable(itertools.combinations(levels, n) for n in counts)


def _orders(count: int) -> Iterator[tuple[int, ...]]:
    """Yield dimensions from outside in: x innermost, for contiguous accesses; and reversed."""
    dims = tuple(reversed(range(count)))
    return iter(dict.fromkeys((dims, dims[::-1])))


def _kinds(depth: int, shared: list[tuple[int, str, int]]) -> tuple[tuple[str, int], ...]:
    kinds: list[tuple[str, int]] = [("seq", 0)] * depth
    for level, kind, dim in shared:
        kinds[level] = (kind, dim)
    return tuple(kinds)


def design(expression: Node, threads: Threads) -> int:
    """Hash the decisions behind a point; equal decisions on different stencils hash equally.

    Decisions are how the work is cut, shared, kept in memory and unrolled, and the threads.
    """
    return zlib.crc32(f"{_decisions(expression)} {threads}".encode())


def _decisions(expression: Node) -> tuple[object, ...]:
    """List the decisions, those with the largest effect first: sorted neighbours are similar."""
    nodes = list(subexpressions(expression))
    maps = rules.spine(expression)
    kinds = [f"{node.data[0]} {node.data[1]}" for node in maps]
    spaces = [node.data[0] for node in nodes if node.op == "memory"]
    unrolled = [node.op for node in nodes if node.data[:1] == ("unroll",)]
    return kinds, spaces, [shape(node.type)[0] for node in maps], unrolled
