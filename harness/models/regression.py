"""scikit-learn's regression tree, as plain arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from harness.core.arrays import Array, Indices

TINY_GAIN = 1e-12  # never 0: scikit-learn would split where nothing is gained
_ROUNDING = np.finfo(np.float64).eps  # so much does scikit-learn allow a gain to be too small
_DRAWS = np.random.RandomState()  # to make one takes ten times as long as to seed it again


class NodeArrays(NamedTuple):
    """The nodes of scikit-learn's tree, by its names, shape (nodes,), and (nodes, 1, 1) of
    `value`; -1 is the child of a leaf. Unlike its own object, they are read from a cache without
    loading scikit-learn."""

    children_left: Indices
    children_right: Indices
    feature: Indices
    threshold: Array
    value: Array
    impurity: Array
    n_node_samples: Indices

    @property
    def node_count(self) -> int:
        """Count the nodes."""
        return len(self.feature)


@dataclass(frozen=True)
class Regression:
    """A tree grown on standardised numbers, because a large offset would drown the sums of squares;
    `mean` and `deviation` convert back."""

    nodes: NodeArrays
    mean: float
    deviation: float

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
        mean, deviation = float(values.mean()), float(values.std())
        deviation = deviation or 1.0  # all values are equal
        tree = fitted_tree(
            _plain(columns),
            (values - mean) / deviation,
            seed,
            # In squared error a row, which is 1 at the root for standardised numbers.
            min_impurity_decrease=max(threshold, TINY_GAIN),
            ccp_alpha=alpha,
            min_samples_split=fewest_to_split,
        )
        arrays = (np.array(getattr(tree, name)) for name in NodeArrays._fields)
        return cls(NodeArrays(*arrays), mean, deviation)

    def leaves(self, columns: Array) -> Indices:
        """Return the node of the leaf that each row reaches."""
        tree, plain = self.nodes, _plain(columns)
        reached, rows = np.zeros(len(plain), dtype=np.intp), np.arange(len(plain))
        while len(rows := rows[tree.children_left[reached[rows]] >= 0]):
            at = reached[rows]
            is_low = plain[rows, tree.feature[at]] <= tree.threshold[at]
            reached[rows] = np.where(is_low, tree.children_left[at], tree.children_right[at])
        return reached

    def cut(self, threshold: float) -> Regression:
        """Return the tree without the splits that remove less than this share of the root's SSE,
        and without all below them."""
        tree, sse = self.nodes, self.sse
        removed = sse - sse[tree.children_left] - sse[tree.children_right]
        is_leaf = removed < (threshold - _ROUNDING) * sse[0]
        low = np.where(is_leaf, -1, tree.children_left)
        return replace(self, nodes=tree._replace(children_left=low))

    @property
    def means(self) -> Array:
        """The mean of each node's rows."""
        means: Array = self.nodes.value[:, 0, 0] * self.deviation + self.mean
        return means

    @property
    def sse(self) -> Array:
        """The sum of squared errors of each node around its mean."""
        tree = self.nodes
        counts = tree.n_node_samples.astype(np.float64)
        # Rounding may leave a pure node's impurity just below 0.
        sse: Array = np.maximum(tree.impurity, 0) * counts * self.deviation**2
        return sse

    def pruned_means(self, alphas: Array) -> Array:
        """Return the mean that rows of each node are predicted by once the tree is pruned with each
        alpha, shape (nodes, alphas): that of the first node above it that becomes a leaf."""
        low, high = self.nodes.children_left, self.nodes.children_right
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


def fitted_tree(
    columns: np.ndarray,
    targets: Array,
    seed: int,
    weights: Array | None = None,
    **parameters: float,
) -> Any:
    """Fit scikit-learn's tree to columns in single precision, and return its arrays.

    Its checks of arguments take more than half the time of a small tree, and thousands are grown.
    """
    from sklearn import config_context  # here: it takes half a second to load
    from sklearn.tree import DecisionTreeRegressor

    _DRAWS.seed(seed)
    with config_context(skip_parameter_validation=True):
        model = DecisionTreeRegressor(random_state=_DRAWS, **parameters)
        return model.fit(columns, targets, weights, check_input=False).tree_


def _plain(columns: Array) -> np.ndarray:
    """Return columns as scikit-learn's trees store them."""
    return np.ascontiguousarray(columns, dtype=np.float32)
