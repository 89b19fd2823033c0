"""Code parameters as factors of a linear model, with one column per level but the default's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from harness.analysis.effects.trials import Trials, TypedValue, key_of
from harness.core.arrays import Array, Indices
from harness.core.records import Value, shown

if TYPE_CHECKING:
    import pandas as pd

MOST_LEVELS = 8
"""The most levels of a parameter. More numbers become ranges with about as many samples each; more
words become the default, the most frequent ones and `others`."""


@dataclass(frozen=True)
class TreatmentFactor:
    """A parameter with its levels, the baseline first, and each row's level, shape (rows,)."""

    name: str
    levels: tuple[str, ...]
    codes: Indices

    def columns(self) -> Array:
        """Return indicator columns of all levels but the baseline, shape (rows, levels - 1)."""
        return np.asarray(self.codes[:, None] == np.arange(1, len(self.levels)), dtype=np.float64)


def factors(settings: pd.DataFrame, found: Trials) -> list[TreatmentFactor]:
    """Code the parameters that vary in these rows.

    The baseline is the default's level, or the most frequent one if no row has that.
    """
    if settings.empty:
        return []
    made = (_factor(name, settings[name].tolist(), found.defaults) for name in found.parameters)
    return [factor for factor in made if len(factor.levels) > 1]


def _factor(name: str, values: Sequence[Value], defaults: Mapping[str, Value]) -> TreatmentFactor:
    default = key_of(defaults[name]) if name in defaults else None
    level_of = _levels(values, default)
    levels = [level_of[key_of(value)] for value in values]
    baseline = level_of.get(default) if default else None
    if baseline is None:
        baseline = Counter(levels).most_common(1)[0][0]
    names = tuple(dict.fromkeys([baseline, *level_of.values()]))
    code_of = {level: code for code, level in enumerate(names)}
    return TreatmentFactor(name, names, np.array([code_of[level] for level in levels], np.intp))


def _levels(values: Sequence[Value], default: TypedValue | None) -> dict[TypedValue, str]:
    """Return the level of each value, in the order of the levels."""
    distinct = sorted(dict.fromkeys(map(key_of, values)), key=_order)
    if len(distinct) <= MOST_LEVELS:
        return {key: shown(key[1]) for key in distinct}
    numbers = [key for key in distinct if key[0] in (int, float)]
    others = {key: shown(key[1]) for key in distinct if key not in set(numbers)}
    if len(others) < MOST_LEVELS // 2:
        return others | _ranges(numbers, values, MOST_LEVELS - len(others))
    return _most_frequent(distinct, values, default)


def _order(key: TypedValue) -> tuple[int, float, str]:
    """Sort absent values first, then numbers ascending, then words."""
    kind, value = key
    if kind in (int, float):
        return 1, float(value), ""  # type: ignore[arg-type]
    return (0, 0.0, "") if value is None else (2, 0.0, str(value))


def _ranges(
    numbers: Sequence[TypedValue], values: Sequence[Value], most: int
) -> dict[TypedValue, str]:
    """Group numbers into at most so many ranges with about as many rows each."""
    known = np.array([key[1] for key in numbers], dtype=np.float64)
    rows = np.array([v for v in values if type(v) in (int, float)], dtype=np.float64)
    edges = np.unique(np.quantile(rows, np.linspace(0, 1, most + 1)[1:-1], method="nearest"))
    codes = np.searchsorted(edges, known, side="left")
    names = {}
    for code in np.unique(codes).tolist():
        inside = np.flatnonzero(codes == code)
        low, high = shown(numbers[inside[0]][1]), shown(numbers[inside[-1]][1])
        names[code] = low if low == high else f"{low} to {high}"
    return {key: names[code] for key, code in zip(numbers, codes.tolist(), strict=True)}


def _most_frequent(
    distinct: Sequence[TypedValue], values: Sequence[Value], default: TypedValue | None
) -> dict[TypedValue, str]:
    """Keep the default and the most frequent values as levels; the rest is `others`."""
    counts = Counter(map(key_of, values))
    ranked = sorted(distinct, key=lambda key: (key != default, -counts[key]))
    kept = set(ranked[: MOST_LEVELS - 1])
    return {key: shown(key[1]) if key in kept else "others" for key in distinct}
