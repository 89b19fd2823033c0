"""The words that stencils are written in: the paper's primitives, and their 2-D compositions.

A function is a Python function of nodes. `x` is always the array that a word works on. Words that
Python has as well end in `_`.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.stencil.ir import Node, UserFun, fun, make
from harness.stencil.names import check_name
from harness.stencil.types import FLOAT, Array, StencilError, Type, in_c

F = Callable[..., Node]
Pair = tuple[int, int]


def grid(name: str, *lengths: int) -> Node:
    """An input array of float, its outermost length first."""
    check_name(name, f"grid({name!r}, ...)")
    kind: Type = FLOAT
    for length in reversed(lengths):
        kind = Array(kind, length)
    return make("input", (), (name, kind))


def number(value: float) -> Node:
    """A constant of type float."""
    return make("number", (), (in_c(value), FLOAT))


def map_(f: F, x: Node, kind: str = "any", dim: int = 0) -> Node:
    """f of every element. How it is carried out is decided by rules, unless `kind` says it."""
    return make("map", (fun(f, _element(x, "map")), x), (kind, dim))


def map_global(dim: int, f: F, x: Node) -> Node:
    """An element a thread of the whole grid, along one of its dimensions 0, 1, 2."""
    return map_(f, x, "global", dim)


def map_workgroup(dim: int, f: F, x: Node) -> Node:
    """An element a group."""
    return map_(f, x, "workgroup", dim)


def map_local(dim: int, f: F, x: Node) -> Node:
    """An element a thread of the group."""
    return map_(f, x, "local", dim)


def map_seq(f: F, x: Node) -> Node:
    """One element after the other."""
    return map_(f, x, "seq")


def reduce_(f: F, start: Node | float, x: Node, kind: str = "any") -> Node:
    """f(... f(f(start, x0), x1) ..., xn), a number."""
    first = start if isinstance(start, Node) else number(start)
    return make("reduce", (fun(f, first.type, _element(x, "reduce")), first, x), (kind, 0))


def iterate(times: int, f: F, x: Node) -> Node:
    """f of f of ... x."""
    return make("iterate", (fun(f, x.type), x), (times,))


def zip_(*arrays: Node) -> Node:
    """An array of tuples."""
    return make("zip", arrays)


def split(size: int, x: Node) -> Node:
    """Parts of `size` elements."""
    return make("split", (x,), (size,))


def join(x: Node) -> Node:
    """An array of arrays as one array."""
    return make("join", (x,))


def transpose(x: Node) -> Node:
    """Rows as columns."""
    return make("transpose", (x,))


def slide(size: int, step: int, x: Node) -> Node:
    """Windows of `size` elements, one every `step`."""
    return make("slide", (x,), (size, step))


def pad(left: int, right: int, mode: str, x: Node, value: float = 0.0) -> Node:
    """More elements at both ends: `clamp` repeats the border, `mirror` goes back from it, `wrap`
    comes in at the other end, `constant` is `value`."""
    return make("pad", (x,), (left, right, mode, value))


def at(place: int, x: Node) -> Node:
    """One element of an array."""
    return make("at", (x,), (place,))


def get(part: int, x: Node) -> Node:
    """One part of a tuple."""
    return make("get", (x,), (part,))


def array(length: int, function: UserFun) -> Node:
    """The array of function(place, length), which lies nowhere in memory."""
    return make("array", (), (length, function))


def to_global(x: Node) -> Node:
    """Computed into global memory: the place of results."""
    return make("place", (x,), ("global",))


def to_local(x: Node) -> Node:
    """Computed into memory that a group shares."""
    return make("place", (x,), ("local",))


def to_private(x: Node) -> Node:
    """Computed into a thread's own variables."""
    return make("place", (x,), ("private",))


def let(f: F, x: Node) -> Node:
    """f(x), where x is computed once."""
    return make("let", (fun(f, x.type), x))


# ------------------------------------------------------------------------- in two dimensions


def map2d(f: F, x: Node) -> Node:
    """f of every element of an array of arrays."""
    return map_(lambda row: map_(f, row), x)


def zip2d(*arrays: Node) -> Node:
    """An array of arrays of tuples."""
    count = range(len(arrays))
    return map_(lambda rows: zip_(*(get(part, rows) for part in count)), zip_(*arrays))


def pad2d(left: int, right: int, mode: str, x: Node, value: float = 0.0) -> Node:
    """The same at all four sides."""
    rows = pad(left, right, mode, x, value)
    return map_(lambda row: pad(left, right, mode, row, value), rows)


def slide2d(size: int | Pair, step: int | Pair, x: Node) -> Node:
    """Windows of size[0] rows and size[1] columns."""
    high, wide = _pair(size), _pair(step)
    return map_(
        lambda rows: transpose(map_(lambda row: slide(high[1], wide[1], row), rows)),
        slide(high[0], wide[0], x),
    )


def split2d(size: Pair, x: Node) -> Node:
    """Blocks of size[0] rows and size[1] columns."""
    return map_(
        lambda rows: transpose(map_(lambda row: split(size[1], row), rows)), split(size[0], x)
    )


def join2d(x: Node) -> Node:
    """Blocks put together again."""
    return join(map_(lambda blocks: map_(join, transpose(blocks)), x))


def _pair(size: int | Pair) -> Pair:
    return (size, size) if isinstance(size, int) else size


def _element(x: Node, word: str) -> Type:
    if not isinstance(x.type, Array):
        raise StencilError(f"{word}(..., {x}): expected an array, but it is {x.type}")
    return x.type.element
