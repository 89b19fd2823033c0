"""One step of a chip's temperature, from its neighbours, its power and the cooling air."""

import numpy as np

from harness.stencil import Node, at, get, grid, map2d, pad2d, slide2d, user_fun, zip2d

STEP, PER_X, PER_Y, PER_Z, AMBIENT = 0.5, 0.1, 0.15, 0.0125, 80.0

heat = user_fun(
    "heat",
    "power n w c e s",
    f"c + {STEP}f * (power + (n + s - 2.0f * c) * {PER_Y}f + (e + w - 2.0f * c) * {PER_X}f"
    f" + ({AMBIENT}f - c) * {PER_Z}f)",
)


def step(point: Node) -> Node:
    """Compute a cell's next temperature from its power and the temperatures around it."""
    window = get(1, point)
    points = ((0, 1), (1, 0), (1, 1), (1, 2), (2, 1))
    return heat(get(0, point), *(at(x, at(y, window)) for y, x in points))


def expression(size: int) -> Node:
    """Compute the whole chip."""
    power, temperature = grid("power", size, size), grid("temperature", size, size)
    windows = slide2d(3, 1, pad2d(1, 1, "clamp", temperature))
    return map2d(step, zip2d(power, windows))


def reference(arguments: dict[str, np.ndarray]) -> np.ndarray:
    """Compute the same with numpy."""
    a = np.pad(arguments["temperature"].astype(np.float64), 1, mode="edge")
    c = a[1:-1, 1:-1]
    vertical = (a[:-2, 1:-1] + a[2:, 1:-1] - 2 * c) * PER_Y
    horizontal = (a[1:-1, :-2] + a[1:-1, 2:] - 2 * c) * PER_X
    return c + STEP * (arguments["power"] + vertical + horizontal + (AMBIENT - c) * PER_Z)
