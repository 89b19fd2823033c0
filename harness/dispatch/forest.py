"""A random forest of all candidates' log slowdowns: for inputs that are too few to boost.

All candidates share the trees, so that what inputs of one leaf have in common takes no part in the
choice among them (Breiman, Random forests, Machine Learning, 2001).
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.core.arrays import Array
from harness.dispatch.growing import Grown, grow_forest
from harness.dispatch.program import ForestChoice, Leaf, Node, Split
from harness.dispatch.training_set import TrainingSet, capped, filled

_TREES = 64  # of 30 candidates, learnt from 100 inputs: what is chosen from in 5 us
_LEAST_IN_LEAF = 3
_SHARE = 0.5  # of the columns, among which a split is looked for


def fit_forest(lesson: TrainingSet, members: Sequence[int], seed: int) -> ForestChoice:
    """Trees whose costs are the members' log slowdowns, up to a cap."""
    logs = filled(capped(lesson.logs[:, members]))
    trees = grow_forest(lesson.ranks, logs, _TREES, _LEAST_IN_LEAF, _SHARE, seed)
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
