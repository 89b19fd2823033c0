"""Host side of ``mvmul.cl``: what the kernel is given, and what it must return.

The matrix-vector product y = A x, with A of m rows and n columns, row-major.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

LONGEST_SUM = 2**20
"""Products of at most 16 whose sum float32 surely holds: it counts to 2^24 without a gap."""


def arguments(
    features: Mapping[str, int], rng: np.random.Generator
) -> dict[str, np.ndarray | np.generic]:
    """The kernel's arguments in its order: A (m, n), x (n,), y (m,), m, n.

    A and x are float32 and hold whole numbers from 1 to 4, n at most 2^20: all sums of their
    products are whole numbers up to 2^24, which float32 holds exactly, so that y is the same in
    whatever order a kernel adds. Rounding would otherwise hide a lost column of a wide matrix.
    """
    m, n = features["m"], features["n"]
    if n > LONGEST_SUM:
        raise ValueError(f"n must be 2**20 at most, so that float32 sums are exact, but got {n}")
    return {
        "A": _whole_numbers((m, n), rng),
        "x": _whole_numbers((n,), rng),
        # A row that the kernel forgets stays NaN, which equals nothing.
        "y": np.full(m, np.nan, dtype=np.float32),
        "m": np.int32(m),
        "n": np.int32(n),
    }


def reference(arguments: Mapping[str, np.ndarray | np.generic]) -> dict[str, np.ndarray]:
    """The expected outputs by argument name: y = A x, shape (m,), computed in float64."""
    matrix = np.asarray(arguments["A"], dtype=np.float64)
    vector = np.asarray(arguments["x"], dtype=np.float64)
    return {"y": matrix @ vector}


def _whole_numbers(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """From 1 to 4, drawn as bytes: they are many. Without 0, which would hide a lost product."""
    return rng.integers(1, 4, size=shape, dtype=np.int8, endpoint=True).astype(np.float32)
