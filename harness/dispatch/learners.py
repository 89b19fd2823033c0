"""The interface of all ways to choose a candidate for an input: learn, then select. And the
baselines that a dispatcher must beat: the default, the best single configuration, and that of the
nearest tuned input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from harness.core.arrays import Flags, Indices
from harness.dispatch.matrix import Matrix
from harness.dispatch.portfolio import first_applicable, static_order
from harness.models.encoding.columns import InputScale

if TYPE_CHECKING:
    import pandas as pd
    from scipy.spatial import KDTree


class Selector(Protocol):
    """What a learner has learnt."""

    def indices(self, features: pd.DataFrame, applies: Flags) -> Indices:
        """Choose a candidate's index for each input, shape (inputs,).

        `features` has the columns of the matrix that was learnt from, `applies` the shape (inputs,
        candidates). At least one candidate applies to each input, and one of these is chosen, or -1
        if the selector knows none of them.
        """
        ...


class Learner(Protocol):
    """Learns from some inputs what to choose on others."""

    @property
    def name(self) -> str:
        """Its name in the verdict's table."""
        ...

    def fit(self, matrix: Matrix, seed: int) -> Selector:
        """Learn from the inputs of a matrix; the same seed learns the same."""
        ...


@dataclass(frozen=True)
class Fixed:
    """The same order of candidates for all inputs."""

    order: tuple[int, ...]

    def indices(self, features: pd.DataFrame, applies: Flags) -> Indices:
        """Take the first that applies."""
        return first_applicable(np.array(self.order)[None, :], applies)


@dataclass(frozen=True)
class Static:
    """The best single candidate."""

    name: str = "best static"

    def fit(self, matrix: Matrix, seed: int) -> Fixed:
        """Sort all candidates, best first; the others stand in where it does not apply."""
        return Fixed(static_order(matrix))


@dataclass(frozen=True)
class Default:
    """The space's default; the best static candidate where it does not apply."""

    name: str = "default"

    def fit(self, matrix: Matrix, seed: int) -> Fixed:
        """Learn nothing. Raises ValueError where the matrix has no default."""
        if matrix.default is None:
            raise ValueError("the matrix has no default candidate")
        return Fixed((matrix.default, *static_order(matrix)))


@dataclass(frozen=True)
class NearestSelector:
    """Inputs as points, and the candidates of each, fastest first."""

    scale: InputScale
    inputs: KDTree
    orders: Indices

    def indices(self, features: pd.DataFrame, applies: Flags) -> Indices:
        """Take the fastest candidate of the nearest input that applies."""
        nearest = self.inputs.query(self.scale.points(features))[1]
        return first_applicable(self.orders[nearest], applies)


@dataclass(frozen=True)
class Nearest:
    """The fastest candidate of the most similar input, as a person looks it up in a table."""

    name: str = "nearest tuned input"

    def fit(self, matrix: Matrix, seed: int) -> NearestSelector:
        """Remember all inputs."""
        from scipy.spatial import KDTree  # here: it takes time to load

        scale = InputScale.of(matrix.features)
        logs = matrix.log_slowdown
        orders = np.argsort(np.where(np.isnan(logs), np.inf, logs), axis=1, kind="stable")
        return NearestSelector(scale, KDTree(scale.points(matrix.features)), orders)
