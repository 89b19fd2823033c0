"""Regions of the space that splits cut out: an interval or a set of words for each parameter."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.core.arrays import Flags
from harness.core.records import Value, shown
from harness.models.starchart.axes import numbers

if TYPE_CHECKING:
    import pandas as pd

_LISTED = 3  # values that are listed one by one


@dataclass(frozen=True)
class Interval:
    """Numbers v with above < v <= upto. `known` has the parameter's values in the samples,
    ascending: an interval is described by those that it holds, and is empty without any."""

    above: float
    upto: float
    known: tuple[Any, ...] = field(repr=False)

    @property
    def values(self) -> tuple[Any, ...]:
        """The known values in it."""
        return self.known[
            bisect_right(self.known, self.above) : bisect_right(self.known, self.upto)
        ]

    def holds(self, column: pd.Series[Any]) -> Flags:
        """Say which values lie in the interval."""
        found = numbers(column)
        return (found > self.above) & (found <= self.upto)

    def both(self, other: Interval) -> Interval:
        """Intersect with another interval."""
        known = self.known
        if other.known is not known and other.known != known:
            known = tuple(sorted({*known, *other.known}))
        return Interval(max(self.above, other.above), min(self.upto, other.upto), known)

    def text(self, name: str) -> str:
        """Render for people: `tpp <= 4`, `tpp = 1`, `tpp in {1, 2, 4}`, `tpp in {4..8}`."""
        values = self.values
        if len(values) == 1:
            return f"{name} = {shown(values[0])}"
        if values[0] == self.known[0]:
            return f"{name} <= {shown(values[-1])}"
        if values[-1] == self.known[-1]:
            return f"{name} >= {shown(values[0])}"
        if len(values) <= _LISTED:
            return f"{name} in {{{', '.join(map(shown, values))}}}"
        return f"{name} in {{{shown(values[0])}..{shown(values[-1])}}}"


@dataclass(frozen=True)
class WordSet:
    """Some of a parameter's words, in their order in `known`. The numbers of a flag that may be
    absent are words, too."""

    values: tuple[Value, ...]
    known: tuple[Value, ...] = field(repr=False)

    def holds(self, column: pd.Series[Any]) -> Flags:
        """Say which values are among the words."""
        return np.asarray(column.isin([v for v in self.values if v is not None])) | (
            np.asarray(column.isna()) & (None in self.values)
        )

    def both(self, other: WordSet) -> WordSet:
        """Intersect with another set."""
        known = self.known + tuple(word for word in other.known if word not in self.known)
        return WordSet(tuple(word for word in self.values if word in other.values), known)

    def text(self, name: str) -> str:
        """Render for people: `layout = row`, `layout in {row, column}`."""
        if len(self.values) == 1:
            return f"{name} = {shown(self.values[0])}"
        numbers = [value for value in self.values if type(value) in (int, float)]
        if len(numbers) <= _LISTED or len(set(self.values) - {*numbers, None}):
            return f"{name} in {{{', '.join(map(shown, self.values))}}}"
        # A flag that is absent or a number: its splits keep the numbers together.
        absent = [shown(None)] if None in self.values else []
        parts = [f"{shown(numbers[0])}..{shown(numbers[-1])}", *absent]
        return f"{name} in {{{', '.join(parts)}}}"


Part = Interval | WordSet


@dataclass(frozen=True)
class Region:
    """The settings of which each parameter lies in its part; parameters that are not named are
    free. As text, the parameter that was split on first comes first."""

    parts: Mapping[str, Part] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether a parameter has no known value left."""
        return any(not part.values for part in self.parts.values())

    def both(self, other: Region) -> Region:
        """Intersect with another region; the result may be empty."""
        parts = dict(self.parts)
        for name, part in other.parts.items():
            parts[name] = _both(parts[name], part) if name in parts else part
        return Region(parts)

    def holds(self, table: pd.DataFrame) -> Flags:
        """Say which rows lie in the region."""
        mask = np.ones(len(table), dtype=bool)
        for name, part in self.parts.items():
            mask &= part.holds(table[name])
        return mask

    def __str__(self) -> str:
        return ", ".join(part.text(name) for name, part in self.parts.items()) or "all"


def _both(one: Part, other: Part) -> Part:
    if isinstance(one, Interval) and isinstance(other, Interval):
        return one.both(other)
    if isinstance(one, WordSet) and isinstance(other, WordSet):
        return one.both(other)
    raise TypeError("a parameter has numbers in one box and words in another")
