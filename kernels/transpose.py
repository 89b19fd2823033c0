"""Host side of ``transpose.cl`` and ``transpose_coalesced.cl``: a matrix and its transpose."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np


def arguments(
    features: Mapping[str, int], rng: np.random.Generator
) -> dict[str, np.ndarray | np.generic]:
    """The kernels' arguments in their order: in (height, width), out (width, height), sizes.

    The elements are uniform in [0, 1). Among 2^24 possible values few are alike, so that an
    element in the wrong place is a wrong element.
    """
    width, height = features["width"], features["height"]
    return {
        "in": rng.random((height, width), dtype=np.float32),
        # An element that the kernel forgets stays NaN, which equals nothing.
        "out": np.full((width, height), np.nan, dtype=np.float32),
        "width": np.int32(width),
        "height": np.int32(height),
    }


def reference(arguments: Mapping[str, np.ndarray | np.generic]) -> dict[str, np.ndarray]:
    """The expected output: the transpose, shape (width, height), bit for bit."""
    return {"out": np.asarray(arguments["in"]).T.copy()}
