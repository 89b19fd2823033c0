"""What our learners learn, computed for many inputs at once as what is shipped computes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from harness.core.arrays import Array, Flags, Indices
from harness.core.records import Config
from harness.dispatch.portfolio import first_applicable
from harness.dispatch.program import (
    Choice,
    DispatchProgram,
    EnsembleChoice,
    ForestChoice,
    Leaf,
    Node,
    Split,
    TreeChoice,
)
from harness.dispatch.training_set import TrainingSet
from harness.models.encoding.columns import Column, TunedRange, column_values, tuned_range

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class LearntSelector:
    """A choice among the candidates of a matrix.

    `portfolio` has the indices of those that `choice` tells apart, the best single one first;
    outside the tuned range the first of them that applies is taken.
    """

    columns: tuple[Column, ...]
    tuned: tuple[TunedRange, ...]
    portfolio: tuple[int, ...]
    choice: Choice

    def indices(self, features: pd.DataFrame, applies: Flags) -> Indices:
        """Choose as the program does: a candidate's index for each input, -1 where no member of
        the portfolio applies."""
        members = np.array(self.portfolio)
        orders = choice_orders(self.choice, column_values(self.columns, features))
        chosen = first_applicable(members[orders], applies)
        static = first_applicable(members[None, :], applies)
        is_told = tuned_rows(self.tuned, features) & (chosen >= 0)
        indices: Indices = np.where(is_told, chosen, static)
        return indices

    def program(
        self,
        candidates: Sequence[Config],
        guards: Mapping[Config, tuple[str, ...]] | None = None,
    ) -> DispatchProgram:
        """The library-free program; `guards` has constraints over features by candidate."""
        used = sorted({node.column for tree in trees_of(self.choice) for node in splits_of(tree)})
        index_of = {column: index for index, column in enumerate(used)}
        configs = tuple(candidates[index] for index in self.portfolio)
        return DispatchProgram(
            columns=tuple(self.columns[column] for column in used),
            tuned=self.tuned,
            portfolio=configs,
            static=0,
            choice=_with_columns(self.choice, index_of),
            guards=tuple((guards or {}).get(config, ()) for config in configs),
        )


def make_selector(
    lesson: TrainingSet, columns: Sequence[Column], members: Sequence[int], choice: Choice
) -> LearntSelector:
    """What was learnt from a lesson, whose inputs are the tuned range. Members that are chosen on
    none of its inputs are left out, but for those that stand in."""
    orders = np.array(members)[choice_orders(choice, lesson.values)]
    needed = set(first_applicable(orders, lesson.matrix.applies).tolist()) | lesson.stand_ins
    kept = [index for index, member in enumerate(members) if member in needed]
    return LearntSelector(
        tuple(columns),
        tuned_range(lesson.matrix.features),
        tuple(members[index] for index in kept),
        _among(choice, kept),
    )


def tuned_rows(tuned: Sequence[TunedRange], features: pd.DataFrame) -> Flags:
    """Which inputs lie in the tuned range, shape (inputs,)."""
    inside = np.ones(len(features), dtype=bool)
    for one in tuned:
        series = features[one.feature]
        if one.words:
            inside &= series.isin(one.words).to_numpy()
        else:
            inside &= ((series >= one.low) & (series <= one.high)).to_numpy()
    return inside


# --------------------------------------------------------------------- many inputs at once


def choice_orders(choice: Choice, values: Array) -> Indices:
    """The members of a portfolio by preference for each input, shape (inputs, members).

    `values` are those of the columns, shape (inputs, columns). Leaves of one tree may have
    orders of one length only.
    """
    if not isinstance(choice, TreeChoice):
        orders: Indices = np.argsort(expected_costs(choice, values), axis=1, kind="stable")
        return orders
    parts = routed(choice.root, values)
    orders = np.empty((len(values), len(parts[0][0].order)), dtype=np.intp)
    for leaf, rows in parts:
        orders[rows] = leaf.order
    return orders


def expected_costs(choice: EnsembleChoice | ForestChoice, values: Array) -> Array:
    """The expected cost of each member, shape (inputs, members), added up as the program does."""
    if isinstance(choice, ForestChoice):
        return _forest_costs(choice, values)
    costs = np.empty((len(values), len(choice.offsets)))
    for index, (offset, trees) in enumerate(zip(choice.offsets, choice.trees, strict=True)):
        cost = np.full(len(values), offset)
        for tree in trees:
            for leaf, rows in routed(tree, values):
                cost[rows] += leaf.value
        costs[:, index] = cost
    return costs


def _forest_costs(choice: ForestChoice, values: Array) -> Array:
    costs = np.zeros((len(values), choice.count))
    for tree in choice.trees:
        for leaf, rows in routed(tree, values):
            costs[rows] += leaf.costs
    return costs


def routed(root: Node, values: Array) -> list[tuple[Leaf, Indices]]:
    """Each leaf with the rows of the inputs that reach it, shape of `values` (inputs, columns)."""
    found = []
    waiting: list[tuple[Node, Indices]] = [(root, np.arange(len(values)))]
    while waiting:
        node, rows = waiting.pop()
        if isinstance(node, Leaf):
            found.append((node, rows))
            continue
        is_low = values[rows, node.column] <= node.threshold
        waiting += [(node.low, rows[is_low]), (node.high, rows[~is_low])]
    return found


# ------------------------------------------------------------------------------------- trees


def trees_of(choice: Choice) -> tuple[Node, ...]:
    """The one tree, or all of an ensemble."""
    if isinstance(choice, TreeChoice):
        return (choice.root,)
    if isinstance(choice, ForestChoice):
        return choice.trees
    return tuple(tree for trees in choice.trees for tree in trees)


def splits_of(root: Node) -> list[Split]:
    """All nodes of a tree that are no leaves."""
    found: list[Split] = []
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Split):
            found.append(node)
            waiting += [node.low, node.high]
    return found


def leaf_count(choice: Choice) -> int:
    """Leaves of all trees together: what a choice takes to store."""
    return sum(len(splits_of(tree)) + 1 for tree in trees_of(choice))


def splits_passed(choice: Choice, values: Array) -> float:
    """What a choice takes to run: the mean count of comparisons over inputs by the values of their
    columns, shape (inputs, columns)."""
    return sum(_passed(tree, values) for tree in trees_of(choice)) / max(len(values), 1)


def _passed(root: Node, values: Array) -> int:
    passed = 0
    waiting: list[tuple[Node, Indices]] = [(root, np.arange(len(values)))]
    while waiting:
        node, rows = waiting.pop()
        if isinstance(node, Split):
            is_low = values[rows, node.column] <= node.threshold
            waiting += [(node.low, rows[is_low]), (node.high, rows[~is_low])]
            passed += len(rows)
    return passed


def _among(choice: Choice, kept: Sequence[int]) -> Choice:
    """The same choice among some of the members, by their indices."""
    if isinstance(choice, EnsembleChoice):
        return EnsembleChoice(
            tuple(choice.offsets[index] for index in kept),
            tuple(choice.trees[index] for index in kept),
        )
    if isinstance(choice, ForestChoice):
        return ForestChoice(len(kept), tuple(_priced(tree, kept) for tree in choice.trees))
    new = {index: number for number, index in enumerate(kept)}
    return TreeChoice(_ordered(choice.root, new))


def _priced(node: Node, kept: Sequence[int]) -> Node:
    if isinstance(node, Leaf):
        return Leaf(costs=tuple(node.costs[index] for index in kept))
    low, high = _priced(node.low, kept), _priced(node.high, kept)
    return Split(node.column, node.threshold, low, high)


def _ordered(node: Node, new: Mapping[int, int]) -> Node:
    if isinstance(node, Leaf):
        return Leaf(order=tuple(new[m] for m in node.order if m in new), rows=node.rows)
    low, high = _ordered(node.low, new), _ordered(node.high, new)
    if isinstance(low, Leaf) and isinstance(high, Leaf) and low.order == high.order:
        return Leaf(order=low.order, rows=low.rows + high.rows)
    return Split(node.column, node.threshold, low, high)


def _with_columns(choice: Choice, index_of: Mapping[int, int]) -> Choice:
    if isinstance(choice, TreeChoice):
        return TreeChoice(_moved(choice.root, index_of))
    if isinstance(choice, ForestChoice):
        return ForestChoice(choice.count, tuple(_moved(tree, index_of) for tree in choice.trees))
    trees = tuple(tuple(_moved(tree, index_of) for tree in trees) for trees in choice.trees)
    return EnsembleChoice(choice.offsets, trees)


def _moved(node: Node, index_of: Mapping[int, int]) -> Node:
    if isinstance(node, Leaf):
        return node
    low, high = _moved(node.low, index_of), _moved(node.high, index_of)
    return Split(index_of[node.column], node.threshold, low, high)
