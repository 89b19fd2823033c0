"""The memory of a model-guided search: its results as arrays, and candidates to measure next."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import scipy  # its parts load when they are first used

from harness.core.records import Config
from harness.models.config_points import ConfigEncoder
from harness.models.transfer_prior import Prior, TransferData
from harness.space import PointArray, Space

Array = npt.NDArray[np.float64]

MOST_POINTS = 256
"""The results of a sample; the time of a fit grows with their cube."""

_BEST_POINTS = 96  # of those, the fastest; the others are drawn uniformly
_MOST_CENTRES = 64  # points whose neighbours are kept
_WORKING = 3  # results with a time, which a model needs


@dataclass(frozen=True)
class Sample:
    """The results that a model is fitted to: points, times, and the prior's expectations."""

    points: Array
    times_s: Array
    expected: Array


class Memory:
    """A space and the results of a run on it."""

    def __init__(
        self, space: Space, rng: np.random.Generator, transfer: TransferData | None
    ) -> None:
        self.space = space
        self.rng = rng
        self.encoder = ConfigEncoder(space.parameters)
        self.prior = None
        if transfer is not None and len(self.encoder.groups):  # several configurations
            self.prior = Prior(space, self.encoder, transfer, rng)
        self._positions = space.encode_all([])
        self._points = self.encoder.points(self._positions)
        self._times_s = np.empty(0)
        self._expected = np.empty(0)
        self._seen: set[bytes] = set()  # measured, or asked for
        self._neighbours = lru_cache(_MOST_CENTRES)(self._find_neighbours)

    def add(self, config: Config, time_s: float) -> None:
        """Note a result; infinity is a failure."""
        positions = self.space.encode_all([config])
        self._positions = np.concatenate([self._positions, positions])
        self._points = np.concatenate([self._points, self.encoder.points(positions)])
        self._times_s = np.append(self._times_s, time_s)
        self._expected = np.append(self._expected, self.expect(positions))
        self._seen.add(positions.tobytes())

    @property
    def count(self) -> int:
        """The number of results."""
        return len(self._times_s)

    def await_results(self, positions: PointArray) -> None:
        """Drop pending points from the candidates."""
        self._seen.update(position.tobytes() for position in positions)

    def expect(self, positions: PointArray) -> Array:
        """Return the prior's expectations of points; 0 without a prior."""
        if self.prior is None:
            return np.zeros(len(positions))
        return self.prior.expect(positions)

    def is_enough(self, count: int) -> bool:
        """Whether there are `count` results, enough of them with a time for a model."""
        working = int(np.isfinite(self._times_s).sum())
        return self.count >= count and working >= _WORKING

    def fastest(self, count: int) -> PointArray:
        """Return the fastest points."""
        order = np.argsort(self._times_s, kind="stable")
        points: PointArray = self._positions[order[:count]]
        return points

    def neighbours(self, position: PointArray) -> PointArray:
        """Return the neighbours of a point (see Space.neighbour_points); the fastest are asked for
        again and again."""
        return self._neighbours(tuple(position.tolist()))

    def _find_neighbours(self, position: tuple[int, ...]) -> PointArray:
        return self.space.neighbour_points(np.array(position, self._positions.dtype))

    def sample(self) -> Sample:
        """Return all results while they are few, later the fastest and some others. Their order is
        random, since hyper-parameters are fitted to the first."""
        rows = self.rng.permutation(self.count)
        if self.count > MOST_POINTS:
            best = np.argpartition(self._times_s, _BEST_POINTS)[:_BEST_POINTS]
            others = rows[~np.isin(rows, best)][: MOST_POINTS - _BEST_POINTS]
            rows = self.rng.permutation(np.concatenate([best, others]))
        return Sample(self._points[rows], self._times_s[rows], self._expected[rows])

    def unseen(self, points: Iterable[PointArray]) -> PointArray:
        """Return the distinct points among these that are neither measured nor pending."""
        positions = np.concatenate([self.space.encode_all([]), *points])
        width = positions.dtype.itemsize * positions.shape[1]
        keys = np.ascontiguousarray(positions).view(f"V{width}").ravel().tolist()
        row_of = {key: row for row, key in enumerate(keys)}
        rows = [row for key, row in row_of.items() if key not in self._seen]
        return positions[rows]

    def remote(self, positions: PointArray) -> PointArray:
        """Return the unseen point farthest from its nearest seen one, if there is one.

        This is a maximin design (Johnson, Moore, Ylvisaker, "Minimax and Maximin Distance
        Designs", 1990).
        """
        unseen = self.unseen([positions])
        if len(unseen) < 2 or not self._seen:
            return unseen[:1]
        seen = np.array([np.frombuffer(key, positions.dtype) for key in self._seen])
        here = self.encoder.points(unseen)
        there = self.encoder.points(seen)
        nearest = scipy.spatial.distance.cdist(here, there).min(axis=1)
        return unseen[[nearest.argmax()]]

    def favourites(self, count: int) -> PointArray:
        """Return the unseen points that the prior expects to be the fastest, in that order."""
        if self.prior is None:
            return self.space.encode_all([])
        leaders = self.prior.leaders[: len(self._seen) + count]
        return self.unseen([leaders])[:count]
