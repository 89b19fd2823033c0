"""The interface of all ways to choose a candidate for an input: learn, then select."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from harness.core.arrays import Flags, Indices
from harness.dispatch.matrix import Matrix

if TYPE_CHECKING:
    import pandas as pd


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
