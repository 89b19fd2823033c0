"""The inverse gradient of an image, from four neighbours."""

import numpy as np

from harness.stencil import Node, at, grid, map2d, pad2d, slide2d, user_fun

gradient = user_fun(
    "gradient",
    "n w c e s",
    "10.0f + 1.0f / sqrt(0.0001f + (c - n) * (c - n) + (c - s) * (c - s) + (c - w) * (c - w)"
    " + (c - e) * (c - e))",
)


def point(window: Node) -> Node:
    """Compute a point's value from its 3 x 3 neighbourhood."""
    points = ((0, 1), (1, 0), (1, 1), (1, 2), (2, 1))
    return gradient(*(at(x, at(y, window)) for y, x in points))


def expression(size: int) -> Node:
    """Compute the whole image."""
    image = grid("image", size, size)
    return map2d(point, slide2d(3, 1, pad2d(1, 1, "clamp", image)))


def reference(arguments: dict[str, np.ndarray]) -> np.ndarray:
    """Compute the same with numpy."""
    a = np.pad(arguments["image"].astype(np.float64), 1, mode="edge")
    c, others = a[1:-1, 1:-1], (a[:-2, 1:-1], a[2:, 1:-1], a[1:-1, :-2], a[1:-1, 2:])
    return 10 + 1 / np.sqrt(0.0001 + sum((c - other) ** 2 for other in others))
