"""One tree that chooses: grown on log slowdowns, so that a wrong choice weighs by what it costs.

How many candidates and leaves it has, and how many inputs a leaf at least, is chosen by grouped
cross-validation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from harness.dispatching.folds import grouped_folds
from harness.dispatching.learnt import Learnt, make_learnt
from harness.dispatching.lesson import Lesson, Shape, telling_columns
from harness.dispatching.matrix import Matrix
from harness.dispatching.program import TreeChoice

_MANY = 4000  # inputs; from here on one fold tells enough, and no leaf needs to be of a few
_LEAST_IN_LEAF = (2, 5, 20)
_MEMBERS = (16, 8, 4, 2)
_NEGLIGIBLE = 5e-4  # of log slowdown: then the smaller tree is taken


@dataclass(frozen=True)
class TreeChooser:
    """Learns a dispatcher of one tree with at most so many leaves."""

    most_leaves: int = 1024
    name: str = "tree"

    def fit(self, matrix: Matrix, seed: int) -> Learnt:
        """The tree for all inputs of a matrix."""
        columns, values = telling_columns(matrix, seed)
        lesson = Lesson(matrix, values)
        shape = choose_shape(lesson, self.most_leaves, seed)
        choice = TreeChoice(lesson.root(shape, seed))
        return make_learnt(matrix, columns, lesson.members(shape.members), lesson.static, choice)


def choose_shape(
    lesson: Lesson,
    most_leaves: int,
    seed: int,
    taught: Callable[[Lesson], Lesson] = lambda part: part,
) -> Shape:
    """The shape of the least cost on held-out inputs; the smallest one of those near it.

    `taught` is told the inputs that are not held out, and may add some to learn from.
    """
    folds = grouped_folds(lesson.matrix.groups, seed)
    if not folds or not lesson.values.shape[1]:
        return Shape(1, 1, 1)
    if len(lesson.values) >= _MANY:
        folds = folds[:1]
    pairs = [(taught(lesson.part(fold.fit)), lesson.part(fold.test)) for fold in folds]
    found = dict(_tried(pairs, len(lesson.portfolio), most_leaves, seed))
    tested = sum(len(test.values) for _, test in pairs)
    limit = min(found.values()) + _NEGLIGIBLE * tested
    near = [shape for shape, cost in found.items() if cost <= limit]
    return min(near, key=lambda shape: (shape.leaves, shape.members, -shape.least))


def _tried(
    pairs: list[tuple[Lesson, Lesson]], portfolio: int, most_leaves: int, seed: int
) -> Iterator[tuple[Shape, float]]:
    """Shapes with their costs on the second of each pair, learnt on the first."""
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
            costs = np.sum(trials, axis=0)
            for leaves, cost in zip(counts, costs.tolist(), strict=True):
                yield Shape(members, leaves, least), cost
            least_cost = min(least_cost, float(costs.min()))


def leaf_counts(most: int) -> list[int]:
    """The numbers of leaves that are tried: 1, 2, 3, 4, 6, 8, 12, 16 and so on."""
    powers = [2**exponent for exponent in range(most.bit_length())]
    return sorted({n for power in powers for n in (power, power + power // 2) if n <= most})
