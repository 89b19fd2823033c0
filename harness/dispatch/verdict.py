"""How well a dispatcher chooses on inputs it has not seen: slowdowns, with their intervals.

Everything that is learnt, including the portfolio and the best static choice, is learnt without the
inputs it is judged on, and without any of their groups.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt
import scipy  # its parts load when they are first used

from harness.core.arrays import Array, Flags, Indices
from harness.core.cache import Cache, content_key
from harness.dispatch.learners import Learner
from harness.dispatch.matrix import Matrix
from harness.models.folds import Fold, fold_count, grouped_folds
from harness.stats import Estimate

ORACLE = "oracle"
"""The best candidate of each input, which no dispatcher can know."""

_TAIL = 0.025  # of an interval of 95 %, on each side
_TIE = 1e-9


@dataclass(frozen=True)
class PairedComparison:
    """One way to choose compared with another on the same inputs: the geometric mean of the ratios
    of their times, and on how many inputs each is faster."""

    ratio: Estimate
    wins: int
    losses: int

    @property
    def is_better(self) -> bool:
        """Whether the whole interval shows a gain."""
        return self.ratio.high < 1.0


@dataclass(frozen=True)
class Slowdowns:
    """Slowdowns of one way to choose on held-out inputs, shape (inputs,).

    A choice that `failed` counts as twice the input's largest slowdown. Inputs count by their
    `weights`, shape (inputs,).
    """

    name: str
    logs: Array
    groups: npt.NDArray[np.intp]
    failed: Flags
    weights: Array

    @classmethod
    def of(cls, name: str, matrix: Matrix, indices: Indices) -> Slowdowns:
        """Look up the slowdowns of a candidate for each input, which applies and was measured; -1,
        no choice, counts as failed."""
        rows = np.arange(len(indices))
        logs = matrix.log_slowdown[rows, indices]
        lacks: Flags = indices < 0
        logs[lacks] = matrix.failed_log[lacks]
        assert not np.isnan(logs).any(), f"{name} chose what does not apply"
        failed: Flags = lacks | np.isinf(matrix.slowdown[rows, indices])
        return cls(name, logs, matrix.groups, failed, matrix.weights)

    @property
    def failures(self) -> int:
        """The number of failed choices."""
        return int(self.failed.sum())

    @property
    def slowdown(self) -> Array:
        """Time over the best known time."""
        slowdown: Array = np.exp(self.logs)
        return slowdown

    @cached_property
    def mean(self) -> Estimate:
        """The geometric mean; nothing is faster than the best known, so its bounds are cut at 1."""
        mean = geometric_mean(self.logs, self.groups, self.weights)
        return replace(mean, low=max(1.0, mean.low))

    @cached_property
    def percentile_99(self) -> float:
        """The least slowdown that 99 % of the inputs do not exceed."""
        order = np.argsort(self.logs, kind="stable")
        counts = self.weights[order].cumsum()
        return math.exp(float(self.logs[order[(counts < 0.99 * counts[-1]).sum()]]))

    @property
    def worst(self) -> float:
        """The largest slowdown on an input that counts."""
        return math.exp(float(self.logs[self.weights > 0].max()))

    @property
    def near(self) -> float:
        """The share of inputs within 5 % of the best known."""
        return float(np.average(self.logs <= math.log(1.05), weights=self.weights))

    def over(self, other: Slowdowns) -> PairedComparison:
        """Compare the times with another's, paired by inputs: below 1 these are faster."""
        log_ratios = self.logs - other.logs
        return PairedComparison(
            geometric_mean(log_ratios, self.groups, self.weights),
            wins=int((log_ratios < -_TIE).sum()),
            losses=int((log_ratios > _TIE).sum()),
        )

    def least_gain(self, others: Sequence[Slowdowns]) -> PairedComparison:
        """Compare with each of the others; return the comparison that is least in favour."""
        return max(map(self.over, others), key=lambda gain: gain.ratio.high)


def held_out_slowdowns(
    matrix: Matrix,
    learners: Sequence[Learner],
    seed: int = 0,
    step: Callable[[str], None] = lambda name: None,
    cache: Cache | None = None,
) -> dict[str, Slowdowns]:
    """Let each learner choose on all inputs, held out by groups; return the slowdowns by name, in
    the learners' order, and those of the oracle.

    `step` is called with the learner's name after each fit, or for each that `cache` spares. Raises
    ValueError if there is only one group: then nothing can be held out.
    """
    matrix, cache = matrix.complete(), cache or Cache()
    folds = grouped_folds(matrix.groups, fold_count(matrix.groups), seed)
    if not folds:
        raise ValueError("inputs of two groups or more are needed to hold some out")
    parts, inputs = [held_out(matrix, fold) for fold in folds], [fold.test for fold in folds]

    def indices_of(learner: Learner) -> Indices:
        indices = np.empty(len(matrix.features), dtype=np.intp)
        for (fit, test), rows in zip(parts, inputs, strict=True):
            indices[rows] = learner.fit(fit, seed).indices(test.features, test.applies)
            step(learner.name)
        return indices

    slowdowns = {}
    for learner in learners:
        key = content_key("chosen", matrix.key, repr(learner), seed)
        for _ in folds if cache.has(key) else ():
            step(learner.name)
        indices = cache.recall(key, partial(indices_of, learner))
        slowdowns[learner.name] = Slowdowns.of(learner.name, matrix, indices)
    return slowdowns | {ORACLE: Slowdowns.of(ORACLE, matrix, matrix.best)}


def held_out(matrix: Matrix, fold: Fold) -> tuple[Matrix, Matrix]:
    """Split a matrix into the inputs to learn from and those held out.

    A candidate that is the best on held-out inputs only may be known only because of them: it does
    not apply while learning.
    """
    fit, test = matrix.rows(fold.fit), matrix.rows(fold.test)
    known = set(fit.best.tolist()) | {matrix.default}
    unknown = [index for index in set(test.best.tolist()) if index not in known]
    applies = fit.applies.copy()
    applies[:, unknown] = False
    return replace(fit, applies=applies), test


def geometric_mean(logs: Array, groups: npt.NDArray[np.intp], weights: Array) -> Estimate:
    """Estimate the geometric mean of numbers, given their logarithms, shape (inputs,), with
    Student's interval.

    The groups count as Kish's effective number of them (Survey Sampling, 1965, 8.2):
    where one input makes up most calls, that is little more than one, and the interval is wide.

    The variance is that of a mean of clustered samples (Cochran, Sampling Techniques, 1977, 6.3),
    with a group as a cluster. A bootstrap of groups is too confident for few of them: below twenty
    groups it finds a gain where there is none in 6 to 10 of 100 studies, this in 2 to 3.
    """
    number = np.unique(groups, return_inverse=True)[1]
    total = float(weights.sum())
    mean = float(np.average(logs, weights=weights))
    count = (int(number.max()) + 1) * total**2 / (len(weights) * float(weights @ weights))
    half = math.inf
    if count > 1:
        strayed = np.bincount(number, weights=weights * (logs - mean))
        error = math.sqrt(count / (count - 1) * float(strayed @ strayed)) / total
        half = float(scipy.special.stdtrit(count - 1, 1 - _TAIL)) * error
    return Estimate.from_log(mean, half)
