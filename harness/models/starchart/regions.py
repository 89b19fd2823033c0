"""Regions of the space of parameters and inputs: some values of each axis."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.core.arrays import Array, Flags, Indices
from harness.core.errors import UsageError
from harness.core.records import Value, shown
from harness.models.columns import is_number, must_have, values_of

if TYPE_CHECKING:
    import pandas as pd

_LISTED = 3  # values that are listed one by one


@dataclass(frozen=True)
class Axis:
    """A column that splits are made on, and its values in the samples: numbers, ascending, or
    words, among which None is an absent flag. A flag with numbers has these in ascending order, and
    None at the end."""

    name: str
    values: tuple[Any, ...]
    is_number: bool

    @classmethod
    def of(cls, table: pd.DataFrame, name: str) -> Axis:
        """Make an axis of a column. Raises UsageError for one that is missing, or that has numbers
        in some rows and nothing in others."""
        must_have(table, [name])
        column = table[name]
        if is_number(column):
            _numbers(column)
            return cls(name, tuple(column.drop_duplicates().sort_values().tolist()), True)
        values: set[Any] = set(values_of(column))
        words = sorted(values - {None}, key=str)
        words = sorted(words) if _are_numbers(words) else words
        return cls(name, (*words, *values & {None}), False)

    def codes(self, table: pd.DataFrame) -> Indices:
        """Return the index of each value among the known ones; a number between two of these counts
        as the nearer one.

        Raises UsageError for an unknown word or a missing number.
        """
        column = table[self.name]
        if self.is_number:
            known = np.array(self.values, dtype=np.float64)
            middles = (known[1:] + known[:-1]) / 2
            return np.searchsorted(middles, _numbers(column))
        indices = {word: index for index, word in enumerate(self.values)}
        values = values_of(column)
        for word in values:
            if word not in indices:
                raise UsageError(
                    f"column {self.name}: `{shown(word)}` was not among the samples; known are "
                    f"{', '.join(map(shown, self.values))}"
                )
        return np.array([indices[word] for word in values], dtype=np.intp)

    @property
    def is_optional_number(self) -> bool:
        """Whether the words are numbers, and None."""
        return self.values[-1] is None and _are_numbers(self.values[:-1])

    def ranks(self, codes: Indices, targets: Array) -> Array:
        """Return the number by which trees split each value, for samples with these targets.

        Numbers are ranked by their order. Words are ranked by their mean target, for which a split
        into two sets is found as if they were numbers (Breiman et al., Classification and
        Regression Trees, 1984, section 9.4); a word without samples by the mean of all. The numbers
        of a flag that may be absent keep their order; absent is ranked below or above them all,
        where the targets are more like its own.
        """
        count = len(self.values)
        if self.is_number:
            return np.arange(count, dtype=np.float64)
        rows = np.bincount(codes, minlength=count)
        sums = np.bincount(codes, weights=targets, minlength=count)
        means = np.where(rows > 0, sums / np.maximum(rows, 1), targets.mean())
        if self.is_optional_number:
            distances = np.abs(means[:-1] - means[-1])
            middle = len(distances) // 2
            is_low = np.mean(distances[:middle]) < np.mean(distances[-middle:])
            return np.array([*range(count - 1), -1 if is_low else count - 1], dtype=np.float64)
        ranks = np.empty(count)
        ranks[np.argsort(means, kind="stable")] = np.arange(count)
        return ranks


def _numbers(column: pd.Series[Any]) -> Array:
    """Return the numbers. Raises UsageError where some are missing."""
    lacking = int(column.isna().sum())
    if lacking:
        raise UsageError(
            f"column {column.name} has no number in {lacking} of {len(column)} rows; leave these "
            "out, or make all of its values words where absent is a value of its own"
        )
    return column.to_numpy(dtype=np.float64)


def _are_numbers(words: Collection[Value]) -> bool:
    return len(words) > 1 and all(type(word) in (int, float) for word in words)


@dataclass(frozen=True, eq=False)
class AxisPart:
    """Some values of an axis: those that `mask` marks."""

    axis: Axis
    mask: Flags

    def __str__(self) -> str:
        """Render for people: `tpp <= 4`, `tpp = 1`, `tpp in {1, 2, 4}`, `tpp in {4..8}`, `layout in
        {row, column}`."""
        name, values = self.axis.name, list(itertools.compress(self.axis.values, self.mask))
        texts = list(map(shown, values))
        if len(texts) == 1:
            return f"{name} = {texts[0]}"
        if self.axis.is_number and self.mask[0]:
            return f"{name} <= {texts[-1]}"
        if self.axis.is_number and self.mask[-1]:
            return f"{name} >= {texts[0]}"
        numbers = len(texts) - (values[-1] is None)
        if (self.axis.is_number or self.axis.is_optional_number) and numbers > _LISTED:
            texts = [f"{texts[0]}..{texts[numbers - 1]}", *texts[numbers:]]
        return f"{name} in {{{', '.join(texts)}}}"


@dataclass(frozen=True)
class Region:
    """The settings of which each parameter lies in its part; parameters that are not named are
    free. As text, the parameter that was split on first comes first."""

    parts: Mapping[str, AxisPart] = field(default_factory=dict)

    def both(self, other: Region) -> Region:
        """Intersect with another region of the same axes."""
        parts = dict(self.parts)
        for name, part in other.parts.items():
            own = parts.get(name)
            parts[name] = part if own is None else AxisPart(part.axis, own.mask & part.mask)
        return Region(parts)

    @property
    def is_empty(self) -> bool:
        """Whether no known value of an axis is in the region."""
        return not all(part.mask.any() for part in self.parts.values())

    def holds(self, table: pd.DataFrame) -> Flags:
        """Say which rows lie in the region. Raises UsageError for an unknown word."""
        inside = np.ones(len(table), dtype=bool)
        for part in self.parts.values():
            inside &= part.mask[part.axis.codes(table)]
        return inside

    def __str__(self) -> str:
        return ", ".join(map(str, self.parts.values())) or "all"
