"""Parameters as factors of a linear model: a column for each level but the default's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from harness.analysis.effects.trials import Trials, TypedValue, key_of
from harness.core.records import Value, shown

if TYPE_CHECKING:
    import pandas as pd

Array = npt.NDArray[np.float64]

MOST_LEVELS = 8
"""Of a parameter; more numbers become ranges with about as many samples each, and more words the
default, the commonest ones and `others`."""


@dataclass(frozen=True)
class Factor:
    """A parameter: its levels, the baseline first, and the level of each row."""

    name: str
    levels: tuple[str, ...]
    codes: npt.NDArray[np.intp]

    def columns(self) -> Array:
        """One column for each level but the baseline: 1 where a row has it, else 0."""
        return np.asarray(self.codes[:, None] == np.arange(1, len(self.levels)), dtype=np.float64)


def factors(settings: pd.DataFrame, found: Trials) -> list[Factor]:
    """The parameters that vary in these rows. The baseline is the default's level, or the
    commonest one where no row has it."""
    if settings.empty:
        return []
    made = (_factor(name, settings[name].tolist(), found.defaults) for name in found.parameters)
    return [factor for factor in made if len(factor.levels) > 1]


def _factor(name: str, values: Sequence[Value], defaults: Mapping[str, Value]) -> Factor:
    levels = _levels(values, key_of(defaults[name]) if name in defaults else None)
    told = [levels[key_of(value)] for value in values]
    counts: dict[str, int] = {}
    for level in told:
        counts[level] = counts.get(level, 0) + 1
    default = levels.get(key_of(defaults[name])) if name in defaults else None
    baseline = default if default is not None else max(counts, key=lambda level: counts[level])
    ordered = list(dict.fromkeys(levels.values()))
    names = (baseline, *(level for level in ordered if level != baseline))
    places = {level: place for place, level in enumerate(names)}
    return Factor(name, names, np.array([places[level] for level in told], dtype=np.intp))


def _levels(values: Sequence[Value], default: TypedValue | None) -> dict[TypedValue, str]:
    """The level of each value, in the order of the levels."""
    distinct = sorted(dict.fromkeys(map(key_of, values)), key=_order)
    if len(distinct) <= MOST_LEVELS:
        return {key: shown(key[1]) for key in distinct}
    numbers = [key for key in distinct if key[0] in (int, float)]
    others = {key: shown(key[1]) for key in distinct if key not in set(numbers)}
    if len(others) < MOST_LEVELS // 2:
        return others | _ranges(numbers, values, MOST_LEVELS - len(others))
    return _commonest(distinct, values, default)


def _order(key: TypedValue) -> tuple[int, float, str]:
    """What is absent first, then numbers ascending, then words."""
    kind, value = key
    if kind in (int, float):
        return 1, float(value), ""  # type: ignore[arg-type]
    return (0, 0.0, "") if value is None else (2, 0.0, str(value))


def _ranges(
    numbers: Sequence[TypedValue], values: Sequence[Value], most: int
) -> dict[TypedValue, str]:
    known = np.array([key[1] for key in numbers], dtype=np.float64)
    rows = np.array([v for v in values if type(v) in (int, float)], dtype=np.float64)
    edges = np.unique(np.quantile(rows, np.linspace(0, 1, most + 1)[1:-1], method="nearest"))
    places = np.searchsorted(edges, known, side="left")
    ends = {
        place: (numbers[inside[0]][1], numbers[inside[-1]][1])
        for place in np.unique(places).tolist()
        for inside in [np.flatnonzero(places == place)]
    }
    names = {
        place: shown(low) if low == high else f"{shown(low)} to {shown(high)}"
        for place, (low, high) in ends.items()
    }
    return {key: names[place] for key, place in zip(numbers, places.tolist(), strict=True)}


def _commonest(
    distinct: Sequence[TypedValue], values: Sequence[Value], default: TypedValue | None
) -> dict[TypedValue, str]:
    """The default's level is its own, since effects are told against it."""
    counts = dict.fromkeys(distinct, 0)
    for value in values:
        counts[key_of(value)] += 1
    ranked = sorted(counts, key=lambda key: (key != default, -counts[key]))
    kept = set(ranked[: MOST_LEVELS - 1])
    return {key: shown(key[1]) if key in kept else "others" for key in distinct}
