"""SHOC's stencil2d: nine points, each times a weight from an input array."""

import numpy as np

from harness.stencil import Node, get, grid, join, map2d, pad2d, reduce_, slide2d, user_fun, zip_

multiply_add = user_fun("multiply_add", "sum x weight", "sum + x * weight")


def expression(size: int) -> Node:
    """Compute the whole grid."""
    image, weights = grid("image", size, size), grid("weights", 9)

    def weighted(window: Node) -> Node:
        return reduce_(
            lambda sum_, pair: multiply_add(sum_, get(0, pair), get(1, pair)),
            0.0,
            zip_(join(window), weights),
        )

    return map2d(weighted, slide2d(3, 1, pad2d(1, 1, "clamp", image)))


def reference(arguments: dict[str, np.ndarray]) -> np.ndarray:
    """Compute the same with numpy."""
    a = np.pad(arguments["image"].astype(np.float64), 1, mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(a, (3, 3))
    return np.asarray(np.einsum("ijkl,kl->ij", windows, arguments["weights"].reshape(3, 3)))
