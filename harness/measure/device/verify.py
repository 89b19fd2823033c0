"""Compare results with the reference, element by element, within tolerances by dtype."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.core.observations import WorstElement
from harness.core.program import Fill

Array = npt.NDArray[Any]
Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

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


def is_comparable(dtype: np.dtype[Any]) -> bool:
    """Whether an output of this dtype can be verified."""
    # numpy takes ml_dtypes' bfloat16 for a structure of 2 bytes.
    return dtype.kind in "biufc" or dtype.name == "bfloat16"


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
        if dtype.kind == "b":
            return 0.0, 0.0
        rtol, atol = _BY_DTYPE.get(dtype.name, (0.0, 0.0))
        atol *= size
        if self.rtol is not None and dtype.kind not in "iu":
            rtol = self.rtol
        if self.atol is not None:
            atol = self.atol
        return rtol, atol


@np.errstate(over="ignore")
def size_of(expected: Array) -> float:
    """Return the root mean square of the finite numbers; 1 where all are 0."""
    peak = 0.0
    for sizes in _finite_sizes(expected):
        peak = max(peak, sizes.max(initial=0.0))
    if peak == 0:
        return 1.0
    total = 0.0
    count = 0
    for sizes in _finite_sizes(expected):
        total += np.square(sizes / peak).sum()
        count += sizes.size
    return float(peak * np.sqrt(total / count))


def _finite_sizes(array: Array) -> Iterator[Floats]:
    """Yield the absolute values of the finite numbers, by chunks."""
    flat = array.reshape(-1)
    for start in range(0, flat.size, _CHUNK):
        sizes = np.abs(_wide(flat[start : start + _CHUNK]))
        yield sizes[np.isfinite(sizes)]


def verify(
    outputs: Mapping[str, Array],
    expected: Mapping[str, Array],
    tolerance: Tolerance,
    sizes: Mapping[str, float] | None = None,
) -> WorstElement | None:
    """Compare every expected output; return the worst element of all, None if all are right.

    NaN equals only NaN, an infinity only itself. Outputs have the shapes of the expected ones.
    `sizes` are those of the expected outputs where they are known.
    """
    worst = None
    farthest = -math.inf
    for name, want in expected.items():
        size = size_of(want) if sizes is None else sizes[name]
        rtol, atol = tolerance.of(outputs[name].dtype, size)
        excess, element = _compare(name, outputs[name], want, rtol, atol)
        if excess > farthest:
            farthest = excess
            worst = element
    return worst


def describe_wrong(worst: WorstElement, output: Array, expected: Array, fill: Fill) -> str:
    """Describe the wrong elements of an output that held a fill before the run, by the worst one;
    or by the first that was never written, where most were not."""
    got = _flat(output)
    want = _flat(expected)
    unwritten = np.all(got.reshape(-1, 1).view(np.uint8) == fill.byte, axis=1)
    unwritten &= ~_within(got, want)
    count = np.count_nonzero(unwritten)
    if 2 * count < worst.wrong_count:
        return str(worst)
    first = int(unwritten.argmax())
    name = worst.argument.partition(".")[0]
    index = ", ".join(map(str, np.unravel_index(first, output.shape)))
    return (
        f"{name}[{index}] was never written ({count:,} of {output.size:,} elements): it holds "
        f"{got[first].item():.6g} as before the run, expected {want[first].item():.6g}. "
        f"If the kernel only updates {name}, or some of its elements, write in the host module "
        f'INOUT = ("{name}",)'
    )


def _compare(
    name: str, output: Array, expected: Array, rtol: float, atol: float
) -> tuple[float, WorstElement | None]:
    """Return how far an output's worst element is outside its tolerance, and the element."""
    got = _flat(output)
    want = _flat(expected)
    count = 0
    worst = 0
    excess = -math.inf
    for start in range(0, got.size, _CHUNK):
        chunk = slice(start, start + _CHUNK)
        wrong = np.flatnonzero(~_within(got[chunk], want[chunk], rtol, atol))
        if wrong.size:
            count += wrong.size
            beyond = _excess(got[chunk][wrong], want[chunk][wrong], rtol, atol)
            farthest = beyond.argmax()
            if beyond[farthest] > excess:
                excess = float(beyond[farthest])
                worst = start + int(wrong[farthest])
    if count == 0:
        return excess, None
    value = _number(got[worst])
    right = _number(want[worst])
    size = abs(right)
    allowed = 0.0  # NaN and infinities must be equal
    if math.isfinite(size):
        allowed = atol + rtol * size
    if np.iscomplexobj(got) or np.iscomplexobj(want):
        errors = np.abs([value.real - right.real, value.imag - right.imag])
        part = ("real", "imag")[errors.argmax()]  # NaN is farthest
        name = f"{name}.{part}"
        value = getattr(value, part)
        right = getattr(right, part)
    element = WorstElement(
        argument=name,
        index=tuple(int(i) for i in np.unravel_index(worst, output.shape)),
        found=value,
        expected=right,
        tolerance=allowed,
        wrong_count=count,
        count=got.size,
    )
    return excess, element


def _flat(array: Array) -> Array:
    """Return an array in one dimension, and booleans as bytes: a kernel may have written one that
    is neither 0 nor 1."""
    flat = array.reshape(-1)
    return flat.view(np.uint8) if flat.dtype == np.bool_ else flat


def _number(element: Any) -> Any:
    """Return an element as a number of Python's; a longdouble is rounded."""
    if element.dtype.kind in "iu":
        return int(element)
    return _wide(element).item()


def _within(output: Array, expected: Array, rtol: float = 0.0, atol: float = 0.0) -> Flags:
    """Say which elements are right, NaN where NaN is expected as well."""
    if output.dtype.kind in "iu" and expected.dtype.kind in "iu" and atol < 1:
        return np.equal(output, expected)  # a float64 does not hold all integers of 64 bits
    with np.errstate(invalid="ignore", over="ignore"):
        return np.isclose(_wide(output), _wide(expected), rtol, atol, equal_nan=True)


def _excess(output: Array, expected: Array, rtol: float, atol: float) -> Floats:
    """Return how far wrong elements are outside their tolerance.

    NaN in place of a number, or an infinity, is farther off than any finite number.
    """
    want = _wide(expected)
    with np.errstate(invalid="ignore", over="ignore"):
        beyond: Floats = np.abs(_wide(output) - want) - atol - rtol * np.abs(want)
    beyond[~np.isfinite(beyond)] = np.inf
    return beyond


def _wide(array: Array) -> Array:
    wide = np.complex128 if array.dtype.kind == "c" else np.float64
    return array.astype(wide, copy=False)
