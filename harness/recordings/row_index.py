"""Look up many points among the rows of a recording at once."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from harness.space import PointArray


class RowIndex:
    """Distinct points, shape (rows, parameters), sorted by one 64-bit key each.

    The key is the point as a number in mixed radix. Where that needs more bits, it is a sum with
    random weights modulo 2^64, which differs for every row; a match of keys is then checked.
    """

    def __init__(self, rows: PointArray, extents: Sequence[int]) -> None:
        """`extents` has the number of values of each parameter."""
        self._rows = rows
        rng = np.random.default_rng(0)
        self._weights = _radix(extents)
        if math.prod(extents) >= 2**64:
            self._weights = _random_weights(rng, len(extents))
            while len(np.unique(self._keys_of(rows))) < len(rows):
                self._weights = _random_weights(rng, len(extents))
        keys = self._keys_of(rows)
        self._order = np.argsort(keys)
        self._keys = keys[self._order]

    def contain(self, points: PointArray) -> npt.NDArray[np.bool_]:
        """Say of each point, shape (points, parameters), whether it is one of the rows."""
        if not len(self._rows):
            return np.zeros(len(points), dtype=bool)
        nearest = np.searchsorted(self._keys, self._keys_of(points))
        found = self._rows[self._order[np.minimum(nearest, len(self._keys) - 1)]]
        same: npt.NDArray[np.bool_] = (found == points).all(axis=1)
        return same

    def _keys_of(self, points: PointArray) -> npt.NDArray[np.uint64]:
        keys: npt.NDArray[np.uint64] = points.astype(np.uint64) @ self._weights
        return keys


def _radix(extents: Sequence[int]) -> npt.NDArray[np.uint64]:
    weights = [math.prod(extents[axis + 1 :]) % 2**64 for axis in range(len(extents))]
    return np.array(weights, dtype=np.uint64)


def _random_weights(rng: np.random.Generator, count: int) -> npt.NDArray[np.uint64]:
    # Odd, so that no two values of one parameter share a key.
    halves = rng.integers(2**63, size=count, dtype=np.uint64)
    return np.array(2 * halves + 1, dtype=np.uint64)
