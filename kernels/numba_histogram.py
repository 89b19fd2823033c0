"""The histogram of bytes, with a histogram for each part of the data, which are added up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numba import njit, prange

FRAMEWORK = "numba"
BINS = 256


def arguments(features: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
    """The data, of which a share in percent has one value, and the count of each value."""
    data = rng.integers(0, BINS, features["n"], np.uint8)
    data[rng.random(features["n"]) < features["equal"] / 100] = rng.integers(BINS)
    return {"data": data, "counts": np.zeros(BINS, np.int64)}


def reference(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The expected counts."""
    return {"counts": np.bincount(arguments["data"], minlength=BINS)}


def build(
    config: Mapping[str, Any], features: Mapping[str, int]
) -> Callable[[Mapping[str, Any]], None]:
    """PARTS histograms, each with COPIES that take turns: equal neighbours then do not wait for
    each other."""
    compiled, parts = _compiled(config["PARALLEL"], config["COPIES"]), config["PARTS"]
    return lambda arguments: compiled(arguments["data"], arguments["counts"], parts)


@lru_cache
def _compiled(parallel: bool, copies: int) -> Any:
    """Compile once for all inputs and parts."""

    def loops(data: Any, counts: Any, parts: int) -> None:
        own = np.zeros((parts, copies, BINS), np.int64)
        size = (len(data) + parts - 1) // parts
        for part in prange(parts):
            for index in range(part * size, min(len(data), (part + 1) * size)):
                own[part, index % copies, data[index]] += 1
        for value in range(BINS):
            total = 0
            for part in range(parts):
                for copy in range(copies):
                    total += own[part, copy, value]
            counts[value] = total

    return njit(parallel=parallel)(loops)
