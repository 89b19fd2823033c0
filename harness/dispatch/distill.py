"""One tree distilled from an ensemble: as fast as a tree, and closer to the ensemble's choices.

The ensemble predicts costs on synthetic inputs, which lie between the measured ones; the tree is
grown on both together. Its size is chosen on measured inputs that were held out.
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
from harness.dispatch.nodes import Node
from harness.dispatch.program import TreeChoice
from harness.dispatch.training_set import TrainingSet, informative_columns
from harness.dispatch.tree import MOST_COLUMNS, choose_shape
from harness.models.encoding.columns import Column, column_values, is_number
from harness.models.encoding.inputs import InputScale

if TYPE_CHECKING:
    import pandas as pd

Numbers = npt.NDArray[np.int64] | npt.NDArray[np.float64]

_MOST_SYNTHETIC = 20_000
_SYNTHETIC = 20  # for each measured input
_PARTNERS = 4000  # inputs among which similar ones are looked for
_SIMILAR = 16


@dataclass(frozen=True)
class DistilledLearner:
    """Learns a dispatcher of one tree from an ensemble."""

    most_leaves: int = 1024
    name: str = "distilled"

    def fit(self, matrix: Matrix, seed: int) -> LearntSelector:
        """Grow the tree for all inputs of a matrix."""
        columns, values = informative_columns(matrix, MOST_COLUMNS, seed)
        measured = TrainingSet(matrix, values)

        def augmented(part: TrainingSet) -> TrainingSet:
            return with_synthetic_inputs(part, columns, seed)

        shape = choose_shape(measured, self.most_leaves, seed, augmented)
        training = augmented(measured)
        choice = TreeChoice(_with_row_counts(training.root(shape, seed), measured.values))
        return make_selector(training, columns, training.members(shape.members), choice)


def _with_row_counts(root: Node, values: Array) -> Node:
    """Set each leaf's number of measured inputs."""
    counts = [len(rows) for _, rows in root.routed(values)]
    # `map` goes through the leaves from the last to the first.
    return root.map(lambda leaf: replace(leaf, rows=counts.pop()))


def with_synthetic_inputs(
    training: TrainingSet, columns: Sequence[Column], seed: int
) -> TrainingSet:
    """Add synthetic inputs, on which the portfolio costs what an ensemble fitted to the same
    training set predicts."""
    if not columns or len(training.values) < 2:
        return training
    matrix = training.matrix
    members, ensemble = fit_ensemble(training, seed)
    if isinstance(ensemble, TreeChoice):  # all inputs look alike
        return training
    features, bases = synthetic_inputs(matrix.features, seed)
    values = column_values(columns, features)
    costs = np.full((len(features), len(matrix.candidates)), np.inf)
    costs[:, members] = expected_costs(ensemble, values)
    applies: Flags = matrix.applies[bases] & np.isfinite(costs)
    kept = np.flatnonzero(applies.any(axis=1))
    synthetic = make_matrix(
        features.iloc[kept],
        matrix.candidates,
        np.exp(costs[kept]),  # no real seconds, but their ratios are the predicted ones
        applies=applies[kept],
        groups=matrix.groups[bases[kept]].tolist(),
    )
    both = np.concatenate([training.values, values[kept]])
    return TrainingSet(stacked(matrix, synthetic), both, training.static)


def synthetic_inputs(features: pd.DataFrame, seed: int) -> tuple[pd.DataFrame, Indices]:
    """Draw inputs between similar ones; also return the indices of the inputs they take their words
    from.

    Sizes are interpolated by their ratio, other numbers by their difference; whole numbers stay
    whole.
    """
    random = np.random.default_rng(seed)
    scale = InputScale.of(features)
    partners = random.permutation(len(features))[:_PARTNERS]
    bases = random.integers(0, len(features), min(_MOST_SYNTHETIC, _SYNTHETIC * len(features)))
    similar = min(_SIMILAR, len(partners))
    points = scale.points(features)
    near = KDTree(points[partners]).query(points[bases], k=[*range(1, similar + 1)])[1]
    others = partners[near[np.arange(len(bases)), random.integers(0, similar, len(bases))]]
    share = random.random(len(bases))
    synthetic = features.iloc[bases].reset_index(drop=True)
    for name in map(str, features.columns):
        if is_number(features[name]):
            numbers = features[name].to_numpy()
            synthetic[name] = _between(numbers[bases], numbers[others], share)
    return synthetic, bases


def _between(ones: Numbers, others: Numbers, share: Array) -> Numbers:
    is_size = (ones > 0) & (others > 0)
    ratio = np.divide(others, ones, out=np.ones(len(ones)), where=is_size)
    between: Array = np.where(is_size, ones * ratio**share, ones + (others - ones) * share)
    return np.rint(between).astype(np.int64) if ones.dtype.kind in "iu" else between
