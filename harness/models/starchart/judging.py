"""How well a tree predicts samples that it was not grown from."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.core.arrays import Array
from harness.core.errors import UsageError
from harness.models.encoding.columns import must_have
from harness.models.folds import group_numbers, grouped_folds
from harness.models.starchart.tree import Tree
from harness.stats import Estimate

if TYPE_CHECKING:
    import pandas as pd

_Z_95 = 1.96


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
    predicted by a tree that had not seen it."""

    r2: float
    error: ErrorSummary
    folds: int


def cross_validate(
    learn: Callable[[pd.DataFrame], Tree],
    table: pd.DataFrame,
    target: str,
    folds: int = 10,
    groups: str | None = None,
) -> Accuracy:
    """Grow a tree from all but one of `folds` random folds, predict that fold, and repeat for
    each. Rows that agree in the column `groups` are held out together. Whatever the tree chooses
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
        predicted[fold.test] = learn(rows.iloc[fold.fit]).predict(rows.iloc[fold.test])
    errors, deviations = predicted - actual, actual - actual.mean()
    r2 = 1 - float(errors @ errors) / float(deviations @ deviations)
    return Accuracy(r2, relative_errors(predicted, actual, members), len(parts))
