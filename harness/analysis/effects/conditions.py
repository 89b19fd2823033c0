"""Conditions on one column of a table, and which rows meet them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from harness.analysis.effects.trials import key_of
from harness.core.arrays import Rows
from harness.core.records import Value, shown

if TYPE_CHECKING:
    import pandas as pd


_MOST_VALUES = 16  # of a column, each a condition; numbers beyond are told by bounds alone
_MOST_BOUNDS = 8
_FEWEST_ROWS = 3  # that meet a condition and that do not


@dataclass(frozen=True)
class Condition:
    """What a column is, as people read it: `ftz=true`, `BLOCK >= 512`, `maxrregcount given`."""

    column: str
    text: str

    def __str__(self) -> str:
        return self.text


def conditions(settings: pd.DataFrame, columns: Sequence[str]) -> tuple[list[Condition], Rows]:
    """Every condition on one of these columns, and which rows meet it, shape (rows, conditions).

    Each value is one, and of a column of numbers up to eight bounds from either side. Of those
    that the very same rows meet the first stands.
    """
    found: dict[bytes, tuple[Condition, Rows]] = {}
    for name in columns:
        for text, rows in _of_column(name, settings[name].tolist()):
            if _FEWEST_ROWS <= rows.sum() <= len(rows) - _FEWEST_ROWS:
                found.setdefault(rows.tobytes(), (Condition(name, text), rows))
    told = [condition for condition, _ in found.values()]
    met = [rows for _, rows in found.values()]
    return told, np.column_stack(met) if met else np.empty((len(settings), 0), dtype=np.bool_)


def _of_column(name: str, values: Sequence[Value]) -> Iterator[tuple[str, Rows]]:
    places = {key: place for place, key in enumerate(dict.fromkeys(map(key_of, values)))}
    codes = np.array([places[key_of(value)] for value in values], dtype=np.intp)
    if len(places) <= _MOST_VALUES:
        for (_, value), place in places.items():
            yield f"{name}={shown(value)}", codes == place
    given = [value for _, value in places if value is not None]
    if len(given) < 2:
        return
    if len(given) < len(places):
        yield f"{name} given", np.array([value is not None for value in values])
    if len(given) > 2 and all(type(value) in (int, float) for value in given):
        yield from _bounds(name, values)


def _bounds(name: str, values: Sequence[Value]) -> Iterator[tuple[str, Rows]]:
    """Bounds at values, so that about as many rows lie between each two; absent meets none."""
    numbers = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    known = sorted({value for value in values if value is not None}, key=float)
    places = np.linspace(0, len(known) - 1, _MOST_BOUNDS + 2).round().astype(int)[1:-1]
    for bound in dict.fromkeys(known[place] for place in places):
        yield f"{name} <= {shown(bound)}", numbers <= float(bound)
        yield f"{name} >= {shown(bound)}", numbers >= float(bound)
