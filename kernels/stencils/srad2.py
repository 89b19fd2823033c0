"""One step of SRAD on an image: six grids, two of them with windows."""

import numpy as np

from harness.stencil import Node, at, get, grid, map2d, pad2d, slide2d, user_fun, zip2d

LAMBDA = 0.5

diffuse = user_fun(
    "diffuse",
    "image c c_s c_e n s w e",
    f"image + {0.25 * LAMBDA}f * (c * n + c_s * s + c * w + c_e * e)",
)


def step(point: Node) -> Node:
    """Compute a point's next value from image and coefficient around it, and four differences."""
    image, c = get(0, point), get(1, point)
    differences = [get(part, point) for part in range(2, 6)]
    return diffuse(
        at(1, at(1, image)), at(1, at(1, c)), at(1, at(2, c)), at(2, at(1, c)), *differences
    )


def expression(size: int) -> Node:
    """Compute the whole image."""
    windows = [
        slide2d(3, 1, pad2d(1, 1, "clamp", grid(name, size, size)))
        for name in ("image", "coefficient")
    ]
    differences = [grid(name, size, size) for name in ("north", "south", "west", "east")]
    return map2d(step, zip2d(*windows, *differences))


def reference(arguments: dict[str, np.ndarray]) -> np.ndarray:
    """Compute the same with numpy."""
    x = {name: array.astype(np.float64) for name, array in arguments.items()}
    c = np.pad(x["coefficient"], 1, mode="edge")
    own, south, east = c[1:-1, 1:-1], c[2:, 1:-1], c[1:-1, 2:]
    flow = own * (x["north"] + x["west"]) + south * x["south"] + east * x["east"]
    return x["image"] + 0.25 * LAMBDA * flow
