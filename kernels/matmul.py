"""Host side of ``matmul.cl`` and ``matrix.cl``: the dense matrix product C = A B, row-major."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

LONGEST_SUM = 2**20
"""Products of at most 16 whose sum float32 surely holds: it counts to 2^24 without a gap."""


def arguments(
    features: Mapping[str, int], rng: np.random.Generator
) -> dict[str, np.ndarray | np.generic]:
    """The kernels' arguments in their order: A (hA, wA), B (wA, wB), C (hA, wB), hA, wA, wB.

    A and B are float32 and hold whole numbers from 1 to 4, wA at most 2^20: all sums of their
    products are whole numbers up to 2^24, which float32 holds exactly, so that C is the same in
    whatever order a kernel adds, with whatever flags it was compiled.
    """
    height, inner, width = features["hA"], features["wA"], features["wB"]
    if inner > LONGEST_SUM:
        raise ValueError(f"wA must be 2**20 at most, so that float32 sums are exact, not {inner}")
    return {
        "A": _whole_numbers((height, inner), rng),
        "B": _whole_numbers((inner, width), rng),
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


def _whole_numbers(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """From 1 to 4, drawn as bytes: they are many. Without 0, which would hide a lost product."""
    return rng.integers(1, 4, size=shape, dtype=np.int8, endpoint=True).astype(np.float32)
