"""Numbers that trees split on, derived from any features: sizes, products, ratios, words, and how
often 2 divides a size, on which alignment depends.

Products and ratios of pairs are G-ADAPT's derived features. Logarithms need no column of their
own: a tree's splits are the same on them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from harness.core.arrays import Array, Indices
from harness.core.records import Value

if TYPE_CHECKING:
    import pandas as pd


_MANTISSA_BITS = 53
_SAMPLE = 2000  # inputs; enough to tell which columns matter, and which are alike
_FOREST = {"n_estimators": 24, "max_depth": 8, "max_features": 0.3, "min_samples_leaf": 3}


def column_values(columns: Sequence[Column], features: pd.DataFrame) -> Array:
    """The numbers of each column for each input, shape (inputs, columns); bit for bit those of
    `Column.of`."""
    values = np.empty((len(features), len(columns)))
    for index, column in enumerate(columns):
        values[:, index] = _values(column, features)
    return values


def _values(column: Column, features: pd.DataFrame) -> Array:
    if column.kind is ColumnKind.EQUALS:
        return (features[column.features[0]] == column.word).to_numpy(dtype=np.float64)
    if column.kind is ColumnKind.TWOS:
        return _twos(features[column.features[0]])
    first, *others = (features[name].to_numpy(dtype=np.float64) for name in column.features)
    result: Array = first
    for other in others:
        result = result / other if column.kind is ColumnKind.RATIO else result * other
    return result


def _twos(series: pd.Series) -> Array:
    """`harness.dispatch.program.twos` of each number."""
    if series.dtype.kind in "iu":
        whole = series.to_numpy(dtype=np.int64)
        lowest: Array = (whole & -whole).astype(np.float64)
        return lowest
    mantissa, exponent = np.frexp(np.trunc(series.to_numpy(dtype=np.float64)))
    whole = (mantissa * 2**_MANTISSA_BITS).astype(np.int64)
    scaled: Array = np.ldexp((whole & -whole).astype(np.float64), exponent - _MANTISSA_BITS)
    return scaled


def derive_columns(features: pd.DataFrame, *, alignment: bool = False) -> list[Column]:
    """The raw features, the words, and the products and ratios of all pairs of positive features;
    with `alignment` also the powers of two that divide whole numbers.

    Of columns that order the inputs alike, or in reverse, only the first stands, and none that
    has one value alone; a sample of the inputs tells.
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
            yield from (
                Column(ColumnKind.EQUALS, (name,), word) for word in sorted(set(series), key=str)
            )
    for pair in itertools.combinations(sizes, 2):
        yield Column(ColumnKind.PRODUCT, pair)
        yield Column(ColumnKind.RATIO, pair)


def _alignment(features: pd.DataFrame) -> Iterator[Column]:
    for name in map(str, features.columns):
        if is_number(features[name]) and features[name].dtype.kind in "iu":
            yield Column(ColumnKind.TWOS, (name,))


def is_number(series: pd.Series) -> bool:
    """Whether a feature is a size to compute with, not a word or a truth value."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype  # here: pandas loads slowly

    return is_numeric_dtype(series) and not is_bool_dtype(series)


def tuned_range(features: pd.DataFrame) -> tuple[TunedRange, ...]:
    """What values each feature has among the inputs."""
    return tuple(
        TunedRange(name, float(series.min()), float(series.max()))
        if is_number(series)
        else TunedRange(name, words=tuple(sorted(set(series), key=str)))
        for name, series in ((str(name), features[name]) for name in features.columns)
    )


def most_informative(values: Array, targets: Array, most: int, seed: int) -> Indices:
    """The indices of the columns that tell most of the targets, by a small forest's importance;
    in their own order.

    `values` has the shape (inputs, columns), `targets` (inputs, outputs), all finite.
    """
    from sklearn.ensemble import RandomForestRegressor  # here: it loads slowly

    if values.shape[1] <= most:
        return np.arange(values.shape[1])
    random = np.random.default_rng(seed)
    rows = random.permutation(len(values))[:_SAMPLE]
    forest = RandomForestRegressor(random_state=seed, **_FOREST).fit(values[rows], targets[rows])
    ranked: Indices = np.sort(np.argsort(-forest.feature_importances_, kind="stable")[:most])
    return ranked


FEWEST_INPUTS = 4
"""That anything is learnt across."""


class ColumnKind(Enum):
    """How a column is computed from features."""

    RAW = "raw"
    PRODUCT = "product"  # of the features, from left to right
    RATIO = "ratio"  # the first over the second; over zero as IEEE says: an infinity, or NaN
    EQUALS = "equals"  # 1 where the feature is this word, else 0
    TWOS = "twos"  # the largest power of two that divides the whole part of the feature; of 0, 0


@dataclass(frozen=True)
class Column:
    """A number that trees split on, computed from an input's features."""

    kind: ColumnKind
    features: tuple[str, ...]
    word: Value = None

    def of(self, given: Mapping[str, Value]) -> float:
        """The number for an input."""
        if self.kind is ColumnKind.EQUALS:
            return float(given[self.features[0]] == self.word)
        if self.kind is ColumnKind.TWOS:
            return twos(given[self.features[0]])
        numbers = [_number(given[name]) for name in self.features]
        if self.kind is ColumnKind.RATIO:
            return ratio(*numbers)
        product = numbers[0]
        for number in numbers[1:]:
            product *= number
        return product

    def __str__(self) -> str:
        if self.kind is ColumnKind.EQUALS:
            return f"{self.features[0]} == {self.word}"
        if self.kind is ColumnKind.TWOS:
            return f"{self.features[0]} & -{self.features[0]}"
        return (" / " if self.kind is ColumnKind.RATIO else " * ").join(self.features)


@dataclass(frozen=True)
class TunedRange:
    """What values a feature had where it was tuned: numbers from `low` to `high`, or `words`."""

    feature: str
    low: float = 0.0
    high: float = 0.0
    words: tuple[Value, ...] = ()

    def holds(self, value: Value) -> bool:
        """Whether a value lies among them."""
        if self.words:
            return value in self.words
        return isinstance(value, (int, float)) and self.low <= value <= self.high


def _number(value: Value) -> float:
    if isinstance(value, (int, float)):
        return float(value)
    raise TypeError(f"a feature that is computed with must be a number, got {value!r}")


def twos(value: Value) -> float:
    """The largest power of two that divides a whole number, or the whole part of another."""
    whole = value if isinstance(value, int) else int(_number(value))
    return float(whole & -whole)


def ratio(dividend: float, divisor: float) -> float:
    """The quotient as C has it; Python refuses to divide by zero."""
    if divisor != 0:
        return dividend / divisor
    if dividend == 0 or math.isnan(dividend):
        return math.nan
    return math.copysign(math.inf, dividend) * math.copysign(1.0, divisor)
