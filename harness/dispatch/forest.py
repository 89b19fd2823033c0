"""A random forest of all candidates' log slowdowns, for too few inputs to boost.

All candidates share the trees, so that what the inputs of a leaf have in common does not affect the
choice among them (Breiman, Random forests, Machine Learning, 2001).
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.core.arrays import Array
from harness.dispatch.growing import Grown, grow_forest
from harness.dispatch.nodes import Leaf, Node, Split
from harness.dispatch.program import ForestChoice
from harness.dispatch.training_set import TrainingSet, capped, filled

_TREES = 64  # with 30 candidates and 100 inputs, choosing takes 5 us
_LEAST_IN_LEAF = 3
_SHARE = 0.5  # of the columns, among which each split is chosen


def fit_forest(training: TrainingSet, members: Sequence[int], seed: int) -> ForestChoice:
    """Fit trees whose costs are the members' capped log slowdowns."""
    logs = filled(capped(training.logs[:, members]))
    trees = grow_forest(training.ranks, logs, _TREES, _LEAST_IN_LEAF, _SHARE, seed)
    roots = tuple(_node(grown, means / len(trees), 0) for grown, means in trees)
    return ForestChoice(len(members), roots)


def _node(tree: Grown, costs: Array, node: int) -> Node:
    low, high = int(tree.low[node]), int(tree.high[node])
    if low < 0:
        return Leaf(costs=tuple(costs[node].tolist()))
    return Split(
        int(tree.column[node]),
        float(tree.threshold[node]),
        _node(tree, costs, low),
        _node(tree, costs, high),
    )
