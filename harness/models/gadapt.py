"""G-ADAPT's model: from an input's features to each parameter of its best configuration.

Liu, Zhang, Shen, "A Cross-Input Adaptive Framework for GPU Program Optimizations", IPDPS 2009. Each
numeric parameter has a regression tree over the raw sizes, their logarithms, products and ratios,
with a linear least-squares model in each leaf, whose value is rounded to the nearest legal one. It
splits where the squared error falls most; the paper splits by entropy. Each choice, flag or
enumeration has a classification tree. The model is judged by leaving inputs out, by how often it
hits the very best configuration.

    model = fit(features, best)             # tables with a row an input
    model.predict(features)                 # a table of configurations
    judge(features, candidates, time_s)     # candidates: a table; time_s: (inputs, candidates)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.core.arrays import Array, Flags, Indices
from harness.core.errors import UsageError
from harness.core.records import Value
from harness.models.columns import (
    Column,
    ColumnKind,
    column_values,
    derive_columns,
    digits_of_log2,
    is_number,
    most_informative,
    must_have,
    values_of,
)
from harness.models.folds import Fold, grouped_folds
from harness.models.regression import Regression

if TYPE_CHECKING:
    import pandas as pd
    from sklearn.tree import DecisionTreeClassifier

_MOST_COLUMNS = 48  # many features have hundreds of pairs; the rest would only cost time
# The share of the root's squared error that a split must remove: with the largest, one linear model
# does everything; with the least, most leaves are too small for a linear model.
_LEAST_GAINS = (1.0, 0.03, 1e-3)
_FOLDS = 5
_FEWEST_TO_CHOOSE_ON = 5  # with fewer inputs, the least gain is taken
_MOST_TO_CHOOSE_ON = 2000  # inputs; with more, the gain is chosen on a sample of these
_ROWS_PER_COLUMN = 2  # a leaf with fewer rows for each coefficient predicts its mean
_FEWEST_TO_SPLIT = 4
_NEAR = 1.05


@dataclass(frozen=True)
class Features:
    """The columns that were learnt from, with the range of each: a value outside of it counts as
    its nearest end, where trees agree and linear models do not go astray.

    Columns that are positive on all inputs count by their base-2 logarithm: splits are the same as
    on the sizes themselves, and a threshold lies halfway between two sizes by their ratio.
    """

    columns: tuple[Column, ...]
    low: Array
    high: Array

    @classmethod
    def of(cls, features: pd.DataFrame, best: pd.DataFrame, seed: int) -> Features:
        """Derive the columns of a table of inputs; of very many, keep those that predict the best
        configurations most."""
        columns = derive_columns(features)
        values = column_values(columns, features)
        texts = [list(map(str, values_of(best[name]))) for name in best.columns]
        ranks = [np.unique(values, return_inverse=True)[1] for values in texts]
        targets = np.column_stack(ranks).astype(np.float64)
        kept = most_informative(
            values, targets if len(ranks) > 1 else targets[:, 0], _MOST_COLUMNS, seed
        )
        values = values[:, kept]
        return cls(tuple(columns[p] for p in kept), values.min(axis=0), values.max(axis=0))

    def values(self, features: pd.DataFrame) -> Array:
        """Compute what trees split on, shape (inputs, columns). Raises UsageError for a missing
        feature."""
        must_have(features, {name for column in self.columns for name in column.features})
        with np.errstate(divide="ignore", invalid="ignore"):  # a size of 0, outside of the range
            values = column_values(self.columns, features)
        values = np.nan_to_num(values, nan=0.0).clip(self.low, self.high)
        are_sizes = self.low > 0
        return np.where(are_sizes, np.log2(np.where(are_sizes, values, 1.0)), values)

    @property
    def sizes(self) -> list[tuple[int, bool]]:
        """The terms of linear models: the index of each numeric feature's column, and whether it is
        its logarithm; positive features count both ways."""
        raw = [index for index, column in enumerate(self.columns) if column.kind is ColumnKind.RAW]
        return [(p, False) for p in raw] + [(p, True) for p in raw if self.low[p] > 0]

    def size_values(self, features: pd.DataFrame) -> Array:
        """Compute the terms of linear models, shape (inputs, terms)."""
        raw = [index for index, _ in self.sizes]
        values = column_values([self.columns[index] for index in raw], features)
        values = values.clip(self.low[raw], self.high[raw])
        are_logs = np.array([is_log for _, is_log in self.sizes], dtype=bool)
        return np.where(are_logs, digits_of_log2(values), values)


# --------------------------------------------------------------------------- one parameter


@dataclass(frozen=True)
class LinearLeaf:
    """A value that is linear in the sizes of a leaf's inputs; `weights` has the shape (sizes,)."""

    constant: float
    weights: Array

    @classmethod
    def of(cls, rows: Array, values: Array) -> LinearLeaf:
        """Fit least squares to standardised sizes; only the mean where there are too few rows."""
        centre, scale = rows.mean(axis=0), rows.std(axis=0)
        varying = scale > 0
        weights = np.zeros(rows.shape[1])
        if len(rows) >= _ROWS_PER_COLUMN * (1 + varying.sum()):
            standard = (rows - centre) / np.where(varying, scale, 1.0)
            slopes = np.linalg.lstsq(standard, values - values.mean(), rcond=None)[0]
            weights[varying] = slopes[varying] / scale[varying]
        return cls(float(values.mean() - centre @ weights), weights)


@dataclass(frozen=True)
class NumberTree:
    """A regression tree with linear models in its leaves; `legal` is ascending."""

    tree: Regression
    leaves: Mapping[int, LinearLeaf]
    legal: tuple[Any, ...]

    @classmethod
    def of(
        cls, tree: Regression, columns: Array, sizes: Array, values: Array, legal: tuple[Any, ...]
    ) -> NumberTree:
        """Fit a linear model to the inputs of each leaf of a tree."""
        reached = tree.leaves(columns)
        rows = {int(leaf): reached == leaf for leaf in np.unique(reached)}
        leaves = {leaf: LinearLeaf.of(sizes[here], values[here]) for leaf, here in rows.items()}
        return cls(tree, leaves, legal)

    def predict(self, columns: Array, sizes: Array) -> list[Value]:
        """Predict the legal value nearest to the leaf model's value for each input; of two equally
        near ones the smaller."""
        reached = self.tree.leaves(columns)
        predicted = np.empty(len(columns))
        for leaf in np.unique(reached):
            here = reached == leaf
            predicted[here] = self.leaves[leaf].constant + sizes[here] @ self.leaves[leaf].weights
        legal = np.array(self.legal, dtype=np.float64)
        above = np.minimum(np.searchsorted(legal, predicted), len(legal) - 1)
        below = np.maximum(above - 1, 0)
        is_low = predicted - legal[below] <= legal[above] - predicted
        return [self.legal[index] for index in np.where(is_low, below, above)]


@dataclass(frozen=True)
class WordTree:
    """A classification tree; `legal` has its classes."""

    tree: DecisionTreeClassifier
    legal: tuple[Value, ...]

    @classmethod
    def of(
        cls, columns: Array, values: Sequence[Value], legal: tuple[Value, ...], seed: int
    ) -> WordTree:
        """Grow the tree."""
        from sklearn.tree import DecisionTreeClassifier  # here: it takes a second to load

        classes = [legal.index(value) for value in values]
        tree = DecisionTreeClassifier(
            criterion="entropy", min_samples_split=_FEWEST_TO_SPLIT, random_state=seed
        )
        return cls(tree.fit(columns, classes), legal)

    def predict(self, columns: Array, sizes: Array) -> list[Value]:
        """Predict the class of each input."""
        return [self.legal[index] for index in self.tree.predict(columns)]


# --------------------------------------------------------------------------- all parameters


@dataclass(frozen=True)
class _GAdaptModel:
    """A tree for each parameter."""

    features: Features
    trees: Mapping[str, NumberTree | WordTree] = field(repr=False)

    def predict(self, features: pd.DataFrame) -> pd.DataFrame:
        """Predict a configuration for each input: a column a parameter, each value legal by itself.
        Together they may still break a constraint: `nearest` finds a candidate.

        Raises UsageError for a missing feature.
        """
        import pandas as pd

        values, sizes = self.features.values(features), self.features.size_values(features)
        columns = {
            name: pd.Series(tree.predict(values, sizes), index=features.index, dtype=object)
            for name, tree in self.trees.items()
        }
        table: pd.DataFrame = pd.DataFrame(columns, index=features.index).infer_objects()
        return table


def fit(
    features: pd.DataFrame,
    best: pd.DataFrame,
    legal: Mapping[str, Sequence[Value]] | None = None,
    seed: int = 0,
) -> _GAdaptModel:
    """Learn from inputs (a row an input, a column a feature) and the best configuration of each
    (the same rows, a column a parameter). `legal` has the values that a parameter may take, by
    default those among the best.

    Raises UsageError if the tables do not have the same rows, or none.
    """
    if len(features) != len(best) or not len(best):
        raise UsageError(
            "features and best configurations must have the same inputs, one or more, but got "
            f"{len(features)} and {len(best)} rows"
        )
    learnt = Features.of(features, best, seed)
    columns, sizes = learnt.values(features), learnt.size_values(features)
    trees: dict[str, NumberTree | WordTree] = {}
    folds = _folds(len(best), seed)
    for name in best.columns:
        best_values = values_of(best[name])
        values: tuple[Any, ...] = tuple(dict.fromkeys([*(legal or {}).get(name, ()), *best_values]))
        if is_number(values):
            numbers, ordered = np.array(best_values, dtype=np.float64), tuple(sorted(values))
            gain = _best_gain(columns, sizes, numbers, ordered, folds)
            tree = _grow(columns, numbers, gain)
            trees[name] = NumberTree.of(tree, columns, sizes, numbers, ordered)
        else:  # numbers and None, an absent flag, are a choice
            trees[name] = WordTree.of(columns, best_values, values, seed)
    return _GAdaptModel(learnt, trees)


def _folds(inputs: int, seed: int) -> list[Fold]:
    """Deal so many inputs, or a sample of very many, to choose the least gain on; no folds for
    few."""
    chosen = np.random.default_rng(seed).permutation(inputs)[:_MOST_TO_CHOOSE_ON]
    if len(chosen) < _FEWEST_TO_CHOOSE_ON:
        return []
    folds = grouped_folds(np.arange(len(chosen)), _FOLDS, seed)
    return [Fold(chosen[fold.fit], chosen[fold.test]) for fold in folds]


def _grow(columns: Array, values: Array, gain: float) -> Regression:
    return Regression.fit(columns, values, gain, fewest_to_split=_FEWEST_TO_SPLIT)


def _best_gain(
    columns: Array, sizes: Array, values: Array, legal: tuple[Any, ...], folds: Sequence[Fold]
) -> float:
    """Choose the least gain that predicts most held-out inputs exactly, the smallest of equally
    good ones."""
    mistakes = dict.fromkeys(_LEAST_GAINS[::-1], 0)
    for fold in folds if len(np.unique(values)) > 1 else ():  # one value needs no choice
        known = columns[fold.fit], sizes[fold.fit], values[fold.fit], legal
        full = _grow(columns[fold.fit], values[fold.fit], min(_LEAST_GAINS))
        for gain in mistakes:
            tree = NumberTree.of(full.cut(gain), *known)
            predicted = np.array(tree.predict(columns[fold.test], sizes[fold.test]))
            mistakes[gain] += int((predicted != values[fold.test]).sum())
    return min(mistakes, key=mistakes.__getitem__)


# --------------------------------------------------------------------------- judging


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
    values, others = values_of(predicted), values_of(candidates)
    if is_number([*values, *others]):
        known, ranks = np.unique([*values, *others], return_inverse=True)
        gaps = ranks[: len(values), None] - ranks[len(values) :]
        distances: Array = np.abs(gaps) / max(1, len(known) - 1)
        return distances
    differ: Flags = np.array(values, dtype=object)[:, None] != np.array(others, dtype=object)
    return differ.astype(np.float64)


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
        fraction = self.inputs["fraction"].to_numpy()
        return 0.0 if fraction.min() == 0 else math.exp(float(np.log(fraction).mean()))

    @property
    def worst_fraction(self) -> float:
        """The least fraction."""
        return float(self.inputs["fraction"].min())

    @property
    def within_5_percent(self) -> float:
        """The share of inputs that take at most 5 % longer than with the best."""
        return float((self.inputs["fraction"] >= 1 / _NEAR).mean())

    def __str__(self) -> str:
        return (
            f"the best configuration on {self.accuracy:.1%} of {len(self.inputs)} inputs; "
            f"{self.mean_fraction:.1%} of the best performance in geometric mean, "
            f"{self.worst_fraction:.1%} at worst; within 5 % on {self.within_5_percent:.1%}; "
            f"{(~self.inputs['candidate']).mean():.1%} of the predictions were not "
            "candidates and were replaced by the nearest one"
        )


def judge(
    features: pd.DataFrame,
    candidates: pd.DataFrame,
    time_s: Array,
    applies: Flags | None = None,
    folds: int | None = None,
) -> Judgement:
    """Learn from all inputs but some, choose for these, and repeat for all: one input at a time as
    published, or in `folds` folds.

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
    for fold in grouped_folds(np.arange(len(best)), folds or len(best), 0):
        model = fit(features.iloc[fold.fit], candidates.iloc[best[fold.fit]], legal)
        predicted = model.predict(features.iloc[fold.test])
        chosen[fold.test], is_candidate[fold.test] = nearest(
            predicted, candidates, applies[fold.test]
        )
    rows = np.arange(len(best))
    fraction = time_s[rows, best] / time_s[rows, chosen]
    columns = {"chosen": chosen, "best": best, "candidate": is_candidate, "fraction": fraction}
    return Judgement(pd.DataFrame(columns, index=features.index))
