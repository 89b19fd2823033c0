"""Boosted trees that predict each candidate's log time relative to the others', or a forest where
inputs are few; the candidate with the least expected cost is chosen.

They predict better than one tree, and cost some microseconds and some hundred kilobytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

from harness.core.arrays import Array
from harness.dispatch.choice import Choice, CostTree, Leaf, LearntSelector, Node
from harness.dispatch.growing import grow_forest, root_of
from harness.dispatch.matrix import Matrix
from harness.dispatch.tree import TrainingSet, capped, informative_columns
from harness.models.regression import NodeArrays

if TYPE_CHECKING:
    from sklearn.ensemble import HistGradientBoostingRegressor


_MOST_COLUMNS = 64
_CENTRED_CAP = 16.0
TREES = 200  # of all candidates together: choosing takes 5 us
_MOST_TREES = 40  # of a candidate: few large trees predict as well as many small ones, and faster
_LEAST_RATE = 0.25
_UNLEARNT = 0.01  # share left unlearnt at most: with fewer trees, each must learn more
_LEAVES = 256
_DEPTH = 10  # all trees are walked as far as the deepest
_LEAST_IN_LEAF = 20
_SHARE = 0.3  # of the columns, among which each split is chosen: faster to fit, and no worse
_FEW = 10 * _LEAST_IN_LEAF  # inputs; below, leaves are smaller
_VERY_FEW = 100  # inputs; below, a forest predicts better
_FOREST_TREES = 64  # with 30 candidates and 100 inputs, choosing takes 5 us
_LEAST_IN_FOREST_LEAF = 3
_FOREST_SHARE = 0.5  # of the columns, among which each split is chosen


@dataclass(frozen=True)
class EnsembleLearner:
    """Learns a dispatcher of many trees."""

    name: str = "ensemble"

    def fit(self, matrix: Matrix, seed: int) -> LearntSelector:
        """Fit the trees to all inputs of a matrix."""
        columns, values = informative_columns(matrix, _MOST_COLUMNS, seed)
        training = TrainingSet(matrix, values)
        members, choice = _fit_ensemble(training, seed)
        return training.selector(columns, members, choice)


def _fit_ensemble(training: TrainingSet, seed: int) -> tuple[tuple[int, ...], Choice]:
    """Fit a forest of all candidates where inputs are few, else boosted trees for each member of a
    portfolio; also return the indices of the candidates that the choice is among."""
    known, members = training.known, training.members(len(training.portfolio))
    if not training.values.shape[1]:  # all inputs look alike: there is nothing to choose by
        return members, Choice.in_order(len(members), len(training.values))
    if len(training.values) < _VERY_FEW and len(known) > 1:
        return known, _fit_forest(training, known, seed)
    logs = _centred(training.logs[:, members])
    return members, _fit_boosted(training.values, logs, seed, training.matrix.learning_weights)


def _centred(logs: Array) -> Array:
    """Cap log slowdowns and subtract each input's mean over the candidates that apply; shape
    (inputs, candidates), NaN where one does not apply.

    What all candidates share, such as the noise of the best time, does not affect the choice and
    need not be learnt.
    """
    below = np.minimum(logs, np.log(_CENTRED_CAP))
    applies = ~np.isnan(below)
    counts = np.maximum(applies.sum(axis=1, keepdims=True), 1)
    relative: Array = below - np.where(applies, below, 0.0).sum(axis=1, keepdims=True) / counts
    return relative


def _fit_boosted(values: Array, logs: Array, seed: int, weights: Array) -> Choice:
    """Fit boosted trees for each member of a portfolio.

    `values` has the shape (inputs, columns); `logs` has the log slowdowns, shape (inputs, members),
    NaN where a member does not apply: it does not learn from those inputs. `weights` say by how
    much each input counts, shape (inputs,).
    """
    count = max(1, min(_MOST_TREES, TREES // logs.shape[1]))
    known, offsets, trees = ~np.isnan(logs), list[float](), list[CostTree]()
    # A model's threads wait for each other in busy loops: on a loaded machine they take far longer.
    with threadpool_limits(1, user_api="openmp"):
        for member, rows in enumerate(known.T):
            model = _fitted(values[rows], logs[rows, member], count, seed, weights[rows])
            # scikit-learn has no public way to read them
            offsets.append(float(model._baseline_prediction.item()))
            trees += [CostTree(_root(each.nodes), member) for (each,) in model._predictors]
    return Choice(tuple(offsets), tuple(trees), predicts_times=True)


def _fitted(
    values: Array, logs: Array, trees: int, seed: int, weights: Array
) -> HistGradientBoostingRegressor:
    from sklearn.ensemble import HistGradientBoostingRegressor  # here: it loads slowly

    model = HistGradientBoostingRegressor(
        max_iter=trees,
        learning_rate=max(_LEAST_RATE, 1 - _UNLEARNT ** (1 / trees)),
        max_leaf_nodes=_LEAVES,
        max_depth=_DEPTH,
        min_samples_leaf=_LEAST_IN_LEAF if len(logs) >= _FEW else max(2, len(logs) // 10),
        max_features=_SHARE,
        early_stopping=False,
        random_state=seed,
    )
    return model.fit(values, logs, weights)


def _root(nodes: Any) -> Node:
    low = np.where(nodes["is_leaf"], -1, nodes["left"].astype(np.intp))
    tree = NodeArrays(low, nodes["right"], nodes["feature_idx"], nodes["num_threshold"])
    values, counts = nodes["value"].tolist(), nodes["count"].tolist()
    return root_of(tree, lambda node: Leaf((values[node],), counts[node]))


def _fit_forest(training: TrainingSet, members: Sequence[int], seed: int) -> Choice:
    """Fit a random forest whose costs are the members' capped log slowdowns.

    All candidates share the trees, so that what the inputs of a leaf have in common does not affect
    the choice among them (Breiman, Random forests, Machine Learning, 2001).
    """
    logs = capped(training.logs[:, members])
    weights = training.matrix.learning_weights
    least, share = _LEAST_IN_FOREST_LEAF, _FOREST_SHARE
    trees = grow_forest(training.ranks, logs, _FOREST_TREES, least, share, seed, weights)
    roots = [_forest_root(tree, (costs / len(trees)).tolist()) for tree, costs in trees]
    return Choice.of_trees(roots, predicts_times=True)


def _forest_root(tree: NodeArrays, costs: Sequence[Sequence[float]]) -> Node:
    return root_of(tree, lambda node: Leaf(tuple(costs[node])))
