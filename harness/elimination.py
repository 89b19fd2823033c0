"""Counting and indexing the solutions of constraints without enumerating their product.

Bucket elimination (Dechter, 1999) over the counting semiring: each constraint is a 0/1 table
over the parameters that it names; eliminating a parameter multiplies the tables that mention
it and sums it out. What remains is the exact number of solutions, and walking the tables
backwards turns any index below that number into its solution. The cost grows with the
largest set of parameters that constraints tie together, not with the product of all.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.arithmetic import MAX_EXACT
from harness.errors import ExpressionError
from harness.expression import Expression
from harness.records import Value

Table = npt.NDArray[Any]

MAX_TABLE_ENTRIES = 1 << 22
"""Above this many entries a table is not built; the caller then samples by rejection."""


MAX_EVALUATIONS = 1 << 17
"""Above this many walks through one constraint (some 5 us each) its table is not built."""


class TooLarge(Exception):
    """The constraints tie together more combinations than a table may hold."""


@dataclass(frozen=True)
class Factor:
    """Non-negative integers over the named parameters: one table axis for each name.

    `child` is the bucket whose parameter was summed out to give this factor.
    """

    names: tuple[str, ...]
    table: Table
    child: Bucket | None = None

    def at(self, picked: Mapping[str, int]) -> int:
        """The entry at the picked value indices."""
        return int(self.table[tuple(picked[name] for name in self.names)])


@dataclass
class Bucket:
    """One eliminated parameter: its solutions' counts by value, given the rest of its scope."""

    name: str
    rest: tuple[str, ...]
    cumulative: Table  # axes: rest, then the parameter; sums along the last axis
    children: list[Factor] = field(default_factory=list)


class Solutions:
    """The solutions of constraints over finite domains: their number, and each by its index."""

    def __init__(
        self,
        domains: Mapping[str, Sequence[Value]],
        constraints: Iterable[Expression],
        given: Mapping[str, Value],
    ) -> None:
        """`given` holds the values of all other names. Raises TooLarge, ExpressionError."""
        self._domains = domains
        factors = [constraint_factor(c, domains, given) for c in constraints]
        self._roots = _eliminate(domains, factors)
        self.count = math.prod(root.at({}) for root in self._roots)

    def __getitem__(self, index: int) -> dict[str, Value]:
        """The solution with this index, 0 <= index < count."""
        if not 0 <= index < self.count:
            raise IndexError(f"solution {index} of {self.count}")
        picked: dict[str, int] = {}
        _unrank(self._roots, index, picked)
        return {name: values[picked[name]] for name, values in self._domains.items()}


def constraint_factor(
    constraint: Expression, domains: Mapping[str, Sequence[Value]], given: Mapping[str, Value]
) -> Factor:
    """The 0/1 table of a constraint over those of its names that have a domain.

    Raises TooLarge, and ExpressionError where some combination cannot be computed.
    """
    names = tuple(name for name in domains if name in constraint.names)
    shape = tuple(len(domains[name]) for name in names)
    if math.prod(shape) > MAX_TABLE_ENTRIES:
        raise TooLarge(f"`{constraint.text}` ties {math.prod(shape):,} combinations together")
    blocks = [_blocks(domains[name]) for name in names]
    _affordable(math.prod(map(len, blocks)), constraint)
    table = np.zeros(shape, dtype=np.int64)
    for cell in itertools.product(*blocks):
        places = np.ix_(*(_array(block.places) for block in cell))
        table[places] = _judged(constraint, dict(zip(names, cell, strict=True)), given)
    return Factor(names, table)


@dataclass(frozen=True)
class _Block:
    """Values of one domain that are judged together, and their places in it."""

    places: Sequence[int]
    values: Sequence[Value]

    def column(self, axis: int, axes: int) -> Any:
        """The numbers as an array along one of so many axes; any other value as it is."""
        if not _is_number(self.values[0]):
            return self.values[0]
        shape = [1] * axes
        shape[axis] = len(self.values)
        return _array(self.values).reshape(shape)


def _is_number(value: Value) -> bool:
    """Whether numpy can hold the value exactly, and order it."""
    return isinstance(value, float) or (isinstance(value, int) and abs(value) <= MAX_EXACT)


def _array(values: Sequence[Any]) -> Table:
    if isinstance(values, range):
        return np.arange(values.start, values.stop, values.step)
    return np.array(values)


def _blocks(domain: Sequence[Value]) -> list[_Block]:
    """A domain as one block of all its numbers, and one for each other value."""
    if isinstance(domain, range) and _is_number(domain[0]) and _is_number(domain[-1]):
        return [_Block(range(len(domain)), domain)]
    numbers = [place for place, value in enumerate(domain) if _is_number(value)]
    blocks = [_Block(numbers, [domain[place] for place in numbers])] if numbers else []
    others = [place for place, value in enumerate(domain) if not _is_number(value)]
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
    rows = itertools.product(*(block.values for block in cell.values()))
    values = (dict(zip(cell, row, strict=True)) for row in rows)
    holds = (bool(constraint.holds({**given, **row})) for row in values)
    return np.fromiter(holds, dtype=np.int64, count=math.prod(shape)).reshape(shape)


def _eliminate(domains: Mapping[str, Sequence[Value]], factors: list[Factor]) -> list[Factor]:
    """Sum out every parameter, always the one with the smallest joint table next."""
    waiting = {name: len(values) for name, values in domains.items()}
    while waiting:
        name = min(waiting, key=lambda name: _joint_size(name, factors, domains))
        del waiting[name]
        used = [factor for factor in factors if name in factor.names]
        factors = [factor for factor in factors if name not in factor.names]
        factors.append(_sum_out(name, used, domains))
    return factors


def _scope(name: str, factors: Iterable[Factor]) -> tuple[str, ...]:
    """The other parameters of the factors that mention this one, in a fixed order."""
    names = {other for factor in factors if name in factor.names for other in factor.names}
    return tuple(sorted(names - {name}))


def _joint_size(
    name: str, factors: Sequence[Factor], domains: Mapping[str, Sequence[Value]]
) -> int:
    return math.prod(len(domains[other]) for other in (name, *_scope(name, factors)))


def _sum_out(name: str, used: Sequence[Factor], domains: Mapping[str, Sequence[Value]]) -> Factor:
    if not used:
        # A parameter that no constraint names: its values are never put into a table.
        return Factor((), np.array(len(domains[name])), Bucket(name, (), np.array(None)))
    rest = _scope(name, used)
    axes = (*rest, name)
    shape = tuple(len(domains[other]) for other in axes)
    if math.prod(shape) > MAX_TABLE_ENTRIES:
        raise TooLarge(f"constraints tie {', '.join(axes)} together: {math.prod(shape):,} entries")
    joint: Table = np.ones(shape, dtype=_count_dtype(domains))
    for factor in used:
        joint = joint * _aligned(factor, axes)
    cumulative = np.cumsum(joint, axis=-1)
    bucket = Bucket(name, rest, cumulative, [f for f in used if f.child is not None])
    return Factor(rest, cumulative[..., -1], bucket)


def _count_dtype(domains: Mapping[str, Sequence[Value]]) -> type:
    """64-bit integers while no count can overflow them, else Python's own."""
    product = math.prod(len(values) for values in domains.values())
    return np.int64 if product < 2**62 else object


def _aligned(factor: Factor, axes: tuple[str, ...]) -> Table:
    """The factor's table with its axes in this order and length 1 where it has none."""
    present = sorted(factor.names, key=axes.index)
    table = np.transpose(factor.table, [factor.names.index(name) for name in present])
    return table.reshape([table.shape[present.index(n)] if n in present else 1 for n in axes])


def _unrank(factors: Iterable[Factor], index: int, picked: dict[str, int]) -> None:
    """Split the index between independent factors and descend into each one's bucket."""
    for factor in factors:
        index, own = divmod(index, factor.at(picked))
        if factor.child is not None:
            _pick(factor.child, own, picked)


def _pick(bucket: Bucket, index: int, picked: dict[str, int]) -> None:
    """Choose the bucket's value by its share of the solutions, then its children's."""
    if bucket.cumulative.ndim == 0:
        picked[bucket.name] = index
        return
    row = bucket.cumulative[tuple(picked[name] for name in bucket.rest)]
    position = int(np.searchsorted(row, index, side="right"))
    picked[bucket.name] = position
    _unrank(bucket.children, index - (int(row[position - 1]) if position else 0), picked)
