"""The types of expressions (numbers, arrays with their length, tuples), and their names in C."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from harness.core.errors import HarnessError
from harness.source.preprocessor import C_WORDS


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
ELEMENT_BYTES = 4
"""The size of a float."""


def shape(kind: Type) -> tuple[int, ...]:
    """Return the lengths of an array of arrays, the outermost first; () for other types."""
    return (kind.length, *shape(kind.element)) if isinstance(kind, Array) else ()


def leaf(kind: Type) -> Type:
    """Return the innermost element type of an array of arrays."""
    return leaf(kind.element) if isinstance(kind, Array) else kind


def size_bytes(kind: Type) -> int:
    """Return the size of a number, or of an array of numbers."""
    return math.prod(shape(kind)) * ELEMENT_BYTES


# --------------------------------------------------------------------------------------- names

_WORDS = """
constant event_t generic global half image1d_t image2d_t image3d_t kernel local main pipe printf
ptrdiff_t read_only read_write sampler_t size_t uchar uint ulong ushort write_only
blockDim blockIdx gridDim threadIdx warpSize COARSENING INFINITY NAN VARIANT result max min
"""
_TAKEN = re.compile(
    "|".join([*C_WORDS.split(), *_WORDS.split()])
    + r"|(global|group|local)_[xyz]|LOCAL_[XYZ]|get_\w+|__\w+"
    r"|(u?(char|short|int|long)|half|float|double)\d+"
)


def check_name(name: str, where: str) -> None:
    """Raise StencilError, beginning with `where`, if a kernel cannot use the name."""
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) or _TAKEN.fullmatch(name):
        raise StencilError(
            f"{where}: {name!r} is not a valid name, or kernels already use it; choose another"
        )
