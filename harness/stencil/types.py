"""What expressions are: numbers, arrays with their length, and tuples."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from harness.core.errors import HarnessError


class StencilError(HarnessError):
    """A stencil's expression is ill-typed, or cannot be mapped to threads as it asks."""


@dataclass(frozen=True)
class Scalar:
    """A number, by its name in C."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Array:
    """`length` elements of one type, at least one."""

    element: Type
    length: int

    def __str__(self) -> str:
        return f"[{self.element}]{self.length}"


@dataclass(frozen=True)
class Tuple:
    """Some values of any types."""

    parts: tuple[Type, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.parts))})"


Type = Scalar | Array | Tuple

FLOAT = Scalar("float")
INT = Scalar("int")
ELEMENT_BYTES = 4
"""Of either."""


def in_c(value: float) -> str:
    """A number of type float, as C has it."""
    text = repr(float(value))
    return f"{text}f" if math.isfinite(value) else text.upper().replace("INF", "INFINITY")


def shape(kind: Type) -> tuple[int, ...]:
    """The lengths of an array of arrays, the outermost first; () of anything else."""
    return (kind.length, *shape(kind.element)) if isinstance(kind, Array) else ()


def leaf(kind: Type) -> Type:
    """What an array of arrays holds."""
    return leaf(kind.element) if isinstance(kind, Array) else kind


def size_bytes(kind: Type) -> int:
    """Of an array of numbers, or a number."""
    return math.prod(shape(kind)) * ELEMENT_BYTES


def divisors(number: int) -> Iterator[int]:
    """In ascending order."""
    return (d for d in range(1, number + 1) if number % d == 0)
