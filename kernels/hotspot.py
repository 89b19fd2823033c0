"""Host side of ``hotspot.cl``: a chip's temperatures, and the launches that advance them.

    t' = t + step (power + (north + south - 2 t) per_ry + (east + west - 2 t) per_rx
                   + (ambient - t) per_rz)

where a neighbour past the border is the cell itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from harness.host import Launch

# Rodinia's chip, in metres, W/(m K) and J/(m^3 K), cut into cells as its grid of 512 x 512 is.
# There the cells shrink as the grid grows, and above 1024 x 1024 the explicit scheme diverges;
# here the chip grows. The cells are a little higher than wide, so that the directions differ.
_THICKNESS, _CONDUCTIVITY, _HEAT_CAPACITY = 0.0005, 100.0, 1.75e6
_WIDTH, _HEIGHT = 0.016 / 512, 0.016 / 400
_MAX_POWER_DENSITY, _PRECISION, _FACTOR = 3.0e6, 0.001, 0.5
_AMBIENT = 80.0

_COEFFICIENTS = ("step", "per_rx", "per_ry", "per_rz", "ambient")

SCRATCH = ("buffer",)
"""Temperatures of an earlier run must not stand in for those that a wrong kernel leaves out."""


def arguments(
    features: Mapping[str, int], rng: np.random.Generator
) -> dict[str, np.ndarray | np.generic]:
    """The grids (rows, cols), their sizes, the iterations of a run and the coefficients.

    Temperatures lie between 320 and 345 as Rodinia's do, and are positive, so that a relative
    tolerance is meaningful. A cell dissipates up to 1 W, far more than Rodinia's: a few tenths
    of a degree an iteration, as much as its neighbours bring, so that its loss shows.
    """
    rows, cols = features["rows"], features["cols"]
    temperature = 320 + 25 * rng.random((rows, cols), dtype=np.float32)
    never = np.full((rows, cols), np.nan, dtype=np.float32)
    return {
        "temperature": temperature,
        "buffer": never,
        # A cell that the last launch forgets stays NaN, which equals nothing.
        "result": never.copy(),
        "power": rng.random((rows, cols), dtype=np.float32),
        "rows": np.int32(rows),
        "cols": np.int32(cols),
        "iterations": np.int32(features["iterations"]),
        **_coefficients(),
    }


def _coefficients() -> dict[str, np.generic]:
    """The time step over a cell's capacity, and what its resistances conduct, per Rodinia."""
    capacity = _FACTOR * _HEAT_CAPACITY * _THICKNESS * _WIDTH * _HEIGHT
    time_step = _PRECISION / (_MAX_POWER_DENSITY / (_FACTOR * _THICKNESS * _HEAT_CAPACITY))
    return {
        "step": np.float32(time_step / capacity),
        "per_rx": np.float32(2 * _CONDUCTIVITY * _THICKNESS * _HEIGHT / _WIDTH),
        "per_ry": np.float32(2 * _CONDUCTIVITY * _THICKNESS * _WIDTH / _HEIGHT),
        "per_rz": np.float32(_CONDUCTIVITY * _HEIGHT * _WIDTH / _THICKNESS),
        "ambient": np.float32(_AMBIENT),
    }


def launches(
    arguments: Mapping[str, np.ndarray | np.generic], config: Mapping[str, int]
) -> Iterator[Launch]:
    """Up to PYRAMID iterations each, between two grids in turn, so that the last writes `result`.

    The program has two grids, its temperatures and a buffer. The first of them is two arrays
    here, `temperature` before and `result` after, so that a run leaves its input as it was.
    """
    rows, cols = int(arguments["rows"]), int(arguments["cols"])
    left, pyramid = int(arguments["iterations"]), config["PYRAMID"]
    width, height = config["X"] - 2 * pyramid, config["Y"] - 2 * pyramid
    source = "temperature"
    while left > 0:
        launches_after = (left - 1) // pyramid
        target = "buffer" if launches_after % 2 else "result"
        iterations = np.int32(min(left, pyramid))
        yield Launch(
            "hotspot",
            group=(config["X"], config["Y"]),
            grid=(-(-cols // width), -(-rows // height)),
            arguments=(source, target, "power", "rows", "cols", iterations, *_COEFFICIENTS),
        )
        source, left = target, left - pyramid


def reference(arguments: Mapping[str, np.ndarray | np.generic]) -> dict[str, np.ndarray]:
    """The expected output: the temperatures after all iterations, in float64."""
    t = np.asarray(arguments["temperature"], dtype=np.float64)
    power = np.asarray(arguments["power"], dtype=np.float64)
    step, per_rx, per_ry, per_rz, ambient = (float(arguments[name]) for name in _COEFFICIENTS)
    for _ in range(int(arguments["iterations"])):
        bordered = np.pad(t, 1, mode="edge")
        vertical = np.diff(bordered[:, 1:-1], n=2, axis=0)
        horizontal = np.diff(bordered[1:-1], n=2, axis=1)
        t = t + step * (power + vertical * per_ry + horizontal * per_rx + (ambient - t) * per_rz)
    return {"result": t}
