"""What a dispatcher must beat: the default, the best single configuration, the nearest input's."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial import KDTree

from harness.core.arrays import Array, Flags, Indices
from harness.dispatch.matrix import Matrix
from harness.dispatch.portfolio import first_applicable, static_order
from harness.models.columns import is_number

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Fixed:
    """Candidates in one order for all inputs."""

    order: tuple[int, ...]

    def indices(self, features: pd.DataFrame, applies: Flags) -> Indices:
        """The first that applies."""
        return first_applicable(np.array(self.order)[None, :], applies)


@dataclass(frozen=True)
class Static:
    """The best single candidate."""

    name: str = "best static"

    def fit(self, matrix: Matrix, seed: int) -> Fixed:
        """All candidates, the best first; the others stand in where it does not apply."""
        return Fixed(static_order(matrix))


@dataclass(frozen=True)
class Default:
    """The default of the space; the best static candidate where it does not apply."""

    name: str = "default"

    def fit(self, matrix: Matrix, seed: int) -> Fixed:
        """Nothing is learnt. Raises ValueError where the matrix has no default."""
        if matrix.default is None:
            raise ValueError("the matrix has no default candidate")
        return Fixed((matrix.default, *static_order(matrix)))


@dataclass(frozen=True)
class NearestSelector:
    """Inputs as points, and of each the candidates, the fastest first."""

    scale: Scale
    inputs: KDTree
    orders: Indices

    def indices(self, features: pd.DataFrame, applies: Flags) -> Indices:
        """The fastest of the nearest input that applies."""
        nearest = self.inputs.query(self.scale.points(features))[1]
        return first_applicable(self.orders[nearest], applies)


@dataclass(frozen=True)
class Nearest:
    """What was fastest on the most alike input: what a person does with a table of results."""

    name: str = "nearest tuned input"

    def fit(self, matrix: Matrix, seed: int) -> NearestSelector:
        """Remember all inputs."""
        scale = Scale.of(matrix.features)
        logs = matrix.log_slowdown
        orders = np.argsort(np.where(np.isnan(logs), np.inf, logs), axis=1, kind="stable")
        return NearestSelector(scale, KDTree(scale.points(matrix.features)), orders)


@dataclass(frozen=True)
class Scale:
    """Features as points: sizes by their logarithms, a word by a column for each one that there
    was, and all features of the same spread."""

    logs: tuple[str, ...]
    numbers: tuple[str, ...]
    words: tuple[tuple[str, Hashable], ...]
    spreads: Array

    @classmethod
    def of(cls, features: pd.DataFrame) -> Scale:
        """The scale on which these inputs have a deviation of 1 in each feature."""
        names = [str(name) for name in features.columns]
        numeric = [name for name in names if is_number(features[name])]
        logs = tuple(name for name in numeric if (features[name] > 0).all())
        others = tuple(name for name in numeric if name not in logs)
        words = tuple(
            (name, word)
            for name in names
            if name not in numeric
            for word in sorted(set(features[name]), key=str)
        )
        unscaled = cls(logs, others, words, np.ones(len(logs) + len(others) + len(words)))
        spreads = unscaled.points(features).std(axis=0)
        return cls(logs, others, words, np.where(spreads > 0, spreads, 1.0))

    def points(self, features: pd.DataFrame) -> Array:
        """Shape (inputs, columns)."""
        least = np.finfo(np.float64).tiny
        columns = [
            *(
                np.log2(np.maximum(features[name].to_numpy(np.float64), least))
                for name in self.logs
            ),
            *(features[name].to_numpy(np.float64) for name in self.numbers),
            *((features[name] == word).to_numpy(np.float64) for name, word in self.words),
        ]
        points: Array = np.column_stack([np.empty((len(features), 0)), *columns]) / self.spreads
        return points
