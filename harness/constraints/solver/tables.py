"""Constraints as tables of truth over the parameters that they name."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from harness.constraints.arithmetic import MAX_EXACT
from harness.constraints.expression import Expression
from harness.core.errors import ExpressionError
from harness.core.records import Value

Table = npt.NDArray[Any]
Domains = Mapping[str, Sequence[Value]]

MAX_TABLE_ENTRIES = 1 << 22
"""Above this many entries a table is not built."""

MAX_EVALUATIONS = 1 << 17
"""Above this many walks through one constraint (some 5 us each) its table is not built."""

MAX_IN_64_BITS = 2**62
"""Below this integers are numpy's; from here on they are Python's own, in arrays of objects."""


class TooLarge(Exception):
    """The constraints tie together more combinations than is affordable."""


class Chooser(Protocol):
    """What was summed out of a factor, which turns indices below its entries into choices."""

    def choose(self, index: Table, picked: dict[str, Table]) -> None:
        """Add the value indices of its names, one for each index; those of the names that the
        factor is over are picked already."""


@dataclass(frozen=True)
class Factor:
    """Non-negative integers over the named parameters: one table axis for each name."""

    names: tuple[str, ...]
    table: Table
    child: Chooser | None = None

    def at(self, picked: Mapping[str, Table]) -> Table:
        """The entries at the picked value indices."""
        entries: Table = self.table[tuple(picked[name] for name in self.names)]
        return entries


def constraint_factor(
    constraint: Expression, domains: Domains, given: Mapping[str, Value]
) -> Factor:
    """The truth of a constraint over those of its names that have a domain.

    Raises TooLarge, and ExpressionError where some combination cannot be computed.
    """
    names = tuple(name for name in domains if name in constraint.names)
    shape = tuple(len(domains[name]) for name in names)
    if math.prod(shape) > MAX_TABLE_ENTRIES:
        raise TooLarge(f"`{constraint.text}` ties {math.prod(shape):,} combinations together")
    blocks = [_blocks(domains[name]) for name in names]
    _affordable(math.prod(map(len, blocks)), constraint)
    table = np.zeros(shape, dtype=bool)
    for cell in itertools.product(*blocks):
        places = np.ix_(*(as_array(block.places) for block in cell))
        table[places] = _judged(constraint, dict(zip(names, cell, strict=True)), given)
    return Factor(names, table)


@dataclass(frozen=True)
class _Block:
    """Values of one domain that are judged together, and their places in it."""

    places: Sequence[int]
    values: Sequence[Value]

    def column(self, axis: int, axes: int) -> Any:
        """The numbers as an array along one of so many axes; any other value as it is."""
        if not is_number(self.values[0]):
            return self.values[0]
        shape = [1] * axes
        shape[axis] = len(self.values)
        return as_array(self.values).reshape(shape)


def is_number(value: Value) -> bool:
    """Whether numpy can hold the value exactly, and order it."""
    return isinstance(value, float) or (isinstance(value, int) and abs(value) <= MAX_EXACT)


def as_array(values: Sequence[Any]) -> Table:
    """The values, without a look at each where they are a range."""
    if isinstance(values, range):
        return np.arange(values.start, values.stop, values.step)
    return np.array(values)


def _blocks(domain: Sequence[Value]) -> list[_Block]:
    """A domain as one block of all its numbers, and one for each other value."""
    if isinstance(domain, range) and is_number(domain[0]) and is_number(domain[-1]):
        return [_Block(range(len(domain)), domain)]
    numbers = [place for place, value in enumerate(domain) if is_number(value)]
    blocks = [_Block(numbers, [domain[place] for place in numbers])] if numbers else []
    others = [place for place, value in enumerate(domain) if not is_number(value)]
    return blocks + [_Block([place], [domain[place]]) for place in others]


def _affordable(evaluations: int, constraint: Expression) -> None:
    if evaluations > MAX_EVALUATIONS:
        raise TooLarge(f"`{constraint.text}` would have to be computed {evaluations:,} times")


def _judged(
    constraint: Expression, cell: Mapping[str, _Block], given: Mapping[str, Value]
) -> Table:
    """Whether the constraint holds, over the product of the cell's blocks."""
    shape = tuple(len(block.values) for block in cell.values())
    columns = {name: b.column(axis, len(cell)) for axis, (name, b) in enumerate(cell.items())}
    try:
        return np.broadcast_to(constraint.holds({**given, **columns}), shape)
    except ExpressionError:
        # Arrays cannot, or not exactly; or nobody can, which the same error will tell again.
        return _judged_singly(constraint, cell, given, shape)


def _judged_singly(
    constraint: Expression,
    cell: Mapping[str, _Block],
    given: Mapping[str, Value],
    shape: tuple[int, ...],
) -> Table:
    _affordable(math.prod(shape), constraint)
    holds = (bool(constraint.holds({**given, **row})) for row in _rows(cell))
    return np.fromiter(holds, dtype=bool, count=math.prod(shape)).reshape(shape)


def _rows(cell: Mapping[str, _Block]) -> Iterator[dict[str, Value]]:
    for row in itertools.product(*(block.values for block in cell.values())):
        yield dict(zip(cell, row, strict=True))
