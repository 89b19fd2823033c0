"""The published models as learners, for comparison in the verdict.

Both learn from the matrix of all candidates on all inputs, which is more than their authors had.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from harness.core.arrays import Array, Flags, Indices
from harness.core.records import shown
from harness.dispatch.matrix import Matrix
from harness.models import gadapt
from harness.models.folds import FEWEST_INPUTS
from harness.models.starchart import Axis, Growth, Tree, TreeTarget, axes_of, grow
from harness.models.starchart.axes import is_numeric, values_of

if TYPE_CHECKING:
    import pandas as pd


_FOLDS = 5
_GROUP, _TIME, _INPUT = "group", "time_s", "input."
_UNSEEN = "(a word that was not learnt from)"


def candidate_table(matrix: Matrix) -> pd.DataFrame:
    """Make a table with a row a candidate and a column a parameter. Values without order become
    words, as do the numbers of a parameter that is None in some candidates."""
    import pandas as pd

    table: pd.DataFrame = pd.DataFrame([dict(config) for config in matrix.candidates])
    for name in table.columns:
        if is_numeric(table[name]) and table[name].isna().any():
            table[name] = pd.Series(values_of(table[name]), dtype=object)
        if name in matrix.choices:
            table[name] = [value if value is None else shown(value) for value in table[name]]
    return table


# --------------------------------------------------------------------------------- Starchart


@dataclass(frozen=True)
class StarchartSelector:
    """Chooses the candidate with the least predicted time. Candidates of one leaf have the same;
    among them the one with the least mean slowdown in training comes first: `preference` sorts by
    that."""

    tree: Tree
    pairs: Pairs
    preference: Indices

    def indices(self, features: pd.DataFrame, applies: Flags) -> Indices:
        """See `harness.dispatch.learners.Selector`."""
        count = len(self.preference)
        table = self.pairs.of(features)
        for axis in self.tree.axes:
            if not axis.is_number and axis.name.startswith(_INPUT):
                known = table[axis.name].isin(axis.values)
                table[axis.name] = table[axis.name].where(known, _UNSEEN)
        predicted = self.tree.predict(table).to_numpy().reshape(-1, count)
        times = np.where(applies, predicted, np.inf)[:, self.preference]
        indices: Indices = self.preference[times.argmin(axis=1)]
        return indices


@dataclass(frozen=True)
class Starchart:
    """Starchart's best leaf: a tree over parameters and features that predicts the logarithm of the
    time, its size chosen by cross-validation over groups of inputs."""

    name: str = "Starchart's best leaf"

    def fit(self, matrix: Matrix, seed: int) -> StarchartSelector:
        """Learn from all measured pairs; a failure counts as a long time."""
        logs = matrix.log_slowdown
        pairs = Pairs(candidate_table(matrix))
        table = pairs.of(matrix.features)
        table[_TIME] = np.exp(logs + np.log(matrix.best_s)[:, None]).ravel()
        table[_GROUP] = np.repeat(matrix.groups, len(matrix.candidates))
        tree = grow(
            table,
            TreeTarget(_TIME, log=True),
            pairs.axes(table),
            Growth(folds=_FOLDS, groups=_GROUP, seed=seed),
        )
        return StarchartSelector(tree, pairs, _by_mean(logs))


@dataclass(frozen=True)
class Pairs:
    """Makes tables with a row for each input and candidate; the rows of an input are together."""

    candidates: pd.DataFrame

    def of(self, features: pd.DataFrame) -> pd.DataFrame:
        """Make the table; the names of features get the prefix _INPUT, because a parameter may have
        the same name."""
        count = len(self.candidates)
        rows = np.repeat(np.arange(len(features)), count)
        table: pd.DataFrame = features.iloc[rows].add_prefix(_INPUT).reset_index(drop=True)
        for name in self.candidates.columns:
            table[name] = np.tile(self.candidates[name].to_numpy(), len(features))
        return table

    def axes(self, table: pd.DataFrame) -> tuple[Axis, ...]:
        """Return the axes of a table from `of`, without the columns added since. Words get one
        more value, for words that a later input may bring: trees predict them by the mean of all
        words."""
        found = axes_of(table, [str(n) for n in table.columns if n not in (_GROUP, _TIME)])
        return tuple(
            axis if axis.is_number else replace(axis, values=(*axis.values, _UNSEEN))
            for axis in found
        )


def _by_mean(logs: Array) -> Indices:
    """Sort candidates by their mean log slowdown; those that never applied come last."""
    known = np.isfinite(logs)
    sums = np.where(known, logs, 0.0).sum(axis=0)
    means = np.where(known.any(axis=0), sums / np.maximum(known.sum(axis=0), 1), np.inf)
    order: Indices = np.argsort(means, kind="stable")
    return order


def gadapt_judgement(matrix: Matrix, folds: int | None = None) -> gadapt.Judgement | None:
    """Judge G-ADAPT's model on inputs left out one by one, or in this many folds; None if there are
    too few inputs."""
    known = matrix.comparable()
    if len(known.features) < FEWEST_INPUTS:
        return None
    time_s = np.where(known.tied, known.best_s[:, None], known.time_s)
    return gadapt.judge(known.features, candidate_table(known), time_s, known.applies, folds)
