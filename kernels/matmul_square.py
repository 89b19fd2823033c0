"""Host side of ``matmul_1.cl`` to ``matmul_4.cl``: the product C = A B of square matrices."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

LONGEST_SUM = 2**20
"""Products of at most 16 whose sum float32 surely holds: it counts to 2^24 without a gap."""


def arguments(
    features: Mapping[str, int], rng: np.random.Generator
) -> dict[str, np.ndarray | np.generic]:
    """The kernels' arguments in their order: A, B, C, each (n, n) and row-major, and n.

    A and B are float32 and hold whole numbers from 1 to 4, n at most 2^20: all sums of their
    products are whole numbers up to 2^24, which float32 holds exactly, so that C is the same in
    whatever order a kernel adds, with whatever flags it was compiled.
    """
    n = features["n"]
    if n > LONGEST_SUM:
        raise ValueError(f"n must be 2**20 at most, so that float32 sums are exact, not {n}")
    return {
        "A": _whole_numbers((n, n), rng),
        "B": _whole_numbers((n, n), rng),
        # An element that the kernel forgets stays NaN, which equals nothing.
        "C": np.full((n, n), np.nan, dtype=np.float32),
        "n": np.int32(n),
    }


def reference(arguments: Mapping[str, np.ndarray | np.generic]) -> dict[str, np.ndarray]:
    """The expected output: C = A B, shape (n, n), computed in float64."""
    a = np.asarray(arguments["A"], dtype=np.float64)
    b = np.asarray(arguments["B"], dtype=np.float64)
    return {"C": a @ b}


def _whole_numbers(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """From 1 to 4, drawn as bytes: they are many. Without 0, which would hide a lost product."""
    return rng.integers(1, 4, size=shape, dtype=np.int8, endpoint=True).astype(np.float32)
