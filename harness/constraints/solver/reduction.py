"""Remove values that no solution can have, according to small constraints.

A value that cannot satisfy a constraint with any values of its other names is removed, until
nothing changes (generalised arc consistency: Mackworth, "On Reading Sketch Maps", 1977). Example:
where A divides B and B divides 4,096, 13 of 4,096 values each are left.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from harness.constraints.expression import Expression
from harness.constraints.solver.tables import Domains, Factor, Table, TooLarge, constraint_factor
from harness.core.records import Value

_MAX_ENTRIES = 1 << 16
_MAX_ENTRIES_OF_FEW = 1 << 20
_FEW = 3  # names: with so few, one value often decides another


@dataclass
class Reduced:
    """Domains with the remaining values, the tables over them, and constraints without table.

    `kept` has the indices of the remaining values of reduced domains. `tabled` are the constraints
    of the `factors`, in the same order.
    """

    domains: dict[str, Sequence[Value]]
    kept: dict[str, Table] = field(default_factory=dict)
    factors: list[Factor] = field(default_factory=list)
    tabled: list[Expression] = field(default_factory=list)
    wide: list[Expression] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether there is provably no solution."""
        return any(not factor.table.any() for factor in self.factors)


def reduce_domains(
    domains: Domains, constraints: Iterable[Expression], fixed: Mapping[str, Value]
) -> Reduced:
    """Reduce the domains, and make tables of the small constraints over the remaining values.

    Raises ExpressionError where a constraint cannot be computed for some values.
    """
    found = Reduced(dict(domains), wide=list(constraints))
    while _tabled(found, fixed):
        pass
    return found


def _tabled(found: Reduced, fixed: Mapping[str, Value]) -> bool:
    """Make tables of small constraints, the smallest first, until a domain shrinks; returns whether
    it did."""
    waiting = sorted(found.wide, key=lambda c: combinations(c, found.domains))
    found.wide = []
    while waiting:
        constraint = waiting.pop(0)
        try:
            if not _is_small(constraint, found.domains):
                raise TooLarge(constraint.text)
            found.factors.append(constraint_factor(constraint, found.domains, fixed))
        except TooLarge:
            found.wide.append(constraint)
            continue
        found.tabled.append(constraint)
        if not found.factors[-1].table.any():
            return False
        if _shrink(found, [len(found.factors) - 1]):
            found.wide += waiting
            return True
    return False


def _is_small(constraint: Expression, domains: Domains) -> bool:
    """Whether the table of a constraint is cheap enough."""
    free = sum(len(domains[name]) > 1 for name in constraint.names if name in domains)
    most = _MAX_ENTRIES if free > _FEW else _MAX_ENTRIES_OF_FEW
    return combinations(constraint, domains) <= most


def combinations(constraint: Expression, domains: Domains) -> int:
    """Return the number of combinations of the values of a constraint's names."""
    return math.prod(len(domains[name]) for name in constraint.names if name in domains)


def _shrink(found: Reduced, changed: list[int]) -> bool:
    """Remove the values that the changed tables do not support, and continue with the tables that
    this changes; returns whether any value was removed."""
    has_shrunk = False
    while changed:
        factor = found.factors[changed.pop()]
        if not factor.table.any():
            break
        for axis, name in enumerate(factor.names):
            others = tuple(k for k in range(factor.table.ndim) if k != axis)
            supported = factor.table.any(axis=others)
            if not supported.all():
                changed += _keep(found, name, np.flatnonzero(supported))
                has_shrunk = True
                break  # the table has changed and is in `changed` again
    return has_shrunk


def _keep(found: Reduced, name: str, indices: Table) -> list[int]:
    """Keep the values of a domain with these indices; returns the tables that this changes."""
    values = found.domains[name]
    found.domains[name] = [values[index] for index in indices.tolist()]
    found.kept[name] = found.kept[name][indices] if name in found.kept else indices
    changed = [k for k, factor in enumerate(found.factors) if name in factor.names]
    for k in changed:
        factor = found.factors[k]
        table = factor.table.take(indices, axis=factor.names.index(name))
        found.factors[k] = Factor(factor.names, table)
    return changed
