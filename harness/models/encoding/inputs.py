"""Inputs as points on comparable scales, and which inputs are most alike."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.core.arrays import Array
from harness.core.records import Input
from harness.models.encoding.parts import one_hot

if TYPE_CHECKING:
    import pandas as pd

_EQUAL = 1e-9  # a deviation that only rounding left
_DIGITS = 9
_LEAST_SIZE = np.finfo(np.float64).tiny


def nearest_first(problem: Input, others: Sequence[Input]) -> list[Input]:
    """Sort other inputs by their distance from `problem`, nearest first; equally near ones keep
    their order."""
    rows = feature_rows([problem, *others])
    # Rounded, because sums over columns in another order differ in the last bit.
    distances = np.square(rows[1:] - rows[0]).sum(axis=1).round(_DIGITS)
    return [others[index] for index in np.argsort(distances, kind="stable").tolist()]


def feature_rows(inputs: Sequence[Input]) -> Array:
    """Encode inputs so that each feature, all its columns together, has a deviation of 1 over these
    inputs; one that is the same for all has no column. Shape (inputs, columns)."""
    parts = [np.empty((len(inputs), 0))]
    for name in inputs[0] if inputs else ():
        values = _numbers_if_all([one[name] for one in inputs])
        columns = _FeatureColumns.of(values).encode(values)
        deviation = float(np.sqrt(columns.var(axis=0).sum()))
        if deviation > _EQUAL:
            parts.append(columns / deviation)
    return np.hstack(parts)


@dataclass(frozen=True)
class InputScale:
    """Inputs of a table as points; each column has a deviation of 1 on the inputs it was made
    from."""

    features: Mapping[str, _FeatureColumns]
    deviations: Array

    @classmethod
    def of(cls, table: pd.DataFrame) -> InputScale:
        """Make the scale of a table with a row an input and a column a feature."""
        features = {str(name): _FeatureColumns.of(table[name].to_numpy()) for name in table.columns}
        unscaled = cls(features, np.ones(1))
        deviations = unscaled.points(table).std(axis=0)
        return cls(features, np.where(deviations > 0, deviations, 1.0))

    def points(self, table: pd.DataFrame) -> Array:
        """Encode inputs, shape (inputs, columns); a word that the scale does not know is unlike
        every other."""
        columns = [one.encode(table[name].to_numpy()) for name, one in self.features.items()]
        return np.hstack([np.empty((len(table), 0)), *columns]) / self.deviations


@dataclass(frozen=True)
class _FeatureColumns:
    """How a feature becomes columns: sizes (numbers all above 0) by their base-2 logarithm, other
    numbers as they are, words one-hot."""

    is_size: bool
    words: Mapping[Hashable, int] | None = None

    @classmethod
    def of(cls, values: Sequence[Any] | np.ndarray) -> _FeatureColumns:
        """Look at the values of a feature; an array of numbers holds numbers, all else words."""
        if isinstance(values, np.ndarray) and values.dtype.kind in "iuf":
            return cls(bool((values > 0).all()))
        return cls(False, {word: code for code, word in enumerate(dict.fromkeys(values))})

    def encode(self, values: Sequence[Any] | np.ndarray) -> Array:
        """Encode values, shape (values, columns)."""
        if self.words is not None:
            codes = np.array([self.words.get(value, -1) for value in values], dtype=np.intp)
            return one_hot(codes, len(self.words))
        column = np.asarray(values, dtype=np.float64)[:, None]
        return np.log2(np.maximum(column, _LEAST_SIZE)) if self.is_size else column


def _numbers_if_all(values: Sequence[Any]) -> Sequence[Any] | np.ndarray:
    """Return an array if all values are numbers, booleans among them."""
    if all(isinstance(value, (int, float)) for value in values):
        return np.array(values, dtype=np.float64)
    return values
