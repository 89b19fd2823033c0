"""Solve constraints: count all solutions, and find any of them by its index.

Three exact methods are combined. Values that small constraints exclude are removed (`reduction`).
Parameters are summed out one by one while the tables are small (`elimination`). The rest becomes
decision diagrams (`diagram`), as do constraints over more combinations than a small table has.
Constraints that are too large for all three are left out, those with the most combinations first.

Solvers that list every solution, like Kernel Tuner's (python-constraint2), need time and memory for
each: 5 s and 1.4 GB for 2.7 million solutions, where this needs a few milliseconds and megabytes
(benchmarks/space.py). Solvers that search one solution after the other, like CP-SAT, neither count
nor draw uniformly.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.constraints.expression import Expression
from harness.constraints.solver.diagram import Diagram
from harness.constraints.solver.elimination import eliminate
from harness.constraints.solver.reduction import Reduced, combinations, reduce_domains
from harness.constraints.solver.residue import Inseparable, Residue
from harness.constraints.solver.tables import (
    MAX_IN_64_BITS,
    Domains,
    Factor,
    Table,
    TooLarge,
    constraint_factor,
)
from harness.core.records import Value

MAX_JOINT_ENTRIES = 1 << 16
"""The most entries of a table that is summed out; diagrams handle larger ones."""


@dataclass(frozen=True)
class Solved:
    """Independent factors without names, whose product is the number of solutions.

    `kept` has the indices of the values that solutions can have, for reduced domains; `left_out`
    are constraints that solutions need not satisfy.
    """

    roots: Sequence[Factor]
    kept: Mapping[str, Table]
    left_out: Sequence[Expression]


@dataclass(frozen=True)
class _Tied:
    """A constraint, and its table unless it is split into parts."""

    constraint: Expression
    factor: Factor | None


def solve(
    domains: Domains, constraints: Iterable[Expression], fixed: Mapping[str, Value]
) -> Solved:
    """Solve as many of the constraints as possible. Raises ExpressionError."""
    reduced = reduce_domains(domains, constraints, fixed)
    if reduced.is_empty:
        return Solved([Factor((), _number(0))], {}, ())
    solver = _Solver(reduced, fixed)
    roots, left_out = solver.solve()
    return Solved(roots, reduced.kept, left_out)


class _Solver:
    def __init__(self, reduced: Reduced, fixed: Mapping[str, Value]) -> None:
        self._reduced = reduced
        self._domains = reduced.domains
        self._fixed = fixed

    def solve(self) -> tuple[list[Factor], list[Expression]]:
        """Return the roots with as many constraints as possible, the smallest first, and the
        constraints that are left out."""
        held = sorted(self._holdable(), key=lambda t: combinations(t.constraint, self._domains))
        known = {tied.constraint.text for tied in held}
        left_out = [c for c in self._reduced.wide if c.text not in known]
        roots = self._attempt(held)
        fewest, most = (0, len(held) - 1) if roots is None else (len(held), len(held))
        while fewest < most:
            middle = (fewest + most + 1) // 2
            found = self._attempt(held[:middle])
            if found is None:
                most = middle - 1
            else:
                fewest, roots = middle, found
        left_out += (tied.constraint for tied in held[fewest:])
        return self._solved([]) if roots is None else roots, left_out

    def _holdable(self) -> Iterator[_Tied]:
        """Yield the constraints that have a table or can be split into parts."""
        pairs = zip(self._reduced.tabled, self._reduced.factors, strict=True)
        yield from (_Tied(constraint, factor) for constraint, factor in pairs)
        for constraint in self._reduced.wide:
            if self._is_separable(constraint):
                yield _Tied(constraint, None)
            else:
                yield from self._as_table(constraint)

    def _is_separable(self, constraint: Expression) -> bool:
        order = [name for name in self._domains if name in constraint.names]
        try:
            Residue(order, self._domains, self._fixed).add(constraint)
        except Inseparable:
            return False
        return True

    def _as_table(self, constraint: Expression) -> Iterator[_Tied]:
        try:
            yield _Tied(constraint, constraint_factor(constraint, self._domains, self._fixed))
        except TooLarge:
            return

    def _attempt(self, held: Sequence[_Tied]) -> list[Factor] | None:
        """Return the roots with these constraints; None where they are too large together."""
        try:
            return self._solved(held)
        except (TooLarge, Inseparable):
            return None

    def _solved(self, held: Sequence[_Tied]) -> list[Factor]:
        """Sum out the cheap parameters, and make diagrams of the rest."""
        factors = [tied.factor for tied in held if tied.factor is not None]
        conditions = [tied.constraint for tied in held if tied.factor is None]
        keep = {name for condition in conditions for name in condition.names}
        left, names = eliminate(self._domains, factors, keep, MAX_JOINT_ENTRIES)
        roots = [factor for factor in left if not factor.names]
        ties = [*(f.names for f in left), *(c.names for c in conditions)]
        for together in _components(names, ties):
            own_factors = [f for f in left if not together.isdisjoint(f.names)]
            own_conditions = [c for c in conditions if not together.isdisjoint(c.names)]
            order = [name for name in names if name in together]
            diagram = Diagram(order, self._domains, own_factors, own_conditions, self._fixed)
            roots.append(Factor((), _number(diagram.count), diagram))
        return roots


def _components(names: Sequence[str], ties: Iterable[Iterable[str]]) -> list[set[str]]:
    """Return the groups of names that no constraint connects."""
    group = {name: {name} for name in names}
    for tie in ties:
        tied = [name for name in tie if name in group]
        for first, other in itertools.pairwise(tied):
            if group[other] is not group[first]:
                group[first] |= group[other]
                group |= dict.fromkeys(group[other], group[first])
    return list({id(together): together for together in group.values()}.values())


def _number(count: int) -> Table:
    """Return a number of any size as a table without axes."""
    return np.array(count, dtype=np.int64 if count < MAX_IN_64_BITS else object)
