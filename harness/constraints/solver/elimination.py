"""Sum out parameters one by one.

Bucket elimination (Dechter, 1999) over the counting semiring: eliminating a parameter multiplies
the tables that mention it and sums it out. What remains is a number of solutions for each
combination of the parameters that are left. Going back through the tables turns any index below
that number into its solution. The cost grows with the largest set of parameters that tables
connect, not with the product of all.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import numpy as np

from harness.constraints.solver.tables import MAX_IN_64_BITS, Domains, Factor, Table


@dataclass
class Bucket:
    """One eliminated parameter: the cumulative counts of solutions by its value.

    `sums` has the axes of `rest`, the other parameters of its tables, then the parameter's own
    axis, along which the counts are cumulative.
    """

    name: str
    rest: tuple[str, ...]
    sums: Table
    children: list[Factor] = field(default_factory=list)

    def choose(self, index: Table, picked: dict[str, Table]) -> None:
        """Choose the parameter's value by its share of the solutions, then its children's."""
        begins = np.zeros(len(index), dtype=np.int64)
        for name, extent in zip(self.rest, self.sums.shape, strict=False):
            begins = begins * extent + picked[name]
        value, index = choose_by_sums(self.sums, begins, index)
        picked[self.name] = value
        share_out(self.children, index, picked)


@dataclass
class Free:
    """A parameter that no constraint names: it needs no table."""

    name: str

    def choose(self, index: Table, picked: dict[str, Table]) -> None:
        """Choose any value."""
        picked[self.name] = index.astype(np.int64)


def eliminate(
    domains: Domains, factors: Iterable[Factor], keep: Collection[str], max_entries: int
) -> tuple[list[Factor], list[str]]:
    """Sum out parameters, always the one with the smallest joint table, except those to keep.

    Stops where that table has more than `max_entries`. Returns the factors and parameters that are
    left.
    """
    left = list(factors)
    sizes = {name: _joint_size(name, left, domains) for name in domains if name not in keep}
    while sizes:
        name = min(sizes, key=sizes.__getitem__)
        used = [factor for factor in left if name in factor.names]
        if sizes[name] > max_entries and any(len(factor.names) > 1 for factor in used):
            break
        del sizes[name]
        summed = _sum_out(name, used, domains)
        left = [*(factor for factor in left if name not in factor.names), summed]
        changed = [other for other in summed.names if other in sizes]
        sizes |= {other: _joint_size(other, left, domains) for other in changed}
    return left, [name for name in domains if name in keep or name in sizes]


def _scope(name: str, factors: Iterable[Factor]) -> tuple[str, ...]:
    """Return the other parameters of the factors that name this one, in a fixed order."""
    names = {other for factor in factors if name in factor.names for other in factor.names}
    return tuple(sorted(names - {name}))


def _joint_size(name: str, factors: Iterable[Factor], domains: Domains) -> int:
    return math.prod(len(domains[other]) for other in (name, *_scope(name, factors)))


def _sum_out(name: str, used: list[Factor], domains: Domains) -> Factor:
    if not used:
        return Factor((), np.array(len(domains[name])), Free(name))
    rest = _scope(name, used)
    axes = (*rest, name)
    dtype = _count_dtype(len(domains[name]), used)
    # Tables of truth values stay bytes until counts come in.
    joint = _aligned(used[0], axes).astype(dtype if dtype is object else used[0].table.dtype)
    for factor in used[1:]:
        joint = joint * _aligned(factor, axes)
    joint = np.broadcast_to(joint, tuple(len(domains[other]) for other in axes))
    sums: Table = np.cumsum(joint, axis=-1, dtype=dtype)
    bucket = Bucket(name, rest, sums, [factor for factor in used if factor.child is not None])
    return Factor(rest, sums[..., -1], bucket)


def _count_dtype(values: int, used: Iterable[Factor]) -> type:
    """Return 64-bit integers where no sum of products can overflow them, else Python's own."""
    most = values * math.prod(max(1, int(factor.table.max())) for factor in used)
    return np.int64 if most < MAX_IN_64_BITS else object


def _aligned(factor: Factor, axes: tuple[str, ...]) -> Table:
    """Return the factor's table with its axes in this order, and length 1 for missing axes."""
    present = sorted(factor.names, key=axes.index)
    table = np.transpose(factor.table, [factor.names.index(name) for name in present])
    return table.reshape([table.shape[present.index(n)] if n in present else 1 for n in axes])


# -------------------------------------------------------------------- choosing


def share_out(factors: Iterable[Factor], index: Table, picked: dict[str, Table]) -> None:
    """Split indices between independent factors, and choose the values summed out of each."""
    for factor in factors:
        shares = factor.at(picked)
        index, own = index // shares, index % shares
        if factor.child is not None:
            factor.child.choose(own, picked)


def choose_by_sums(sums: Table, rows: Table, index: Table) -> tuple[Table, Table]:
    """Find in each row of ascending sums the first that exceeds the index, by bisection.

    Returns its position and the rest of the index. `rows` number all axes of `sums` but the last.
    """
    length, flat = sums.shape[-1], sums.reshape(-1)
    begins = rows * length
    index = index.astype(flat.dtype, copy=False)
    position = np.zeros(len(index), dtype=np.int64)
    for bit in reversed(range((length - 1).bit_length())):
        further = position + (1 << bit)
        inside = np.minimum(further, length - 1)
        position = np.where(
            (further < length) & (flat[begins + inside - 1] <= index), further, position
        )
    before = np.where(position > 0, flat[begins + np.maximum(position, 1) - 1], 0)
    return position, index - before
