"""Host side of ``mvmul.cl``: what the kernel is given, and what it must return.

The matrix-vector product y = A x, with A of m rows and n columns, row-major.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np


def arguments(
    features: Mapping[str, int], rng: np.random.Generator
) -> dict[str, np.ndarray | np.generic]:
    """The kernel's arguments in its order: A (m, n), x (n,), y (m,), m, n.

    A and x are float32, uniform in [0, 1). With values of both signs y would cancel towards
    zero, and an error relative to y would say nothing about the kernel; with positive terms
    y equals the sum of magnitudes that rounding errors are proportional to.
    """
    m, n = features["m"], features["n"]
    return {
        "A": rng.random((m, n), dtype=np.float32),
        "x": rng.random(n, dtype=np.float32),
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
