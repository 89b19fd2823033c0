"""Inputs to learn trees from, and the choices of trees of every size grown on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from harness.core.arrays import Array, Indices
from harness.dispatch.growing import Grown, Ranks, grow, passing, ranked, reached_at
from harness.dispatch.matrix import Matrix
from harness.dispatch.nodes import Leaf, Node
from harness.dispatch.portfolio import first_applicable, greedy_portfolio, node_orders, static_order
from harness.models.encoding.columns import (
    Column,
    ColumnKind,
    column_values,
    derive_columns,
    most_informative,
)

_SAMPLE = 2000  # inputs; enough to see which columns matter
_CAP = 4.0  # on slowdowns: how bad a bad candidate is says nothing about the good ones
_CENTRED_CAP = 16.0


@dataclass(frozen=True)
class Shape:
    """The size of a tree: candidates, leaves, and the least number of inputs in a leaf."""

    members: int
    leaves: int
    least: int


def informative_columns(matrix: Matrix, most: int, seed: int) -> tuple[list[Column], Array]:
    """Choose the derived columns that predict the log slowdowns best, at most `most`, and all
    columns of alignment, which matter for few inputs but much; also return their values, shape
    (inputs, columns)."""
    columns = derive_columns(matrix.features, alignment=True)
    rows = np.random.default_rng(seed).permutation(len(matrix.features))[:_SAMPLE]
    sample = column_values(columns, matrix.features.iloc[rows])
    indices = most_informative(sample, filled(capped(matrix.log_slowdown[rows])), most, seed)
    aligned = [index for index, column in enumerate(columns) if column.kind is ColumnKind.TWOS]
    kept = [columns[index] for index in sorted({*indices.tolist(), *aligned})]
    return kept, column_values(kept, matrix.features)


def capped(logs: Array) -> Array:
    """Cap log slowdowns before they are learnt from."""
    least: Array = np.minimum(logs, np.log(_CAP))
    return least


def centred(logs: Array) -> Array:
    """Cap log slowdowns and subtract each input's mean over the candidates that apply; shape
    (inputs, candidates), NaN where one does not apply.

    What all candidates share, such as the noise of the best time, does not affect the choice and
    need not be learnt.
    """
    below = np.minimum(logs, np.log(_CENTRED_CAP))
    applies = ~np.isnan(below)
    counts = np.maximum(applies.sum(axis=1, keepdims=True), 1)
    relative: Array = below - np.where(applies, below, 0.0).sum(axis=1, keepdims=True) / counts
    return relative


def filled(logs: Array) -> Array:
    """Replace NaN, where a candidate does not apply, by the candidate's mean, so that trees do not
    split on where it applies; shape (inputs, candidates)."""
    applies = ~np.isnan(logs)
    means = np.where(applies, logs, 0.0).sum(axis=0) / np.maximum(applies.sum(axis=0), 1)
    whole: Array = np.where(applies, logs, means)
    return whole


@dataclass(frozen=True)
class TrainingSet:
    """Inputs with the values of their columns, shape (inputs, columns)."""

    matrix: Matrix
    values: Array

    def part(self, rows: Indices) -> TrainingSet:
        """Keep some of the inputs, by their indices."""
        return TrainingSet(self.matrix.rows(rows), self.values[rows])

    @cached_property
    def static(self) -> tuple[int, ...]:
        """All candidates in the order of the best static choice."""
        return static_order(self.matrix)

    @property
    def known(self) -> tuple[int, ...]:
        """The candidates that apply to some input, in the order of the best static choice."""
        applies = set(np.flatnonzero(self.matrix.applies.any(axis=0)).tolist())
        return tuple(index for index in self.static if index in applies)

    @cached_property
    def stand_ins(self) -> frozenset[int]:
        """The candidates that the best static choice takes on some input: where any candidate
        applies to an input here, one of these does."""
        return frozenset(first_applicable(np.array([self.static]), self.matrix.applies).tolist())

    @cached_property
    def ranks(self) -> Ranks:
        """The column values as ranks, on which trees are grown."""
        return ranked(self.values)

    @cached_property
    def logs(self) -> Array:
        """The log slowdowns, shape (inputs, candidates)."""
        return self.matrix.log_slowdown

    def logs_of(self, order: Sequence[int]) -> Array:
        """Return the log slowdowns of the first candidate of an order that applies, shape
        (inputs,)."""
        chosen = first_applicable(np.array([order]), self.matrix.applies)
        logs: Array = self.logs[np.arange(len(self.logs)), chosen]
        return logs

    @cached_property
    def portfolio(self) -> list[int]:
        """The candidates by what each adds to those before it."""
        return greedy_portfolio(self.matrix)

    def members(self, size: int) -> tuple[int, ...]:
        """Return the first `size` of the portfolio and all stand-ins, in the order of the best
        static choice."""
        chosen = self.stand_ins | set(self.portfolio[:size])
        return tuple(index for index in self.static if index in chosen)

    def grown(self, shape: Shape, seed: int) -> tuple[Grown, Indices]:
        """Grow a tree; also return the members by preference for each of its nodes."""
        logs = self.logs[:, self.members(shape.members)]
        weights, targets = self.matrix.learning_weights, filled(capped(logs))
        tree = grow(self.ranks, targets, shape.leaves, shape.least, seed, weights)
        static, groups = self.logs_of(self.static), self.matrix.groups
        return tree, node_orders(tree, tree.paths(self.values), logs, static, groups, weights)

    def root(self, shape: Shape, seed: int) -> Node:
        """Grow a tree and return its root, whose leaves have the place of each member in their
        order; where every candidate applies to all inputs, the best has 0, all others 1."""
        if not self.values.shape[1]:
            return Leaf(
                tuple(map(float, range(len(self.members(shape.members))))), len(self.values)
            )
        tree, orders = self.grown(shape, seed)
        places = np.argsort(orders, axis=1).astype(float)
        costs = (np.minimum(places, 1) if self.matrix.applies.all() else places).tolist()
        rows = passing(tree, tree.paths(self.values)).tolist()
        return tree.root(lambda node: Leaf(tuple(costs[node]), rows[node]), 2 * shape.leaves - 1)

    def least_costs(self, members: int, test: TrainingSet) -> float:
        """Sum the weighted log slowdowns on other inputs if the best of this many members were
        known."""
        logs = np.where(test.matrix.applies, test.logs, np.inf)
        best = logs[:, self.members(members)].min(axis=1)
        costs = np.where(np.isinf(best), test.logs_of(self.static), best)
        return float(test.weighted(costs).sum())

    def weighted(self, logs: Array) -> Array:
        """Return log slowdowns, each times its input's weight, shape (inputs,)."""
        weights = self.matrix.learning_weights
        return logs if weights is None else logs * weights

    def trial(self, shape: Shape, counts: Sequence[int], seed: int, test: TrainingSet) -> Array:
        """Compute the weighted log slowdowns on other inputs for each number of leaves, shape
        (counts, inputs)."""
        tree, orders = self.grown(shape, seed)
        members = np.array(self.members(shape.members))
        paths = tree.paths(test.values)
        static = first_applicable(np.array([self.static]), test.matrix.applies)
        rows = np.arange(len(paths))
        logs = []
        for leaves in counts:
            wanted = members[orders[reached_at(paths, leaves)]]
            chosen = first_applicable(wanted, test.matrix.applies)
            logs.append(test.weighted(test.logs[rows, np.where(chosen >= 0, chosen, static)]))
        return np.stack(logs)
