"""Constraints as truth tables over the parameters that they name."""

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
"""The most entries of a table."""

MAX_EVALUATIONS = 1 << 17
"""The most evaluations of one constraint for its table (some 5 us each)."""

MAX_IN_64_BITS = 2**62
"""Smaller integers are numpy's; others are Python's own, in arrays of objects."""


class TooLarge(Exception):
    """The constraints connect too many combinations."""


class Chooser(Protocol):
    """The parameters that were summed out of a factor: turns indices below its entries into
    choices."""

    def choose(self, index: Table, picked: dict[str, Table]) -> None:
        """Add the value indices of its names to `picked`, which has those of the factor's names."""


@dataclass(frozen=True)
class Factor:
    """Non-negative integers over the named parameters, with one table axis for each name."""

    names: tuple[str, ...]
    table: Table
    child: Chooser | None = None

    def at(self, picked: Mapping[str, Table]) -> Table:
        """Return the entries at the picked value indices."""
        entries: Table = self.table[tuple(picked[name] for name in self.names)]
        return entries


def constraint_factor(
    constraint: Expression, domains: Domains, fixed: Mapping[str, Value]
) -> Factor:
    """Return the truth table of a constraint over its names that have a domain.

    Raises TooLarge, and ExpressionError where some combination cannot be computed.
    """
    names = tuple(name for name in domains if name in constraint.names)
    shape = tuple(len(domains[name]) for name in names)
    if math.prod(shape) > MAX_TABLE_ENTRIES:
        raise TooLarge(f"`{constraint.text}` connects {math.prod(shape):,} combinations")
    blocks = [_blocks(domains[name]) for name in names]
    _affordable(math.prod(map(len, blocks)), constraint)
    table = np.zeros(shape, dtype=bool)
    for cell in itertools.product(*blocks):
        indices = np.ix_(*(as_array(block.indices) for block in cell))
        table[indices] = _judged(constraint, dict(zip(names, cell, strict=True)), fixed)
    return Factor(names, table)


@dataclass(frozen=True)
class _ValueBlock:
    """Values of one domain that are evaluated together, and their indices in it."""

    indices: Sequence[int]
    values: Sequence[Value]

    def column(self, axis: int, axes: int) -> Any:
        """Return the numbers as an array along one of `axes` axes; any other value as it is."""
        if not is_number(self.values[0]):
            return self.values[0]
        shape = [1] * axes
        shape[axis] = len(self.values)
        return as_array(self.values).reshape(shape)


def is_number(value: Value) -> bool:
    """Whether numpy holds the value exactly and can order it."""
    return isinstance(value, float) or (isinstance(value, int) and abs(value) <= MAX_EXACT)


def as_array(values: Sequence[Any]) -> Table:
    """Return the values as an array, quickly for a range."""
    if isinstance(values, range):
        return np.arange(values.start, values.stop, values.step)
    return np.array(values)


def _blocks(domain: Sequence[Value]) -> list[_ValueBlock]:
    """Split a domain into one block of all its numbers, and one for each other value."""
    if isinstance(domain, range) and is_number(domain[0]) and is_number(domain[-1]):
        return [_ValueBlock(range(len(domain)), domain)]
    numbers = [k for k, value in enumerate(domain) if is_number(value)]
    blocks = [_ValueBlock(numbers, [domain[k] for k in numbers])] if numbers else []
    others = [k for k, value in enumerate(domain) if not is_number(value)]
    return blocks + [_ValueBlock([k], [domain[k]]) for k in others]


def _affordable(evaluations: int, constraint: Expression) -> None:
    if evaluations > MAX_EVALUATIONS:
        raise TooLarge(f"`{constraint.text}` would have to be computed {evaluations:,} times")


def _judged(
    constraint: Expression, cell: Mapping[str, _ValueBlock], fixed: Mapping[str, Value]
) -> Table:
    """Evaluate the constraint over the product of the cell's blocks."""
    shape = tuple(len(block.values) for block in cell.values())
    columns = {name: b.column(axis, len(cell)) for axis, (name, b) in enumerate(cell.items())}
    try:
        return np.broadcast_to(constraint.holds({**fixed, **columns}), shape)
    except ExpressionError:
        # Arrays cannot, at least not exactly. Where scalars cannot either, the error comes again.
        return _judged_singly(constraint, cell, fixed, shape)


def _judged_singly(
    constraint: Expression,
    cell: Mapping[str, _ValueBlock],
    fixed: Mapping[str, Value],
    shape: tuple[int, ...],
) -> Table:
    _affordable(math.prod(shape), constraint)
    holds = (bool(constraint.holds({**fixed, **row})) for row in _rows(cell))
    return np.fromiter(holds, dtype=bool, count=math.prod(shape)).reshape(shape)


def _rows(cell: Mapping[str, _ValueBlock]) -> Iterator[dict[str, Value]]:
    for row in itertools.product(*(block.values for block in cell.values())):
        yield dict(zip(cell, row, strict=True))
