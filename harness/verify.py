"""Is a result right? Compared element by element with the reference, by tolerances of its dtype."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.records import Verdict, WorstElement

Array = npt.NDArray[Any]

# (rtol, atol) where the space names none: about 100 roundings of the format, or exact.
_BY_DTYPE: dict[str, tuple[float, float]] = {
    "float16": (1e-1, 1e-3),
    "float32": (1e-5, 1e-6),
    "float64": (1e-13, 1e-14),
    "complex64": (1e-5, 1e-6),
    "complex128": (1e-13, 1e-14),
}


@dataclass(frozen=True)
class Tolerance:
    """An element is right when |found - expected| <= atol + rtol * |expected|.

    None means the default of the output's dtype; integers and booleans must be equal.
    """

    rtol: float | None = None
    atol: float | None = None

    def of(self, dtype: np.dtype[Any]) -> tuple[float, float]:
        """rtol and atol for an output of this dtype."""
        rtol, atol = _BY_DTYPE.get(dtype.name, (0.0, 0.0))
        return (
            rtol if self.rtol is None else self.rtol,
            atol if self.atol is None else self.atol,
        )


def verify(
    found: Mapping[str, Array], expected: Mapping[str, Array], tolerance: Tolerance
) -> Verdict:
    """Compare every expected output; the verdict holds the worst element of all, if one is wrong.

    NaN equals only NaN, infinities only themselves. An output's shape must be the expected
    one; ValueError otherwise, since that is the host module's mistake.
    """
    worst: WorstElement | None = None
    for name, want in expected.items():
        other = _worst_element(name, found[name], want, tolerance)
        if other is not None and (worst is None or _excess(other) > _excess(worst)):
            worst = other
    return Verdict(worst)


def _worst_element(
    name: str, found: Array, expected: Array, tolerance: Tolerance
) -> WorstElement | None:
    if found.shape != expected.shape:
        raise ValueError(
            f"reference() gives `{name}` the shape {expected.shape}, but the argument "
            f"has {found.shape}"
        )
    rtol, atol = tolerance.of(found.dtype)
    exact = found.dtype.kind in "iub" and expected.dtype.kind in "iub" and not (rtol or atol)
    if exact:
        wrong = found != expected
        if not wrong.any():
            return None
    want, got = _wide(expected), _wide(found)
    with np.errstate(invalid="ignore", over="ignore"):
        allowed = atol + rtol * np.abs(want)
        error = np.abs(got - want)
        if not exact:
            wrong = ~((error <= allowed) & np.isfinite(want)) & ~_same(got, want)
    if not wrong.any():
        return None
    # NaN where a number belongs, or an infinity, is worse than any finite error.
    badness = np.where(wrong, np.nan_to_num(error - allowed, nan=np.inf, posinf=np.inf), -np.inf)
    index = np.unravel_index(int(np.argmax(badness)), found.shape)
    return WorstElement(
        argument=name,
        index=tuple(int(i) for i in index),
        found=float(np.real(got[index])),
        expected=float(np.real(want[index])),
        tolerance=float(allowed[index]),
        wrong_count=int(wrong.sum()),
        count=int(wrong.size),
    )


def _wide(array: Array) -> Array:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _same(found: Array, expected: Array) -> npt.NDArray[np.bool_]:
    """Equal, with NaN equal to NaN."""
    same: npt.NDArray[np.bool_] = (found == expected) | (np.isnan(found) & np.isnan(expected))
    return same


def _excess(worst: WorstElement) -> float:
    error = abs(worst.found - worst.expected)
    return error - worst.tolerance if np.isfinite(error) else float("inf")
