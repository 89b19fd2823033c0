"""The loop nest that an expression is lowered to: a kernel before it is written in a language.

A view is an expression's value as a function from an index to an element. Words that rearrange,
such as split, are functions on views. The same views describe where a result is written: writing
the parts of an array goes through the split of the array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from harness.stencil.arith import Index, Variable, constant
from harness.stencil.ir import UserFun
from harness.stencil.types import Array, Type, shape


@dataclass(frozen=True)
class NdRange:
    """A launch: the threads of a group and the number of groups, along x, y, z."""

    local: tuple[int, int, int] = (1, 1, 1)
    groups: tuple[int, int, int] = (1, 1, 1)

    def workers(self, kind: str, dim: int) -> int:
        """Count the workers of a loop: threads of the grid, groups, or threads of a group."""
        if kind == "global":
            return self.local[dim] * self.groups[dim]
        return self.groups[dim] if kind == "workgroup" else self.local[dim]


@dataclass(frozen=True)
class Buffer:
    """Memory for an array, or a private variable; `space` is global, local or private."""

    name: str
    space: str
    type: Type
    is_read_only: bool = False

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Return the lengths, the outermost first."""
        return shape(self.type)

    @property
    def view(self) -> View:
        """View it, to read or to write it."""
        return _view_within(self, self.type, ())


@dataclass(frozen=True)
class Load:
    """An element's value; one of `indices` for each length."""

    buffer: Buffer
    indices: tuple[Index, ...]

    @property
    def offset(self) -> Index:
        """Return the element's place in its array, row by row."""
        total = constant(0)
        for index, length in zip(self.indices, self.buffer.shape, strict=True):
            total = total * length + index
        return total


@dataclass(frozen=True)
class Number:
    """A constant or an index, as C text."""

    text: str


@dataclass(frozen=True)
class Call:
    """A call of a user function."""

    function: UserFun
    arguments: tuple[Term, ...]


@dataclass(frozen=True)
class Inside:
    """The term if each index lies in 0 .. length - 1, else the constant."""

    bounds: tuple[tuple[Index, int], ...]
    term: Term
    otherwise: Number


Term = Load | Number | Call | Inside


@dataclass(frozen=True)
class ArrayView:
    """A view of an array."""

    length: int
    at: Callable[[Index], View]

    def windows(self, size: int, step: int) -> ArrayView:
        """View the array as windows of `size` elements, one every `step`."""
        count = (self.length - size) // step + 1
        return ArrayView(count, lambda i: ArrayView(size, lambda j: self.at(i * step + j)))

    def joined(self, size: int) -> ArrayView:
        """View an array of arrays of `size` elements as one array."""
        return ArrayView(self.length * size, lambda i: self._element(i // size, i % size))

    def transposed(self, width: int) -> ArrayView:
        """Transpose an array of arrays of `width` elements."""
        return ArrayView(width, lambda i: ArrayView(self.length, lambda j: self._element(j, i)))

    def _element(self, row: Index, column: Index) -> View:
        view = self.at(row)
        assert isinstance(view, ArrayView)
        return view.at(column)

    def inside(self, index: Index, otherwise: Number) -> View:
        """View the element at an index inside the array, and a constant outside.

        What must be computed first, such as a sum, is computed in both cases, and so at the nearest
        index inside.
        """
        nearest = self.at(index.padded("clamp", self.length))
        return _inside(nearest, (index, self.length), otherwise)


View = ArrayView | tuple["View", ...] | Term
"""Of an array, of a tuple, or of a number, whose view is its term."""


def _view_within(buffer: Buffer, kind: Type, indices: tuple[Index, ...]) -> View:
    if isinstance(kind, Array):
        element = kind.element
        return ArrayView(kind.length, lambda i: _view_within(buffer, element, (*indices, i)))
    return Load(buffer, indices)


def _inside(view: View, bound: tuple[Index, int], otherwise: Number) -> View:
    if isinstance(view, ArrayView):
        return ArrayView(view.length, lambda i: _inside(view.at(i), bound, otherwise))
    assert not isinstance(view, tuple)
    if isinstance(view, Inside) and view.otherwise == otherwise:
        return Inside((bound, *view.bounds), view.term, otherwise)
    return Inside((bound,), view, otherwise)


# ----------------------------------------------------------------------------------- statements


@dataclass(frozen=True)
class Assignment:
    """Store an element's new value; `declares` a private variable with it."""

    target: Load
    value: Term
    declares: bool = False


@dataclass(frozen=True)
class Barrier:
    """Wait for the whole group."""


@dataclass(frozen=True)
class Declaration:
    """Declare a private array."""

    buffer: Buffer


@dataclass(frozen=True)
class Loop:
    """`extent` iterations shared by `workers`, each of which takes every `workers`-th.

    With as many workers as iterations it is not a loop, and with more it is an `if`; the variable
    is then the worker's own id.
    """

    kind: str
    dim: int
    variable: Variable
    extent: int
    workers: int
    body: list[Statement] = field(hash=False)

    @property
    def form(self) -> str:
        """Return `once`, `if` or `for`."""
        if self.kind == "seq" or self.extent > self.workers:
            return "for"
        return "once" if self.extent == self.workers else "if"


Statement = Assignment | Barrier | Declaration | Loop


@dataclass(frozen=True)
class LoopNest:
    """A whole kernel: its buffers, its statements and its launch."""

    name: str
    inputs: tuple[Buffer, ...]
    output: Buffer
    locals: tuple[Buffer, ...]
    body: list[Statement] = field(hash=False)
    ndrange: NdRange


def statements_of(block: Iterable[Statement]) -> Iterator[Statement]:
    """Yield the statements of a block and of all loops in it, in order."""
    for statement in block:
        yield statement
        if isinstance(statement, Loop):
            yield from statements_of(statement.body)


def terms_of(term: Term) -> Iterator[Term]:
    """Yield a term and all terms in it."""
    yield term
    if isinstance(term, Call):
        for argument in term.arguments:
            yield from terms_of(argument)
    elif isinstance(term, Inside):
        yield from terms_of(term.term)


# ------------------------------------------------------------------------------------- barriers

# All threads of a group execute the statements outside the loops that they share, in order. A
# barrier goes before each statement that reads local memory written since the last barrier, or
# writes local memory used since then, and at the end of a loop's body where one iteration conflicts
# with the next.


@dataclass
class _Use:
    """The names of the local buffers that are read and written."""

    read: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)

    def conflicts(self, later: _Use) -> bool:
        """Return whether this use and a later one need a barrier between them."""
        return bool(self.written & (later.read | later.written) or self.read & later.written)

    def add(self, other: _Use) -> None:
        self.read |= other.read
        self.written |= other.written


def with_barriers(block: Iterable[Statement]) -> tuple[list[Statement], _Use, _Use, bool]:
    """Insert the barriers that a block needs; return the statements, their uses before the first
    barrier and since the last, and whether there is a barrier."""
    done: list[Statement] = []
    first, since, met = _Use(), _Use(), False
    for statement in block:
        statement, begin, end, has_barrier = _around(statement)
        if since.conflicts(begin):
            done.append(Barrier())
            since, met = _Use(), True
        if not met:
            first.add(begin)
        if has_barrier:
            since, met = end, True
        else:
            since.add(end)
        done.append(statement)
    return done, first, since, met


def _around(statement: Statement) -> tuple[Statement, _Use, _Use, bool]:
    """Return the same as `with_barriers`, for one statement."""
    if not isinstance(statement, Loop) or statement.kind == "local":
        used = _used(statement)
        return statement, used, used, False
    body, first, since, met = with_barriers(statement.body)
    if statement.form == "for" and since.conflicts(first):
        body, since, met = [*body, Barrier()], _Use(), True
    return replace(statement, body=body), first, since, met


def _used(statement: Statement) -> _Use:
    stored = [s for s in statements_of([statement]) if isinstance(s, Assignment)]
    loads = (x for s in stored for x in terms_of(s.value) if isinstance(x, Load))
    stores = (s.target for s in stored)
    return _Use(*({x.buffer.name for x in used if x.buffer.space == "local"}
                  for used in (loads, stores)))  # fmt: skip
