"""One tree that chooses: grown on log slowdowns, so that a wrong choice weighs by what it costs.

How many candidates and leaves it has, and how many inputs a leaf at least, is chosen by grouped
cross-validation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from harness.core.arrays import Array, Indices
from harness.dispatch.learnt import LearntSelector, make_selector
from harness.dispatch.matrix import Matrix
from harness.dispatch.program import TreeChoice
from harness.dispatch.training_set import Shape, TrainingSet, informative_columns
from harness.models.folds import fold_count, grouped_folds

MOST_COLUMNS = 48
_MANY = 4000  # inputs; from here on few folds tell enough, and no leaf needs to be of two inputs
_FEW_FOLDS = 3
_VERY_MANY = 20_000  # inputs; from here on one fold tells enough
_LEAST_IN_LEAF = (2, 5, 20)
_MEMBERS = (16, 8, 4, 2)
_TAUGHT_FOLDS = 3  # each has an ensemble of its own to fit

Teacher = Callable[[TrainingSet], TrainingSet]


@dataclass(frozen=True)
class TreeLearner:
    """Learns a dispatcher of one tree with at most so many leaves."""

    most_leaves: int = 1024
    name: str = "tree"

    def fit(self, matrix: Matrix, seed: int) -> LearntSelector:
        """The tree for all inputs of a matrix."""
        columns, values = informative_columns(matrix, MOST_COLUMNS, seed)
        lesson = TrainingSet(matrix, values)
        shape = choose_shape(lesson, self.most_leaves, seed)
        choice = TreeChoice(lesson.root(shape, seed))
        return make_selector(lesson, columns, lesson.members(shape.members), choice)


def choose_shape(
    lesson: TrainingSet, most_leaves: int, seed: int, taught: Teacher | None = None
) -> Shape:
    """The smallest shape whose cost on held-out inputs is within a standard error of the least
    (Breiman et al., Classification and Regression Trees, 1984).

    `taught` is told the inputs that are not held out, and may add some to learn from.
    """
    groups = lesson.matrix.groups
    parts = fold_count(groups) if taught is None else _TAUGHT_FOLDS
    folds = grouped_folds(groups, parts, seed)
    if not folds or not lesson.values.shape[1]:
        return Shape(1, 1, 1)
    if len(lesson.values) >= _MANY:
        folds = folds[: _FEW_FOLDS if taught is None and len(lesson.values) < _VERY_MANY else 1]
    pairs = [
        ((taught or _untaught)(lesson.part(fold.fit)), lesson.part(fold.test)) for fold in folds
    ]
    found = dict(_tried(pairs, len(lesson.portfolio), most_leaves, seed))
    best = min(found, key=lambda shape: (float(found[shape].mean()), shape.leaves))
    tested = np.concatenate([groups[fold.test] for fold in folds])
    near = [shape for shape, costs in found.items() if _is_near(costs - found[best], tested)]
    return min(near, key=lambda shape: (shape.leaves, shape.members, -shape.least))


def _is_near(losses: Array, groups: Indices) -> bool:
    """Whether a mean loss is within its standard error, inputs of one group being one sample."""
    number = np.unique(groups, return_inverse=True)[1]
    sums = np.bincount(number, weights=losses)
    return bool(sums.sum() <= np.sqrt(len(sums)) * sums.std())


def _untaught(lesson: TrainingSet) -> TrainingSet:
    return lesson


def _tried(
    pairs: list[tuple[TrainingSet, TrainingSet]], portfolio: int, most_leaves: int, seed: int
) -> Iterator[tuple[Shape, Array]]:
    """Shapes with the log slowdowns on the second of each pair, learnt on the first, shape
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
    """The numbers of leaves that are tried: 1, 2, 3, 4, 6, 8, 12, 16 and so on."""
    powers = [2**exponent for exponent in range(most.bit_length())]
    return sorted({n for power in powers for n in (power, power + power // 2) if n <= most})
