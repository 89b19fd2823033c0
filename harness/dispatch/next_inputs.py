"""Which inputs to tune next: those where a wrong choice is likely, and costs much.

A forest that is learnt from the tuned inputs predicts the slowdown of each candidate on others. Its
trees are learnt from different draws of the inputs. Where they disagree about the best candidate,
the candidate of least mean cost is slower, by each tree, than the best by that tree: the mean of
that is the expected loss. Trees that disagree between candidates of equal speed expect none.

The next input is drawn with a chance in proportion to its weight, times the expected loss, times
the distance to the nearest tuned input. The forest is too sure of inputs that are far from all
tuned ones. The input of the largest product would often be unlike all others: what is learnt there
serves no other. benchmarks/inputs.py compares such rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from harness.core.arrays import Array, Flags, Indices
from harness.dispatch.ensemble import fit_forest
from harness.dispatch.learnt import routed_costs
from harness.dispatch.matrix import Matrix
from harness.dispatch.training_set import TrainingSet, informative_columns
from harness.models.encoding.columns import Column, column_values
from harness.models.encoding.inputs import InputScale

if TYPE_CHECKING:
    import pandas as pd

    from harness.dispatch.program import ForestChoice

_MOST_COLUMNS = 64
_LEAST_IN_LEAF = 1  # larger leaves make trees agree where inputs are few
_DRAWS = 512
"""So many draws by weight are compared."""


@dataclass(frozen=True)
class ExpectedLoss:
    """Predicts how much the choice on an input that was not tuned may lose."""

    columns: tuple[Column, ...]
    members: tuple[int, ...]
    forest: ForestChoice | None
    """None where there is nothing to choose among, or by."""

    @classmethod
    def learn(cls, matrix: Matrix, seed: int) -> ExpectedLoss:
        """Learn from the inputs of a matrix, on which each candidate was measured where it
        applies."""
        columns, values = informative_columns(matrix, _MOST_COLUMNS, seed)
        training = TrainingSet(matrix, values)
        members = training.known
        can_choose = len(members) > 1 and len(columns) > 0
        forest = fit_forest(training, members, seed, _LEAST_IN_LEAF) if can_choose else None
        return cls(tuple(columns), members, forest)

    def of(self, features: pd.DataFrame, applies: Flags) -> Array:
        """Predict the mean log slowdown of the choice, shape (inputs,); `applies` has the shape
        (inputs, candidates)."""
        if self.forest is None:
            return np.zeros(len(features))
        values, may = column_values(self.columns, features), applies[:, self.members]
        by_tree = np.stack([routed_costs(tree, values) for tree in self.forest.trees])
        costs = np.where(may, by_tree * len(by_tree), np.inf)  # a tree has its share of the mean
        chosen = costs.mean(axis=0).argmin(axis=1)
        at_chosen = costs[:, np.arange(len(chosen)), chosen]
        known = may.any(axis=1)
        lost = np.zeros(at_chosen.shape)
        lost[:, known] = at_chosen[:, known] - costs.min(axis=2)[:, known]
        loss: Array = lost.mean(axis=0)
        return loss


def distances(tuned: pd.DataFrame, others: pd.DataFrame) -> Array:
    """Compute the distance of each other input to the nearest tuned one, where features have a
    deviation of 1 over the others, shape (others,)."""
    from scipy.spatial import KDTree  # here: it takes time to load

    scale = InputScale.of(others)
    found: Array = KDTree(scale.points(tuned)).query(scale.points(others))[0]
    return found


def draw_by_weight(weights: Sequence[float], seed: int) -> tuple[Indices, Indices]:
    """Draw inputs with chances in proportion to their weights; return the indices of those drawn,
    and how often each was."""
    shares = np.asarray(weights, dtype=np.float64)
    random = np.random.default_rng(seed)
    drawn = random.choice(len(shares), _DRAWS, p=shares / shares.sum())
    indices, counts = np.unique(drawn, return_counts=True)
    return indices, counts


def draw_without_replacement(shares: Array, others: Array, count: int, seed: int) -> list[int]:
    """Draw `count` different indices with chances in proportion to `shares`, or fewer where there
    are fewer; once none is left with a share above 0, in proportion to `others`, all above 0."""
    times = np.random.default_rng(seed).exponential(size=len(shares))
    # The order of exponential times with such rates is that of draws.
    first = np.where(shares > 0, times / np.where(shares > 0, shares, 1.0), np.inf)
    order = np.lexsort((times / others, first))
    return [int(index) for index in order[:count]]
