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
from harness.core.kept import Kept, content_key
from harness.dispatch.learners import Learner, Selector
from harness.dispatch.learnt import LearntSelector
from harness.dispatch.matrix import Matrix
from harness.models.folds import Fold, fold_count, grouped_folds
from harness.stats import Estimate

ORACLE = "oracle"
"""The best candidate of each input, which no dispatcher can know."""

MOST_TRIED = 3
"""Candidates of the longest shortlist that is judged."""

_RESAMPLES = 1000
_TAIL = 0.025  # of an interval of 95 %, on each side
_TIE = 1e-9


@dataclass(frozen=True)
class Tries:
    """What it costs to try shortlists, shape (inputs,): how many candidates are listed, and by how
    many calls of the best one a call of each listed takes longer than as many calls of the best."""

    listed: Indices
    excess_calls: Array

    def rows(self, rows: Indices) -> Tries:
        """Keep only some inputs, by their indices."""
        return Tries(self.listed[rows], self.excess_calls[rows])

    @property
    def unsure(self) -> Flags:
        """Where there is anything to try."""
        found: Flags = self.listed > 1
        return found


@dataclass(frozen=True)
class Judged:
    """Slowdowns of one way to choose on held-out inputs, shape (inputs,).

    A choice that `failed` counts as twice the input's largest slowdown. A shortlist has the
    slowdowns of the best that it lists, and its `tries`. Inputs count by their `weights`, shape
    (inputs,), or all alike. `chosen` are the candidates' indices.
    """

    name: str
    logs: Array
    groups: npt.NDArray[np.intp]
    failed: Flags
    tries: Tries | None = None
    weights: Array | None = None
    chosen: Indices | None = None

    def rows(self, rows: Indices) -> Judged:
        """Keep only some inputs, by their indices."""
        return replace(
            self,
            logs=self.logs[rows],
            groups=self.groups[rows],
            failed=self.failed[rows],
            tries=self.tries.rows(rows) if self.tries else None,
            weights=None if self.weights is None else self.weights[rows],
            chosen=None if self.chosen is None else self.chosen[rows],
        )

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
    def percentile_99(self) -> Estimate:
        """The 99th percentile."""
        return percentile_99(self.logs, self.groups, self.weights)

    @property
    def worst(self) -> float:
        """The largest slowdown on an input that counts."""
        counts = slice(None) if self.weights is None else self.weights > 0
        return math.exp(float(self.logs[counts].max()))

    @property
    def near(self) -> float:
        """The share of inputs within 5 % of the best known."""
        return float(np.average(self.logs <= math.log(1.05), weights=self.weights))


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


def judge(
    matrix: Matrix,
    learners: Sequence[Learner],
    seed: int = 0,
    step: Callable[[str], None] = lambda name: None,
    kept: Kept | None = None,
) -> dict[str, Judged]:
    """Judge each learner on all inputs, held out by groups, in the learners' order, and the oracle.

    `step` is called with the learner's name after each fit, or for each that `kept` spares. Raises
    ValueError if there is only one group: then nothing can be held out.
    """
    matrix = matrix.complete()
    kept = kept or Kept()
    keys = {one.name: content_key("chosen", matrix.key, repr(one), seed) for one in learners}
    there = [name for name, key in keys.items() if kept.has(key)]
    for name in [name for name in there for _ in range(fold_count(matrix.groups))]:
        step(name)
    new = choose(matrix, [one for one in learners if one.name not in there], seed, step)

    def chosen_by(one: Learner) -> Indices:
        return new[one.name] if one.name in new else choose(matrix, [one], seed, step)[one.name]

    chosen = {one.name: kept.recall(keys[one.name], partial(chosen_by, one)) for one in learners}
    rows = (one for name in keys for one in judged_lists(name, matrix, chosen[name]))
    return {one.name: one for one in rows} | {ORACLE: judged(ORACLE, matrix, matrix.best)}


def judged_lists(name: str, matrix: Matrix, lists: Indices) -> list[Judged]:
    """Judge the first of each list, shape (inputs, listed), and then the best of the first two and
    of the first three, where there are so many; -1 is behind the last of a list."""
    found = [judged(name, matrix, lists[:, 0])]
    logs = matrix.log_slowdown[np.arange(len(lists))[:, None], lists]
    logs[lists < 0] = np.inf
    for most in range(2, lists.shape[1] + 1):
        tried = logs[:, :most]
        best = np.take_along_axis(lists, tried.argmin(axis=1)[:, None], axis=1)[:, 0]
        one = judged(shortlist_name(name, most), matrix, best)
        excess = np.exp(np.where(np.isinf(tried), 0.0, tried)).sum(axis=1) - most
        found.append(replace(one, tries=Tries((lists[:, :most] >= 0).sum(axis=1), excess)))
    return found


def shortlist_name(name: str, most: int) -> str:
    """Name the row of a dispatcher's shortlist."""
    return f"{name}, best of top {most}"


def choose(
    matrix: Matrix, learners: Sequence[Learner], seed: int, step: Callable[[str], None]
) -> dict[str, Indices]:
    """Choose a candidate, or a shortlist, for each held-out input with each learner, shape (inputs,
    listed); see `judge`."""
    parts: dict[str, list[Indices]] = {learner.name: [] for learner in learners}
    if not learners:
        return {}
    folds = grouped_folds(matrix.groups, fold_count(matrix.groups), seed)
    if not folds:
        raise ValueError("inputs of two groups or more are needed to hold some out")
    for fold in folds:
        fit, test = held_out(matrix, fold)
        for learner in learners:
            learnt = learner.fit(fit, seed)
            parts[learner.name].append(listed(learnt, test))
            step(learner.name)
    return {name: stacked(folds, lists) for name, lists in parts.items()}


def listed(learnt: Selector, test: Matrix) -> Indices:
    """List what a selector would try on each input, shape (inputs, listed), its choice first."""
    if isinstance(learnt, LearntSelector) and learnt.choice.predicts_times:
        return learnt.shortlists(test.features, test.applies, MOST_TRIED)
    return learnt.indices(test.features, test.applies)[:, None]


def stacked(folds: Sequence[Fold], lists: Sequence[Indices]) -> Indices:
    """Put the lists of the held-out inputs of all folds in the order of the inputs. Where a fold's
    inputs were too much alike for an ensemble, its lists are short."""
    inputs = np.argsort(np.concatenate([fold.test for fold in folds]))
    most = max(one.shape[1] for one in lists)
    wide = [np.pad(one, ((0, 0), (0, most - one.shape[1])), constant_values=-1) for one in lists]
    stack: Indices = np.concatenate(wide)[inputs]
    return stack


def in_hindsight(matrix: Matrix, learner: Learner, seed: int = 0) -> Judged:
    """Judge a learner on the very inputs that it learnt from."""
    matrix = matrix.complete()
    selector = learner.fit(matrix, seed)
    return judged(learner.name, matrix, selector.indices(matrix.features, matrix.applies))


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


def judged(name: str, matrix: Matrix, indices: Indices) -> Judged:
    """Judge the choice of a candidate for each input; -1, no choice, counts as failed.

    Raises ValueError if one does not apply or was not measured.
    """
    rows = np.arange(len(indices))
    logs = matrix.log_slowdown[rows, indices]
    lacks: Flags = indices < 0
    logs[lacks] = matrix.failed_log[lacks]
    if np.isnan(logs).any():
        row = int(np.isnan(logs).argmax())
        raise ValueError(f"{name} chose {matrix.candidates[indices[row]]}, which does not apply")
    failed: Flags = lacks | np.isinf(matrix.slowdown[rows, indices])
    return Judged(name, logs, matrix.groups, failed, weights=matrix.weights, chosen=indices)


def with_selection(one: Judged, best_s: Array, selection_s: float) -> Judged:
    """Add the seconds of a selection to the time of each choice; `best_s` has the best known time
    of each input, shape (inputs,)."""
    return replace(one, logs=np.log(one.slowdown + selection_s / best_s))


def compare(one: Judged, other: Judged) -> PairedComparison:
    """Compare the times of one with the other's, paired by inputs: below 1 the first is faster."""
    log_ratios = one.logs - other.logs
    return PairedComparison(
        geometric_mean(log_ratios, one.groups, one.weights),
        wins=int((log_ratios < -_TIE).sum()),
        losses=int((log_ratios > _TIE).sum()),
    )


def least_gain(one: Judged, others: Sequence[Judged]) -> PairedComparison:
    """Compare one with each of the others; return the comparison that is least in its favour."""
    return max((compare(one, other) for other in others), key=lambda found: found.ratio.high)


def geometric_mean(
    logs: Array, groups: npt.NDArray[np.intp], weights: Array | None = None
) -> Estimate:
    """Estimate the geometric mean of numbers, given their logarithms, shape (inputs,), with
    Student's interval.

    With weights, the groups count as Kish's effective number of them (Survey Sampling, 1965, 8.2):
    where one input makes up most calls, that is little more than one, and the interval is wide.

    The variance is that of a mean of clustered samples (Cochran, Sampling Techniques, 1977, 6.3),
    with a group as a cluster. A bootstrap of groups is too confident for few of them: below twenty
    groups it finds a gain where there is none in 6 to 10 of 100 studies, this in 2 to 3.
    """
    number = np.unique(groups, return_inverse=True)[1]
    weights = np.ones(len(logs)) if weights is None else weights
    total = float(weights.sum())
    mean = float(np.average(logs, weights=weights))
    count = _effective_count(number, weights)
    half = math.inf
    if count > 1:
        strayed = np.bincount(number, weights=weights * (logs - mean))
        error = math.sqrt(count / (count - 1) * float(strayed @ strayed)) / total
        half = float(scipy.special.stdtrit(count - 1, 1 - _TAIL)) * error
    return Estimate.from_log(mean, half)


def _effective_count(number: Indices, weights: Array) -> float:
    """Return the number of groups; with unequal weights, of as many equal ones."""
    groups = int(number.max()) + 1
    return groups * float(weights.sum() ** 2 / (len(weights) * (weights @ weights)))


def percentile_99(
    logs: Array, groups: npt.NDArray[np.intp], weights: Array | None = None
) -> Estimate:
    """Estimate the 99th percentile of numbers, given their logarithms, shape (inputs,), with the
    bootstrap's percentile interval; it draws whole groups."""
    random = np.random.default_rng(0)
    number = np.unique(groups, return_inverse=True)[1]
    count = int(number.max()) + 1
    order = np.argsort(logs, kind="stable")  # so that percentiles need no sorting
    weights = np.ones(len(logs)) if weights is None else weights
    logs, number, weights = logs[order], number[order], weights[order]
    draws = [random.multinomial(count, np.full(count, 1 / count)) for _ in range(_RESAMPLES)]
    figures = [_percentile_99(logs, draw[number] * weights) for draw in draws]
    low, high = np.quantile(figures, [_TAIL, 1 - _TAIL])
    return Estimate(_percentile_99(logs, weights), float(low), float(high))


def _percentile_99(logs: Array, drawn: Array) -> float:
    """Compute the percentile of sorted logs, each drawn this many times."""
    counts = drawn.cumsum()
    # A draw may hold inputs without weight only.
    return math.exp(float(logs[min((counts < 0.99 * counts[-1]).sum(), len(logs) - 1)]))
