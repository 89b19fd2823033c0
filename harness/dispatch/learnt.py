"""What the learners learn, computed for many inputs at once exactly as generated code does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from harness.core.arrays import Array, Flags, Indices
from harness.core.records import Config
from harness.dispatch.nodes import Node, Split
from harness.dispatch.portfolio import first_applicable
from harness.dispatch.program import (
    Choice,
    DispatchProgram,
    EnsembleChoice,
    ForestChoice,
    TreeChoice,
    with_used_columns,
)
from harness.dispatch.training_set import TrainingSet
from harness.models.encoding.columns import (
    Column,
    TunedRange,
    column_values,
    tuned_range,
)

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class LearntSelector:
    """A choice among the candidates of a matrix.

    `portfolio` has the indices of the candidates that `choice` distinguishes, the best single one
    first; outside of the tuned range the first of them that applies is taken.
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
        is_chosen = tuned_rows(self.tuned, features) & (chosen >= 0)
        indices: Indices = np.where(is_chosen, chosen, static)
        return indices

    def splits_passed(self, features: pd.DataFrame) -> float:
        """Compute the mean number of comparisons that choosing takes, over these inputs."""
        return splits_passed(self.choice, column_values(self.columns, features))

    def program(
        self,
        candidates: Sequence[Config],
        guards: Mapping[Config, tuple[str, ...]] | None = None,
    ) -> DispatchProgram:
        """Make the library-free program; `guards` has each candidate's constraints over
        features."""
        configs = tuple(candidates[index] for index in self.portfolio)
        columns, choice = with_used_columns(self.columns, self.choice)
        return DispatchProgram(
            columns=columns,
            tuned=self.tuned,
            portfolio=configs,
            static=0,
            choice=choice,
            guards=tuple((guards or {}).get(config, ()) for config in configs),
        )


def make_selector(
    training: TrainingSet, columns: Sequence[Column], members: Sequence[int], choice: Choice
) -> LearntSelector:
    """Make the selector that was learnt from a training set, whose inputs are the tuned range.
    Members that are chosen for none of its inputs are left out, except stand-ins."""
    orders = np.array(members)[choice_orders(choice, training.values)]
    needed = set(first_applicable(orders, training.matrix.applies).tolist()) | training.stand_ins
    kept = [index for index, member in enumerate(members) if member in needed]
    return LearntSelector(
        tuple(columns),
        tuned_range(training.matrix.features),
        tuple(members[index] for index in kept),
        choice.among(kept),
    )


def tuned_rows(tuned: Sequence[TunedRange], features: pd.DataFrame) -> Flags:
    """Say which inputs lie in the tuned range, shape (inputs,)."""
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
    """Sort the members of a portfolio for each input, best first, shape (inputs, members).

    `values` has the shape (inputs, columns). The orders in one tree must have the same length.
    """
    if not isinstance(choice, TreeChoice):
        orders: Indices = np.argsort(expected_costs(choice, values), axis=1, kind="stable")
        return orders
    parts = list(choice.root.routed(values))
    orders = np.empty((len(values), len(parts[0][0].order)), dtype=np.intp)
    for leaf, rows in parts:
        orders[rows] = leaf.order
    return orders


def expected_costs(choice: EnsembleChoice | ForestChoice, values: Array) -> Array:
    """Compute the expected cost of each member, shape (inputs, members), summed in the program's
    order."""
    if isinstance(choice, ForestChoice):
        return _forest_costs(choice, values)
    costs = np.empty((len(values), len(choice.offsets)))
    for index, (offset, trees) in enumerate(zip(choice.offsets, choice.by_candidate, strict=True)):
        cost = np.full(len(values), offset)
        for tree in trees:
            for leaf, rows in tree.routed(values):
                cost[rows] += leaf.value
        costs[:, index] = cost
    return costs


def _forest_costs(choice: ForestChoice, values: Array) -> Array:
    costs = np.zeros((len(values), choice.count))
    for tree in choice.trees:
        costs += routed_costs(tree, values)
    return costs


def routed_costs(tree: Node, values: Array) -> Array:
    """Return the costs of the leaf that each input reaches, shape (inputs, members)."""
    parts = [(leaf.costs, rows) for leaf, rows in tree.routed(values)]
    costs = np.empty((len(values), len(parts[0][0])))
    for of_leaf, rows in parts:
        costs[rows] = of_leaf
    return costs


def leaf_count(choice: Choice) -> int:
    """Count the leaves of all trees: the size of a choice."""
    return sum(1 for tree in choice.trees for _ in tree.leaves())


def splits_passed(choice: Choice, values: Array) -> float:
    """Compute the mean number of comparisons that choosing takes, over inputs with these column
    values, shape (inputs, columns)."""
    passed = sum(
        len(rows)
        for tree in choice.trees
        for node, rows in tree.passed(values)
        if isinstance(node, Split)
    )
    return passed / max(len(values), 1)
