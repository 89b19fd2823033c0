"""One tree that is taught by an ensemble: run as fast as a tree, and nearer to the ensemble.

The ensemble tells what candidates cost on made inputs, which lie between those that were measured;
the tree is grown on both together. Its size is chosen on held-out inputs that were measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy.spatial import KDTree

from harness.core.arrays import Array, Flags, Indices
from harness.dispatch.ensemble import fit_ensemble
from harness.dispatch.learnt import LearntSelector, expected_costs, make_selector
from harness.dispatch.matrix import Matrix, make_matrix, stacked
from harness.dispatch.program import Leaf, Node, TreeChoice
from harness.dispatch.training_set import TrainingSet, informative_columns
from harness.dispatch.tree import MOST_COLUMNS, choose_shape
from harness.models.encoding.columns import Column, column_values, is_number
from harness.models.encoding.inputs import InputScale

if TYPE_CHECKING:
    import pandas as pd

Numbers = npt.NDArray[np.int64] | npt.NDArray[np.float64]

_MOST_MADE = 20_000
_MADE = 20  # for each input that was measured
_PARTNERS = 4000  # inputs among which alike ones are looked for
_ALIKE = 16


@dataclass(frozen=True)
class DistilledLearner:
    """Learns a dispatcher of one tree from an ensemble."""

    most_leaves: int = 1024
    name: str = "distilled"

    def fit(self, matrix: Matrix, seed: int) -> LearntSelector:
        """The tree for all inputs of a matrix."""
        columns, values = informative_columns(matrix, MOST_COLUMNS, seed)
        lesson = TrainingSet(matrix, values)

        def taught(part: TrainingSet) -> TrainingSet:
            return with_made_inputs(part, columns, seed)

        shape = choose_shape(lesson, self.most_leaves, seed, taught)
        whole = taught(lesson)
        choice = TreeChoice(_counted(whole.root(shape, seed), lesson.values))
        return make_selector(whole, columns, whole.members(shape.members), choice)


def _counted(node: Node, values: Array) -> Node:
    """The tree with the number of measured inputs in each leaf, made ones aside."""
    if isinstance(node, Leaf):
        return replace(node, rows=len(values))
    low = values[:, node.column] <= node.threshold
    return replace(
        node, low=_counted(node.low, values[low]), high=_counted(node.high, values[~low])
    )


def with_made_inputs(lesson: TrainingSet, columns: Sequence[Column], seed: int) -> TrainingSet:
    """The same inputs and made ones, on which the portfolio costs what an ensemble expects that
    has learnt from the same inputs."""
    if not columns or len(lesson.values) < 2:
        return lesson
    matrix = lesson.matrix
    members, ensemble = fit_ensemble(lesson, seed)
    if isinstance(ensemble, TreeChoice):  # all inputs look alike
        return lesson
    features, bases = made_inputs(matrix.features, seed)
    values = column_values(columns, features)
    costs = np.full((len(features), len(matrix.candidates)), np.inf)
    costs[:, members] = expected_costs(ensemble, values)
    applies: Flags = matrix.applies[bases] & np.isfinite(costs)
    told = np.flatnonzero(applies.any(axis=1))
    made = make_matrix(
        features.iloc[told],
        matrix.candidates,
        np.exp(costs[told]),  # seconds of no input, but their ratios are those expected
        applies=applies[told],
        groups=matrix.groups[bases[told]].tolist(),
    )
    both = np.concatenate([lesson.values, values[told]])
    return TrainingSet(stacked(matrix, made), both, lesson.static)


def made_inputs(features: pd.DataFrame, seed: int) -> tuple[pd.DataFrame, Indices]:
    """Inputs between alike ones, and the indices of those from which they have their words.

    Sizes lie between by their ratio, other numbers by their difference; whole numbers stay whole.
    """
    random = np.random.default_rng(seed)
    scale = InputScale.of(features)
    partners = random.permutation(len(features))[:_PARTNERS]
    bases = random.integers(0, len(features), min(_MOST_MADE, _MADE * len(features)))
    alike = min(_ALIKE, len(partners))
    points = scale.points(features)
    near = KDTree(points[partners]).query(points[bases], k=[*range(1, alike + 1)])[1]
    others = partners[near[np.arange(len(bases)), random.integers(0, alike, len(bases))]]
    share = random.random(len(bases))
    made = features.iloc[bases].reset_index(drop=True)
    for name in map(str, features.columns):
        if is_number(features[name]):
            numbers = features[name].to_numpy()
            made[name] = _between(numbers[bases], numbers[others], share)
    return made, bases


def _between(ones: Numbers, others: Numbers, share: Array) -> Numbers:
    is_size = (ones > 0) & (others > 0)
    ratio = np.divide(others, ones, out=np.ones(len(ones)), where=is_size)
    between: Array = np.where(is_size, ones * ratio**share, ones + (others - ones) * share)
    return np.rint(between).astype(np.int64) if ones.dtype.kind in "iu" else between
