"""A random forest of all candidates' log slowdowns, for too few inputs to boost.

All candidates share the trees, so that what the inputs of a leaf have in common does not affect the
choice among them (Breiman, Random forests, Machine Learning, 2001).
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.core.arrays import Array
from harness.dispatch.growing import Grown, grow_forest
from harness.dispatch.nodes import Leaf, Node
from harness.dispatch.program import ForestChoice
from harness.dispatch.training_set import TrainingSet, capped, filled

_TREES = 64  # with 30 candidates and 100 inputs, choosing takes 5 us
_LEAST_IN_LEAF = 3
_SHARE = 0.5  # of the columns, among which each split is chosen


def fit_forest(training: TrainingSet, members: Sequence[int], seed: int) -> ForestChoice:
    """Fit trees whose costs are the members' capped log slowdowns."""
    logs = filled(capped(training.logs[:, members]))
    trees = grow_forest(training.ranks, logs, _TREES, _LEAST_IN_LEAF, _SHARE, seed)
    return ForestChoice(
        len(members), tuple(_root(tree, costs / len(trees)) for tree, costs in trees)
    )


def _root(tree: Grown, costs: Array) -> Node:
    return tree.root(lambda node: Leaf(costs=tuple(costs[node].tolist())), len(costs))
