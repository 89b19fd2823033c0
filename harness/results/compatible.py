"""Select the measurements of a campaign that fit its current space, after the space was edited."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from harness.core.records import Value, shown
from harness.results.columns import MeasurementRows


@dataclass(frozen=True)
class Compatible:
    """Measurements whose configurations set exactly the parameters of these names; those that are
    left out, and the parameters that only these or only the current space have."""

    names: frozenset[str]
    rows: MeasurementRows
    left_out: MeasurementRows
    differing: tuple[str, ...]


def compatible(rows: MeasurementRows, known: Iterable[str]) -> Compatible:
    """Keep the rows whose configurations set exactly the parameters of the current space.

    Rows from before a parameter was added, renamed or removed cannot be compared with later ones.
    `known` are the space's parameters. They include the flags of compilers that were not used,
    which no configuration sets.
    """
    table = rows.columns.config_table
    layout = table.layout[rows.of(rows.columns.configs.codes)]
    found = {code: frozenset(table.layouts[code]) for code in np.unique(layout).tolist()}
    space = frozenset(known)
    names = frozenset().union(*(one for one in found.values() if space.issuperset(one)))
    fits = np.array([found.get(code) == names for code in range(len(table.layouts))], dtype=bool)
    kept = fits[layout]
    others = {one for one in found.values() if one != names}
    differing = {name for one in others for name in one - space | names - one}
    return Compatible(names, rows.where(kept), rows.where(~kept), tuple(sorted(differing)))


def with_known_values(
    rows: MeasurementRows, known: Mapping[str, Callable[[Value], bool]]
) -> tuple[MeasurementRows, list[str]]:
    """Keep the rows whose values the parameters still have, as `known` says of each by its name;
    also name the other settings."""
    table, configs = rows.columns.config_table, rows.of(rows.columns.configs.codes)
    is_gone, names = np.zeros(len(rows), dtype=np.bool_), list[str]()
    for name, values, codes in zip(table.names, table.values, table.codes.T, strict=True):
        if name not in known:
            continue
        gone = np.array([*(not known[name](value) for value in values), False])
        here = codes[configs]  # -1, no value, is the last
        is_gone |= gone[here]
        names += [f"{name}={shown(values[code])}" for code in np.unique(here[gone[here]]).tolist()]
    return rows.where(~is_gone), names
