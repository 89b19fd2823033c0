"""Views: what an expression's value is, as functions from indices to what lies there.

Words that rearrange, such as split, are functions on views. The same views say where a result is
written: what stands in a row's parts is written through the split of the row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.stencil.arith import Atom, Index
from harness.stencil.ir import Node
from harness.stencil.nest import Buffer, Call, IndexValue, Inside, Load, Number, Term
from harness.stencil.types import Array, Type


@dataclass(frozen=True)
class Row:
    """A view of an array."""

    length: int
    at: Callable[[Index], View]


@dataclass(frozen=True)
class Parts:
    """A view of a tuple."""

    parts: tuple[View, ...]


View = Row | Parts | Load | Number | IndexValue | Call | Inside
"""A view of a number is the term that gives it."""


def view_of(buffer: Buffer) -> View:
    """What lies in memory, or where a result goes."""
    return _view_within(buffer, buffer.type, ())


def _view_within(buffer: Buffer, kind: Type, indices: tuple[Index, ...]) -> View:
    if isinstance(kind, Array):
        element = kind.element
        return Row(kind.length, lambda i: _view_within(buffer, element, (*indices, i)))
    return Load(buffer, indices)


def parts_of(row: Row, size: int) -> Row:
    """The row as rows of `size` elements."""
    return Row(row.length // size, lambda i: Row(size, lambda j: row.at(i * size + j)))


def joined(row: Row, size: int) -> Row:
    """A row of rows of `size` elements as one."""
    return Row(row.length * size, lambda i: _element(row.at(i // size), i % size))


def transposed(row: Row, width: int) -> Row:
    """A row of rows of `width` elements, turned."""
    return Row(width, lambda i: Row(row.length, lambda j: _element(row.at(j), i)))


def _element(view: View, index: Index) -> View:
    assert isinstance(view, Row)
    return view.at(index)


def inner_length(node: Node) -> int:
    """Of an array of arrays."""
    return node.type.element.length  # type: ignore[union-attr]


def inside(row: Row, place: Index, otherwise: Number) -> View:
    """What a row has at an index where it lies in the row, a constant elsewhere.

    What must be computed first, a sum for instance, is computed whether it does or not, and so at
    the nearest index that does.
    """
    nearest = place.padded("clamp", row.length)
    return _inside(row.at(nearest), (place, row.length), nearest.terms[0][0], otherwise)


def _inside(view: View, bound: tuple[Index, int], nearest: Atom, otherwise: Number) -> View:
    if isinstance(view, Row):
        return Row(view.length, lambda i: _inside(view.at(i), bound, nearest, otherwise))
    assert not isinstance(view, Parts)
    term = _at(view, nearest, bound[0])
    if isinstance(term, Inside) and term.otherwise == otherwise:
        return Inside((bound, *term.bounds), term.term, otherwise)
    return Inside((bound,), term, otherwise)


def _at(term: Term, nearest: Atom, place: Index) -> Term:
    """The term at an index itself: where the condition holds, that is the nearest within."""
    if isinstance(term, Load):
        return Load(term.buffer, tuple(i.replaced(nearest, place) for i in term.indices))
    if isinstance(term, Call):
        return Call(term.function, tuple(_at(x, nearest, place) for x in term.arguments))
    if isinstance(term, Inside):
        bounds = tuple((i.replaced(nearest, place), length) for i, length in term.bounds)
        return Inside(bounds, _at(term.term, nearest, place), term.otherwise)
    return term


# ---------------------------------------------------------- writing through words that rearrange

REARRANGING = ("split", "join", "transpose", "map")


def rearranges(node: Node) -> bool:
    """Whether a map's function only splits, joins and transposes what it is given."""
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
    """Where the argument of a word that rearranges is written, so that its result is in `out`."""
    assert isinstance(out, Row)
    x = node.children[-1]
    if node.op == "join":
        return parts_of(out, inner_length(x))
    if node.op == "split":
        return joined(out, node.data[0])
    if node.op == "transpose":
        return transposed(out, x.type.length)  # type: ignore[union-attr]
    return Row(out.length, lambda i: _before_all(node.children[0], out.at(i)))


def _before_all(fun: Node, out: View) -> View:
    node = fun.body
    while node is not fun.data[0]:
        out = before(node, out)
        node = node.children[-1]
    return out
