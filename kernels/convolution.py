"""Host side of ``convolution.cl``: a separable convolution with zero borders, in two launches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from scipy import ndimage

from harness.host import Launch

COLUMN_THREADS = 8
MAX_RADIUS = 16
"""Both as the source defines them."""


def arguments(
    features: Mapping[str, int], rng: np.random.Generator
) -> dict[str, np.ndarray | np.generic]:
    """Image, buffer and result (height, width), weights (2 radius + 1,), sizes.

    Raises ValueError for a radius that the kernel's local arrays have no room for.

    All values are float32 and positive, so that no sum cancels towards zero and an error
    relative to it says something about the kernel. The weights of rows and columns differ, and
    neither are symmetric: a pass with the other's weights, or with mirrored ones, shows.
    """
    width, height, radius = features["width"], features["height"], features["radius"]
    if not 0 <= radius <= MAX_RADIUS:
        raise ValueError(f"the radius must lie between 0 and {MAX_RADIUS}, but got {radius}")
    length = 2 * radius + 1
    return {
        "image": rng.random((height, width), dtype=np.float32),
        "row_weights": _weights(length, rng),
        "column_weights": _weights(length, rng),
        # An element that a pass forgets stays NaN, which equals nothing.
        "buffer": np.full((height, width), np.nan, dtype=np.float32),
        "result": np.full((height, width), np.nan, dtype=np.float32),
        "width": np.int32(width),
        "height": np.int32(height),
        "radius": np.int32(radius),
    }


def reference(arguments: Mapping[str, np.ndarray | np.generic]) -> dict[str, np.ndarray]:
    """Both passes, shape (height, width), computed in float64.

    The buffer between them is verified as well, so that an error is found in the pass that makes
    it.
    """
    image = np.asarray(arguments["image"], dtype=np.float64)
    buffer = _convolved(image, arguments["row_weights"], axis=1)
    return {"buffer": buffer, "result": _convolved(buffer, arguments["column_weights"], axis=0)}


def launches(
    arguments: Mapping[str, np.ndarray | np.generic], config: Mapping[str, int]
) -> Iterator[Launch]:
    """The pass along the rows, then the one along the columns."""
    width, height = int(arguments["width"]), int(arguments["height"])
    row_tile, tile_width = config["ROW_TILE_W"], config["COLUMN_TILE_W"]
    yield Launch(
        "rows",
        group=(row_tile, 1),
        grid=(_ceil_div(width, row_tile), height),
        arguments=("image", "row_weights", "buffer", "width", "radius"),
    )
    yield Launch(
        "columns",
        group=(tile_width, COLUMN_THREADS),
        grid=(_ceil_div(width, tile_width), _ceil_div(height, config["COLUMN_TILE_H"])),
        arguments=("buffer", "column_weights", "result", "width", "height", "radius"),
    )


def _weights(length: int, rng: np.random.Generator) -> np.ndarray:
    """Weights of about 1 / length each, so that the passes keep the image's size."""
    return ((0.5 + rng.random(length)) / length).astype(np.float32)


def _convolved(image: np.ndarray, weights: np.ndarray | np.generic, axis: int) -> np.ndarray:
    convolved: np.ndarray = ndimage.convolve1d(
        image, np.asarray(weights, dtype=np.float64), axis=axis, mode="constant", cval=0.0
    )
    return convolved


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)
