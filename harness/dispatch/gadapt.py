"""G-ADAPT's model as a dispatcher: Liu, Zhang, Shen, "A Cross-Input Adaptive Framework for GPU
Program Optimizations", IPDPS 2009.

The model (harness.models.gadapt) predicts each parameter by a tree of its own. A linear leaf's
value is rounded to the nearest legal value of the parameter, of two equally near ones to the
smaller. The candidate nearest to the predicted vector is chosen: each parameter adds the number of
its values in between, as a share of all; a word that differs adds 1.

So a predicted value gives each candidate a cost, and the costs of all parameters are added: a
forest with one tree a parameter. A linear leaf becomes splits on a linear column, halfway between
legal values.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.dispatch.choice import Choice, Leaf, LearntSelector, Node, Split
from harness.dispatch.growing import root_of
from harness.dispatch.learners import candidate_table
from harness.dispatch.matrix import Matrix
from harness.dispatch.tree import TrainingSet
from harness.models import gadapt
from harness.models.columns import (
    Column,
    ColumnKind,
    LinearTerm,
    column_values,
    derive_columns,
    values_of,
)
from harness.models.regression import NodeArrays

if TYPE_CHECKING:
    import pandas as pd

_MOST_VECTORS = 4096  # predicted vectors that are tried to see which candidates can be chosen


@dataclass(frozen=True)
class GAdapt:
    """Learns a dispatcher of a tree for each parameter, from the best candidate of each input."""

    name: str = "gadapt"

    def fit(self, matrix: Matrix, seed: int) -> LearntSelector:
        """Fit the model to all inputs of a matrix."""
        if not derive_columns(matrix.features):  # all inputs look alike: nothing to choose by
            training = TrainingSet(matrix, np.empty((len(matrix.features), 0)))
            members = training.members(len(training.portfolio))
            choice = Choice.in_order(len(members), len(matrix.features))
            return training.selector((), members, choice)
        table = candidate_table(matrix)
        legal = {str(name): values_of(table[name]) for name in table.columns}
        model = gadapt.fit(matrix.features, table.iloc[matrix.best], legal, seed)
        forest = _Forest(model.features, list(model.features.columns))
        trees = {name: forest.tree(tree, table[name]) for name, tree in model.trees.items()}
        values = column_values(forest.columns, matrix.features)
        training = TrainingSet(matrix, values)
        members = training.known
        choice = Choice.of_trees(list(trees.values()), predicts_times=False).among(members)
        return training.selector(forest.columns, members, choice, _nearest_ones(choice))


def _nearest_ones(choice: Choice) -> set[int]:
    """Return the indices of members that are the nearest to some predicted vector; all if there are
    very many vectors."""
    rows = [list(dict.fromkeys(leaf.costs for leaf in t.root.leaves())) for t in choice.trees]
    if math.prod(map(len, rows)) > _MOST_VECTORS:
        return set(range(len(choice.offsets)))
    sums = np.zeros((1, len(choice.offsets)))
    for own in rows:
        sums = (sums[:, None, :] + np.array(own)).reshape(-1, len(choice.offsets))
    return set(sums.argmin(axis=1).tolist())


@dataclass(frozen=True)
class _Forest:
    """Writes trees of parameters as trees of costs; `columns` has those of the model, and gets the
    linear ones."""

    features: gadapt.Features
    columns: list[Column]

    def tree(self, tree: gadapt.NumberTree | gadapt.WordTree, candidates: pd.Series[Any]) -> Node:
        """Write the tree of a parameter, whose values the candidates have."""
        import pandas as pd

        legal = pd.Series(list(tree.legal), dtype=object).infer_objects()
        costs = [tuple(row) for row in gadapt.value_distances(legal, candidates).tolist()]
        if isinstance(tree, gadapt.WordTree):
            classes, nodes = tree.tree.classes_, tree.tree.tree_
            return self._root(
                NodeArrays.of(nodes),
                lambda node: Leaf(costs[classes[nodes.value[node, 0].argmax()]]),
            )
        return self._root(
            tree.tree.nodes, lambda node: self._rounded(tree.leaves[node], tree.legal, costs)
        )

    def _root(self, nodes: NodeArrays, leaf: Callable[[int], Node]) -> Node:
        """Make the tree; columns that it had as logarithms become plain numbers."""
        are_logs = (nodes.column >= 0) & (self.features.low[nodes.column.clip(0)] > 0)
        with np.errstate(over="ignore"):
            thresholds = np.where(are_logs, np.exp2(nodes.threshold), nodes.threshold)
        return root_of(replace(nodes, threshold=thresholds), leaf)

    def _rounded(
        self, leaf: gadapt.LinearLeaf, legal: Sequence[Any], costs: Sequence[tuple[float, ...]]
    ) -> Node:
        """Write a leaf as splits halfway between legal values."""
        if not leaf.weights.any():
            halfway = [(low + high) / 2 for low, high in itertools.pairwise(legal)]
            return Leaf(costs[bisect.bisect_left(halfway, leaf.constant)])
        terms = tuple(
            LinearTerm(self.columns[index].features[0], weight, is_log)
            for (index, is_log), weight in zip(
                self.features.sizes, leaf.weights.tolist(), strict=True
            )
            if weight
        )
        names = tuple(dict.fromkeys(term.feature for term in terms))
        self.columns.append(Column(ColumnKind.LINEAR, names, constant=leaf.constant, terms=terms))
        return _nearest(len(self.columns) - 1, legal, costs)


def _nearest(column: int, legal: Sequence[Any], costs: Sequence[tuple[float, ...]]) -> Node:
    """Find the legal value nearest to a column's number; the smaller of two equally near ones."""
    if len(legal) == 1:
        return Leaf(costs[0])
    middle = len(legal) // 2
    return Split(
        column,
        (legal[middle - 1] + legal[middle]) / 2,
        _nearest(column, legal[:middle], costs[:middle]),
        _nearest(column, legal[middle:], costs[middle:]),
    )
