"""Numbers derived from an input's features that trees split on: sizes, products, ratios, words, and
the power of two in a size, on which alignment depends.

Products and ratios of pairs are G-ADAPT's derived features. Logarithms need no columns: a tree
splits the same way on them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from harness.core.arrays import Array, Indices
from harness.core.records import Value
from harness.models.encoding.parts import digits_of_log2, power_of_two_in

if TYPE_CHECKING:
    import pandas as pd


_MANTISSA_BITS = 53
_SAMPLE = 2000  # inputs; enough to see which columns matter, and which are alike
_FOREST = {"n_estimators": 24, "max_depth": 8, "max_features": 0.3, "min_samples_leaf": 3}


class ColumnKind(Enum):
    """How a column is computed from features."""

    RAW = "raw"
    PRODUCT = "product"  # of the features, from left to right
    RATIO = "ratio"  # the first over the second; over zero as in IEEE 754: an infinity, or NaN
    EQUALS = "equals"  # 1 where the feature is this word, else 0
    TWOS = "twos"  # the largest power of two that divides the feature's whole part; 0 for 0
    LINEAR = "linear"  # a constant plus terms, added from left to right


@dataclass(frozen=True)
class LinearTerm:
    """A weight times a feature, or times the base-2 logarithm of a positive one."""

    feature: str
    weight: float
    is_log: bool = False

    def __str__(self) -> str:
        return f"{self.weight:.6g} * {f'log2({self.feature})' if self.is_log else self.feature}"


@dataclass(frozen=True)
class Column:
    """A number that trees split on, computed from an input's features. `constant` and `terms` are
    those of a linear column."""

    kind: ColumnKind
    features: tuple[str, ...]
    word: Value = None
    constant: float = 0.0
    terms: tuple[LinearTerm, ...] = ()

    def __str__(self) -> str:
        if self.kind is ColumnKind.LINEAR:
            return " + ".join([f"{self.constant:.6g}", *map(str, self.terms)])
        if self.kind is ColumnKind.EQUALS:
            return f"{self.features[0]} == {self.word}"
        if self.kind is ColumnKind.TWOS:
            return f"power of two in {self.features[0]}"
        return (" / " if self.kind is ColumnKind.RATIO else " * ").join(self.features)


def column_values(columns: Sequence[Column], features: pd.DataFrame) -> Array:
    """Compute the columns of many inputs, shape (inputs, columns), bit for bit as generated code
    does."""
    values = np.empty((len(features), len(columns)))
    for index, column in enumerate(columns):
        values[:, index] = _values(column, features)
    return values


def _values(column: Column, features: pd.DataFrame) -> Array:
    if column.kind is ColumnKind.EQUALS:
        return (features[column.features[0]] == column.word).to_numpy(dtype=np.float64)
    if column.kind is ColumnKind.TWOS:
        return _twos(features[column.features[0]])
    if column.kind is ColumnKind.LINEAR:
        return _linear(column, features)
    numbers = (features[name].to_numpy(dtype=np.float64) for name in column.features)
    return reduce(np.divide if column.kind is ColumnKind.RATIO else np.multiply, numbers)


def _linear(column: Column, features: pd.DataFrame) -> Array:
    total = np.full(len(features), column.constant)
    for term in column.terms:
        numbers = features[term.feature].to_numpy(dtype=np.float64)
        total = total + term.weight * (digits_of_log2(numbers) if term.is_log else numbers)
    return total


def _twos(series: pd.Series) -> Array:
    """Return the largest power of two that divides the whole part of each number."""
    if series.dtype.kind in "iu":
        return power_of_two_in(series.to_numpy(dtype=np.int64))
    mantissa, exponent = np.frexp(np.trunc(series.to_numpy(dtype=np.float64)))
    whole = (mantissa * 2**_MANTISSA_BITS).astype(np.int64)
    scaled: Array = np.ldexp(power_of_two_in(whole), exponent - _MANTISSA_BITS)
    return scaled


# ------------------------------------------------------------------------- which columns


def derive_columns(features: pd.DataFrame, *, alignment: bool = False) -> list[Column]:
    """Derive the raw features, the words, and the products and ratios of all pairs of positive
    features; with `alignment` also the powers of two in whole numbers.

    A column that is constant, or that sorts a sample of the inputs as an earlier column does, or in
    reverse, is left out.
    """
    sample = features.sample(min(len(features), _SAMPLE), random_state=0)
    seen: set[bytes] = set()
    kept = []
    aligned = _alignment(features) if alignment else ()
    for column in itertools.chain(_candidates(features), aligned):
        ranks = np.unique(_values(column, sample), return_inverse=True)[1]
        if ranks.max() == 0:
            continue
        keys = {ranks.tobytes(), (ranks.max() - ranks).tobytes()}
        if not keys & seen:
            seen |= keys
            kept.append(column)
    return kept


def _candidates(features: pd.DataFrame) -> Iterator[Column]:
    sizes = []
    for name in map(str, features.columns):
        series = features[name]
        if is_number(series):
            yield Column(ColumnKind.RAW, (name,))
            if (series > 0).all() and series.nunique() > 1:
                sizes.append(name)
        else:
            words = sorted(set(series), key=str)
            yield from (Column(ColumnKind.EQUALS, (name,), word) for word in words)
    for pair in itertools.combinations(sizes, 2):
        yield Column(ColumnKind.PRODUCT, pair)
        yield Column(ColumnKind.RATIO, pair)


def _alignment(features: pd.DataFrame) -> Iterator[Column]:
    for name in map(str, features.columns):
        if is_number(features[name]) and features[name].dtype.kind in "iu":
            yield Column(ColumnKind.TWOS, (name,))


def is_number(series: pd.Series) -> bool:
    """Say whether a feature holds numbers, not words or truth values."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype  # here: pandas loads slowly

    return is_numeric_dtype(series) and not is_bool_dtype(series)


def most_informative(values: Array, targets: Array, most: int, seed: int) -> Indices:
    """Return the indices, ascending, of at most `most` columns: the most important ones of a small
    forest that predicts the targets.

    `values` has the shape (inputs, columns), `targets` (inputs, outputs), all finite.
    """
    from sklearn.ensemble import RandomForestRegressor  # here: it loads slowly

    if values.shape[1] <= most:
        return np.arange(values.shape[1])
    random = np.random.default_rng(seed)
    rows = random.permutation(len(values))[:_SAMPLE]
    forest = RandomForestRegressor(random_state=seed, **_FOREST).fit(values[rows], targets[rows])
    return np.sort(np.argsort(-forest.feature_importances_, kind="stable")[:most])


# ------------------------------------------------------------------------- the tuned range


@dataclass(frozen=True)
class TunedRange:
    """The values of a feature among the tuned inputs: numbers from `low` to `high`, which are
    `whole` if none has a fraction, or `words`."""

    feature: str
    low: float = 0.0
    high: float = 0.0
    words: tuple[Value, ...] = ()
    whole: bool = False

    def holds(self, value: Value) -> bool:
        """Say whether a value lies in the range."""
        if self.words:
            return value in self.words
        return isinstance(value, (int, float)) and self.low <= value <= self.high


def tuned_range(features: pd.DataFrame) -> tuple[TunedRange, ...]:
    """Return the range of each feature among the inputs of a table."""
    return tuple(
        TunedRange(name, float(series.min()), float(series.max()), whole=series.dtype.kind in "iu")
        if is_number(series)
        else TunedRange(name, words=tuple(sorted(set(series), key=str)))
        for name, series in ((str(name), features[name]) for name in features.columns)
    )
