"""One step of Jacobi's method with all nine points of the neighbourhood."""

import numpy as np

from harness.stencil import Node, at, grid, map2d, pad2d, slide2d, user_fun

jacobi = user_fun(
    "jacobi", "nw n ne w c e sw s se", "(nw + n + ne + w + c + e + sw + s + se) / 9.0f"
)


def step(window: Node) -> Node:
    """Compute the mean of the 3 x 3 neighbourhood."""
    return jacobi(*(at(x, at(y, window)) for y in range(3) for x in range(3)))


def expression(size: int) -> Node:
    """Compute the whole grid."""
    image = grid("image", size, size)
    return map2d(step, slide2d(3, 1, pad2d(1, 1, "clamp", image)))


def reference(arguments: dict[str, np.ndarray]) -> np.ndarray:
    """Compute the same with numpy."""
    a = np.pad(arguments["image"].astype(np.float64), 1, mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(a, (3, 3))
    return np.asarray(np.einsum("ijkl->ij", windows)) / 9
