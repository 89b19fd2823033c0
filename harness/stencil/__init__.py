"""The language that a stencil's file is written in; kernels/stencils/README.md explains it.

Its words are the paper's primitives, but for `iterate` and `array`, and 2-D compositions. A
function is a Python function of nodes. `x` is the array that a word works on. Words that are also
Python builtins end in `_`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from harness.stencil.ir import Node as Node
from harness.stencil.ir import UserFun as UserFun
from harness.stencil.ir import fun, make
from harness.stencil.ir import user_fun as user_fun
from harness.stencil.types import FLOAT, Array, StencilError, Type, check_name

F = Callable[..., Node]
Pair = tuple[int, int]


def grid(name: str, *lengths: int) -> Node:
    """Declare an input array of float; the outermost length comes first."""
    check_name(name, f"grid({name!r}, ...)")
    kind: Type = FLOAT
    for length in reversed(lengths):
        kind = Array(kind, length)
    return make("input", (), (name, kind))


def number(value: float) -> Node:
    """Make a constant of type float."""
    return make("number", (), (_in_c(value),))


def map_(f: F, x: Node, kind: str = "any", dim: int = 0) -> Node:
    """Apply f to every element; rules decide how, unless `kind` does."""
    return make("map", (fun(f, _element(x, "map")), x), (kind, dim))


def map_global(dim: int, f: F, x: Node) -> Node:
    """Give each element to a thread of the whole grid, along dimension 0, 1 or 2."""
    return map_(f, x, "global", dim)


def map_workgroup(dim: int, f: F, x: Node) -> Node:
    """Give each element to a group."""
    return map_(f, x, "workgroup", dim)


def map_local(dim: int, f: F, x: Node) -> Node:
    """Give each element to a thread of the group."""
    return map_(f, x, "local", dim)


def map_seq(f: F, x: Node) -> Node:
    """Take one element after the other."""
    return map_(f, x, "seq")


def reduce_(f: F, start: Node | float, x: Node, kind: str = "any") -> Node:
    """Compute f(... f(f(start, x0), x1) ..., xn), a number."""
    first = start if isinstance(start, Node) else number(start)
    return make("reduce", (fun(f, first.type, _element(x, "reduce")), first, x), (kind, 0))


def zip_(*arrays: Node) -> Node:
    """Combine arrays into an array of tuples."""
    return make("zip", arrays)


def split(size: int, x: Node) -> Node:
    """Cut an array into parts of `size` elements."""
    return make("split", (x,), (size,))


def join(x: Node) -> Node:
    """Concatenate an array of arrays."""
    return make("join", (x,))


def transpose(x: Node) -> Node:
    """Turn rows into columns."""
    return make("transpose", (x,))


def slide(size: int, step: int, x: Node) -> Node:
    """Make windows of `size` elements, one every `step`."""
    return make("slide", (x,), (size, step))


def pad(left: int, right: int, mode: str, x: Node, value: float = 0.0) -> Node:
    """Add elements at both ends of an array.

    `clamp` repeats the border, `mirror` reflects the array, `wrap` continues at the other end, and
    `constant` adds `value`.
    """
    return make("pad", (x,), (left, right, mode, _in_c(value)))


def at(index: int, x: Node) -> Node:
    """Take one element of an array."""
    return make("at", (x,), (index,))


def get(part: int, x: Node) -> Node:
    """Take one part of a tuple."""
    return make("get", (x,), (part,))


def to_local(x: Node) -> Node:
    """Compute x into the local memory of a group."""
    return make("memory", (x,), ("local",))


def to_private(x: Node) -> Node:
    """Compute x into a thread's private variables."""
    return make("memory", (x,), ("private",))


def let(f: F, x: Node) -> Node:
    """Apply f to x, which is computed once."""
    return make("let", (fun(f, x.type), x))


# ------------------------------------------------------------------------- in two dimensions


def map2d(f: F, x: Node) -> Node:
    """Apply f to every element of an array of arrays."""
    return map_(lambda row: map_(f, row), x)


def zip2d(*arrays: Node) -> Node:
    """Combine arrays of arrays into an array of arrays of tuples."""
    count = range(len(arrays))
    return map_(lambda rows: zip_(*(get(part, rows) for part in count)), zip_(*arrays))


def pad2d(left: int, right: int, mode: str, x: Node, value: float = 0.0) -> Node:
    """Pad all four sides; see `pad`."""
    rows = pad(left, right, mode, x, value)
    return map_(lambda row: pad(left, right, mode, row, value), rows)


def slide2d(size: int | Pair, step: int | Pair, x: Node) -> Node:
    """Make windows of size[0] rows and size[1] columns, one every `step`."""
    (high, wide), (down, right) = _pair(size), _pair(step)
    return map_(
        lambda rows: transpose(map_(lambda row: slide(wide, right, row), rows)),
        slide(high, down, x),
    )


def split2d(size: Pair, x: Node) -> Node:
    """Cut into blocks of size[0] rows and size[1] columns."""
    return map_(
        lambda rows: transpose(map_(lambda row: split(size[1], row), rows)), split(size[0], x)
    )


def join2d(x: Node) -> Node:
    """Put blocks together again."""
    return join(map_(lambda blocks: map_(join, transpose(blocks)), x))


def _in_c(value: float) -> str:
    """Write a float literal in C."""
    text = repr(float(value))
    return f"{text}f" if math.isfinite(value) else text.upper().replace("INF", "INFINITY")


def _pair(size: int | Pair) -> Pair:
    return (size, size) if isinstance(size, int) else size


def _element(x: Node, word: str) -> Type:
    if not isinstance(x.type, Array):
        raise StencilError(f"{word}(..., {x}): expected an array, but it is {x.type}")
    return x.type.element
