"""Layer normalization of each row of a matrix, by Numba's loops or by NumPy's whole arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numba import njit, prange

FRAMEWORK = "numba"
EPSILON = np.float32(1e-5)


def arguments(features: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
    """The rows x, y for the normalized ones, and the weight and bias of each column."""
    shape = features["rows"], features["columns"]
    return {
        "x": rng.standard_normal(shape, np.float32) + np.float32(1),
        "weight": rng.uniform(0.5, 2, shape[1]).astype(np.float32),
        "bias": rng.standard_normal(shape[1], np.float32),
        "y": np.zeros(shape, np.float32),
    }


def reference(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The expected rows in float64."""
    x = arguments["x"].astype(np.float64)
    centred = x - x.mean(axis=1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + EPSILON)
    return {"y": scaled * arguments["weight"] + arguments["bias"]}


def build(
    config: Mapping[str, Any], features: Mapping[str, int]
) -> Callable[[Mapping[str, Any]], None]:
    """Loops over tiles of TILE rows: compiled ones, or NumPy's over whole arrays."""
    tile = config["TILE"]
    function: Any = _whole if config["IMPL"] == "numpy" else _compiled(config["PARALLEL"])
    return lambda arguments: function(*arguments.values(), tile)


def _whole(x: Any, weight: Any, bias: Any, y: Any, tile: int) -> None:
    for begin in range(0, len(x), tile):
        part, out = x[begin : begin + tile], y[begin : begin + tile]
        np.subtract(part, part.mean(axis=1, keepdims=True), out=out)
        variance = np.einsum("ij,ij->i", out, out) / np.float32(x.shape[1])
        out *= (1 / np.sqrt(variance + EPSILON))[:, None]
        out *= weight
        out += bias


@lru_cache
def _compiled(parallel: bool) -> Any:
    """Compile once for all inputs and tiles."""

    def loops(x: Any, weight: Any, bias: Any, y: Any, tile: int) -> None:
        rows, columns = x.shape
        for number in prange((rows + tile - 1) // tile):
            for row in range(number * tile, min(rows, (number + 1) * tile)):
                total = np.float32(0)
                for column in range(columns):
                    total += x[row, column]
                mean, squares = total / np.float32(columns), np.float32(0)
                for column in range(columns):
                    squares += (x[row, column] - mean) ** 2
                scale = np.float32(1) / np.sqrt(squares / np.float32(columns) + EPSILON)
                for column in range(columns):
                    centred = (x[row, column] - mean) * scale
                    y[row, column] = centred * weight[column] + bias[column]

    return njit(parallel=parallel, fastmath=True)(loops)
