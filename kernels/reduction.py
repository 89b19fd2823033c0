"""Host side of ``reduction.cl``: the sum of n integers, in as many launches as it takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from harness.host import Launch

SMALLEST_SPAN = 32
"""Elements that a block adds in the smallest configuration: a launch leaves no larger part."""

ITEMS = 2
"""Elements that a thread loads where a space does not tune them, as the source defines it."""

LARGEST_VALUE = 100

SCRATCH = ("even", "odd")
"""Partial sums of an earlier run must not stand in for those that a wrong kernel leaves out."""


def arguments(
    features: Mapping[str, int], rng: np.random.Generator
) -> dict[str, np.ndarray | np.generic]:
    """values (n,), two buffers for partial sums, total (1,), n; all of int32.

    The values lie between 1 and at most 100, and so low that n of them fit an int32. None is 0:
    one that is lost or added twice changes the total, which must be met exactly.
    """
    n = features["n"]
    largest = min(LARGEST_VALUE, np.iinfo(np.int32).max // n)
    first = _ceil_div(n, SMALLEST_SPAN)
    return {
        "values": rng.integers(1, largest, size=n, dtype=np.int32, endpoint=True),
        "even": np.full(first, -1, dtype=np.int32),
        "odd": np.full(_ceil_div(first, SMALLEST_SPAN), -1, dtype=np.int32),
        "total": np.full(1, -1, dtype=np.int32),
        "n": np.int32(n),
    }


def reference(arguments: Mapping[str, np.ndarray | np.generic]) -> dict[str, np.ndarray]:
    """The expected output: the total, shape (1,), summed in int64."""
    return {"total": np.array([np.sum(arguments["values"], dtype=np.int64)])}


def launches(
    arguments: Mapping[str, np.ndarray | np.generic], config: Mapping[str, int]
) -> Iterator[Launch]:
    """Launches that each leave one sum a block, until one block is enough."""
    block, items = config["BLOCK"], config.get("ITEMS", ITEMS)
    source, spare, other = "values", "even", "odd"
    count = int(arguments["n"])
    while True:
        blocks = _ceil_div(count, block * items)
        target = spare if blocks > 1 else "total"
        yield Launch("reduce", (block,), (blocks,), (source, target, np.int32(count)))
        if blocks == 1:
            return
        source, spare, other = target, other, target
        count = blocks


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)
