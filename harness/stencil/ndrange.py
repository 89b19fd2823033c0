"""Thread configurations: group sizes and grids for a mapped expression."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.stencil.ir import Node
from harness.stencil.lower import parallel_extents
from harness.stencil.nest import NdRange
from harness.stencil.types import shape

FEWEST_THREADS, MOST_THREADS = 32, 1024
"""Limits on the threads of a group."""

MOST_RESULTS = 1 << 14
"""The most results for each thread: a launch with more takes seconds."""

COARSENINGS = (1, 2, 4, 8)
_MOST_GROUPS = (2**31 - 1, 65_535, 65_535)


@dataclass(frozen=True)
class Threads:
    """A thread configuration: the threads of a group along x, y, z, and the coarsening.

    The coarsening is how many elements each thread of the grid, or each group, takes along the
    grid's last dimension.
    """

    local: tuple[int, int, int]
    coarsening: int


def grid(expression: Node, threads: Threads) -> NdRange:
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


def configurations(expression: Node) -> Iterator[Threads]:
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
            groups = grid(expression, threads).groups
            fits = all(g <= most for g, most in zip(groups, _MOST_GROUPS, strict=True))
            if fits and results <= MOST_RESULTS * x * y * z * math.prod(groups):
                yield threads


def usual(choices: Sequence[Threads]) -> Threads:
    """Choose the usual launch: 256 threads, 32 of them along x, one element each."""

    def oddity(threads: Threads) -> tuple[float, ...]:
        count, wide = math.prod(threads.local), threads.local[0]
        return threads.coarsening, abs(math.log2(count / 256)), abs(math.log2(wide / 32))

    return min(choices, key=oddity)


def _powers(extent: int) -> list[int]:
    """List 1, 2, 4, ... up to the first that is at least the extent."""
    return [1 << e for e in range((extent - 1).bit_length() + 1) if 1 << e <= MOST_THREADS]
