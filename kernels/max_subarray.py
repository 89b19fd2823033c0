"""Host side of ``max_subarray.cl``: the largest sum of neighbouring elements, in two launches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from harness.host import Launch

MOST_BLOCKS = 1024
"""The largest value of the parameter BLOCKS."""

RECORD = 4
"""Integers of a record: total, best prefix, best suffix, best."""

LARGEST_VALUE = 15
MOST_VALUES = np.iinfo(np.int32).max // LARGEST_VALUE
"""So many of the largest value, 143,165,576 and so more than 2^27, still sum to an int32."""

_CHUNK = 1 << 22
"""Elements that the reference looks at together: their int64 sums take 32 MiB."""

SCRATCH = ("partial",)
"""Records of an earlier run must not stand in for those that a wrong kernel leaves out."""


def arguments(
    features: Mapping[str, int], rng: np.random.Generator
) -> dict[str, np.ndarray | np.generic]:
    """values (n,), partial (1024, 4), result (4,), n; all of int32. n is at most MOST_VALUES.

    The values lie between -15 and 15, both signs alike often: the best range of such a walk is
    long and crosses most threads' ranges. None is 0: one that is lost changes the total, which
    is verified beside the best, wherever the best range lies.
    """
    n = features["n"]
    if n > MOST_VALUES:
        raise ValueError(f"n must be {MOST_VALUES} at most: every sum fits an int32; but got {n}")
    return {
        "values": _values(n, rng),
        "partial": np.full((MOST_BLOCKS, RECORD), -1, dtype=np.int32),
        "result": np.full(RECORD, -1, dtype=np.int32),
        "n": np.int32(n),
    }


def reference(arguments: Mapping[str, np.ndarray | np.generic]) -> dict[str, np.ndarray]:
    """The expected record, shape (4,), by Kadane's scan in int64.

    A range's sum is the difference of two prefix sums: the best that ends at an element is the
    prefix sum there less the lowest one before it. The scan goes chunk by chunk.
    """
    values = np.asarray(arguments["values"])
    total = lowest = highest = best = 0
    for start in range(0, values.size, _CHUNK):
        sums = total + np.cumsum(values[start : start + _CHUNK], dtype=np.int64)
        lows = np.minimum(np.minimum.accumulate(sums), lowest)
        best = max(best, int(np.max(sums - lows)))
        total, lowest, highest = int(sums[-1]), int(lows[-1]), max(highest, int(np.max(sums)))
    return {"result": np.array([total, highest, total - lowest, best], dtype=np.int64)}


def launches(
    arguments: Mapping[str, np.ndarray | np.generic], config: Mapping[str, int]
) -> Iterator[Launch]:
    """A record from every block; then one block joins them."""
    blocks, block = config["BLOCKS"], config["BLOCK"]
    yield Launch("ranges", (block,), (blocks,), ("values", "partial", "n"))
    yield Launch("finish", (block,), (1,), ("partial", "result", np.int32(blocks)))


def _values(n: int, rng: np.random.Generator) -> np.ndarray:
    """Whole numbers from -15 to 15 without 0, drawn as bytes: they are many."""
    drawn = rng.integers(-LARGEST_VALUE, LARGEST_VALUE, size=n, dtype=np.int8)
    drawn[drawn >= 0] += 1
    return drawn.astype(np.int32)
