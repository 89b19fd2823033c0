"""Regression trees over many outputs: one grown best split first, which contains all its smaller
versions, or a forest.

scikit-learn numbers the nodes of a tree with `max_leaf_nodes` in the order in which they were
split: the first 2 n - 1 nodes are the tree of n leaves, so one tree gives every size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.dispatch.choice import Node, Split
from harness.models.regression import TINY_GAIN, NodeArrays, fitted_tree

_DRAWS = np.random.RandomState()  # to make one takes ten times as long as to seed it again
_MOST_DIGITS = 16  # of a double that keep its order among others


def root_of(
    nodes: NodeArrays, leaf: Callable[[int], Node], count: int | None = None, node: int = 0
) -> Node:
    """Make the tree below a node from the first `count` nodes, or all; `leaf` makes its leaves."""
    low, high = int(nodes.low[node]), int(nodes.high[node])
    if not 0 <= low < (count or len(nodes.low)):
        return leaf(node)
    sides = root_of(nodes, leaf, count, low), root_of(nodes, leaf, count, high)
    return Split(int(nodes.column[node]), float(nodes.threshold[node]), *sides)


@dataclass(frozen=True)
class Ranks:
    """The distinct values of each column, ascending, and each input's index among them, shape
    (inputs, columns). Trees are grown on these indices, so that thresholds are exact: scikit-learn
    would round values to single precision."""

    levels: tuple[Array, ...]
    indices: npt.NDArray[np.float32]

    @classmethod
    def of(cls, values: Array) -> Ranks:
        """Rank finite values, shape (inputs, columns)."""
        indices = np.empty(values.shape, dtype=np.float32)
        levels = []
        for index, column in enumerate(values.T):
            level = np.unique(column)
            indices[:, index] = np.searchsorted(level, column)
            levels.append(level)
        return cls(tuple(levels), indices)


def grow(
    ranks: Ranks, targets: Array, leaves: int, least: int, seed: int, weights: Array | None = None
) -> NodeArrays:
    """Grow the tree of least squared error over all outputs, with at most `leaves` leaves of at
    least `least` inputs each; `targets` has the shape (inputs, outputs), all finite. `weights` say
    by how much each input counts, shape (inputs,)."""
    tree = fitted_tree(
        ranks.indices,
        targets,
        seed,
        weights,
        max_leaf_nodes=max(2, leaves),
        min_samples_leaf=least,
        min_impurity_decrease=TINY_GAIN,
    )
    return _grown(tree, ranks)


def grow_forest(
    ranks: Ranks, targets: Array, count: int, least: int, share: float, seed: int, weights: Array
) -> list[tuple[NodeArrays, Array]]:
    """Grow `count` trees, each on inputs drawn with replacement, with leaves of at least `least`
    inputs; each split is the best on a random `share` of the columns. Return each tree with the
    mean targets of its nodes, shape (nodes, outputs).

    `targets` has the shape (inputs, outputs), all finite, with at least two outputs. `weights` say
    by how much each input counts, shape (inputs,).
    """
    # RandomForestRegressor grows the same trees, and takes 1.7 times as long for few inputs.
    draws, inputs = np.random.RandomState(seed), len(targets)
    trees = []
    for _ in range(count):
        state = draws.randint(np.iinfo(np.int32).max)
        _DRAWS.seed(state)
        drawn = _DRAWS.randint(0, inputs, inputs)
        counted = np.bincount(drawn, weights=weights[drawn], minlength=inputs).astype(np.float64)
        trees.append(
            fitted_tree(
                ranks.indices, targets, state, counted, min_samples_leaf=least, max_features=share
            )
        )
    return [(_grown(tree, ranks), tree.value[:, :, 0]) for tree in trees]


def _grown(tree: Any, ranks: Ranks) -> NodeArrays:
    """Convert scikit-learn's tree over ranks to one over values."""
    nodes = NodeArrays.of(tree)
    for node in np.flatnonzero(nodes.low >= 0):
        level, index = ranks.levels[nodes.column[node]], math.floor(nodes.threshold[node])
        nodes.threshold[node] = between(float(level[index]), float(level[index + 1]))
    return nodes


def between(low: float, high: float) -> float:
    """Return a round threshold, with `low` at or below it and `high` above.

    It has the fewest decimal digits among the numbers of the middle half between them, which is
    measured by ratio if both are positive, as sizes are. Between whole numbers it is whole.
    """

    def at(share: float) -> float:
        if low > 0:
            return math.exp((1 - share) * math.log(low) + share * math.log(high))
        return low + share * (high - low)

    middle = math.sqrt(low) * math.sqrt(high) if low > 0 else low + (high - low) / 2
    if not low <= middle < high:
        return low
    whole = low.is_integer() and high.is_integer()
    least, most = max(low, at(0.25)), min(at(0.75), math.nextafter(high, low))
    by_digits = (float(f"{middle:.{digits}e}") for digits in range(_MOST_DIGITS))
    candidates = [middle] if math.frexp(middle)[0] == 0.5 else by_digits  # 2048, not 2000
    for rounded in candidates:
        if least <= rounded <= most and (rounded.is_integer() or not whole):
            return rounded
    return float(math.floor(middle)) if whole else middle
