"""Would more inputs pay? Judge the choice on held-out inputs, and what twice the inputs gain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.core.arrays import Array
from harness.dispatch.ensemble import EnsembleLearner
from harness.dispatch.matrix import Matrix
from harness.dispatch.verdict import geometric_mean, held_out, judged
from harness.models.folds import ENOUGH_INPUTS, Fold, grouped_folds
from harness.stats import Estimate

FEWEST_HALVED = 32
"""Inputs below which no gain is estimated: half of fewer teach next to nothing, and all of them
little more."""

_FOLDS = 8


@dataclass(frozen=True)
class LearningCurve:
    """How good the choice on held-out inputs is, with intervals of 95 %.

    slowdown: time over the best known time.
    gain: how many times slower the choice is where it was learnt from half of the inputs; None for
        few inputs. What more inputs gain falls with their number, so that twice as many gain less.

    Inputs that were chosen because they are hard make both too large.
    """

    slowdown: Estimate
    gain: Estimate | None

    def is_enough(self, error: float) -> bool:
        """Whether twice the inputs would make the choice faster by at most this share."""
        most = self.slowdown.high if self.gain is None else min(self.slowdown.high, self.gain.high)
        return most <= 1 + error


def learning_curve(matrix: Matrix, seed: int) -> LearningCurve | None:
    """Judge the choice on inputs that are held out in turn; None for few inputs."""
    matrix = matrix.complete()
    groups = len(np.unique(matrix.groups))
    if groups < ENOUGH_INPUTS:
        return None
    random = np.random.default_rng(seed)
    whole, half = np.empty(len(matrix.features)), np.empty(len(matrix.features))
    for fold in grouped_folds(matrix.groups, _FOLDS, seed):
        whole[fold.test] = _logs(matrix, fold, seed)
        if groups >= FEWEST_HALVED:
            some = random.permutation(fold.fit)[: len(fold.fit) // 2]
            half[fold.test] = _logs(matrix, Fold(np.sort(some), fold.test), seed)
    gain = geometric_mean(half - whole, matrix.groups) if groups >= FEWEST_HALVED else None
    return LearningCurve(geometric_mean(whole, matrix.groups), gain)


def _logs(matrix: Matrix, fold: Fold, seed: int) -> Array:
    """Return the log slowdowns of the choice on the inputs of a fold."""
    learner = EnsembleLearner()
    fit, test = held_out(matrix, fold)
    chosen = learner.fit(fit, seed).indices(test.features, test.applies)
    return judged(learner.name, test, chosen).logs
