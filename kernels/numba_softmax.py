"""The softmax of each row of a matrix, by Numba's loops or by NumPy's whole arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numba import njit, prange

FRAMEWORK = "numba"


def arguments(features: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
    """The rows x, and y for their softmax, both (rows, columns) in float32."""
    shape = features["rows"], features["columns"]
    return {"x": rng.standard_normal(shape, np.float32), "y": np.zeros(shape, np.float32)}


def reference(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The expected rows in float64."""
    x = arguments["x"].astype(np.float64)
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return {"y": powers / powers.sum(axis=1, keepdims=True)}


def build(
    config: Mapping[str, Any], features: Mapping[str, int]
) -> Callable[[Mapping[str, Any]], None]:
    """Loops over tiles of TILE rows: compiled ones, or NumPy's over whole arrays."""
    tile = config["TILE"]
    if config["IMPL"] == "numpy":
        return lambda arguments: _whole(arguments["x"], arguments["y"], tile)
    compiled = _compiled(config["PARALLEL"], config["FASTMATH"])
    return lambda arguments: compiled(arguments["x"], arguments["y"], tile)


def _whole(x: Any, y: Any, tile: int) -> None:
    for begin in range(0, len(x), tile):
        part, out = x[begin : begin + tile], y[begin : begin + tile]
        np.subtract(part, part.max(axis=1, keepdims=True), out=out)
        np.exp(out, out=out)
        out /= out.sum(axis=1, keepdims=True)


@lru_cache
def _compiled(parallel: bool, fastmath: bool) -> Any:
    """Compile once for all inputs and tiles."""

    def loops(x: Any, y: Any, tile: int) -> None:
        rows, columns = x.shape
        for number in prange((rows + tile - 1) // tile):
            for row in range(number * tile, min(rows, (number + 1) * tile)):
                largest, total = x[row, 0], np.float32(0)
                for column in range(1, columns):
                    largest = max(largest, x[row, column])
                for column in range(columns):
                    power = np.exp(x[row, column] - largest)
                    y[row, column] = power
                    total += power
                factor = np.float32(1) / total
                for column in range(columns):
                    y[row, column] *= factor

    return njit(parallel=parallel, fastmath=fastmath)(loops)
