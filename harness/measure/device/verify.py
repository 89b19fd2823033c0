"""Compare results with the reference, element by element, within tolerances by dtype."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from harness.core.observations import WorstElement
from harness.core.program import Fill

Array = npt.NDArray[Any]
Flags = npt.NDArray[np.bool_]

# Where the space names none: rtol, and atol for a reference of root mean square 1. About 100
# roundings of the format. Kernels compute results of 16 bits in float32 and round them at the end:
# 8 roundings, and one of a number of typical size.
_BY_DTYPE: dict[str, tuple[float, float]] = {
    "float16": (2**-8, 2**-11),
    "bfloat16": (2**-5, 2**-8),
    "float32": (1e-5, 1e-5),
    "float64": (1e-13, 1e-13),
    "complex64": (1e-5, 1e-5),
    "complex128": (1e-13, 1e-13),
}
NAN = Fill(0xFF)
"""Bytes that are NaN in every floating-point format, and no index of an array."""

FILLS = (Fill(0xC2), NAN, Fill(0x7B))
"""What outputs hold before a run, one of these at a time: numbers below 0, NaN (-1, or the greatest
whole number), numbers above nearly all others. None depends on what is expected, so that no kernel
finds the answer there. All bytes are equal: that is what a device writes fastest, and it leaves the
caches alike. An element that is never written is wrong under all but one of them, and what a kernel
adds to it, or takes the greater or the smaller one of, is wrong under one of them."""

_KINDS = "biufc"
BFLOAT16 = "bfloat16"
"""The name of ml_dtypes' type, which numpy takes for a structure of 2 bytes."""


def is_comparable(dtype: np.dtype[Any]) -> bool:
    """Whether an output of this dtype can be verified."""
    return dtype.kind in _KINDS or dtype.name == BFLOAT16


_CHUNK = 1 << 16
"""Elements compared at a time: temporary arrays of this size stay in the processor's cache."""


@dataclass(frozen=True)
class Tolerance:
    """An element is right when |found - expected| <= atol + rtol * |expected|.

    None means the default of the output's dtype; that of `atol` follows the reference's size, so
    that zeros never pass for small numbers. A relative tolerance is for rounding errors: integers
    have only `atol` (by default 0), and booleans must be equal.
    """

    rtol: float | None = None
    atol: float | None = None

    def of(self, dtype: np.dtype[Any], size: float) -> tuple[float, float]:
        """Return rtol and atol for an output of this dtype, where the reference has this size."""
        rtol, atol = _BY_DTYPE.get(dtype.name, (0.0, 0.0))
        if dtype.kind == "b":
            return 0.0, 0.0
        if dtype.kind in "iu":
            return 0.0, atol if self.atol is None else self.atol
        return (
            rtol if self.rtol is None else self.rtol,
            atol * size if self.atol is None else self.atol,
        )


def size_of(expected: Array) -> float:
    """Return the root mean square of the finite numbers; 1 where all are 0."""
    peak = max((sizes.max(initial=0.0) for sizes in _finite_sizes(expected)), default=0.0)
    if peak == 0:
        return 1.0
    sums = [(np.square(sizes / peak).sum(), sizes.size) for sizes in _finite_sizes(expected)]
    total, count = map(sum, zip(*sums, strict=True))
    return float(peak * np.sqrt(total / count))


def _finite_sizes(array: Array) -> Iterator[npt.NDArray[np.float64]]:
    """Yield the absolute values of the finite numbers, by chunks."""
    flat = array.reshape(-1)
    for start in range(0, flat.size, _CHUNK):
        with np.errstate(over="ignore"):
            sizes = np.abs(_wide(flat[start : start + _CHUNK]))
        yield sizes[np.isfinite(sizes)]


def verify(
    found: Mapping[str, Array],
    expected: Mapping[str, Array],
    tolerance: Tolerance,
    sizes: Mapping[str, float] | None = None,
) -> WorstElement | None:
    """Compare every expected output; return the worst element of all, None if all are right.

    NaN equals only NaN, an infinity only itself. Outputs have the shapes of the expected ones.
    `sizes` are those of the expected outputs where they are known.
    """
    worst: _Worst | None = None
    for name, want in expected.items():
        size = size_of(want) if sizes is None else sizes[name]
        other = _compare(name, found[name], want, *tolerance.of(found[name].dtype, size))
        if other is not None and (worst is None or other.excess > worst.excess):
            worst = other
    return worst.element if worst is not None else None


def describe_wrong(worst: WorstElement, found: Array, expected: Array, fill: Fill) -> str:
    """Describe the wrong elements of an output that held a fill before the run, by the worst one;
    or by the first that was never written, where most were not."""
    found, expected = _comparable(found, expected)
    kept = np.all(found.reshape(-1, 1).view(np.uint8) == fill.byte, axis=1)
    kept &= ~_within(found.reshape(-1), expected.reshape(-1))
    count = np.count_nonzero(kept)
    if 2 * count < worst.wrong_count:
        return str(worst)
    name, first = worst.argument.partition(".")[0], int(kept.argmax())
    index = ", ".join(map(str, np.unravel_index(first, found.shape)))
    return (
        f"{name}[{index}] was never written ({count:,} of {found.size:,} elements): it holds "
        f"{found.flat[first].item():.6g} as before the run, expected "
        f"{expected.flat[first].item():.6g}. If the kernel only updates {name}, or some of its "
        f'elements, write in the host module INOUT = ("{name}",)'
    )


class _Worst(NamedTuple):
    excess: float
    element: WorstElement


def _compare(name: str, found: Array, expected: Array, rtol: float, atol: float) -> _Worst | None:
    found, expected = _comparable(found, expected)
    count, index, excess = 0, 0, -np.inf
    for wrong, beyond in _wrong_elements(found.reshape(-1), expected.reshape(-1), rtol, atol):
        count += wrong.size
        farthest = int(np.argmax(beyond))
        if beyond[farthest] > excess:
            index, excess = int(wrong[farthest]), float(beyond[farthest])
    if count == 0:
        return None
    return _Worst(excess, _element(name, found, expected, index, count, rtol, atol))


def _comparable(found: Array, expected: Array) -> tuple[Array, Array]:
    """Return booleans as bytes: a kernel may have written one that is neither 0 nor 1."""
    if found.dtype == expected.dtype == np.bool_:
        return found.view(np.uint8), expected.view(np.uint8)
    return found, expected


def _wrong_elements(
    found: Array, expected: Array, rtol: float, atol: float
) -> Iterator[tuple[npt.NDArray[np.intp], npt.NDArray[np.float64]]]:
    """Yield the indices of wrong elements of flat arrays, and how far each is off, by chunks."""
    exact = found.dtype.kind in "iub" and expected.dtype.kind in "iub" and atol < 1
    for start in range(0, found.size, _CHUNK):
        got, want = found[start : start + _CHUNK], expected[start : start + _CHUNK]
        right = np.equal(got, want) if exact else _within(got, want, rtol, atol)
        if not right.all():
            wrong = np.flatnonzero(~right)
            yield start + wrong, _excess(got[wrong], want[wrong], rtol, atol)


def _within(found: Array, expected: Array, rtol: float = 0.0, atol: float = 0.0) -> Flags:
    """Say which elements are right, NaN where NaN is expected as well."""
    with np.errstate(invalid="ignore", over="ignore"):
        right: Flags = np.isclose(_wide(found), _wide(expected), rtol, atol, equal_nan=True)
    return right


def _wide(array: Array) -> Array:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64, copy=False)


def _excess(found: Array, expected: Array, rtol: float, atol: float) -> npt.NDArray[np.float64]:
    """Return how far wrong elements are outside their tolerance.

    NaN in place of a number, or an infinity, is farther off than any finite number.
    """
    got, want = _wide(found), _wide(expected)
    with np.errstate(invalid="ignore", over="ignore"):
        beyond: npt.NDArray[np.float64] = np.abs(got - want) - (atol + rtol * np.abs(want))
    beyond[~np.isfinite(beyond)] = np.inf
    return beyond


def _element(
    name: str, found: Array, expected: Array, position: int, count: int, rtol: float, atol: float
) -> WorstElement:
    index = tuple(int(i) for i in np.unravel_index(position, found.shape))
    got, want = found[index].item(), expected[index].item()
    size = float(abs(want))
    # NaN and infinities must be equal.
    allowed = atol + rtol * size if math.isfinite(size) else 0.0
    if isinstance(got, complex) or isinstance(want, complex):
        part, got, want = _farther_part(complex(got), complex(want))
        name = f"{name}.{part}"
    return WorstElement(
        argument=name,
        index=index,
        found=_plain(got),
        expected=_plain(want),
        tolerance=allowed,
        wrong_count=count,
        count=int(found.size),
    )


def _farther_part(found: complex, expected: complex) -> tuple[str, float, float]:
    """Return the real or the imaginary part, whichever is farther off; NaN is farthest."""
    real, imag = abs(found.real - expected.real), abs(found.imag - expected.imag)
    if np.nan_to_num(imag, nan=np.inf) > np.nan_to_num(real, nan=np.inf):
        return "imag", found.imag, expected.imag
    return "real", found.real, expected.real


def _plain(number: bool | int | float) -> int | float:
    return int(number) if isinstance(number, (bool, int)) else float(number)
