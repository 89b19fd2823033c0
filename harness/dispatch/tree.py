"""One tree that chooses, grown on log slowdowns, so that a wrong choice counts by its cost.

Grouped cross-validation chooses its candidates, its leaves, and the inputs of a leaf at least.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from harness.core.arrays import Array, Indices
from harness.dispatch.choice import Choice
from harness.dispatch.learnt import LearntSelector, make_selector
from harness.dispatch.matrix import Matrix
from harness.dispatch.training_set import Shape, TrainingSet, informative_columns
from harness.models.folds import fold_count, grouped_folds

_MOST_COLUMNS = 48
_MANY = 4000  # inputs; from here on few folds suffice, and leaves of two inputs are not tried
_FEW_FOLDS = 3
_VERY_MANY = 20_000  # inputs; from here on one fold suffices
_LEAST_IN_LEAF = (2, 5, 20)
_MEMBERS = (16, 8, 4, 2)


@dataclass(frozen=True)
class TreeLearner:
    """Learns a dispatcher of one tree with at most `most_leaves` leaves."""

    most_leaves: int = 1024
    name: str = "tree"

    def fit(self, matrix: Matrix, seed: int) -> LearntSelector:
        """Grow the tree for all inputs of a matrix."""
        columns, values = informative_columns(matrix, _MOST_COLUMNS, seed)
        training = TrainingSet(matrix, values)
        shape = _choose_shape(training, self.most_leaves, seed)
        choice = Choice.of_trees([training.root(shape, seed)], predicts_times=False)
        return make_selector(training, columns, training.members(shape.members), choice)


def _choose_shape(training: TrainingSet, most_leaves: int, seed: int) -> Shape:
    """Choose the smallest shape whose cost on held-out inputs is within one standard error of the
    least (Breiman et al., Classification and Regression Trees, 1984)."""
    groups = training.matrix.groups
    folds = grouped_folds(groups, fold_count(groups), seed)
    if not folds or not training.values.shape[1]:
        return Shape(1, 1, 1)
    if len(training.values) >= _MANY:
        folds = folds[: _FEW_FOLDS if len(training.values) < _VERY_MANY else 1]
    pairs = [(training.part(fold.fit), training.part(fold.test)) for fold in folds]
    costs_of = dict(_tried(pairs, len(training.portfolio), most_leaves, seed))
    best = min(costs_of, key=lambda shape: (float(costs_of[shape].mean()), shape.leaves))
    tested = np.concatenate([groups[fold.test] for fold in folds])
    near = [s for s, costs in costs_of.items() if _is_near(costs - costs_of[best], tested)]
    return min(near, key=lambda shape: (shape.leaves, shape.members, -shape.least))


def _is_near(losses: Array, groups: Indices) -> bool:
    """Say whether a mean loss is within its standard error; the inputs of a group are one
    sample."""
    number = np.unique(groups, return_inverse=True)[1]
    sums = np.bincount(number, weights=losses)
    return bool(sums.sum() <= np.sqrt(len(sums)) * sums.std())


def _tried(
    pairs: list[tuple[TrainingSet, TrainingSet]], portfolio: int, most_leaves: int, seed: int
) -> Iterator[tuple[Shape, Array]]:
    """Try shapes: learn on the first of each pair, and yield the log slowdowns on the second, shape
    (inputs,)."""
    inputs = max(len(fit.values) for fit, _ in pairs)
    counts = leaf_counts(max(1, min(most_leaves, inputs // 2)))
    least_cost = float("inf")
    for members in (portfolio, *(size for size in _MEMBERS if size < portfolio)):
        # Fewer candidates cannot do better than the best of them on each input.
        if sum(fit.least_costs(members, test) for fit, test in pairs) >= least_cost:
            return
        for least in _LEAST_IN_LEAF[int(inputs >= _MANY) :]:
            shape = Shape(members, counts[-1], least)
            trials = [fit.trial(shape, counts, seed, test) for fit, test in pairs]
            for leaves, costs in zip(counts, np.concatenate(trials, axis=1), strict=True):
                yield Shape(members, leaves, least), costs
                least_cost = min(least_cost, float(costs.sum()))


def leaf_counts(most: int) -> list[int]:
    """List the numbers of leaves to try: 1, 2, 3, 4, 6, 8, 12, 16 and so on."""
    powers = [2**exponent for exponent in range(most.bit_length())]
    return sorted({n for power in powers for n in (power, power + power // 2) if n <= most})
