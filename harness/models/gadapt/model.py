"""G-ADAPT's model: a tree for each parameter, over the same columns of an input: features,
products, ratios, logarithms.

Columns that are positive on all inputs count by their base-2 logarithm: splits are the same as on
the sizes themselves, and a threshold lies halfway between two sizes by their ratio.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from harness.core.arrays import Array, Indices
from harness.core.errors import UsageError
from harness.core.records import Value
from harness.models.encoding.columns import (
    Column,
    ColumnKind,
    column_values,
    derive_columns,
    most_informative,
)
from harness.models.encoding.parts import digits_of_log2, log2_where
from harness.models.gadapt.parameters import (
    GainTrials,
    NumberTree,
    WordTree,
    fit_numbers,
    fit_words,
)
from harness.models.starchart.axes import is_numeric, must_have, numbers, values_of

if TYPE_CHECKING:
    import pandas as pd


_MOST_COLUMNS = 48  # many features have hundreds of pairs; the rest would only cost time


@dataclass(frozen=True)
class Features:
    """The columns that were learnt from, with the range of each: a value outside of it counts as
    its nearest end, where trees agree and linear models do not go astray."""

    columns: tuple[Column, ...]
    low: Array
    high: Array

    def values(self, features: pd.DataFrame) -> Array:
        """Compute what trees split on, shape (inputs, columns). Raises UsageError for a missing
        feature."""
        must_have(features, {name for column in self.columns for name in column.features})
        with np.errstate(divide="ignore", invalid="ignore"):  # a size of 0, outside of the range
            values = column_values(self.columns, features)
        return log2_where(np.nan_to_num(values, nan=0.0).clip(self.low, self.high), self.low > 0)

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


def learn_features(features: pd.DataFrame, targets: Array, seed: int) -> Features:
    """Derive the columns of a table of inputs; of very many, keep those that predict the targets
    best. `targets` has the shape (inputs,) or (inputs, targets)."""
    columns = derive_columns(features)
    values = column_values(columns, features)
    kept = most_informative(values, targets, _MOST_COLUMNS, seed)
    values = values[:, kept]
    return Features(tuple(columns[p] for p in kept), values.min(axis=0), values.max(axis=0))


@dataclass(frozen=True)
class GAdaptModel:
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
) -> GAdaptModel:
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
    learnt = learn_features(features, _targets(best), seed)
    columns, sizes = learnt.values(features), learnt.size_values(features)
    trees: dict[str, NumberTree | WordTree] = {}
    trials = GainTrials.of(len(best), seed)
    for name in best.columns:
        found = values_of(best[name])
        values = tuple(dict.fromkeys([*(legal or {}).get(name, ()), *found]))
        # Numbers and None, an absent flag, are a choice.
        if is_numeric(best[name]) and best[name].dtype.kind != "b" and None not in values:
            trees[name] = fit_numbers(
                columns, sizes, numbers(best[name]), tuple(sorted(values)), trials, seed
            )
        else:
            trees[name] = fit_words(columns, found, values, seed)
    return GAdaptModel(learnt, trees)


def _targets(best: pd.DataFrame) -> Array:
    """Encode each parameter as numbers, shape (inputs, parameters), or (inputs,) for one
    parameter."""
    targets = np.column_stack([_text_ranks(values_of(best[n])) for n in best]).astype(np.float64)
    return targets[:, 0] if targets.shape[1] == 1 else targets


def _text_ranks(values: Sequence[Value]) -> Indices:
    """Number the values by the order of their texts, shape (values,)."""
    text_of = {key: str(key[1]) for key in zip(map(type, values), values, strict=True)}
    rank_of = {text: rank for rank, text in enumerate(sorted(set(text_of.values())))}
    ranks = {key: rank_of[text] for key, text in text_of.items()}
    return np.array([ranks[key] for key in zip(map(type, values), values, strict=True)], np.intp)
