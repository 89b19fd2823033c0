"""What G-ADAPT's model chooses for inputs that were left out, and how good it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.core.arrays import Array, Flags, Indices
from harness.core.errors import UsageError
from harness.core.records import Value
from harness.models.folds import group_numbers, grouped_folds
from harness.models.gadapt.model import fit
from harness.models.starchart.axes import is_numeric, must_have, numbers, values_of

if TYPE_CHECKING:
    import pandas as pd

_NEAR = 1.05


def nearest(
    predicted: pd.DataFrame, candidates: pd.DataFrame, applies: Flags | None = None
) -> tuple[Indices, Flags]:
    """Find for each prediction the index of the nearest candidate that applies, the first of
    equally near ones, and whether that is the prediction itself. Each parameter counts by the
    number of its values in between, as a share of all; a word that differs counts 1."""
    must_have(predicted, [str(name) for name in candidates.columns])
    distance = np.zeros((len(predicted), len(candidates)))
    for name in candidates.columns:
        distance += value_distances(predicted[name], candidates[name])
    if applies is not None:
        distance = np.where(applies, distance, np.inf)
    indices: Indices = distance.argmin(axis=1)
    return indices, distance[np.arange(len(distance)), indices] == 0


def value_distances(predicted: pd.Series[Any], candidates: pd.Series[Any]) -> Array:
    """Compute the distances in one parameter, shape (predictions, candidates); see `nearest`."""
    if is_numeric(predicted) and is_numeric(candidates):
        known = np.unique(np.concatenate([numbers(predicted), numbers(candidates)]))
        one, other = (np.searchsorted(known, numbers(c)) for c in (predicted, candidates))
        gaps: Array = np.abs(one[:, None] - other) / max(1, len(known) - 1)
        return gaps
    codes: dict[Value, int] = {}
    one, other = (
        np.array([codes.setdefault(word, len(codes)) for word in values_of(c)])
        for c in (predicted, candidates)
    )
    differ: Array = (one[:, None] != other).astype(np.float64)
    return differ


@dataclass(frozen=True)
class Judgement:
    """How well the model chose for inputs it had not seen.

    `inputs` has a row an input: the indices of the `chosen` and of the `best` candidate, whether
    the prediction was a `candidate` itself or only near the chosen one, and the `fraction` of the
    best performance that it reaches, from 0, where the chosen one failed, to 1.
    """

    inputs: pd.DataFrame

    @property
    def accuracy(self) -> float:
        """The share of inputs for which it chose the very best configuration, as published; any of
        equally good ones counts."""
        return float((self.inputs["fraction"] == 1).mean())

    @property
    def mean_fraction(self) -> float:
        """The geometric mean of the fractions."""
        fraction = numbers(self.inputs["fraction"])
        return 0.0 if fraction.min() == 0 else math.exp(float(np.log(fraction).mean()))

    @property
    def worst_fraction(self) -> float:
        """The least fraction."""
        return float(self.inputs["fraction"].min())

    @property
    def within_5_percent(self) -> float:
        """The share of inputs that take at most 5 % longer than with the best."""
        return float((self.inputs["fraction"] >= 1 / _NEAR).mean())

    @property
    def not_candidates(self) -> float:
        """The share of predictions that were not candidates, and were replaced by the nearest
        one."""
        return float((~self.inputs["candidate"]).mean())

    def __str__(self) -> str:
        return (
            f"the best configuration on {self.accuracy:.1%} of {len(self.inputs)} inputs; "
            f"{self.mean_fraction:.1%} of the best performance in geometric mean, "
            f"{self.worst_fraction:.1%} at worst; within 5 % on {self.within_5_percent:.1%}; "
            f"{self.not_candidates:.1%} of the predictions were not candidates and were replaced "
            "by the nearest one"
        )


def judge(
    features: pd.DataFrame,
    candidates: pd.DataFrame,
    time_s: Array,
    applies: Flags | None = None,
    folds: int | None = None,
    groups: Sequence[Any] | None = None,
) -> Judgement:
    """Learn from all inputs but some, choose for these, and repeat for all: one input at a time as
    published, or in `folds` folds; inputs of one of the `groups` stay together.

    `candidates` has a row a configuration; `time_s` has the shape (inputs, candidates), infinity
    for a failure; `applies`, of the same shape, says what may be chosen, by default everything.

    Raises UsageError for fewer than two inputs, or where nothing worked on one.
    """
    import pandas as pd

    if time_s.shape != (len(features), len(candidates)) or len(features) < 2:
        raise UsageError(
            "times must have a row for each of two inputs or more and a column for each candidate, "
            f"but have the shape {time_s.shape} for {len(features)} inputs and {len(candidates)} "
            "candidates"
        )
    applies = np.ones(time_s.shape, dtype=bool) if applies is None else applies
    time_s = np.where(applies, time_s, np.inf)
    if not np.isfinite(time_s.min(axis=1)).all():
        raise UsageError("no candidate worked on one of the inputs: leave it out")
    legal = {str(name): values_of(candidates[name]) for name in candidates.columns}
    best = time_s.argmin(axis=1)
    chosen, is_candidate = np.empty_like(best), np.empty(len(best), dtype=bool)
    parts = grouped_folds(group_numbers(len(best), groups), folds or len(best), 0)
    for known, unseen in ((fold.fit, fold.test) for fold in parts):
        model = fit(features.iloc[known], candidates.iloc[best[known]], legal)
        predicted = model.predict(features.iloc[unseen])
        chosen[unseen], is_candidate[unseen] = nearest(predicted, candidates, applies[unseen])
    rows = np.arange(len(best))
    fraction = time_s[rows, best] / time_s[rows, chosen]
    found = {"chosen": chosen, "best": best, "candidate": is_candidate, "fraction": fraction}
    return Judgement(pd.DataFrame(found, index=features.index))
