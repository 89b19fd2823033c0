"""The interface of all ways to choose a candidate for an input: learn, then select. And those that
a dispatcher is compared with: the default, the best single configuration, that of the nearest tuned
input, and Starchart's model.

Published models learn from the matrix of all candidates on all inputs, which is more than their
authors had.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from harness.core.arrays import Flags, Indices
from harness.core.records import shown
from harness.dispatch.matrix import Matrix, first_applicable
from harness.dispatch.portfolio import static_order
from harness.models import gadapt
from harness.models.columns import InputScale, is_number, values_of
from harness.models.folds import FEWEST_INPUTS
from harness.models.starchart import Axis, Growth, Tree, TreeTarget, grow

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
class _NearestSelector:
    """Inputs as points, and the candidates of each, fastest first."""

    scale: InputScale
    inputs: KDTree
    orders: Indices

    def nearest(self, features: pd.DataFrame) -> Indices:
        """Return the index of the input of the matrix that is the nearest to each of these."""
        indices: Indices = self.inputs.query(self.scale.points(features))[1]
        return indices

    def indices(self, features: pd.DataFrame, applies: Flags) -> Indices:
        """Take the fastest candidate of the nearest input that applies."""
        return first_applicable(self.orders[self.nearest(features)], applies)


@dataclass(frozen=True)
class Nearest:
    """The fastest candidate of the most similar input, as a person looks it up in a table."""

    name: str = "nearest tuned input"

    def fit(self, matrix: Matrix, seed: int) -> _NearestSelector:
        """Remember all inputs."""
        from scipy.spatial import KDTree  # here: it takes time to load

        scale = InputScale.of(matrix.features)
        logs = matrix.log_slowdown
        orders = np.argsort(np.where(np.isnan(logs), np.inf, logs), axis=1, kind="stable")
        return _NearestSelector(scale, KDTree(scale.points(matrix.features)), orders)


_FOLDS = 5
_GROUP, _TIME, _INPUT = "group", "time_s", "input."
_UNSEEN = "(a word that was not learnt from)"


def candidate_table(matrix: Matrix) -> pd.DataFrame:
    """Make a table with a row a candidate and a column a parameter. Values without order become
    words, as do the numbers of a parameter that is None in some candidates."""
    import pandas as pd

    table: pd.DataFrame = pd.DataFrame([dict(config) for config in matrix.candidates])
    for name in table.columns:
        if is_number(table[name]) and table[name].isna().any():
            table[name] = pd.Series(values_of(table[name]), dtype=object)
        if name in matrix.choices:
            table[name] = [value if value is None else shown(value) for value in table[name]]
    return table


# --------------------------------------------------------------------------------- Starchart


@dataclass(frozen=True)
class _StarchartSelector:
    """Chooses the candidate with the least predicted time. Candidates of one leaf have the same;
    among them the best single one in training comes first: `preference` sorts by that."""

    tree: Tree
    pairs: _Pairs
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

    def fit(self, matrix: Matrix, seed: int) -> _StarchartSelector:
        """Learn from all measured pairs; a failure counts as a long time."""
        logs = matrix.log_slowdown
        pairs = _Pairs(candidate_table(matrix))
        table = pairs.of(matrix.features)
        table[_TIME] = np.exp(logs + np.log(matrix.best_s)[:, None]).ravel()
        table[_GROUP] = np.repeat(matrix.groups, len(matrix.candidates))
        tree = grow(
            table,
            TreeTarget(_TIME, log=True),
            pairs.axes(table),
            Growth(folds=_FOLDS, groups=_GROUP, seed=seed),
        )
        return _StarchartSelector(tree, pairs, np.array(static_order(matrix)))


@dataclass(frozen=True)
class _Pairs:
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
        names = [str(name) for name in table.columns if name not in (_GROUP, _TIME)]
        axes = [Axis.of(table, name) for name in names]
        return tuple(
            axis if axis.is_number else replace(axis, values=(*axis.values, _UNSEEN))
            for axis in axes
        )


def gadapt_judgement(matrix: Matrix, folds: int | None = None) -> gadapt.Judgement | None:
    """Judge G-ADAPT's model on inputs left out one by one, or in this many folds; None if there are
    too few inputs."""
    known = matrix.comparable()
    if len(known.features) < FEWEST_INPUTS:
        return None
    time_s = np.where(known.tied, known.best_s[:, None], known.time_s)
    return gadapt.judge(known.features, candidate_table(known), time_s, known.applies, folds)
