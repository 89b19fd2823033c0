"""Host side of ``matmul_1.cl`` to ``matmul_4.cl``: the product C = A B of square matrices."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np


def arguments(
    features: Mapping[str, int], rng: np.random.Generator
) -> dict[str, np.ndarray | np.generic]:
    """The kernels' arguments in their order: A, B, C, each (n, n) and row-major, and n.

    A and B are float32, uniform in [0.5, 1.5). With values of both signs C would cancel towards
    zero, and an error relative to C would say nothing about the kernel. No factor is near zero
    either: each of the n products of an element of C weighs 0.25 / n of it or more.
    """
    n = features["n"]
    half = np.float32(0.5)
    return {
        "A": rng.random((n, n), dtype=np.float32) + half,
        "B": rng.random((n, n), dtype=np.float32) + half,
        # An element that the kernel forgets stays NaN, which equals nothing.
        "C": np.full((n, n), np.nan, dtype=np.float32),
        "n": np.int32(n),
    }


def reference(arguments: Mapping[str, np.ndarray | np.generic]) -> dict[str, np.ndarray]:
    """The expected output: C = A B, shape (n, n), computed in float64."""
    a = np.asarray(arguments["A"], dtype=np.float64)
    b = np.asarray(arguments["B"], dtype=np.float64)
    return {"C": a @ b}
