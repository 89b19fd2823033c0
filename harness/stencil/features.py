"""Compute the features of Table 1 in Remmelg and others (2020), and two of ours, from a loop nest.

Loads, stores, barriers, ifs and loop iterations are means over the threads of the launch. A call's
result that another call takes is stored to and loaded from private memory. Any other call is one
store, in the memory space of its target.

`cache_lines` is the number of lines that the threads of a warp touch with one load of global
memory, averaged over the loads; `store_cache_lines` is the same of stores. Both look at one warp,
at an inner point where padding does nothing, and separate lines by their distance to the first
thread's address. `exact_cache_lines` counts the lines that loads touch in all warps and all
iterations; its run time grows with the number of accesses.

Three errors of the paper are corrected. Its Algorithm 1 counts a store for each argument of a call
instead of one for the result. Its section 4.2.3 reports 8 lines where a warp, split by 4, touches
4. And a warp is 32 threads in linear order: it spans rows if a group is less than 32 wide.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from harness.stencil.arith import Index, Operation, Variable
from harness.stencil.nest import (
    Assignment,
    Barrier,
    Call,
    Inside,
    Load,
    Loop,
    LoopNest,
    NdRange,
    Statement,
    Term,
)
from harness.stencil.types import ELEMENT_BYTES, size_bytes

PUBLISHED = (
    "global_size_x",
    "global_size_y",
    "global_size_z",
    "local_size_x",
    "local_size_y",
    "local_size_z",
    "local_bytes",
    "global_loads",
    "global_stores",
    "local_loads",
    "local_stores",
    "private_stores",
    "cache_lines",
    "barriers",
    "ifs",
    "loop_bodies",
)
"""The features of the paper's Table 1."""

OWN = ("private_loads", "store_cache_lines")
"""The features that the paper does not have."""

FEATURES = PUBLISHED + OWN

COUNTS = (
    "global_loads",
    "global_stores",
    "local_loads",
    "local_stores",
    "private_loads",
    "private_stores",
    "barriers",
    "ifs",
    "loop_bodies",
)
"""The features that are means over the threads."""

EXACT = "exact_cache_lines"
WARP = 32
LINE_BYTES = 128
_ZERO = Variable("", 0, 0)
Bounds = tuple[tuple[Index, int], ...]


@dataclass(frozen=True)
class Access:
    """A load or a store: its target, the loops and padding around it, its count over all threads.

    `target` is None for the unnamed private variable between two calls.
    """

    kind: str
    space: str
    target: Load | None
    loops: tuple[Loop, ...]
    bounds: Bounds
    times: int


def features(kernel: LoopNest, exact_lines: bool = False) -> dict[str, float]:
    """Compute the features by name, in the order of FEATURES; EXACT comes last, where asked for."""
    ndrange = kernel.ndrange
    threads = math.prod(ndrange.local + ndrange.groups)
    counts = dict.fromkeys(COUNTS, 0)
    accesses: list[Access] = []
    for event in _events(kernel.body, (), threads):
        if isinstance(event, Access):
            accesses.append(event)
            counts[f"{event.space}_{event.kind}"] += event.times
        else:
            counts[event[0]] += event[1]
    found = dict.fromkeys(FEATURES, 0.0) | {name: n / threads for name, n in counts.items()}
    for axis, dim in enumerate("xyz"):
        found[f"global_size_{dim}"] = float(ndrange.workers("global", axis))
        found[f"local_size_{dim}"] = float(ndrange.local[axis])
    found["local_bytes"] = float(sum(size_bytes(buffer.type) for buffer in kernel.locals))
    loads, stores = ([a for a in accesses if a.space == "global" and a.kind == kind]
                     for kind in ("loads", "stores"))  # fmt: skip
    found["cache_lines"] = _distances(loads, ndrange)
    found["store_cache_lines"] = _distances(stores, ndrange)
    return found | ({EXACT: _exact(loads, ndrange)} if exact_lines else {})


# ------------------------------------------------------------------------------------- counting


def _events(
    block: list[Statement], loops: tuple[Loop, ...], times: int
) -> Iterator[Access | tuple[str, int]]:
    """Yield the accesses and counts of a block that all threads together enter `times` times."""
    for statement in block:
        if isinstance(statement, Loop):
            iterations = times // statement.workers * statement.extent
            if statement.form == "for":
                yield "loop_bodies", iterations
            elif statement.form == "if":
                yield "ifs", times
            yield from _events(statement.body, (*loops, statement), iterations)
        elif isinstance(statement, Barrier):
            yield "barriers", times
        elif isinstance(statement, Assignment):
            target = statement.target
            yield Access("stores", target.buffer.space, target, loops, (), times)
            yield from _of_term(statement.value, loops, (), times)


def _of_term(
    term: Term, loops: tuple[Loop, ...], bounds: Bounds, times: int
) -> Iterator[Access | tuple[str, int]]:
    if isinstance(term, Load):
        yield Access("loads", term.buffer.space, term, loops, bounds, times)
    elif isinstance(term, Inside):
        yield "ifs", times
        inner = (*bounds, *term.bounds)
        within = times * _share(inner) / _share(bounds) if _share(bounds) else 0
        yield from _of_term(term.term, loops, inner, int(within))
    elif isinstance(term, Call):
        for argument in term.arguments:
            if isinstance(argument, Call):
                yield Access("stores", "private", None, loops, bounds, times)
                yield Access("loads", "private", None, loops, bounds, times)
            yield from _of_term(argument, loops, bounds, times)


def _share(bounds: Bounds) -> Fraction:
    """Return the share of all values of the variables that satisfies every bound.

    Bounds without a common variable are independent: rows and columns are counted separately.
    """
    share = Fraction(1)
    left = list(bounds)
    while left:
        together = [left.pop(0)]
        known = set(together[0][0].variables())
        while near := [b for b in left if known & set(b[0].variables())]:
            together += near
            left = [b for b in left if b not in near]
            known.update(v for b in near for v in b[0].variables())
        share *= _joint_share(together)
    return share


def _joint_share(bounds: list[tuple[Index, int]]) -> Fraction:
    """Return the share for bounds with common variables.

    For each value of the shared variables, the bounds' own variables are independent.
    """
    uses = Counter(v for index, _ in bounds for v in set(index.variables()))
    shared = [v for v, times in uses.items() if times > 1]
    held: Any = 1
    for index, length in bounds:
        held = held * _held(index, length, shared)
    return Fraction(int(held.sum()), math.prod(v.high - v.low + 1 for v in uses))


def _held(index: Index, length: int, shared: list[Variable]) -> Any:
    """Count the values of a bound's own variables that satisfy it, for each shared value.

    The variable with the most values is not enumerated: an interval of its values satisfies the
    bound.
    """
    within = {v for a, _ in index.terms if isinstance(a, Operation) for v in a.inner.variables()}
    free = [
        (a, c) for a, c in index.terms
        if isinstance(a, Variable) and a not in within and a not in shared
    ]  # fmt: skip
    widest, factor = max(free, key=lambda t: t[0].high - t[0].low, default=(_ZERO, 1))
    low, high = sorted((widest.low * factor, widest.high * factor))
    rest = Index(tuple(t for t in index.terms if t[0] != widest), index.constant)
    own = [v for v in set(rest.variables()) if v not in shared]
    ranges = [np.arange(v.low, v.high + 1) for v in (*shared, *own)]
    values = {v.name: g for v, g in zip((*shared, *own), np.ix_(*ranges), strict=True)}
    offset = np.zeros((1,) * len(ranges), dtype=np.int64) + rest.value(values)
    factor = abs(factor)
    # From the least multiple of the factor at which offset + multiple is 0 or more.
    least = np.maximum(low // factor, -(offset // factor))
    most = np.minimum(high // factor, (length - 1 - offset) // factor)
    held = np.maximum(most - least + 1, 0)
    return held.sum(axis=tuple(range(len(shared), len(ranges))))


# ---------------------------------------------------------------------------------- cache lines


def _distances(accesses: list[Access], ndrange: NdRange) -> float:
    """Count the cache lines of an access by distances in one warp, as the paper does."""
    lanes = _ids(ndrange.local, np.arange(min(WARP, math.prod(ndrange.local))))
    group = [(count - 1) // 2 for count in ndrange.groups]
    known: dict[int, tuple[dict[str, Any], Any]] = {}  # accesses of a block share their loops
    lines = times = 0
    for access in accesses:
        if id(access.loops) not in known:
            known[id(access.loops)] = _inner_point(access.loops, lanes, group, ndrange)
        values, active = known[id(access.loops)]
        offsets = (_offset(access, values, is_padded=False) + 0 * lanes[0])[active]
        distances = (offsets - offsets[:1]) * ELEMENT_BYTES // LINE_BYTES
        lines += len(set(distances.tolist())) * access.times
        times += access.times
    return lines / times if times else 0.0


def _inner_point(
    loops: tuple[Loop, ...], lanes: list[Any], group: list[Any], ndrange: NdRange
) -> tuple[dict[str, Any], Any]:
    """Return the loop variables in one warp, and which of its threads are active.

    Sequential loops are at their middle, shared loops in their first iteration.
    """
    values: dict[str, Any] = {}
    active = np.ones(len(lanes[0]), dtype=bool)
    for loop in loops:
        if loop.kind == "seq":
            values[loop.variable.name] = loop.extent // 2
        else:
            values[loop.variable.name] = worker = _worker(loop, lanes, group, ndrange)
            active &= worker < loop.extent
    return values, active


def _offset(access: Access, values: Mapping[str, Any], is_padded: bool) -> Any:
    """Return the access's offset in its array, in elements."""
    assert access.target is not None
    total: Any = 0
    pairs = zip(access.target.indices, access.target.buffer.shape, strict=True)
    for index, length in pairs:
        total = total * length + index.value(values, is_padded)
    return total


def _ids(lengths: tuple[int, int, int], linear: Any) -> list[Any]:
    """Return the ids of threads or groups along x, y, z; x runs fastest."""
    x, y, _ = lengths
    return [linear % x, linear // x % y, linear // (x * y)]


def _worker(loop: Loop, lanes: list[Any], group: list[Any], ndrange: NdRange) -> Any:
    if loop.kind == "workgroup":
        return group[loop.dim]
    lane = lanes[loop.dim]
    return lane if loop.kind == "local" else group[loop.dim] * ndrange.local[loop.dim] + lane


def _exact(accesses: list[Access], ndrange: NdRange) -> float:
    """Count the cache lines of an access of all warps and iterations; arrays begin at a line."""
    threads = math.prod(ndrange.local)
    linear = np.arange(-(-threads // WARP) * WARP).reshape(1, -1, WARP)
    lanes = _ids(ndrange.local, linear)
    numbers = np.arange(math.prod(ndrange.groups)).reshape(-1, 1, 1)
    group = _ids(ndrange.groups, numbers)
    lines = warps = 0
    for access in accesses:
        iterations = [range(-(-loop.extent // loop.workers)) for loop in access.loops]
        for iteration in itertools.product(*iterations):
            active = np.broadcast_to(linear < threads, (len(numbers), *linear.shape[1:])).copy()
            values: dict[str, Any] = {}
            for loop, number in zip(access.loops, iteration, strict=True):
                first = 0 if loop.kind == "seq" else _worker(loop, lanes, group, ndrange)
                values[loop.variable.name] = first + number * loop.workers
                active &= values[loop.variable.name] < loop.extent
            found = _lines(access, values, active)
            lines, warps = lines + found[0], warps + found[1]
    return lines / warps if warps else 0.0


def _lines(access: Access, values: Mapping[str, Any], active: Any) -> tuple[int, int]:
    """Return the number of lines that all warps touch, and of warps that touch any."""
    for index, length in access.bounds:
        position = index.value(values)
        active = active & (position >= 0) & (position < length)
    offsets = _offset(access, values, is_padded=True)
    line = np.where(active, offsets * ELEMENT_BYTES // LINE_BYTES, -1).reshape(-1, WARP)
    line.sort(axis=1)
    distinct = 1 + np.count_nonzero(np.diff(line, axis=1), axis=1) - (line[:, 0] < 0)
    return int(distinct.sum()), int(np.count_nonzero(distinct))
