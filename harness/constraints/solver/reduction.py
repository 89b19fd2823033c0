"""Which values can be part of a solution at all, as far as small constraints tell.

A value that satisfies a constraint with no values of its other names is left out of all tables,
and so on until nothing changes (generalised arc consistency: Mackworth, "On Reading Sketch Maps",
1977). Of two parameters with 4,096 values each, one of which divides the other, which divides 4,096
in turn, 13 each are left.
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
_FEW = 3  # names, of which one mostly decides about another


@dataclass
class Reduced:
    """Domains with the values that are left, the tables over them, and what has no table.

    `kept` has the places of the values that are left, for the domains that have lost some; the
    constraints of the `factors` are `tabled`, in the same order.
    """

    domains: dict[str, Sequence[Value]]
    kept: dict[str, Table] = field(default_factory=dict)
    factors: list[Factor] = field(default_factory=list)
    tabled: list[Expression] = field(default_factory=list)
    wide: list[Expression] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether it is certain that there is no solution."""
        return any(not factor.table.any() for factor in self.factors)


def reduce_domains(
    domains: Domains, constraints: Iterable[Expression], given: Mapping[str, Value]
) -> Reduced:
    """Tables of the constraints that are small enough, the smallest first, over what is left of
    the domains. Raises ExpressionError where a constraint cannot be computed for some values."""
    found = Reduced(dict(domains), wide=list(constraints))
    while _tabled(found, given):
        pass
    return found


def _tabled(found: Reduced, given: Mapping[str, Value]) -> bool:
    """Make tables of the constraints that are small enough by now, until domains shrink; whether
    there may be more to do."""
    waiting = sorted(found.wide, key=lambda c: _combinations(c, found.domains))
    found.wide = []
    while waiting:
        constraint = waiting.pop(0)
        try:
            if not _is_small(constraint, found.domains):
                raise TooLarge(constraint.text)
            found.factors.append(constraint_factor(constraint, found.domains, given))
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
    """Whether its table is worth its making."""
    free = sum(len(domains[name]) > 1 for name in constraint.names if name in domains)
    most = _MAX_ENTRIES if free > _FEW else _MAX_ENTRIES_OF_FEW
    return _combinations(constraint, domains) <= most


def _combinations(constraint: Expression, domains: Domains) -> int:
    return math.prod(len(domains[name]) for name in constraint.names if name in domains)


def _shrink(found: Reduced, changed: list[int]) -> bool:
    """Leave out what the changed tables do not support, and look again at what that changes;
    whether anything was left out."""
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
                break  # the table has changed; it is among those to look at again
    return has_shrunk


def _keep(found: Reduced, name: str, places: Table) -> list[int]:
    """Keep these of a domain's values; the tables that this changes."""
    values = found.domains[name]
    found.domains[name] = [values[place] for place in places.tolist()]
    found.kept[name] = found.kept[name][places] if name in found.kept else places
    changed = [k for k, factor in enumerate(found.factors) if name in factor.names]
    for k in changed:
        factor = found.factors[k]
        table = factor.table.take(places, axis=factor.names.index(name))
        found.factors[k] = Factor(factor.names, table)
    return changed
