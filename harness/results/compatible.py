"""Select the measurements of a campaign that fit its current space, after the space was edited."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.core.records import Input
from harness.results import MeasurementRow


@dataclass(frozen=True)
class LeftOut:
    """Measurements whose configurations have other parameters than the current space: their
    number, their inputs, and the parameters that only one side has."""

    count: int
    inputs: frozenset[Input]
    names: tuple[str, ...]


@dataclass(frozen=True)
class Compatible:
    """Measurements whose configurations set exactly these parameters, and the others."""

    names: frozenset[str]
    rows: tuple[MeasurementRow, ...]
    left_out: LeftOut


def compatible(rows: Sequence[MeasurementRow], known: Iterable[str]) -> Compatible:
    """Keep the rows whose configurations set exactly the parameters of the current space.

    Rows from before a parameter was added, renamed or removed cannot be compared with later ones.
    `known` are the space's parameters. They include the flags of compilers that were not used,
    which no configuration sets.
    """
    space = frozenset(known)
    found = {tuple(row.measurement.config) for row in rows}  # few, of many configurations
    names = frozenset().union(*(one for one in found if space.issuperset(one)))
    fit = {one for one in found if names == set(one)}
    kept: list[MeasurementRow] = []
    others: list[MeasurementRow] = []
    for row in rows:
        (kept if tuple(row.measurement.config) in fit else others).append(row)
    differing = {name for one in map(set, found - fit) for name in one - space | names - one}
    inputs = frozenset(row.measurement.input for row in others)
    return Compatible(names, tuple(kept), LeftOut(len(others), inputs, tuple(sorted(differing))))
