"""One tree that chooses, grown on log slowdowns, so that a wrong choice counts by its cost; and the
inputs to learn it from.

Grouped cross-validation chooses its candidates, its leaves, and the inputs of a leaf at least.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from harness.core.arrays import Array, Indices
from harness.dispatch.choice import Choice, Leaf, LearntSelector, Node
from harness.dispatch.growing import Ranks, grow, root_of
from harness.dispatch.matrix import Matrix, first_applicable
from harness.dispatch.portfolio import greedy_portfolio, node_orders, static_order
from harness.models.columns import (
    Column,
    ColumnKind,
    column_values,
    derive_columns,
    most_informative,
    tuned_range,
)
from harness.models.folds import fold_count, grouped_folds
from harness.models.regression import NodeArrays

_SAMPLE = 2000  # inputs; enough to see which columns matter
_CAP = 4.0  # on slowdowns: how bad a bad candidate is says nothing about the good ones


@dataclass(frozen=True)
class _Shape:
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
    indices = most_informative(sample, capped(matrix.log_slowdown[rows]), most, seed)
    aligned = [index for index, column in enumerate(columns) if column.kind is ColumnKind.TWOS]
    kept = [columns[index] for index in sorted({*indices.tolist(), *aligned})]
    return kept, column_values(kept, matrix.features)


def capped(logs: Array) -> Array:
    """Cap log slowdowns, and replace NaN, where a candidate does not apply, by the candidate's
    mean, so that trees do not split on where it applies; shape (inputs, candidates)."""
    logs = np.minimum(logs, np.log(_CAP))
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
        return Ranks.of(self.values)

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

    def selector(
        self,
        columns: Sequence[Column],
        members: Sequence[int],
        choice: Choice,
        more: Collection[int] = (),
    ) -> LearntSelector:
        """Make the selector that was learnt; these inputs are its tuned range. Members that are
        chosen for none of them are left out, except stand-ins, and `more`, by their indices."""
        orders = np.array(members)[choice.orders(self.values)]
        needed = set(first_applicable(orders, self.matrix.applies).tolist()) | self.stand_ins
        kept = [i for i, member in enumerate(members) if member in needed or i in more]
        return LearntSelector(
            tuple(columns),
            tuned_range(self.matrix.features),
            tuple(members[index] for index in kept),
            choice.among(kept),
        )

    def grown(self, shape: _Shape, seed: int) -> tuple[NodeArrays, Indices]:
        """Grow a tree; also return the members by preference for each of its nodes."""
        logs = self.logs[:, self.members(shape.members)]
        weights, targets = self.matrix.learning_weights, capped(logs)
        tree = grow(self.ranks, targets, shape.leaves, shape.least, seed, weights)
        static, groups = self.logs_of(self.static), self.matrix.groups
        return tree, node_orders(tree, tree.paths(self.values), logs, static, groups, weights)

    def root(self, shape: _Shape, seed: int) -> Node:
        """Grow a tree and return its root, whose leaves have the place of each member in their
        order; where every candidate applies to all inputs, the best has 0, all others 1."""
        if not self.values.shape[1]:
            return Leaf(
                tuple(map(float, range(len(self.members(shape.members))))), len(self.values)
            )
        tree, orders = self.grown(shape, seed)
        places = np.argsort(orders, axis=1).astype(float)
        costs = (np.minimum(places, 1) if self.matrix.applies.all() else places).tolist()
        rows = tree.passing(tree.paths(self.values)).tolist()
        count = 2 * shape.leaves - 1
        return root_of(tree, lambda node: Leaf(tuple(costs[node]), rows[node]), count)

    def least_costs(self, members: int, test: TrainingSet) -> float:
        """Sum the weighted log slowdowns on other inputs if the best of this many members were
        known."""
        logs = np.where(test.matrix.applies, test.logs, np.inf)
        best = logs[:, self.members(members)].min(axis=1)
        costs = np.where(np.isinf(best), test.logs_of(self.static), best)
        return float((costs * test.matrix.learning_weights).sum())

    def trial(self, shape: _Shape, counts: Sequence[int], seed: int, test: TrainingSet) -> Array:
        """Compute the weighted log slowdowns on other inputs for each number of leaves, shape
        (counts, inputs)."""
        tree, orders = self.grown(shape, seed)
        members = np.array(self.members(shape.members))
        paths = tree.paths(test.values)
        static = first_applicable(np.array([self.static]), test.matrix.applies)
        rows = np.arange(len(paths))
        logs, weights = [], test.matrix.learning_weights
        for leaves in counts:
            last = (paths < 2 * leaves - 1).sum(axis=1) - 1  # the first nodes are the small tree
            wanted = members[orders[paths[rows, last]]]
            chosen = first_applicable(wanted, test.matrix.applies)
            logs.append(weights * test.logs[rows, np.where(chosen >= 0, chosen, static)])
        return np.stack(logs)


_MOST_COLUMNS = 48
MANY = 4000  # inputs; from here on few folds suffice, and leaves of two inputs are not tried
_FEW_FOLDS = 3
VERY_MANY = 20_000  # inputs; from here on one fold suffices
_LEAST_IN_LEAF = (2, 5, 20)
_MEMBERS = (16, 8, 4, 2)


@dataclass(frozen=True)
class TreeLearner:
    """Learns a dispatcher of one tree with at most `most_leaves` leaves."""

    most_leaves: int = 1024
    name: str = "tree"

    def fit(self, matrix: Matrix, seed: int) -> LearntSelector:
        """Grow the tree for all inputs of a matrix."""
        columns, values = informative_columns(matrix, _MOST_COLUMNS, seed)
        training = TrainingSet(matrix, values)
        shape = _choose_shape(training, self.most_leaves, seed)
        choice = Choice.of_trees([training.root(shape, seed)], predicts_times=False)
        return training.selector(columns, training.members(shape.members), choice)


def _choose_shape(training: TrainingSet, most_leaves: int, seed: int) -> _Shape:
    """Choose the smallest shape whose cost on held-out inputs is within one standard error of the
    least (Breiman et al., Classification and Regression Trees, 1984)."""
    groups = training.matrix.groups
    folds = grouped_folds(groups, fold_count(groups), seed)
    if not folds or not training.values.shape[1]:
        return _Shape(1, 1, 1)
    if len(training.values) >= MANY:
        folds = folds[: _FEW_FOLDS if len(training.values) < VERY_MANY else 1]
    pairs = [(training.part(fold.fit), training.part(fold.test)) for fold in folds]
    costs_of = dict(_tried(pairs, len(training.portfolio), most_leaves, seed))
    best = min(costs_of, key=lambda shape: (float(costs_of[shape].mean()), shape.leaves))
    tested = np.concatenate([groups[fold.test] for fold in folds])
    near = [s for s, costs in costs_of.items() if _is_near(costs - costs_of[best], tested)]
    return min(near, key=lambda shape: (shape.leaves, shape.members, -shape.least))


def _is_near(losses: Array, groups: Indices) -> bool:
    """Say whether a mean loss is within its standard error; the inputs of a group are one
    sample."""
    number = np.unique(groups, return_inverse=True)[1]
    sums = np.bincount(number, weights=losses)
    return bool(sums.sum() <= np.sqrt(len(sums)) * sums.std())


def _tried(
    pairs: list[tuple[TrainingSet, TrainingSet]], portfolio: int, most_leaves: int, seed: int
) -> Iterator[tuple[_Shape, Array]]:
    """Try shapes: learn on the first of each pair, and yield the log slowdowns on the second, shape
    (inputs,)."""
    inputs = max(len(fit.values) for fit, _ in pairs)
    counts = leaf_counts(max(1, min(most_leaves, inputs // 2)))
    sizes = _LEAST_IN_LEAF[int(inputs >= MANY) :]
    # Where two such leaves have more than all inputs, every tree is its root.
    possible = [least for least in sizes if 2 * least <= inputs] or sizes[:1]
    least_cost = float("inf")
    for members in (portfolio, *(size for size in _MEMBERS if size < portfolio)):
        # Fewer candidates cannot do better than the best of them on each input.
        if sum(fit.least_costs(members, test) for fit, test in pairs) >= least_cost:
            return
        for least in possible:
            shape = _Shape(members, counts[-1], least)
            trials = [fit.trial(shape, counts, seed, test) for fit, test in pairs]
            for leaves, costs in zip(counts, np.concatenate(trials, axis=1), strict=True):
                yield _Shape(members, leaves, least), costs
                least_cost = min(least_cost, float(costs.sum()))


def leaf_counts(most: int) -> list[int]:
    """List the numbers of leaves to try: 1, 2, 3, 4, 6, 8, 12, 16 and so on."""
    powers = [2**exponent for exponent in range(most.bit_length())]
    return sorted({n for power in powers for n in (power, power + power // 2) if n <= most})
