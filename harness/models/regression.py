"""scikit-learn's regression tree, as plain arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from harness.core.arrays import Array, Indices

NOWHERE = np.iinfo(np.intp).max
TINY_GAIN = 1e-12  # never 0: scikit-learn would split where nothing is gained
_ROUNDING = np.finfo(np.float64).eps  # so much does scikit-learn allow a gain to be too small


@dataclass(frozen=True)
class NodeArrays:
    """The nodes of a tree as arrays, shape (nodes,); `low` is -1 at a leaf. Rows whose column is at
    most the threshold go to `low`, all others to `high`; children have higher indices."""

    low: Indices
    high: Indices
    column: Indices
    threshold: Array

    @classmethod
    def of(cls, tree: Any) -> NodeArrays:
        """Copy scikit-learn's arrays. Unlike its own object, they are read from a cache without
        loading it."""
        low, high, column = tree.children_left, tree.children_right, tree.feature
        return cls(*map(np.array, (low, high, column, tree.threshold)))

    def levels(self, values: Array) -> Iterator[tuple[Indices, Indices]]:
        """Yield for each depth the rows of `values`, shape (rows, columns), that reach it, and
        their nodes there."""
        rows, at = np.arange(len(values)), np.zeros(len(values), dtype=np.intp)
        yield rows, at
        while (is_inner := self.low[at] >= 0).any():
            rows, at = rows[is_inner], at[is_inner]
            is_low = values[rows, self.column[at]] <= self.threshold[at]
            at = np.where(is_low, self.low[at], self.high[at])
            yield rows, at

    def leaves(self, values: Array) -> Indices:
        """Return the leaf that each row reaches, shape (rows,)."""
        reached = np.zeros(len(values), dtype=np.intp)
        for rows, at in self.levels(values):
            reached[rows] = at
        return reached

    def paths(self, values: Array) -> Indices:
        """Return the nodes that each row passes, shape (rows, depth); they are padded with a number
        above any node's."""
        levels = []
        for rows, at in self.levels(values):
            levels.append(np.full(len(values), NOWHERE))
            levels[-1][rows] = at
        paths: Indices = np.stack(levels, axis=1)
        return paths

    def sums(self, paths: Indices, addends: Array) -> Array:
        """Sum the addends of the rows that pass each node, shape (nodes, outputs); `addends` has
        the shape (rows, outputs)."""
        rows, levels = np.nonzero(paths != NOWHERE)
        nodes = paths[rows, levels]
        sums = [np.bincount(nodes, weights=a[rows], minlength=len(self.low)) for a in addends.T]
        return np.stack(sums, axis=1)

    def passing(self, paths: Indices) -> Indices:
        """Count the rows that pass each node, shape (nodes,)."""
        counts: Indices = np.bincount(paths[paths != NOWHERE], minlength=len(self.low))
        return counts

    def parents(self) -> Indices:
        """Return the parent of each node, shape (nodes,); -1 for the root."""
        parent = np.full(len(self.low), -1, dtype=np.intp)
        inner = np.flatnonzero(self.low >= 0)
        parent[self.low[inner]] = inner
        parent[self.high[inner]] = inner
        return parent


@dataclass(frozen=True)
class Regression:
    """A tree that predicts numbers: for each of its nodes the rows that it was grown from, their
    mean, and the sum of squared errors around it, shape (nodes,)."""

    nodes: NodeArrays
    counts: Indices
    means: Array
    sse: Array

    @classmethod
    def fit(
        cls,
        columns: Array,
        values: Array,
        threshold: float = 0.0,
        alpha: float = 0.0,
        fewest_to_split: int = 2,
        seed: int = 0,
    ) -> Regression:
        """Grow a tree. A split must remove the share `threshold` of the root's SSE; a part of the
        tree is pruned where it removes less than `alpha` for each leaf more. `columns` has the
        shape (rows, columns), of finite numbers that are distinct in float32."""
        # On standardised numbers: a large offset would drown the sums of squares.
        mean = float(values.mean())
        deviation = values.std() or 1.0  # 1 where all values are equal
        tree = fitted_tree(
            _plain(columns),
            (values - mean) / deviation,
            seed,
            # In squared error a row, which is 1 at the root for standardised numbers.
            min_impurity_decrease=max(threshold, TINY_GAIN),
            ccp_alpha=alpha,
            min_samples_split=fewest_to_split,
        )
        counts = np.array(tree.n_node_samples)
        # Rounding may leave a pure node's impurity just below 0.
        sse = np.maximum(tree.impurity, 0) * counts * deviation**2
        return cls(NodeArrays.of(tree), counts, tree.value[:, 0, 0] * deviation + mean, sse)

    def leaves(self, columns: Array) -> Indices:
        """Return the node of the leaf that each row reaches."""
        return self.nodes.leaves(_plain(columns))

    def cut(self, threshold: float) -> Regression:
        """Return the tree without the splits that remove less than this share of the root's SSE,
        and without all below them."""
        tree, sse = self.nodes, self.sse
        removed = sse - sse[tree.low] - sse[tree.high]
        is_leaf = removed < (threshold - _ROUNDING) * sse[0]
        return replace(self, nodes=replace(tree, low=np.where(is_leaf, -1, tree.low)))

    def pruned_means(self, alphas: Array) -> Array:
        """Return the mean that rows of each node are predicted by once the tree is pruned with each
        alpha, shape (nodes, alphas): that of the first node above it that becomes a leaf."""
        low, high = self.nodes.low, self.nodes.high
        levels = [np.zeros(1, dtype=np.intp)]  # the inner nodes of each depth
        while len(levels[-1]):
            here = levels[-1][low[levels[-1]] >= 0]
            levels[-1] = here
            levels.append(np.concatenate([low[here], high[here]]))
        as_leaf = (self.sse / (self.sse[0] or 1.0))[:, None] + alphas
        cost, is_leaf = as_leaf.copy(), np.ones(as_leaf.shape, dtype=bool)
        for here in reversed(levels):
            below = cost[low[here]] + cost[high[here]]
            is_leaf[here] = as_leaf[here] <= below
            cost[here] = np.minimum(as_leaf[here], below)
        means = np.repeat(self.means[:, None], len(alphas), axis=1)
        for here in levels:
            for below in (low[here], high[here]):
                means[below] = np.where(is_leaf[here], means[here], means[below])
                is_leaf[below] |= is_leaf[here]
        return means


_STATE = np.random.RandomState()


def fitted_tree(
    columns: np.ndarray,
    targets: Array,
    seed: int,
    weights: Array | None = None,
    **parameters: float,
) -> Any:
    """Fit scikit-learn's tree to columns in single precision, and return its arrays.

    Its checks of arguments take more than half the time of a small tree, and thousands are grown;
    a new random state takes ten times as long as to seed one again. Weights of 1 are none: their
    check takes twice as long as such a tree.
    """
    from sklearn import config_context  # here: it takes half a second to load
    from sklearn.tree import DecisionTreeRegressor

    if np.all(weights == 1):
        weights = None
    _STATE.seed(seed)
    with config_context(skip_parameter_validation=True):
        model = DecisionTreeRegressor(random_state=_STATE, **parameters)
        return model.fit(columns, targets, weights, check_input=False).tree_


def _plain(columns: Array) -> np.ndarray:
    """Return columns as scikit-learn's trees store them."""
    return np.ascontiguousarray(columns, dtype=np.float32)
