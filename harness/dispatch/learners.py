"""Ways to choose a candidate for an input: what is judged, ours and others' alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from harness.core.arrays import Flags, Indices
from harness.dispatch.matrix import Matrix

if TYPE_CHECKING:
    import pandas as pd


class Selector(Protocol):
    """What a learner has learnt."""

    def indices(self, features: pd.DataFrame, applies: Flags) -> Indices:
        """The index of the chosen candidate for each input, shape (inputs,).

        `features` has the columns of the matrix that was learnt from, `applies` the shape
        (inputs, candidates); one candidate or more applies to each input, and one of these is
        chosen, or -1 where the learner knows none of them.
        """
        ...


class Learner(Protocol):
    """Learns from some inputs what to choose on others."""

    @property
    def name(self) -> str:
        """As the verdict's table has it."""
        ...

    def fit(self, matrix: Matrix, seed: int) -> Selector:
        """Learn from the inputs of a matrix; equal seeds learn the same."""
        ...
