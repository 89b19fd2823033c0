"""The loop nest that an expression is lowered to: what a kernel does, before it has a language."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from harness.stencil.arith import Index, Variable
from harness.stencil.ir import UserFun
from harness.stencil.types import Scalar, Type, shape


@dataclass(frozen=True)
class NdRange:
    """A launch: threads of a group and groups, along x, y, z."""

    local: tuple[int, int, int] = (1, 1, 1)
    groups: tuple[int, int, int] = (1, 1, 1)

    def workers(self, kind: str, dim: int) -> int:
        """Who shares a loop of this kind: threads of the grid, groups, or threads of a group."""
        if kind == "global":
            return self.local[dim] * self.groups[dim]
        return self.groups[dim] if kind == "workgroup" else self.local[dim]


@dataclass(frozen=True)
class Buffer:
    """Memory for an array, or a private variable: `space` is global, local or private."""

    name: str
    space: str
    type: Type
    is_read_only: bool = False

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The lengths, the outermost first."""
        return shape(self.type)


@dataclass(frozen=True)
class Load:
    """An element's value; `indices` one for each length."""

    buffer: Buffer
    indices: tuple[Index, ...]

    @property
    def type(self) -> Type:
        """Of a number."""
        kind = self.buffer.type
        while not isinstance(kind, Scalar):
            kind = kind.element  # type: ignore[union-attr]
        return kind


@dataclass(frozen=True)
class Number:
    """A constant, as C."""

    text: str
    type: Scalar


@dataclass(frozen=True)
class IndexValue:
    """An index as a number."""

    index: Index


@dataclass(frozen=True)
class Call:
    """A user function of terms."""

    function: UserFun
    arguments: tuple[Term, ...]


@dataclass(frozen=True)
class Inside:
    """The term where each index lies in 0 .. length - 1, else the constant."""

    bounds: tuple[tuple[Index, int], ...]
    term: Term
    otherwise: Number


Term = Load | Number | IndexValue | Call | Inside


@dataclass(frozen=True)
class Store:
    """An element's new value; of a private variable, `declares` it."""

    target: Load
    value: Term
    declares: bool = False


@dataclass(frozen=True)
class Barrier:
    """Waits for the whole group."""


@dataclass(frozen=True)
class Declaration:
    """A private array."""

    buffer: Buffer


@dataclass(frozen=True)
class Loop:
    """`extent` turns, shared by `workers`, each of which takes every `workers`-th.

    Where there are as many workers as turns it is no loop, and where there are more it is an
    `if`: then the variable is the worker's own number.
    """

    kind: str
    dim: int
    variable: Variable
    extent: int
    workers: int
    body: list[Statement] = field(hash=False)

    @property
    def form(self) -> str:
        """`once`, `if` or `for`."""
        if self.kind == "seq" or self.extent > self.workers:
            return "for"
        return "once" if self.extent == self.workers else "if"


Statement = Store | Barrier | Declaration | Loop


@dataclass(frozen=True)
class Kernel:
    """A whole kernel: what it is given, its local memory, what it does."""

    name: str
    inputs: tuple[Buffer, ...]
    output: Buffer
    locals: tuple[Buffer, ...]
    body: list[Statement] = field(hash=False)
    ndrange: NdRange


def terms_of(term: Term) -> Iterator[Term]:
    """A term and all within."""
    yield term
    if isinstance(term, Call):
        for argument in term.arguments:
            yield from terms_of(argument)
    elif isinstance(term, Inside):
        yield from terms_of(term.term)


def loads_of(term: Term) -> Iterator[Load]:
    """The loads of a term."""
    return (part for part in terms_of(term) if isinstance(part, Load))
