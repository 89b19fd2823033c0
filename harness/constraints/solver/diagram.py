"""Decision diagrams for constraints over too many combinations for one table.

The parameters get their values one after the other. A state has what later parameters need of the
values so far: the states of unfinished tables (`Automaton`), and the computed parts of conditions
(`residue`). Combinations with the same state are merged: where a product of parameters is bounded,
there is a state for each product, not for each combination. Arrays find the states of all
combinations of a layer at once. (Bryant, 1986; Srinivasan, Kam, Malik, Brayton, "Algorithms for
Discrete Function Manipulation", 1990.)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from harness.constraints.arithmetic import truth
from harness.constraints.expression import Expression
from harness.constraints.solver.bounds import exactly, truth_bounds
from harness.constraints.solver.elimination import choose_by_sums, share_out
from harness.constraints.solver.residue import Inseparable, Residue
from harness.constraints.solver.tables import MAX_IN_64_BITS, Domains, Factor, Table, TooLarge
from harness.core.errors import ExpressionError
from harness.core.records import Value

MAX_EDGES = 1 << 21
"""The most edges of all layers, states times values of the parameter; 12 bytes each."""


@dataclass
class _Layer:
    """One parameter: `target` has the next state for each state and value, -1 for no solution.

    `weights` has the number of solutions of `factors` for each, where factors hold counts. `sums`
    has the cumulative numbers of solutions along the values.
    """

    name: str
    target: Table
    weights: Table | None = None
    factors: list[Factor] = field(default_factory=list)
    sums: Table = field(default_factory=lambda: np.zeros((0, 0)))


class Diagram:
    """The solutions of factors and conditions over parameters that these connect."""

    def __init__(
        self,
        names: Sequence[str],
        domains: Domains,
        factors: Sequence[Factor],
        conditions: Sequence[Expression],
        fixed: Mapping[str, Value],
    ) -> None:
        """Raises TooLarge, and Inseparable for a condition that cannot be split into parts."""
        ties = [*(f.names for f in factors), *(c.names_in_order for c in conditions)]
        order = _ordered(names, domains, ties)
        states = _States(order, domains, factors, conditions, fixed)
        try:
            self._layers = [states.advance(position) for position in range(len(order))]
        except ExpressionError:
            raise Inseparable from None
        self.count = _sum_up(self._layers)

    def choose(self, index: Table, picked: dict[str, Table]) -> None:
        """Choose every parameter's value by its share of the solutions."""
        state = np.zeros(len(index), dtype=np.int64)
        owed: list[tuple[list[Factor], Table]] = []
        for layer in self._layers:
            value, index = choose_by_sums(layer.sums, state, index)
            picked[layer.name] = value
            if layer.weights is not None:
                weights = layer.weights[state, value]
                owed.append((layer.factors, index % weights))
                index = index // weights
            state = layer.target[state, value].astype(np.int64)
        for factors, own in owed:
            share_out(factors, own, picked)


def _ordered(names: Sequence[str], domains: Domains, ties: Iterable[Sequence[str]]) -> list[str]:
    """Order the names by the constraints with the fewest combinations, so that conditions are
    known early."""

    def combinations(tie: Sequence[str]) -> int:
        return math.prod(len(domains[name]) for name in tie if name in domains)

    first = sorted(ties, key=combinations)
    order = dict.fromkeys(name for tie in first for name in tie if name in names)
    return [*order, *(name for name in names if name not in order)]


def _sum_up(layers: Sequence[_Layer]) -> int:
    """Fill in the sums from the last layer to the first, and return the number of solutions."""
    counts: Table = np.ones(1, dtype=np.int64)
    for layer in reversed(layers):
        edges = np.append(counts, 0)[layer.target]  # -1 is the last, without solutions
        most = layer.target.shape[1] * int(counts.max(initial=0))
        if layer.weights is not None:
            most *= int(layer.weights.max(initial=0))
        if most >= MAX_IN_64_BITS:
            edges = edges.astype(object)
        if layer.weights is not None:
            edges = edges * layer.weights
        layer.sums = np.cumsum(edges, axis=1)
        counts = layer.sums[:, -1]
    return int(counts[0]) if len(counts) else 0


class _States:
    """The states between two parameters, advanced parameter by parameter."""

    def __init__(
        self,
        order: Sequence[str],
        domains: Domains,
        factors: Sequence[Factor],
        conditions: Sequence[Expression],
        fixed: Mapping[str, Value],
    ) -> None:
        position = {name: k for k, name in enumerate(order)}
        self._order = order
        self._extents = [len(domains[name]) for name in order]
        residue = Residue(order, domains, fixed)
        for condition in conditions:
            residue.add(condition)
        self._parts = residue.parts
        self._ends = _last_uses(residue)
        self._automata = [Automaton(factor, position) for factor in factors]
        self._read = [np.full(1, automaton.start) for automaton in self._automata]
        self._values: dict[int, Table] = {}
        # The conditions that are not known yet, and the states in which some of them always hold.
        self._open = {number for number, part in enumerate(self._parts) if part.is_condition}
        self._settled: dict[int, Table] = {}
        self._edges = 0
        self._count = 0 if residue.is_false else 1

    def advance(self, position: int) -> _Layer:
        """Give the parameter at this position its values; returns the layer to the next states."""
        name, extent = self._order[position], self._extents[position]
        self._edges += self._count * extent
        if self._edges > MAX_EDGES:
            raise TooLarge(f"{self._count:,} states, with {extent:,} values of {name} each")
        alive = np.ones((self._count, extent), dtype=bool)
        layer = _Layer(name, np.full(alive.shape, -1, dtype=np.int32))
        if not self._count:
            return layer
        self._look_ahead(alive)
        read = self._read_on(name, alive, layer)
        values = self._computed(position, alive)
        state, value = np.nonzero(alive)
        columns = [column[alive] if column.ndim == 2 else column[state] for column in read]
        settled = {c: column[state] for c, column in self._settled.items() if c in self._open}
        kept = {
            number: np.broadcast_to(found, alive.shape)[alive]
            for number, found in values.items()
            if self._ends[number] > position
        }
        which, first = _distinct([*columns, *settled.values(), *kept.values()], len(state))
        layer.target[state, value] = which
        self._read = [column[first] for column in columns]
        self._settled = {c: column[first] for c, column in settled.items()}
        self._values = {number: column[first] for number, column in kept.items()}
        self._count = len(first)
        return layer

    def _read_on(self, name: str, alive: Table, layer: _Layer) -> list[Table]:
        """Return the automata's states after the parameter, by state or by state and value."""
        read = []
        for k, automaton in enumerate(self._automata):
            now = self._read[k]
            if name in automaton.steps:
                now = automaton.steps[name][now]
                np.logical_and(alive, now != 0, out=alive)
                if automaton.ends_with(name):
                    if automaton.is_weighted:
                        _weigh(layer, automaton.factor, automaton.entries[now])
                    now = np.ones(self._count, dtype=np.int64)
            read.append(now)
        return read

    def _computed(self, position: int, alive: Table) -> dict[int, Table]:
        """Return the parts that are known now, as arrays that broadcast with (states, values)."""
        known = {number: column[:, None] for number, column in self._values.items()}
        for number, part in enumerate(self._parts):
            if part.last == position:
                known[number] = np.atleast_2d(part.value(known))
                if part.is_condition:
                    holds = truth(known[number])
                    if number in self._settled:
                        holds = holds | self._settled[number][:, None]
                    np.logical_and(alive, holds, out=alive)
                    self._open.discard(number)
        return known

    def _look_ahead(self, alive: Table) -> None:
        """Drop states from which a condition can no longer hold, and forget the parts of conditions
        that will always hold."""
        bounds = {number: exactly(column) for number, column in self._values.items()}
        for number, part in enumerate(self._parts):
            if number not in bounds and part.conditions & self._open:
                bounds[number] = part.bounds(bounds)
        for condition in self._open:
            sure, possible = truth_bounds(bounds[condition])
            settled = self._settled.get(condition, np.zeros(self._count, dtype=bool)) | sure
            alive &= (settled | possible)[:, None]
            if settled.any():
                self._settled[condition] = settled
        for number, column in self._values.items():
            conditions = self._parts[number].conditions & self._open
            if conditions <= set(self._settled):
                forgotten = np.logical_and.reduce([self._settled[c] for c in conditions])
                self._values[number] = np.where(forgotten, 0, column)


def _weigh(layer: _Layer, factor: Factor, entries: Table) -> None:
    """Multiply the weights of a layer's edges by the entries of a factor that ends there."""
    layer.weights = entries if layer.weights is None else layer.weights * entries
    layer.factors.append(factor)


def _last_uses(residue: Residue) -> list[int]:
    """Return for each part the last position at which another part uses it."""
    ends = [-1] * len(residue.parts)
    for part in residue.parts:
        for operand in part.operands:
            ends[operand] = max(ends[operand], part.last)
    return ends


def _distinct(columns: Sequence[Table], rows: int) -> tuple[Table, Table]:
    """Return the index of each row among the distinct rows, and one row for each of these."""
    key, size = np.zeros(rows, dtype=np.int64), 1
    for column in columns:
        codes, extent = _codes(column)
        if size * extent > MAX_IN_64_BITS:
            key, size = _codes(np.unique(key, return_inverse=True)[1])
        key, size = key * extent + codes, size * extent
    if size > 4 * rows + 1024:
        _, first, which = np.unique(key, return_index=True, return_inverse=True)
        return which.reshape(-1), first
    first = np.full(size, -1)
    first[key] = np.arange(rows)
    used = first >= 0
    return (np.cumsum(used) - 1)[key], first[used]


def _codes(column: Table) -> tuple[Table, int]:
    """Return small integers that are equal where the column's values are, and their number."""
    if not len(column):
        return column.astype(np.int64), 1
    if column.dtype.kind in "biu":
        whole = column.astype(np.int64)
        low, high = int(whole.min()), int(whole.max())
        if high - low <= 2 * len(column) + 1024:
            return whole - low, high - low + 1
    different, codes = np.unique(column, return_inverse=True)
    return codes.reshape(-1), len(different)


class Automaton:
    """Reads the value indices of a factor's names in a fixed order; the last state is its entry.

    Combinations of the first values that leave the same rest of the table are one state. In state 0
    the entry is 0, whatever follows.
    """

    def __init__(self, factor: Factor, position: Mapping[str, int]) -> None:
        """`position` orders the names."""
        self.factor = factor
        self.names = tuple(sorted(factor.names, key=position.__getitem__))
        table = np.transpose(factor.table, [factor.names.index(name) for name in self.names])
        with_zero = np.concatenate([np.zeros(1, table.dtype), table.reshape(-1)])
        self.entries, states = np.unique(with_zero, return_inverse=True)
        states = states.reshape(-1)[1:].reshape(table.shape)
        steps: list[Table] = []
        for extent in reversed(table.shape):
            step, states = _merged(states.reshape(-1, extent))
            steps.append(step)
        self.steps = dict(zip(self.names, reversed(steps), strict=True))
        self.start = int(states[0])

    @property
    def is_weighted(self) -> bool:
        """Whether its entries are counts, not just true or false."""
        return len(self.entries) > 2 or self.factor.child is not None

    def ends_with(self, name: str) -> bool:
        """Whether this is the last name that the automaton reads."""
        return name == self.names[-1]


def _merged(rows: Table) -> tuple[Table, Table]:
    """Return the distinct rows of small non-negative integers, a row of zeros first, and the index
    of each row among them."""
    with_zero = np.concatenate([np.zeros((1, rows.shape[1]), rows.dtype), rows])
    weights = np.random.default_rng(0).integers(2**62, size=rows.shape[1], dtype=np.uint64)
    keys = with_zero.astype(np.uint64) @ (2 * weights + np.uint64(1))
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    if not np.array_equal(with_zero[first[which]], with_zero):  # two rows with one key
        distinct, which = np.unique(with_zero, axis=0, return_inverse=True)
        return distinct, which.reshape(-1)[1:]
    # The key of zeros is the least.
    return with_zero[first], which[1:]
