"""The types of expressions: numbers, arrays with their length, and tuples."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from harness.core.errors import HarnessError


class StencilError(HarnessError):
    """A stencil's expression is ill-typed, or its mapping to threads is impossible."""


@dataclass(frozen=True)
class Scalar:
    """A number type, by its C name."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Array:
    """`length` elements of one type; at least one."""

    element: Type
    length: int

    def __str__(self) -> str:
        return f"[{self.element}]{self.length}"


@dataclass(frozen=True)
class Tuple:
    """Values of any types."""

    parts: tuple[Type, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.parts))})"


Type = Scalar | Array | Tuple

FLOAT = Scalar("float")
INT = Scalar("int")
ELEMENT_BYTES = 4
"""The size of a float or an int."""


def in_c(value: float) -> str:
    """Write a float literal in C."""
    text = repr(float(value))
    return f"{text}f" if math.isfinite(value) else text.upper().replace("INF", "INFINITY")


def shape(kind: Type) -> tuple[int, ...]:
    """Return the lengths of an array of arrays, the outermost first; () for other types."""
    return (kind.length, *shape(kind.element)) if isinstance(kind, Array) else ()


def leaf(kind: Type) -> Type:
    """Return the innermost element type of an array of arrays."""
    return leaf(kind.element) if isinstance(kind, Array) else kind


def size_bytes(kind: Type) -> int:
    """Return the size of a number, or of an array of numbers."""
    return math.prod(shape(kind)) * ELEMENT_BYTES


def divisors(number: int) -> Iterator[int]:
    """Yield the divisors in ascending order."""
    return (d for d in range(1, number + 1) if number % d == 0)
