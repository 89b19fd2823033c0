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

from harness.core.arrays import Array, Indices
from harness.dispatch.choice import Node, Split
from harness.models.regression import TINY_GAIN, fitted_tree

_NOWHERE = np.iinfo(np.intp).max
_DRAWS = np.random.RandomState()  # to make one takes ten times as long as to seed it again
_MOST_DIGITS = 16  # of a double that keep its order among others


@dataclass(frozen=True)
class Grown:
    """A tree's nodes as arrays, shape (nodes,); `low` is -1 at a leaf. Inputs whose column is at
    most the threshold go to `low`, all others to `high`; children have higher indices."""

    low: Indices
    high: Indices
    column: Indices
    threshold: Array

    def paths(self, values: Array) -> Indices:
        """Return the nodes that each input passes, shape (inputs, depth); rows are padded with a
        number above any node's."""
        nodes = np.zeros(len(values), dtype=np.intp)
        rows = np.arange(len(values))
        levels = [nodes]
        while len(rows):
            inner = self.low[nodes[rows]] >= 0
            rows = rows[inner]
            at = nodes[rows]
            is_low = values[rows, self.column[at]] <= self.threshold[at]
            nodes = np.full(len(values), _NOWHERE)
            nodes[rows] = np.where(is_low, self.low[at], self.high[at])
            levels.append(nodes)
        paths: Indices = np.stack(levels, axis=1)
        return paths

    def root(self, leaf: Callable[[int], Node], count: int, node: int = 0) -> Node:
        """Make the tree below a node from the first `count` nodes; `leaf` makes its leaves."""
        low, high = int(self.low[node]), int(self.high[node])
        if not 0 <= low < count:
            return leaf(node)
        sides = self.root(leaf, count, low), self.root(leaf, count, high)
        return Split(int(self.column[node]), float(self.threshold[node]), *sides)

    def sums(self, paths: Indices, rows: Array) -> Array:
        """Sum the rows of the inputs that pass each node, shape (nodes, outputs); `rows` has the
        shape (inputs, outputs)."""
        inputs, levels = np.nonzero(paths != _NOWHERE)
        nodes = paths[inputs, levels]
        sums = [
            np.bincount(nodes, weights=column[inputs], minlength=len(self.low)) for column in rows.T
        ]
        return np.stack(sums, axis=1)

    def passing(self, paths: Indices) -> Indices:
        """Count the inputs that pass each node, shape (nodes,)."""
        counts: Indices = np.bincount(paths[paths != _NOWHERE], minlength=len(self.low))
        return counts

    def parents(self) -> Indices:
        """Return the parent of each node, shape (nodes,); -1 for the root."""
        parent = np.full(len(self.low), -1, dtype=np.intp)
        inner = np.flatnonzero(self.low >= 0)
        parent[self.low[inner]] = inner
        parent[self.high[inner]] = inner
        return parent


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
) -> Grown:
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
) -> list[tuple[Grown, Array]]:
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


def _grown(tree: Any, ranks: Ranks) -> Grown:
    """Convert scikit-learn's tree over ranks to one over values."""
    threshold = np.zeros(tree.node_count)
    for node in np.flatnonzero(tree.children_left >= 0):
        level = ranks.levels[tree.feature[node]]
        index = math.floor(tree.threshold[node])
        threshold[node] = between(float(level[index]), float(level[index + 1]))
    return Grown(
        tree.children_left.astype(np.intp),
        tree.children_right.astype(np.intp),
        tree.feature.astype(np.intp),
        threshold,
    )


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
