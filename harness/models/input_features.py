"""Inputs: which of them are tuned, and how alike they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.core.records import Input, Value

Array = npt.NDArray[np.float64]

_EQUAL = 1e-9  # a deviation that is none but for rounding


def nearest_first(given: Input, others: Sequence[Input]) -> list[Input]:
    """Other inputs, the most alike first: by the distance of their rows (`feature_rows`)."""
    return InputTable(others).nearest_first(given)


def feature_rows(inputs: Sequence[Input]) -> Array:
    """The features of inputs as numbers, shape (inputs, columns).

    Sizes stand by their logarithms; words, which are only equal or not, have a column each. Every
    feature has a deviation of 1 over these inputs; one that is the same for all has no column.
    """
    return _rows(len(inputs), [_feature(inputs, name) for name in (inputs[0] if inputs else ())])


class InputTable:
    """Inputs whose features are looked up once, to find those that are like some other one."""

    def __init__(self, inputs: Sequence[Input]) -> None:
        self._inputs = list(inputs)
        self._features = {name: _feature(inputs, name) for name in (inputs[0] if inputs else ())}

    def nearest_first(self, given: Input) -> list[Input]:
        """The inputs, the most alike first; as near ones keep their order."""
        features = [feature.with_first(given[name]) for name, feature in self._features.items()]
        rows = _rows(len(self._inputs) + 1, features)
        apart = np.square(rows[1:] - rows[0]).sum(axis=1)
        return [self._inputs[index] for index in np.argsort(apart, kind="stable").tolist()]


@dataclass(frozen=True)
class _Feature:
    """The values of a feature: numbers or, where not all of them are, codes of words."""

    values: Array
    words: Mapping[Value, int] | None = None

    def with_first(self, value: Value) -> _Feature:
        """With one more value before the others."""
        if self.words is not None:
            words = {**self.words, value: self.words.get(value, len(self.words))}
            return _Feature(np.concatenate([[words[value]], self.values]), words)
        if isinstance(value, (int, float)):
            return _Feature(np.concatenate([[float(value)], self.values]))
        return _coded([value, *self.values.tolist()])

    def columns(self) -> Array:
        """As numbers that can be compared, shape (values, columns)."""
        if self.words is not None:
            one_hot: Array = np.eye(len(self.words))[self.values.astype(np.intp)]
            return one_hot
        column = self.values[:, None]
        return np.log2(column) if (column > 0).all() else column


def _feature(inputs: Sequence[Input], name: str) -> _Feature:
    values = [given[name] for given in inputs]
    if all(isinstance(value, (int, float)) for value in values):
        return _Feature(np.array(values, dtype=np.float64))
    return _coded(values)


def _coded(values: Sequence[Value]) -> _Feature:
    words = {word: code for code, word in enumerate(dict.fromkeys(values))}
    return _Feature(np.array([words[value] for value in values], dtype=np.float64), words)


def _rows(count: int, features: Sequence[_Feature]) -> Array:
    columns = [feature.columns() for feature in features]
    spreads = [float(np.sqrt(column.var(axis=0).sum())) for column in columns]
    told = [c / spread for c, spread in zip(columns, spreads, strict=True) if spread > _EQUAL]
    return np.hstack([np.empty((count, 0)), *told])
