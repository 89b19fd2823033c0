"""Host side of ``matmul.cl`` and ``matrix.cl``: the dense matrix product C = A B, row-major."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np


def arguments(
    features: Mapping[str, int], rng: np.random.Generator
) -> dict[str, np.ndarray | np.generic]:
    """The kernels' arguments in their order: A (hA, wA), B (wA, wB), C (hA, wB), hA, wA, wB.

    A and B are float32, uniform in [0.5, 1.5). With values of both signs C would cancel towards
    zero, and an error relative to C would say nothing about the kernel. No factor is near zero
    either: each of the wA products of an element of C weighs 0.25 / wA of it or more.
    """
    height, inner, width = features["hA"], features["wA"], features["wB"]
    half = np.float32(0.5)
    return {
        "A": rng.random((height, inner), dtype=np.float32) + half,
        "B": rng.random((inner, width), dtype=np.float32) + half,
        # An element that the kernel forgets stays NaN, which equals nothing.
        "C": np.full((height, width), np.nan, dtype=np.float32),
        "hA": np.int32(height),
        "wA": np.int32(inner),
        "wB": np.int32(width),
    }


def reference(arguments: Mapping[str, np.ndarray | np.generic]) -> dict[str, np.ndarray]:
    """The expected output: C = A B, shape (hA, wB), computed in float64."""
    a = np.asarray(arguments["A"], dtype=np.float64)
    b = np.asarray(arguments["B"], dtype=np.float64)
    return {"C": a @ b}
