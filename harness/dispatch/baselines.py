"""What a dispatcher must beat: the default, the best single configuration, the nearest input's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial import KDTree

from harness.core.arrays import Flags, Indices
from harness.dispatch.matrix import Matrix
from harness.dispatch.portfolio import first_applicable, static_order
from harness.models.encoding.inputs import InputScale

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

    scale: InputScale
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
        scale = InputScale.of(matrix.features)
        logs = matrix.log_slowdown
        orders = np.argsort(np.where(np.isnan(logs), np.inf, logs), axis=1, kind="stable")
        return NearestSelector(scale, KDTree(scale.points(matrix.features)), orders)
