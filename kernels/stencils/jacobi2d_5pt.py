"""One step of Jacobi's method: each point becomes the mean of itself and its four neighbours."""

import numpy as np

from harness.stencil import Node, at, grid, map2d, pad2d, slide2d, user_fun

jacobi = user_fun("jacobi", "n w c e s", "0.2f * (n + w + c + e + s)")


def step(window: Node) -> Node:
    """Compute the new value of a point from its 3 x 3 neighbourhood."""
    points = ((0, 1), (1, 0), (1, 1), (1, 2), (2, 1))
    return jacobi(*(at(x, at(y, window)) for y, x in points))


def expression(size: int) -> Node:
    """Compute the whole grid."""
    image = grid("image", size, size)
    return map2d(step, slide2d(3, 1, pad2d(1, 1, "clamp", image)))


def reference(arguments: dict[str, np.ndarray]) -> np.ndarray:
    """Compute the same with numpy."""
    a = np.pad(arguments["image"].astype(np.float64), 1, mode="edge")
    return 0.2 * (a[:-2, 1:-1] + a[1:-1, :-2] + a[1:-1, 1:-1] + a[1:-1, 2:] + a[2:, 1:-1])
