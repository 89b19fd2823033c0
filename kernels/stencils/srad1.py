"""The diffusion coefficient of SRAD, which takes speckles out of ultrasound images."""

import numpy as np

from harness.stencil import Node, at, grid, map2d, pad2d, slide2d, user_fun

Q0_SQUARED = 0.053

# The differences to the four neighbours, over the point: the sum of their squares, and their sum.
squares = user_fun(
    "squares",
    "n w c e s",
    "((n - c) * (n - c) + (s - c) * (s - c) + (w - c) * (w - c) + (e - c) * (e - c)) / (c * c)",
)
laplacian = user_fun("laplacian", "n w c e s", "(n + s + w + e - 4.0f * c) / c")
variation = user_fun(
    "variation", "g l", "(0.5f * g - 0.0625f * (l * l)) / ((1.0f + 0.25f * l) * (1.0f + 0.25f * l))"
)
coefficient = user_fun(
    "coefficient",
    "q",
    f"fmin(fmax(1.0f / (1.0f + (q - {Q0_SQUARED}f) / ({Q0_SQUARED}f * (1.0f + {Q0_SQUARED}f))),"
    " 0.0f), 1.0f)",
)


def point(window: Node) -> Node:
    """Compute the coefficient of a point from its 3 x 3 neighbourhood."""
    points = ((0, 1), (1, 0), (1, 1), (1, 2), (2, 1))
    around = [at(x, at(y, window)) for y, x in points]
    return coefficient(variation(squares(*around), laplacian(*around)))


def expression(size: int) -> Node:
    """Compute the whole image."""
    image = grid("image", size, size)
    return map2d(point, slide2d(3, 1, pad2d(1, 1, "clamp", image)))


def reference(arguments: dict[str, np.ndarray]) -> np.ndarray:
    """Compute the same with numpy."""
    a = np.pad(arguments["image"].astype(np.float64), 1, mode="edge")
    c = a[1:-1, 1:-1]
    differences = [x - c for x in (a[:-2, 1:-1], a[2:, 1:-1], a[1:-1, :-2], a[1:-1, 2:])]
    g, flow = sum(d * d for d in differences) / (c * c), sum(differences) / c
    q = (0.5 * g - flow * flow / 16) / (1 + 0.25 * flow) ** 2
    return np.clip(1 / (1 + (q - Q0_SQUARED) / (Q0_SQUARED * (1 + Q0_SQUARED))), 0, 1)
