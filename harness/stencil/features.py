"""Compute the features of Table 1 in Remmelg and others (2020), and four of ours, from a loop nest.

Loads, stores, barriers, ifs and loop iterations are means over the threads of the launch; padding
is ignored, so a load under a condition on a border counts as one. A call's result that another call
takes is stored to and loaded from private memory. Any other call is one store, in the memory space
of its target.

`cache_lines` is the number of lines that the threads of a warp touch with one load of global
memory, averaged over the loads; `store_cache_lines` is the same of stores. Both look at one warp,
which AMD calls a wavefront, at an inner point where padding does nothing, and separate lines by
their distance to the first thread's address. `working_set` is the global memory that the groups of
one multiprocessor touch at a time, over its cache: the paper names its absence as the cause of the
outliers.

Three errors of the paper are corrected. Its Algorithm 1 counts a store for each argument of a call
instead of one for the result. Its section 4.2.3 reports 8 lines where a warp, split by 4, touches
4. And a warp is 32 threads in linear order: it spans rows if a group is less than 32 wide.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.stencil import nest
from harness.stencil.arith import Span
from harness.stencil.types import ELEMENT_BYTES, size_bytes

_SIZES = tuple(f"{whole}_size_{axis}" for whole in ("global", "local") for axis in "xyz")
_ACCESSES = ("global_loads", "global_stores", "local_loads", "local_stores")
_CONTROL = ("barriers", "ifs", "loop_bodies")
_PRIVATE = ("private_loads", "private_stores")
PUBLISHED = (*_SIZES, "local_bytes", *_ACCESSES, "cache_lines", *_CONTROL)
"""The features of the paper's Table 1."""

OWN = (*_PRIVATE, "store_cache_lines", "working_set")
"""The features that the paper does not have."""

FEATURES = PUBLISHED + OWN
COUNTS = (*_ACCESSES, *_CONTROL, *_PRIVATE)
"""The features that are means over the threads."""

WARP = 32
LINE_BYTES = 128
RESIDENT_THREADS, CACHE_BYTES = 2048, 128 << 10
"""What a multiprocessor of the usual GPU has."""


Loops = tuple[nest.Loop, ...]


@dataclass(frozen=True)
class _Access:
    """A load or a store: its target, the loops around it, its count over all threads."""

    kind: str
    target: nest.Load
    loops: Loops
    times: int


_Event = _Access | tuple[str, int]


def features(kernel: nest.LoopNest, warp: int = WARP) -> dict[str, float]:
    """Compute the features by name, in the order of FEATURES, for warps of so many threads."""
    ndrange = kernel.ndrange
    threads = math.prod(ndrange.local + ndrange.groups)
    counts = dict.fromkeys(COUNTS, 0)
    in_global: dict[str, list[_Access]] = {"loads": [], "stores": []}
    for event in _events(kernel.body, (), threads):
        if isinstance(event, _Access):
            space = event.target.buffer.space
            counts[f"{space}_{event.kind}"] += event.times
            if space == "global":
                in_global[event.kind].append(event)
        else:
            counts[event[0]] += event[1]
    values = dict.fromkeys(FEATURES, 0.0) | {name: n / threads for name, n in counts.items()}
    for axis, dim in enumerate("xyz"):
        values[f"global_size_{dim}"] = float(ndrange.workers("global", axis))
        values[f"local_size_{dim}"] = float(ndrange.local[axis])
    values["local_bytes"] = float(sum(size_bytes(buffer.type) for buffer in kernel.locals))
    values["cache_lines"] = _cache_lines(in_global["loads"], ndrange, warp)
    values["store_cache_lines"] = _cache_lines(in_global["stores"], ndrange, warp)
    values["working_set"] = _working_set([*in_global["loads"], *in_global["stores"]], ndrange)
    return values


# ------------------------------------------------------------------------------------- counting


def _events(block: list[nest.Statement], loops: Loops, times: int) -> Iterator[_Event]:
    """Yield the accesses and counts of a block that all threads together enter `times` times."""
    for statement in block:
        if isinstance(statement, nest.Loop):
            iterations = times // statement.workers * statement.extent
            if statement.form == "for":
                yield "loop_bodies", iterations
            elif statement.form == "if":
                yield "ifs", times
            yield from _events(statement.body, (*loops, statement), iterations)
        elif isinstance(statement, nest.Barrier):
            yield "barriers", times
        elif isinstance(statement, nest.Assignment):
            yield _Access("stores", statement.target, loops, times)
            yield from _of_term(statement.value, loops, times)


def _of_term(term: nest.Term, loops: Loops, times: int) -> Iterator[_Event]:
    if isinstance(term, nest.Load):
        yield _Access("loads", term, loops, times)
    elif isinstance(term, nest.Inside):
        yield "ifs", times
        yield from _of_term(term.term, loops, times)
    elif isinstance(term, nest.Call):
        for argument in term.arguments:
            if isinstance(argument, nest.Call):
                yield "private_stores", times  # of the unnamed variable between two calls
                yield "private_loads", times
            yield from _of_term(argument, loops, times)


# ---------------------------------------------------------------------- cache lines, working set


def _cache_lines(accesses: list[_Access], ndrange: nest.NdRange, warp: int) -> float:
    """Count the cache lines of an access by distances in one warp, as the paper does."""
    linear = np.arange(min(warp, math.prod(ndrange.local)))
    x, y, _ = ndrange.local
    lanes = (linear % x, linear // x % y, linear // (x * y))  # x runs fastest
    lines = times = 0
    for access in accesses:
        values, active = _inner_point(access.loops, lanes, ndrange)
        offsets = (access.target.offset.value(values, is_padded=False) + 0 * linear)[active]
        distances = (offsets - offsets[:1]) * ELEMENT_BYTES // LINE_BYTES
        lines += len(set(distances.tolist())) * access.times
        times += access.times
    return lines / times if times else 0.0


def _inner_point(
    loops: Loops, lanes: tuple[Any, ...], ndrange: nest.NdRange
) -> tuple[dict[str, Any], Any]:
    """Return the loop variables in one warp, and which of its threads are active.

    Sequential loops are at their middle, shared loops in their first iteration.
    """
    values: dict[str, Any] = {}
    active = np.ones(len(lanes[0]), dtype=bool)
    for loop in loops:
        first, last = _span(loop, ndrange)
        if loop.kind in ("global", "local"):
            values[loop.variable.name] = worker = first + lanes[loop.dim]
            active &= worker < loop.extent
        else:
            values[loop.variable.name] = (first + last + 1) // 2
    return values, active


def _working_set(accesses: list[_Access], ndrange: nest.NdRange) -> float:
    """Return the bytes that the groups of a multiprocessor touch at a time, over its cache.

    A group touches a box of each array, in whole lines: from the least to the largest index in each
    dimension.
    """
    boxes: dict[nest.Buffer, list[Span]] = {}
    for access in accesses:
        spans = {loop.variable.name: _span(loop, ndrange) for loop in access.loops}
        box = [index.span(spans) for index in access.target.indices] or [(0, 0)]
        sides = zip(box, boxes.get(access.target.buffer, box), strict=True)
        boxes[access.target.buffer] = [(min(a, c), max(b, d)) for (a, b), (c, d) in sides]
    lines, words = 0, LINE_BYTES // ELEMENT_BYTES
    for *rows, (first, last) in boxes.values():
        lines += math.prod(b - a + 1 for a, b in rows) * (last // words - first // words + 1)
    groups = max(1, RESIDENT_THREADS // math.prod(ndrange.local))
    return lines * LINE_BYTES * groups / CACHE_BYTES


def _span(loop: nest.Loop, ndrange: nest.NdRange) -> Span:
    """Return the least and the largest value of a loop's variable in a group in the middle.

    What a group or a thread of the whole grid takes after its first element is left out.
    """
    group, width = (ndrange.groups[loop.dim] - 1) // 2, ndrange.local[loop.dim]
    if loop.kind == "workgroup":
        return group, group
    if loop.kind == "global":
        return group * width, max(group * width, min((group + 1) * width, loop.extent) - 1)
    return 0, loop.extent - 1
