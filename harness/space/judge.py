"""Check constraints on one configuration, or on whole arrays of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.constraints.expression import Expression
from harness.constraints.solver import Factor, TooLarge, constraint_factor
from harness.core.errors import ExpressionError
from harness.core.records import Value
from harness.space.points import PointArray, Points

Flags = npt.NDArray[np.bool_]

_MAX_WEIGHED = 4096
_MAX_TABLE_ENTRIES = 1 << 16  # a byte each; larger tables cost more than they save
_MAX_KEPT_ENTRIES = 1 << 24  # of all tables of a space together


class Judge:
    """The constraints of a space, with its parameters and the values of all other names."""

    def __init__(
        self, points: Points, constraints: Iterable[Expression], given: Mapping[str, Value]
    ) -> None:
        self.points = points
        self._given = given
        self._domains = {p.name: p.values for p in points.parameters}
        self._tables: dict[str, Factor | None] = {}
        self._kept_entries = 0
        self.all_constraints = list({c.text: c for c in constraints}.values())
        self.constraints = self._deciding()

    def _deciding(self) -> list[Expression]:
        """Return the constraints without those that always hold."""
        kept = self.all_constraints
        return [c for c in kept if self.combinations(c) > _MAX_WEIGHED or self._decides(c)]

    def combinations(self, constraint: Expression) -> int:
        """Return the number of combinations of the values that a constraint names."""
        pairs = zip(self.points.parameters, self.points.extents, strict=True)
        return math.prod(extent for p, extent in pairs if p.name in constraint.names)

    def _decides(self, constraint: Expression) -> bool:
        """Whether a constraint is false for some values, or cannot be computed for some."""
        table = self._table(constraint)
        return table is None or not table.table.all()

    @cached_property
    def naming(self) -> dict[str, list[Expression]]:
        """By parameter, the constraints that name it."""
        return {n: [c for c in self.constraints if n in c.names] for n in self._domains}

    # ---------------------------------------------------------- one configuration

    def values(self, config: Mapping[str, Value]) -> dict[str, Value]:
        """Return the values of all names."""
        return {**self._given, **config}

    def satisfies(self, constraints: Iterable[Expression], config: Mapping[str, Value]) -> bool:
        """Whether a configuration satisfies all of these constraints."""
        values = self.values(config)
        return all(holds(constraint, values) for constraint in constraints)

    def broken(
        self, constraints: Iterable[Expression], config: Mapping[str, Value]
    ) -> list[Expression]:
        """Return the constraints that a configuration does not satisfy."""
        values = self.values(config)
        return [constraint for constraint in constraints if not holds(constraint, values)]

    # -------------------------------------------------------------- many at once

    def held(self, constraint: Expression, points: PointArray) -> Flags:
        """Whether each of many points satisfies a constraint; False where it cannot be computed."""
        table = self._table(constraint)
        if table is not None:
            columns = tuple(points[:, self.points.axis[name]] for name in table.names)
            found: Flags = np.broadcast_to(table.table[columns], len(points))
            return found
        held = np.empty(len(points), dtype=bool)
        for rows, values in self._alike(constraint, points):
            held[rows] = self._computed(constraint, points, rows, values)
        return held

    def legal_changes(self, here: PointArray, changed: PointArray) -> Flags:
        """Whether each of many points is legal; fast for points that differ little from `here`."""
        legal = np.ones(len(changed), dtype=bool)
        different = changed != here
        for constraint in self.constraints:
            concerned = different @ self._named[constraint.text]
            held = self.held(constraint, np.vstack([here, changed[concerned]]))
            legal[concerned] &= held[1:]
            if not held[0]:
                legal[~concerned] = False
        return legal

    def all_held(self, constraints: Iterable[Expression], points: PointArray) -> Flags:
        """Whether each of many points satisfies all of these constraints."""
        legal = np.ones(len(points), dtype=bool)
        for constraint in constraints:
            left = np.flatnonzero(legal)
            legal[left] = self.held(constraint, points[left])
        return legal

    @cached_property
    def _named(self) -> dict[str, Flags]:
        """By constraint, whether it names each parameter."""
        named = {c.text: [name in c.names for name in self._domains] for c in self.constraints}
        return {text: np.array(flags, dtype=bool) for text, flags in named.items()}

    def _axes(self, constraint: Expression) -> list[int]:
        return [axis for name, axis in self.points.axis.items() if name in constraint.names]

    def _table(self, constraint: Expression) -> Factor | None:
        """Return the truth table of a constraint; None where it would be too large."""
        if constraint.text not in self._tables:
            self._tables[constraint.text] = self._new_table(constraint)
        return self._tables[constraint.text]

    def _new_table(self, constraint: Expression) -> Factor | None:
        entries = self.combinations(constraint)
        if entries > _MAX_TABLE_ENTRIES or self._kept_entries + entries > _MAX_KEPT_ENTRIES:
            return None
        try:
            table = constraint_factor(constraint, self._domains, self._given)
        except (ExpressionError, TooLarge):
            return None
        self._kept_entries += entries
        return table

    def _alike(
        self, constraint: Expression, points: PointArray
    ) -> Iterator[tuple[npt.NDArray[np.intp], dict[str, Value]]]:
        """Yield groups of points that agree in all values that are no numbers, and those values."""
        parameters = self.points.parameters
        none = points[:0]
        fixed = [
            axis for axis in self._axes(constraint) if self.points.values_at(axis, none) is None
        ]
        if not fixed:
            yield np.arange(len(points)), {}
            return
        kinds, group = np.unique(points[:, fixed], axis=0, return_inverse=True)
        for number, kind in enumerate(kinds.tolist()):
            pairs = zip(fixed, kind, strict=True)
            values = {parameters[axis].name: parameters[axis].values[k] for axis, k in pairs}
            yield np.flatnonzero(group.ravel() == number), values

    def _computed(
        self,
        constraint: Expression,
        points: PointArray,
        rows: npt.NDArray[np.intp],
        fixed: Mapping[str, Value],
    ) -> Flags:
        """Evaluate the constraint over arrays, or point by point where arrays are not exact."""
        values: dict[str, Any] = {**self._given, **fixed}
        for axis in self._axes(constraint):
            name = self.points.parameters[axis].name
            if name not in fixed:
                values[name] = self.points.values_at(axis, points[rows, axis])
        try:
            return np.broadcast_to(constraint.holds(values), len(rows))
        except ExpressionError:
            one_by_one = (self.points.decode(points[row].tolist()) for row in rows)
            return np.array([self.satisfies([constraint], values) for values in one_by_one])


def holds(constraint: Expression, values: Mapping[str, Value]) -> bool:
    """Whether a constraint holds; False where it cannot be computed."""
    try:
        return bool(constraint.holds(values))
    except ExpressionError:
        return False
