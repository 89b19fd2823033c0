"""A prior for transfer learning: slowdowns expected from measurements of other inputs and devices.

A forest of extremely randomised trees (Geurts, Ernst, Wehenkel, "Extremely Randomized Trees",
Machine Learning 63, 2006) learns the slowdown of configurations. It is grown to single
measurements without bootstrap, so it reproduces its training data and interpolates between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.core.records import Input
from harness.models.columns import InputScale
from harness.models.config_points import ConfigEncoder
from harness.models.gaussian_process import logs_of
from harness.space import PointArray, Space

MOST_ROWS = 10_000
"""That the forest learns from; of more, the fastest and uniform others."""

_TREES = 30
_FASTEST_ROWS = 2_000
_LEADERS = 1_000


@dataclass(frozen=True)
class SourceTask:
    """The measurements of one other input, or of one other device.

    `positions` are the positions of the configurations' values in the target space, shape
    (configurations, parameters); `times_s` is infinite for failures. `problem` is the input that
    was measured; None if it is the target's own, or unknown.
    """

    positions: PointArray
    times_s: Array
    problem: Input | None = None

    @property
    def slowdowns(self) -> Array:
        """Logarithms of times over the best time; a failure counts as the slowest that worked."""
        logs = logs_of(self.times_s)
        slowdowns: Array = logs - logs.min()
        return slowdowns


@dataclass(frozen=True)
class TransferData:
    """The source tasks, at least one, from which a search on `problem` learns before it begins."""

    problem: Input
    sources: tuple[SourceTask, ...]


class Prior:
    """Predicts the logarithms of configurations' slowdowns on an input."""

    def __init__(
        self, space: Space, encoder: ConfigEncoder, data: TransferData, rng: np.random.Generator
    ) -> None:
        """Fit the forest; `encoder` is the space's."""
        from sklearn.ensemble import ExtraTreesRegressor  # here: it takes a second to load

        self._encoder = encoder
        # Most axes are products and ratios; trees predict as well without them.
        self._axes = np.flatnonzero(encoder.relative_lengths[encoder.groups] <= 1)
        self._problem, *others = _inputs_as_rows(data)
        positions, slowdowns, features = _gathered(data.sources, others)
        rows = _some_rows(slowdowns, rng)
        columns = np.hstack([self._columns(positions[rows]), features[rows]])
        forest = ExtraTreesRegressor(_TREES, random_state=int(rng.integers(2**32)))
        self._trees = [tree.tree_ for tree in forest.fit(columns, slowdowns[rows]).estimators_]
        self.leaders = self._ranked(space, positions[rows])

    def expect(self, positions: PointArray) -> Array:
        """Predict the logarithms of slowdowns, shape (configurations,)."""
        points = self._columns(positions)
        problem = np.broadcast_to(self._problem, (len(points), len(self._problem)))
        columns = np.hstack([points, problem]).astype(np.float32)
        # For a few hundred rows, scikit-learn's own loop over the trees takes ten times as long.
        total: Array = sum(tree.predict(columns)[:, 0] for tree in self._trees)
        return total / len(self._trees)

    def _columns(self, positions: PointArray) -> Array:
        """Encode configurations by the parameters' own axes."""
        return self._encoder.points(positions)[:, self._axes]

    def _ranked(self, space: Space, positions: PointArray) -> PointArray:
        """Sort the legal configurations by their expected time, and keep the fastest."""
        distinct = np.unique(positions, axis=0)
        ranked = distinct[np.argsort(self.expect(distinct), kind="stable")]
        return ranked[space.are_legal(ranked)][:_LEADERS]


def _inputs_as_rows(data: TransferData) -> Array:
    """Encode the target input and those of the sources, shape (1 + sources, columns); no columns
    if one of the sources has no input."""
    known = [source.problem for source in data.sources if source.problem is not None]
    if len(known) < len(data.sources):
        return np.empty((1 + len(data.sources), 0))
    return InputScale.rows([data.problem, *known])


def _gathered(
    sources: Sequence[SourceTask], inputs: Sequence[Array]
) -> tuple[PointArray, Array, Array]:
    """Gather configurations, slowdowns and columns of features. Rows that look alike to the
    forest, such as one configuration on two devices, are averaged."""
    positions = np.concatenate([source.positions for source in sources])
    slowdowns = np.concatenate([source.slowdowns for source in sources])
    features = np.repeat(inputs, [len(source.positions) for source in sources], axis=0)
    keys = np.hstack([positions, features])
    _, first, which = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    counts = np.bincount(which.ravel())
    return positions[first], np.bincount(which.ravel(), slowdowns) / counts, features[first]


def _some_rows(slowdowns: Array, rng: np.random.Generator) -> npt.NDArray[np.intp]:
    rows: npt.NDArray[np.intp] = np.argsort(slowdowns, kind="stable")
    if len(rows) <= MOST_ROWS:
        return rows
    others = rng.choice(rows[_FASTEST_ROWS:], MOST_ROWS - _FASTEST_ROWS, replace=False)
    return np.concatenate([rows[:_FASTEST_ROWS], others])
