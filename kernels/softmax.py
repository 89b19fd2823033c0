"""Host side of ``softmax.cu`` and ``softmax.cl``: the softmax of each row, in half precision."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np


def arguments(
    features: Mapping[str, int], rng: np.random.Generator
) -> dict[str, np.ndarray | np.generic]:
    """The kernel's arguments in its order: x and y (rows, columns) in float16, and the columns."""
    shape = features["rows"], features["columns"]
    return {
        "x": rng.standard_normal(shape, np.float32).astype(np.float16),
        "y": np.zeros(shape, np.float16),
        "columns": np.int32(shape[1]),
    }


def reference(arguments: Mapping[str, np.ndarray | np.generic]) -> dict[str, np.ndarray]:
    """The expected rows in float32, which is 2^13 times as exact as the output."""
    x = np.asarray(arguments["x"]).astype(np.float32)
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return {"y": powers / powers.sum(axis=1, keepdims=True, dtype=np.float64).astype(np.float32)}
