"""Host side of ``scalarprod.cu`` and ``scalarprod.cl``: scalar products of pairs of vectors."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

_LARGEST = 4


def arguments(
    features: Mapping[str, int], rng: np.random.Generator
) -> dict[str, np.ndarray | np.generic]:
    """The kernel's arguments in its order: a, b (vectors, length), product (vectors,), sizes.

    The elements are the whole numbers from 1 to 4. A sum of their products is exact in float32
    up to 2^24, in whatever order it is added: up to a length of 2^20, where rounding would else
    hide a lost element.
    """
    vectors, length = features["vectors"], features["length"]
    if length * _LARGEST**2 > 2**24:
        raise ValueError(f"the length must be at most {2**24 // _LARGEST**2}, but got {length}")
    shape = (vectors, length)
    return {
        "a": rng.integers(1, _LARGEST, shape, endpoint=True).astype(np.float32),
        "b": rng.integers(1, _LARGEST, shape, endpoint=True).astype(np.float32),
        # A pair that the kernel forgets stays NaN, which equals nothing.
        "product": np.full(vectors, np.nan, dtype=np.float32),
        "vectors": np.int32(vectors),
        "length": np.int32(length),
    }


def reference(arguments: Mapping[str, np.ndarray | np.generic]) -> dict[str, np.ndarray]:
    """The expected output: the scalar product of each pair, shape (vectors,), in float64."""
    a, b = np.asarray(arguments["a"]), np.asarray(arguments["b"])
    return {"product": np.einsum("vi,vi->v", a, b, dtype=np.float64)}
