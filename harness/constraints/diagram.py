"""Decision diagrams: all solutions of constraints, as paths through states.

The parameters get their values one after the other. A state has what later parameters need of the
values so far: the computed parts of conditions (`parts`). Combinations with the same state are
merged, and states from which no condition can be met are dropped: where a product of parameters is
bounded, there is a state for each product below the bound, not for each combination. Arrays find
the states of all combinations of a layer at once. (Bryant, 1986; Srinivasan, Kam, Malik, Brayton,
"Algorithms for Discrete Function Manipulation", 1990.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from harness.constraints.arithmetic import truth
from harness.constraints.expression import Expression
from harness.constraints.parts import Bounds, Domains, Parts, Table, TooLarge, exactly, truth_bounds
from harness.core.records import Value

MAX_IN_64_BITS = 2**62
"""Smaller integers are numpy's; others are Python's own, in arrays of objects."""

_MAX_MERGED = 1 << 21  # edges whose states are compared, which takes the most time


class Diagram:
    """The solutions of constraints, with the values of the names in this order.

    `_targets` has for each name the next state for each state and value. The last state of each
    layer is the dead one, from which nothing is a solution. `_sums` has the cumulative numbers of
    solutions along the values.
    """

    def __init__(
        self,
        order: Sequence[str],
        domains: Domains,
        constraints: Iterable[Expression],
        fixed: Mapping[str, Value],
        most_edges: int,
    ) -> None:
        """`fixed` has the values of all other names. Raises TooLarge."""
        parts = Parts(order, domains, fixed)
        for constraint in constraints:
            parts.add(constraint)
        states = _States(parts)
        self.order, edges = order, 0
        self._targets: list[Table] = []
        for position, name in enumerate(order):
            extent = len(domains[name])
            edges += states.count * extent
            if edges > most_edges:
                raise TooLarge(f"{states.count:,} states, with {extent:,} values of {name} each")
            self._targets.append(states.advance(position, extent))
        self._end = states.count
        self._sums = self._summed()
        self.count = int(self._sums[0][0, -1])

    def _summed(self) -> list[Table]:
        counts: Table = np.array([1, 0][1 - self._end :], dtype=np.int64)
        sums = []
        for target in reversed(self._targets):
            edges = counts[target]
            if target.shape[1] * int(counts.max()) >= MAX_IN_64_BITS:
                edges = edges.astype(object)
            sums.append(np.cumsum(edges, axis=1))
            counts = sums[-1][:, -1]
        return sums[::-1]

    def choose(self, index: Table, picked: dict[str, Table]) -> None:
        """Add the values' indices of the solutions with these indices."""
        state = np.zeros(len(index), dtype=np.int64)
        for name, target, sums in zip(self.order, self._targets, self._sums, strict=True):
            picked[name], index = _bisected(sums, state, index)
            state = target[state, picked[name]]

    def contains(self, picked: Mapping[str, Table]) -> Table:
        """Whether each combination of values' indices is a solution."""
        state = np.zeros(len(picked[self.order[0]]), dtype=np.int64)
        for name, target in zip(self.order, self._targets, strict=True):
            state = target[state, picked[name]]
        return state < self._end

    def nearest(self, cost: Callable[[str], Table]) -> dict[str, int]:
        """Return the values' indices of the solution whose values cost the least in all."""
        away = np.array([0, np.inf][1 - self._end :])
        best = []
        for name, target in zip(reversed(self.order), reversed(self._targets), strict=True):
            edges = away[target] + cost(name)
            best.append(edges.argmin(axis=1))
            away = np.take_along_axis(edges, best[-1][:, None], axis=1)[:, 0]
        state, chosen = 0, {}
        for name, target, value in zip(self.order, self._targets, reversed(best), strict=True):
            chosen[name] = int(value[state])
            state = int(target[state, chosen[name]])
        return chosen


class _States:
    """The states between two parameters, advanced parameter by parameter."""

    def __init__(self, parts: Parts) -> None:
        # Parts of conditions that always hold are not needed.
        self._parts = {number: p for number, p in enumerate(parts.all) if p.conditions}
        self._last_use = dict.fromkeys(self._parts, -1)
        for part in self._parts.values():
            for operand in part.operands:
                if self._parts[operand].last >= 0:
                    self._last_use[operand] = max(self._last_use[operand], part.last)
        self._constants = {n: part.table for n, part in self._parts.items() if part.last < 0}
        self._values: dict[int, Table] = {}
        self.count = 0 if parts.is_false else 1

    def advance(self, position: int, extent: int) -> Table:
        """Give the parameter at this position its values; returns the next state of each edge."""
        shape = (self.count, extent)
        alive: Table = np.ones(shape, dtype=bool)
        known = self._constants | {n: column[:, None] for n, column in self._values.items()}
        for number, part in self._parts.items():
            if part.last == position:
                known[number] = part.value(known)
                if number in part.conditions:
                    alive &= truth(known[number])
        left = np.nonzero(alive)
        kept = {
            number: np.broadcast_to(values, alive.shape)[left]
            for number, values in known.items()
            if self._last_use[number] > position
        }
        if kept and len(left[0]) > _MAX_MERGED:
            raise TooLarge(f"{len(left[0]):,} combinations of states and {extent:,} values")
        which, first = _distinct(list(kept.values()), len(left[0]))
        kept = {number: column[first] for number, column in kept.items()}
        possible = self._possible(kept, len(first))
        self._values = {number: column[possible] for number, column in kept.items()}
        self.count = int(possible.sum())
        target = np.full((shape[0] + 1, extent), self.count, dtype=np.int32)
        target[left] = np.where(possible, np.cumsum(possible) - 1, self.count)[which]
        return target

    def _possible(self, values: Mapping[int, Table], count: int) -> Table:
        """Which states may still lead to a solution, by the bounds of unfinished conditions."""
        bounds: dict[int, Bounds | None] = {n: exactly(column) for n, column in values.items()}
        possible = np.ones(count, dtype=bool)
        unfinished = {c for number in values for c in self._parts[number].conditions}
        for number, part in self._parts.items():
            if number not in bounds and part.conditions & unfinished:
                bounds[number] = part.bounds_with(bounds)
                if number in unfinished:
                    possible &= truth_bounds(bounds[number])[1]
        return possible


def _distinct(columns: Sequence[Table], rows: int) -> tuple[Table, Table]:
    """Return the index of each row among the distinct rows, and one row for each of these."""
    key, count = np.zeros(rows, dtype=np.int64), 1
    for column in columns:
        values, codes = np.unique(column, return_inverse=True)
        if count * len(values) > MAX_IN_64_BITS:
            merged, key = np.unique(key, return_inverse=True)
            count = len(merged)
        key, count = key * len(values) + codes, count * len(values)
    _, first, which = np.unique(key, return_index=True, return_inverse=True)
    return which, first


def _bisected(sums: Table, rows: Table, index: Table) -> tuple[Table, Table]:
    """Find in each row of ascending sums the first that exceeds the index, by bisection.

    Returns its position and the rest of the index.
    """
    length, flat = sums.shape[-1], sums.reshape(-1)
    begins = rows.astype(np.int64) * length
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
