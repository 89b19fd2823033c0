"""A Gaussian blur of 5 x 5 points, weighted by whole numbers over 273."""

import numpy as np

from harness.stencil import Node, at, grid, map2d, pad2d, slide2d, user_fun

WEIGHTS = np.array(
    [[1, 4, 7, 4, 1], [4, 16, 26, 16, 4], [7, 26, 41, 26, 7], [4, 16, 26, 16, 4], [1, 4, 7, 4, 1]]
)
NAMES = [f"p{y}{x}" for y in range(5) for x in range(5)]

blur = user_fun(
    "blur",
    " ".join(NAMES),
    f"({' + '.join(f'{w}.0f * {p}' for w, p in zip(WEIGHTS.flat, NAMES, strict=True))}) / 273.0f",
)


def point(window: Node) -> Node:
    """Compute the blurred value of a point from its 5 x 5 neighbourhood."""
    return blur(*(at(x, at(y, window)) for y in range(5) for x in range(5)))


def expression(size: int) -> Node:
    """Compute the whole image."""
    image = grid("image", size, size)
    return map2d(point, slide2d(5, 1, pad2d(2, 2, "clamp", image)))


def reference(arguments: dict[str, np.ndarray]) -> np.ndarray:
    """Compute the same with numpy."""
    a = np.pad(arguments["image"].astype(np.float64), 2, mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(a, (5, 5))
    return np.asarray(np.einsum("ijkl,kl->ij", windows, WEIGHTS / 273))
