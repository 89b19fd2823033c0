"""What the learners learn, computed for many inputs at once exactly as generated code does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from harness.core.arrays import Flags, Indices
from harness.core.records import Config
from harness.dispatch.choice import Choice, DispatchProgram
from harness.dispatch.portfolio import first_applicable
from harness.dispatch.training_set import TrainingSet
from harness.models.encoding.columns import Column, TunedRange, column_values, tuned_range

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class LearntSelector:
    """A choice among the candidates of a matrix.

    `portfolio` has the indices of the candidates that `choice` distinguishes, the best single one
    first; outside of the tuned range the first of them that applies is taken.
    """

    columns: tuple[Column, ...]
    tuned: tuple[TunedRange, ...]
    portfolio: tuple[int, ...]
    choice: Choice

    def indices(self, features: pd.DataFrame, applies: Flags) -> Indices:
        """Choose as the program does: a candidate's index for each input, -1 where no member of
        the portfolio applies."""
        members = np.array(self.portfolio)
        orders = self.choice.orders(column_values(self.columns, features))
        chosen = first_applicable(members[orders], applies)
        static = first_applicable(members[None, :], applies)
        is_chosen = tuned_rows(self.tuned, features) & (chosen >= 0)
        indices: Indices = np.where(is_chosen, chosen, static)
        return indices

    def program(
        self,
        candidates: Sequence[Config],
        guards: Mapping[Config, tuple[str, ...]] | None = None,
    ) -> DispatchProgram:
        """Make the library-free program; `guards` has each candidate's constraints over
        features."""
        configs = tuple(candidates[index] for index in self.portfolio)
        columns, choice = self.choice.with_used_columns(self.columns)
        return DispatchProgram(
            columns=columns,
            tuned=self.tuned,
            portfolio=configs,
            choice=choice,
            guards=tuple((guards or {}).get(config, ()) for config in configs),
        )


def make_selector(
    training: TrainingSet, columns: Sequence[Column], members: Sequence[int], choice: Choice
) -> LearntSelector:
    """Make the selector that was learnt from a training set, whose inputs are the tuned range.
    Members that are chosen for none of its inputs are left out, except stand-ins."""
    orders = np.array(members)[choice.orders(training.values)]
    needed = set(first_applicable(orders, training.matrix.applies).tolist()) | training.stand_ins
    kept = [index for index, member in enumerate(members) if member in needed]
    return LearntSelector(
        tuple(columns),
        tuned_range(training.matrix.features),
        tuple(members[index] for index in kept),
        choice.among(kept),
    )


def tuned_rows(tuned: Sequence[TunedRange], features: pd.DataFrame) -> Flags:
    """Say which inputs lie in the tuned range, shape (inputs,)."""
    inside = np.ones(len(features), dtype=bool)
    for one in tuned:
        series = features[one.feature]
        if one.words:
            inside &= series.isin(one.words).to_numpy()
        else:
            inside &= ((series >= one.low) & (series <= one.high)).to_numpy()
    return inside
