"""The loop nest that an expression is lowered to: a kernel before it is written in a language."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from harness.stencil.arith import Index, Variable, constant
from harness.stencil.ir import UserFun
from harness.stencil.types import Scalar, Type, leaf, shape


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


@dataclass(frozen=True)
class Load:
    """An element's value; one of `indices` for each length."""

    buffer: Buffer
    indices: tuple[Index, ...]

    @property
    def type(self) -> Type:
        """Return the element's type."""
        kind = leaf(self.buffer.type)
        assert isinstance(kind, Scalar)
        return kind

    @property
    def offset(self) -> Index:
        """Return the element's place in its array, row by row."""
        total = constant(0)
        for index, length in zip(self.indices, self.buffer.shape, strict=True):
            total = total * length + index
        return total


@dataclass(frozen=True)
class Number:
    """A constant, as C text."""

    text: str
    type: Scalar


@dataclass(frozen=True)
class IndexValue:
    """An index as a number."""

    index: Index


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


Term = Load | Number | IndexValue | Call | Inside


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


def loads_of(term: Term) -> Iterator[Load]:
    """Yield the loads of a term."""
    return (part for part in terms_of(term) if isinstance(part, Load))
