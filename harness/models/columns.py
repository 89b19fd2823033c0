"""Inputs as numbers: derived columns that trees split on, and points on comparable scales.

Derived columns are sizes, products, ratios, words, and the power of two in a size, on which
alignment depends. Products and ratios of pairs are G-ADAPT's derived features. Logarithms need no
columns: a tree splits the same way on them.

scikit-learn's ColumnTransformer, OneHotEncoder and StandardScaler are not used: they refuse words
of several types (None and texts), differ in the last bit from generated code, and take 10 ms for
one input where this takes 0.2 ms.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.core.arrays import Array, Indices
from harness.core.errors import UsageError
from harness.core.records import Input, Value
from harness.core.text import suggestion

if TYPE_CHECKING:
    import pandas as pd


LOG2_DIGITS = 24
"""Binary digits behind the point of `digits_of_log2`: errors below 1e-7."""

_MANTISSA_BITS = 53
_SAMPLE = 2000  # inputs; enough to see which columns matter, and which are alike
_FOREST = {"n_estimators": 24, "max_depth": 8, "max_features": 0.3, "min_samples_leaf": 3}
_EQUAL = 1e-9  # a deviation that only rounding left
_DIGITS = 9
_LEAST_SIZE = np.finfo(np.float64).tiny


# ------------------------------------------------------------------------- columns of tables


def is_number(values: Sequence[Any] | pd.Series[Any]) -> bool:
    """Say whether a column holds numbers, not words or truth values."""
    dtype = getattr(values, "dtype", None)
    if dtype is not None and dtype.kind != "O":
        return dtype.kind in "iuf"
    return len(values) > 0 and all(
        isinstance(value, (int, float)) and not isinstance(value, bool) for value in values
    )


def values_of(column: pd.Series[Any]) -> list[Value]:
    """Return the values as Python's own; None where there is none."""
    values, missing = column.tolist(), column.isna()
    if not missing.any():
        return values
    return [None if gone else value for value, gone in zip(values, missing.tolist(), strict=True)]


def must_have(table: pd.DataFrame, names: Iterable[str]) -> None:
    """Raise UsageError for a column that a table lacks."""
    there = [str(name) for name in table.columns]
    for name in names:
        if name not in there:
            raise UsageError(f"the table has no column `{name}`; {suggestion(name, there)}")


# ------------------------------------------------------------------------- derived columns


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
    """Return the largest power of two that divides the whole part of each number; 0 for 0."""
    if series.dtype.kind in "iu":
        whole, shift = series.to_numpy(dtype=np.int64), 0
    else:
        mantissa, exponent = np.frexp(np.trunc(series.to_numpy(dtype=np.float64)))
        whole, shift = (mantissa * 2**_MANTISSA_BITS).astype(np.int64), exponent - _MANTISSA_BITS
    twos: Array = np.ldexp((whole & -whole).astype(np.float64), shift)
    return twos


def digits_of_log2(sizes: Array) -> Array:
    """Compute base-2 logarithms of positive sizes, to 24 binary digits; the shape stays.

    Only exact operations and one multiplication a digit: C and Python compute the same bits, which
    no library's logarithm promises.
    """
    mantissa, exponent = np.frexp(sizes)
    square, logs, digit = 2 * mantissa, exponent - 1.0, 1.0
    for _ in range(LOG2_DIGITS):
        digit /= 2
        square = square * square
        is_one = square >= 2
        logs = np.where(is_one, logs + digit, logs)
        square = np.where(is_one, square / 2, square)
    return logs


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


def most_informative(values: Array, targets: Array, most: int, seed: int) -> Indices:
    """Return the indices, ascending, of at most `most` columns: the most important ones of a small
    forest that predicts the targets.

    `values` has the shape (inputs, columns), `targets` (inputs, outputs), all finite.
    """
    if values.shape[1] <= most:
        return np.arange(values.shape[1])
    from sklearn.ensemble import RandomForestRegressor  # here: it loads slowly

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


# ------------------------------------------------------------------------- points


def nearest_first(problem: Input, others: Sequence[Input]) -> list[Input]:
    """Sort other inputs by their distance from `problem`, nearest first; equally near ones keep
    their order."""
    rows = InputScale.rows([problem, *others])
    # Rounded, because sums over columns in another order differ in the last bit.
    distances = np.square(rows[1:] - rows[0]).sum(axis=1).round(_DIGITS)
    return [others[index] for index in np.argsort(distances, kind="stable").tolist()]


@dataclass(frozen=True)
class InputScale:
    """Inputs as points. Each feature, all its columns together, has a deviation of 1 over the
    inputs that the scale was made from; one that is the same for all has no column, unless all
    features are. A table has a column a feature. Sizes (numbers all above 0) count by their base-2
    logarithm, other numbers as they are, words one-hot."""

    encoders: Mapping[str, Callable[[Iterable[Any]], Array]]
    deviations: Mapping[str, float]

    @classmethod
    def of(cls, table: Mapping[str, Sequence[Any]] | pd.DataFrame) -> InputScale:
        """Make the scale of a table with a row an input."""
        encoders = {str(name): _encoder(values) for name, values in table.items()}
        variances = {name: of(table[name]).var(axis=0).sum() for name, of in encoders.items()}
        deviations = {name: float(np.sqrt(variance)) for name, variance in variances.items()}
        varying = {name: spread for name, spread in deviations.items() if spread > _EQUAL}
        return cls(encoders, varying or dict.fromkeys(deviations, 1.0))

    @classmethod
    def rows(cls, inputs: Sequence[Input]) -> Array:
        """Encode inputs, one or more, on a scale of their own, shape (inputs, columns)."""
        if not inputs[0]:
            return np.empty((len(inputs), 0))
        table = {name: [problem[name] for problem in inputs] for name in inputs[0]}
        return cls.of(table).points(table)

    def points(self, table: Mapping[str, Sequence[Any]] | pd.DataFrame) -> Array:
        """Encode inputs, shape (inputs, columns); a word that the scale does not know is unlike
        every other."""
        scaled = self.deviations.items()
        return np.hstack([self.encoders[name](table[name]) / spread for name, spread in scaled])


def _encoder(values: Sequence[Any] | pd.Series[Any]) -> Callable[[Iterable[Any]], Array]:
    """Return the function that encodes such values of a feature, shape (values, columns)."""
    if not is_number(values):
        return partial(_one_hot, {word: code for code, word in enumerate(dict.fromkeys(values))})
    return _logs if (np.asarray(values) > 0).all() else _numbers


def _one_hot(words: Mapping[Hashable, int], values: Iterable[Any]) -> Array:
    codes = np.array([words.get(value, -1) for value in values], dtype=np.intp)
    columns: Array = (codes[:, None] == np.arange(len(words))).astype(np.float64)
    return columns


def _numbers(values: Iterable[Any]) -> Array:
    return np.asarray(values, dtype=np.float64)[:, None]


def _logs(values: Iterable[Any]) -> Array:
    logs: Array = np.log2(np.maximum(_numbers(values), _LEAST_SIZE))
    return logs
