"""Host side of ``gemm.cu`` and ``gemm.cl``: the product of two matrices."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

_LARGEST = 2


def arguments(
    features: Mapping[str, int], rng: np.random.Generator
) -> dict[str, np.ndarray | np.generic]:
    """The kernel's arguments in its order: a (m, k), b (k, n), c (m, n), and the sizes.

    The elements are whole numbers from -2 to 2: sums of their products are exact in float32, in
    whatever order they are added.
    """
    m, n, k = features["m"], features["n"], features["k"]
    if k * _LARGEST**2 > 2**24:
        raise ValueError(f"k must be at most {2**24 // _LARGEST**2}, but got {k}")
    return {
        "a": rng.integers(-_LARGEST, _LARGEST, (m, k), np.int8, True).astype(np.float32),
        "b": rng.integers(-_LARGEST, _LARGEST, (k, n), np.int8, True).astype(np.float32),
        "c": np.zeros((m, n), np.float32),
        "m": np.int32(m),
        "n": np.int32(n),
        "k": np.int32(k),
    }


def reference(arguments: Mapping[str, np.ndarray | np.generic]) -> dict[str, np.ndarray]:
    """The expected product, which is exact in float32."""
    return {"c": np.asarray(arguments["a"]) @ np.asarray(arguments["b"])}
