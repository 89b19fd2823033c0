"""Measurements of a campaign that can be told beside each other, though its space was edited."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.core.records import Input
from harness.results import Row


@dataclass(frozen=True)
class Unfit:
    """Measurements of configurations with other parameters than the space now has: how many, of
    which inputs, and the parameters that only either side has."""

    count: int
    inputs: frozenset[Input]
    names: tuple[str, ...]


@dataclass(frozen=True)
class Comparable:
    """Measurements of configurations that set exactly these names; and what is left out."""

    names: frozenset[str]
    rows: tuple[Row, ...]
    unfit: Unfit


def comparable(rows: Sequence[Row], known: Iterable[str]) -> Comparable:
    """Those of configurations that set all that a space tunes now, and nothing else: one of before
    a parameter was added, renamed or removed says nothing of the others' values.

    `known` are the space's parameters. The flags of compilers other than the one that was used are
    among them, though no configuration sets them.
    """
    space = frozenset(known)
    told = {tuple(row.measurement.config) for row in rows}  # few, of many configurations
    names = frozenset().union(*(one for one in told if space.issuperset(one)))
    fit = {one for one in told if names == set(one)}
    kept: list[Row] = []
    others: list[Row] = []
    for row in rows:
        (kept if tuple(row.measurement.config) in fit else others).append(row)
    differing = {name for one in map(set, told - fit) for name in one - space | names - one}
    inputs = frozenset(row.measurement.input for row in others)
    return Comparable(names, tuple(kept), Unfit(len(others), inputs, tuple(sorted(differing))))
