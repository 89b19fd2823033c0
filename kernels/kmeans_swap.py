"""Host side of ``kmeans_swap.cl``: a table of points by features, turned over."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np


def arguments(
    features: Mapping[str, int], rng: np.random.Generator
) -> dict[str, np.ndarray | np.generic]:
    """The kernel's arguments in its order: in (points, features), out (features, points), sizes.

    The elements are float32, uniform in [0, 1): nearly all differ from each other, so that one
    in another's place shows.
    """
    points, count = features["points"], features["features"]
    return {
        "in": rng.random((points, count), dtype=np.float32),
        # An element that the kernel forgets stays NaN, which equals nothing.
        "out": np.full((count, points), np.nan, dtype=np.float32),
        "m": np.int32(points),
        "n": np.int32(count),
    }


def reference(arguments: Mapping[str, np.ndarray | np.generic]) -> dict[str, np.ndarray]:
    """The expected output: the transpose of `in`, shape (features, points), exact."""
    return {"out": np.ascontiguousarray(np.transpose(arguments["in"]))}
