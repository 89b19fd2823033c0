"""Inputs to learn trees from, and what trees of any size that were grown on them choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from harness.dispatching.columns import column_values, derive_columns, telling
from harness.dispatching.growing import Grown, grow, passing, reached_at
from harness.dispatching.matrix import Array, Matrix, Places
from harness.dispatching.orders import node_orders
from harness.dispatching.portfolio import first_applicable, greedy_portfolio, static_order
from harness.dispatching.program import Column, Leaf, Node, Split

MOST_COLUMNS = 48
_CAP = 4.0  # of a slowdown that is learnt: how bad a bad candidate is tells nothing of the good


@dataclass(frozen=True)
class Shape:
    """How large a tree is: candidates, leaves, and inputs of a leaf at least."""

    members: int
    leaves: int
    least: int


def telling_columns(matrix: Matrix, seed: int) -> tuple[list[Column], Array]:
    """The derived columns that tell most of the log slowdowns, and their values, shape (inputs,
    columns)."""
    columns = derive_columns(matrix.features)
    values = column_values(columns, matrix.features)
    kept = telling(values, filled(capped(matrix.log_slowdown)), MOST_COLUMNS, seed)
    return [columns[place] for place in kept], values[:, kept]


def capped(logs: Array) -> Array:
    """What is learnt: log slowdowns up to a cap."""
    least: Array = np.minimum(logs, np.log(_CAP))
    return least


def filled(logs: Array) -> Array:
    """The mean of a candidate's others where it does not apply, so that no split is drawn to
    where it does; shape (inputs, candidates)."""
    applies = ~np.isnan(logs)
    means = np.where(applies, logs, 0.0).sum(axis=0) / np.maximum(applies.sum(axis=0), 1)
    whole: Array = np.where(applies, logs, means)
    return whole


@dataclass(frozen=True)
class Lesson:
    """Inputs with the numbers of their columns, shape (inputs, columns)."""

    matrix: Matrix
    values: Array

    def part(self, rows: Places) -> Lesson:
        """Some of the inputs, by their places."""
        return Lesson(self.matrix.rows(rows), self.values[rows])

    @cached_property
    def static(self) -> tuple[int, ...]:
        """All candidates in the order of the best static choice."""
        return static_order(self.matrix)

    @cached_property
    def logs(self) -> Array:
        """The log slowdowns, shape (inputs, candidates)."""
        return self.matrix.log_slowdown

    def logs_of(self, order: Sequence[int]) -> Array:
        """Those of the first candidate of an order that applies, shape (inputs,)."""
        chosen = first_applicable(np.array([order]), self.matrix.applies)
        logs: Array = self.logs[np.arange(len(self.logs)), chosen]
        return logs

    @cached_property
    def portfolio(self) -> list[int]:
        """The candidates by what each adds to those before it."""
        return greedy_portfolio(self.matrix)

    def members(self, size: int) -> tuple[int, ...]:
        """The first so many of the portfolio, in the static order."""
        chosen = set(self.portfolio[:size])
        return tuple(place for place in self.static if place in chosen)

    def grown(self, shape: Shape, seed: int) -> tuple[Grown, Places]:
        """A tree, and the members by preference for each of its nodes."""
        logs = self.logs[:, self.members(shape.members)]
        tree = grow(self.values, filled(capped(logs)), shape.leaves, shape.least, seed)
        static, groups = self.logs_of(self.static), self.matrix.groups
        return tree, node_orders(tree, tree.paths(self.values), logs, static, groups)

    def root(self, shape: Shape, seed: int) -> Node:
        """The tree as nodes. Where every candidate applies to all inputs, its leaves hold the best
        alone."""
        if not self.values.shape[1]:
            return Leaf(order=tuple(range(len(self.members(shape.members)))), rows=len(self.values))
        tree, orders = self.grown(shape, seed)
        told = orders[:, :1] if self.matrix.applies.all() else orders
        rows = passing(tree, tree.paths(self.values))
        return _node(tree, told.tolist(), rows.tolist(), 0, 2 * shape.leaves - 1)

    def least_costs(self, members: int, test: Lesson) -> float:
        """The sum of log slowdowns on other inputs if the best of so many candidates were known."""
        logs = np.where(test.matrix.applies, test.logs, np.inf)
        best = logs[:, self.members(members)].min(axis=1)
        return float(np.where(np.isinf(best), test.logs_of(self.static), best).sum())

    def trial(self, shape: Shape, counts: Sequence[int], seed: int, test: Lesson) -> Array:
        """The log slowdowns on other inputs for each number of leaves, shape (counts, inputs)."""
        tree, orders = self.grown(shape, seed)
        members = np.array(self.members(shape.members))
        paths = tree.paths(test.values)
        static = first_applicable(np.array([self.static]), test.matrix.applies)
        rows = np.arange(len(paths))
        logs = []
        for leaves in counts:
            wanted = members[orders[reached_at(paths, leaves)]]
            chosen = first_applicable(wanted, test.matrix.applies)
            logs.append(test.logs[rows, np.where(chosen >= 0, chosen, static)])
        return np.stack(logs)


def _node(tree: Grown, orders: list[list[int]], rows: list[int], node: int, count: int) -> Node:
    """The part of a tree below a node, of its first `count` nodes; a split whose sides choose the
    same is not kept."""
    low, high = int(tree.low[node]), int(tree.high[node])
    if not 0 <= low < count:
        return Leaf(order=tuple(orders[node]), rows=rows[node])
    below = _node(tree, orders, rows, low, count)
    above = _node(tree, orders, rows, high, count)
    if isinstance(below, Leaf) and isinstance(above, Leaf) and below.order == above.order:
        return Leaf(order=below.order, rows=rows[node])
    return Split(int(tree.column[node]), float(tree.threshold[node]), below, above)
