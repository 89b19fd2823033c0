"""The parameters and input features of a table of samples, as axes of one space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.core.arrays import Array
from harness.core.errors import UsageError
from harness.core.records import Value, shown
from harness.models.encoding.columns import is_number, must_have, values_of

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Axis:
    """A column that splits are made on, and its values in the samples: numbers, ascending, or
    words, among which None is an absent flag. A flag with numbers has these in
    ascending order, and None at the end."""

    name: str
    values: tuple[Any, ...]
    is_number: bool

    def codes(self, table: pd.DataFrame) -> Array:
        """Return the positions of values among the known ones: float32, in which trees hold them,
        may not tell the values themselves apart. A number between two known ones lies between their
        positions.

        Raises UsageError for an unknown word.
        """
        column = table[self.name]
        if self.is_number:
            return np.interp(numbers(column), self.numbers, np.arange(len(self.values)))
        indices = {word: float(index) for index, word in enumerate(self.values)}
        found = values_of(column)
        for word in found:
            if word not in indices:
                raise UsageError(
                    f"column {self.name}: `{shown(word)}` was not among the samples; known are "
                    f"{', '.join(map(shown, self.values))}"
                )
        return np.array([indices[word] for word in found])

    @property
    def is_optional_number(self) -> bool:
        """Whether the words are numbers, and None."""
        return self.values[-1] is None and _are_numbers(self.values[:-1])

    @property
    def numbers(self) -> Array:
        """The known values of a numeric axis."""
        return np.array(self.values, dtype=np.float64)


def axes_of(table: pd.DataFrame, names: Sequence[str]) -> tuple[Axis, ...]:
    """Make axes of the named columns. Raises UsageError for a column that is missing, or that has
    numbers in some rows and nothing in others."""
    return tuple(axis_of(table, name) for name in names)


def axis_of(table: pd.DataFrame, name: str) -> Axis:
    """Make an axis of one column; see `axes_of`."""
    must_have(table, [name])
    column = table[name]
    if not is_number(column):
        found = set(values_of(column))
        words = [word for word in found if word is not None]
        ordered = sorted(words) if _are_numbers(words) else sorted(words, key=str)
        return Axis(name, (*ordered, *([None] if None in found else [])), False)
    lacking = int(column.isna().sum())
    if lacking:
        raise UsageError(
            f"column {name} has no number in {lacking} of {len(column)} rows; leave these out, or "
            "make all of its values words where absent is a value of its own"
        )
    return Axis(name, tuple(column.drop_duplicates().sort_values().tolist()), True)


def _are_numbers(words: Sequence[Value]) -> bool:
    return len(words) > 1 and all(type(word) in (int, float) for word in words)


def numbers(column: pd.Series[Any]) -> Array:
    """Convert a numeric column to float64."""
    return np.asarray(column, dtype=np.float64)


def pool(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Join the samples of several platforms into one table, in which the platform is a parameter.

    Raises UsageError if a table has a column of that name, or if their columns differ.
    """
    import pandas as pd

    first, *others = tables.items()
    for platform, table in (first, *others):
        if "platform" in table.columns:
            raise UsageError(f"the table of {platform} has a column `platform` already")
        differing = set(table.columns) ^ set(first[1].columns)
        if differing:
            columns = ", ".join(sorted(map(str, differing)))
            raise UsageError(f"{first[0]} and {platform} do not both have the columns {columns}")
    pooled: pd.DataFrame = pd.concat(
        [table.assign(platform=platform) for platform, table in tables.items()], ignore_index=True
    )
    return pooled
