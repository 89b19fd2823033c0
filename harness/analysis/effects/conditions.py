"""Conditions on one column of a table, and the rows that meet them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from harness.analysis.effects.trials import key_of
from harness.core.arrays import Flags
from harness.core.records import Value, shown

if TYPE_CHECKING:
    import pandas as pd


_MOST_VALUES = 16  # a column with more distinct values gets bounds only
_MOST_BOUNDS = 8
_MIN_ROWS = 3  # that meet a condition, and that do not


@dataclass(frozen=True)
class ColumnCondition:
    """A condition on a column, as text: `ftz=true`, `BLOCK >= 512`, `maxrregcount given`."""

    column: str
    text: str

    def __str__(self) -> str:
        return self.text


def conditions(
    settings: pd.DataFrame, columns: Sequence[str]
) -> tuple[list[ColumnCondition], Flags]:
    """List the conditions on these columns, and which rows meet them, shape (rows, conditions).

    There is one condition per value, and for numbers up to eight upper and eight lower bounds. Of
    conditions that the same rows meet, only the first is kept.
    """
    found: dict[bytes, tuple[ColumnCondition, Flags]] = {}
    for name in columns:
        for text, rows in _on_column(name, settings[name].tolist()):
            if _MIN_ROWS <= rows.sum() <= len(rows) - _MIN_ROWS:
                found.setdefault(rows.tobytes(), (ColumnCondition(name, text), rows))
    listed = [condition for condition, _ in found.values()]
    met = [rows for _, rows in found.values()]
    return listed, np.column_stack(met) if met else np.empty((len(settings), 0), dtype=np.bool_)


def _on_column(name: str, values: Sequence[Value]) -> Iterator[tuple[str, Flags]]:
    code_of = {key: code for code, key in enumerate(dict.fromkeys(map(key_of, values)))}
    codes = np.array([code_of[key_of(value)] for value in values], dtype=np.intp)
    if len(code_of) <= _MOST_VALUES:
        for (_, value), code in code_of.items():
            yield f"{name}={shown(value)}", codes == code
    present = [value for _, value in code_of if value is not None]
    if len(present) < 2:
        return
    if len(present) < len(code_of):
        yield f"{name} given", np.array([value is not None for value in values])
    if len(present) > 2 and all(type(value) in (int, float) for value in present):
        yield from _bounds(name, values)


def _bounds(name: str, values: Sequence[Value]) -> Iterator[tuple[str, Flags]]:
    """Yield bounds at evenly spaced distinct values; absent values meet none of them."""
    numbers = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    known = sorted({value for value in values if value is not None}, key=float)
    indices = np.linspace(0, len(known) - 1, _MOST_BOUNDS + 2).round().astype(int)[1:-1]
    for bound in dict.fromkeys(known[index] for index in indices):
        yield f"{name} <= {shown(bound)}", numbers <= float(bound)
        yield f"{name} >= {shown(bound)}", numbers >= float(bound)
