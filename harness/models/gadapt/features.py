"""The columns that G-ADAPT's model sees of an input: features, products, ratios, logarithms.

Columns that are positive on all inputs count by their base-2 logarithm: splits are the same as on
the sizes themselves, and a threshold lies halfway between two sizes by their ratio.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from harness.core.arrays import Array
from harness.models.encoding.columns import (
    Column,
    ColumnKind,
    column_values,
    derive_columns,
    most_informative,
)
from harness.models.encoding.parts import log2_where
from harness.models.starchart.axes import must_have

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

    def sizes(self, features: pd.DataFrame) -> Array:
        """Compute the terms of linear models, shape (inputs, numbers): the numeric features, and
        the logarithms of the positive ones."""
        raw = [index for index, column in enumerate(self.columns) if column.kind is ColumnKind.RAW]
        own = Features(tuple(self.columns[p] for p in raw), self.low[raw], self.high[raw])
        logs = own.values(features)
        positive = own.low > 0
        return np.hstack([logs, np.exp2(logs[:, positive])])


def learn_features(features: pd.DataFrame, targets: Array, seed: int) -> Features:
    """Derive the columns of a table of inputs; of very many, keep those that predict the targets
    best. `targets` has the shape (inputs,) or (inputs, targets)."""
    columns = derive_columns(features)
    values = column_values(columns, features)
    kept = most_informative(values, targets, _MOST_COLUMNS, seed)
    values = values[:, kept]
    return Features(tuple(columns[p] for p in kept), values.min(axis=0), values.max(axis=0))
