"""Cross-validation: hold inputs out fold by fold, whole groups at a time, and judge the
predictions for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.core.arrays import Array, Indices
from harness.core.errors import UsageError
from harness.models.columns import must_have
from harness.stats import Estimate

if TYPE_CHECKING:
    import pandas as pd

FEWEST_INPUTS = 4
"""Inputs that learning across inputs needs."""

ENOUGH_INPUTS = 16
"""Inputs with which a choice by input can be judged: one that is right on fewer may be wrong on
others."""

_FOLDS = 5
_MORE_FOLDS = 16  # up to 64 groups: with 5 folds of 48 inputs, their draw decided some verdicts
_FEW_GROUPS = 20
_SOME_GROUPS = 64
_Z_95 = 1.96


@dataclass(frozen=True)
class Fold:
    """Indices of the rows to learn from, `fit`, and of those held out, `test`."""

    fit: Indices
    test: Indices


def fold_count(groups: Indices) -> int:
    """Choose the number of folds that judge: one for each group where groups are few."""
    count = len(np.unique(groups))
    if count <= _FEW_GROUPS:
        return count
    return _MORE_FOLDS if count <= _SOME_GROUPS else _FOLDS


def grouped_folds(groups: Indices, count: int, seed: int) -> list[Fold]:
    """Deal the groups at random into `count` folds, or one fold a group if there are fewer, each of
    which holds its groups out. `groups` has the group of each row; no folds for a single group."""
    names = np.unique(groups)
    if len(names) < 2:
        return []
    # As scikit-learn's GroupKFold does, which takes half a second to load.
    dealt = np.random.RandomState(seed).permutation(names)
    held = [np.isin(groups, own) for own in np.array_split(dealt, min(count, len(names)))]
    return [Fold(np.flatnonzero(~own), np.flatnonzero(own)) for own in held]


def group_numbers(rows: int, groups: Sequence[Any] | None) -> Indices:
    """Number the groups of rows from 0, in the order of their names; without groups each row is its
    own."""
    if groups is None:
        return np.arange(rows)
    return np.unique(np.asarray(groups, dtype=str), return_inverse=True)[1]


@dataclass(frozen=True)
class ErrorSummary:
    """Relative errors |predicted - actual| / actual: their median with its 95 % interval, and
    their 90th percentile."""

    median: Estimate
    ninth_decile: float
    count: int


def relative_errors(
    predicted: Array, actual: Array, groups: Sequence[Any] | None = None
) -> ErrorSummary:
    """Summarize |predicted - actual| / actual over the rows, at least one, whose actual value is
    not 0. Rows of one group count as one, with their mean error.

    The interval of the median is distribution-free, from order statistics (Conover, Practical
    Nonparametric Statistics, 1999, section 3.2).
    """
    known = actual != 0
    errors = np.abs(predicted[known] - actual[known]) / np.abs(actual[known])
    if groups is not None:
        members = group_numbers(len(errors), np.asarray(groups, dtype=str)[known])
        errors = np.bincount(members, errors) / np.bincount(members)
    ordered, count = np.sort(errors), len(errors)
    reach = _Z_95 * math.sqrt(count) / 2
    low = max(0, math.floor(count / 2 - reach))
    high = min(count - 1, math.ceil(count / 2 + reach) - 1)
    median = Estimate(float(np.median(ordered)), float(ordered[low]), float(ordered[high]))
    return ErrorSummary(median, float(np.quantile(ordered, 0.9)), count)


@dataclass(frozen=True)
class Accuracy:
    """`r2` is 1 - SSE / the SSE of the mean of all; `error` summarizes |predicted - actual| /
    actual where that is not 0, in which each group counts once; both over all samples, each
    predicted by a model that had not seen it."""

    r2: float
    error: ErrorSummary
    folds: int


def cross_validate(
    learn: Callable[[pd.DataFrame], Callable[[pd.DataFrame], pd.Series[float]]],
    table: pd.DataFrame,
    target: str,
    folds: int = 10,
    groups: str | None = None,
) -> Accuracy:
    """Learn to predict from all but one of `folds` random folds, predict that fold, and repeat for
    each. Rows that agree in the column `groups` are held out together. Whatever a model chooses
    for itself, such as its size, it chooses from the samples it learns from.

    Raises UsageError if fewer than two rows have a target, or all have the same.
    """
    must_have(table, [target] + ([groups] if groups else []))
    rows = table[np.isfinite(table[target].to_numpy(dtype=np.float64))]
    if len(rows) < 2:
        raise UsageError(f"two samples with a {target} are needed to judge, there are {len(rows)}")
    members = rows[groups].tolist() if groups else None
    parts = grouped_folds(group_numbers(len(rows), members), folds, 0)
    if len(parts) < 2:
        raise UsageError(f"all samples have the same {groups}: none can be held out")
    actual, predicted = rows[target].to_numpy(dtype=np.float64), np.empty(len(rows))
    if np.ptp(actual) == 0:
        raise UsageError(f"column {target} is {actual[0]:g} in every row: nothing to learn")
    for fold in parts:
        predicted[fold.test] = learn(rows.iloc[fold.fit])(rows.iloc[fold.test])
    errors, deviations = predicted - actual, actual - actual.mean()
    r2 = 1 - float(errors @ errors) / float(deviations @ deviations)
    return Accuracy(r2, relative_errors(predicted, actual, members), len(parts))
