"""Look up many points among the rows of a recording at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from harness.space import PointArray


class RowIndex:
    """Distinct points, shape (rows, parameters), sorted by one 64-bit key each.

    The key is a sum with random weights modulo 2^64, which differs for every row. A match of keys
    is then checked.
    """

    def __init__(self, rows: PointArray) -> None:
        self._rows, rng = rows, np.random.default_rng(0)
        self._keys = np.zeros(0, dtype=np.uint64)
        while len(self._keys) < len(rows):
            # Odd, so that no two values of one parameter share a key.
            self._weights = rng.integers(2**63, size=rows.shape[1], dtype=np.uint64) * 2 + 1
            self._keys, self._order = np.unique(self._keys_of(rows), return_index=True)

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
