"""Views: an expression's value as a function from an index to an element.

Words that rearrange, such as split, are functions on views. The same views describe where a result
is written: writing the parts of an array goes through the split of the array.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.stencil.arith import Index
from harness.stencil.ir import Node
from harness.stencil.nest import Buffer, Call, IndexValue, Inside, Load, Number
from harness.stencil.types import Array, Type


@dataclass(frozen=True)
class ArrayView:
    """A view of an array."""

    length: int
    at: Callable[[Index], View]


@dataclass(frozen=True)
class TupleView:
    """A view of a tuple."""

    parts: tuple[View, ...]


View = ArrayView | TupleView | Load | Number | IndexValue | Call | Inside
"""A number's view is its term."""


def view_of(buffer: Buffer) -> View:
    """View a buffer, to read or to write it."""
    return _view_within(buffer, buffer.type, ())


def _view_within(buffer: Buffer, kind: Type, indices: tuple[Index, ...]) -> View:
    if isinstance(kind, Array):
        element = kind.element
        return ArrayView(kind.length, lambda i: _view_within(buffer, element, (*indices, i)))
    return Load(buffer, indices)


def parts_of(row: ArrayView, size: int) -> ArrayView:
    """View an array as parts of `size` elements."""
    return ArrayView(row.length // size, lambda i: ArrayView(size, lambda j: row.at(i * size + j)))


def joined(row: ArrayView, size: int) -> ArrayView:
    """View an array of arrays of `size` elements as one array."""
    return ArrayView(row.length * size, lambda i: _element(row.at(i // size), i % size))


def transposed(row: ArrayView, width: int) -> ArrayView:
    """Transpose an array of arrays of `width` elements."""
    return ArrayView(width, lambda i: ArrayView(row.length, lambda j: _element(row.at(j), i)))


def _element(view: View, index: Index) -> View:
    assert isinstance(view, ArrayView)
    return view.at(index)


def inner_length(node: Node) -> int:
    """Return the inner length of an array of arrays."""
    return node.type.element.length  # type: ignore[union-attr]


def inside(row: ArrayView, index: Index, otherwise: Number) -> View:
    """View the element at an index inside the array, and a constant outside.

    What must be computed first, such as a sum, is computed in both cases, and so at the nearest
    index inside.
    """
    return _inside(row.at(index.padded("clamp", row.length)), (index, row.length), otherwise)


def _inside(view: View, bound: tuple[Index, int], otherwise: Number) -> View:
    if isinstance(view, ArrayView):
        return ArrayView(view.length, lambda i: _inside(view.at(i), bound, otherwise))
    assert not isinstance(view, TupleView)
    if isinstance(view, Inside) and view.otherwise == otherwise:
        return Inside((bound, *view.bounds), view.term, otherwise)
    return Inside((bound,), view, otherwise)


# ---------------------------------------------------------- writing through words that rearrange

REARRANGING = ("split", "join", "transpose", "map")


def rearranges(node: Node) -> bool:
    """Return whether a map's function only splits, joins and transposes its argument."""
    if node.data[0] != "any":
        return False
    fun = node.children[0]
    inner = fun.body
    while inner is not fun.data[0]:
        if inner.op not in REARRANGING or (inner.op == "map" and not rearranges(inner)):
            return False
        inner = inner.children[-1]
    return True


def before(node: Node, out: View) -> View:
    """Return where to write the argument of a rearranging word, so that its result is in `out`."""
    assert isinstance(out, ArrayView)
    x = node.children[-1]
    if node.op == "join":
        return parts_of(out, inner_length(x))
    if node.op == "split":
        return joined(out, node.data[0])
    if node.op == "transpose":
        return transposed(out, x.type.length)  # type: ignore[union-attr]
    return ArrayView(out.length, lambda i: _before_all(node.children[0], out.at(i)))


def _before_all(fun: Node, out: View) -> View:
    node = fun.body
    while node is not fun.data[0]:
        out = before(node, out)
        node = node.children[-1]
    return out
