"""How well a model predicts samples that it was not made from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from harness.core.errors import UsageError
from harness.models.encoding.columns import must_have
from harness.models.folds import group_numbers, grouped_folds
from harness.models.starchart.axes import numbers
from harness.models.starchart.regression import ErrorSummary, relative_errors

if TYPE_CHECKING:
    import pandas as pd


class TableModel(Protocol):
    """A model of a table, such as a tree."""

    def predict(self, table: pd.DataFrame) -> pd.Series[float]:
        """Predict the target of each row."""
        ...


@dataclass(frozen=True)
class Accuracy:
    """`r2` is 1 - SSE / the SSE of the mean of all; `error` summarizes |predicted - actual| /
    actual where that is not 0, in which each group counts once; both over all samples, each
    predicted by a model that had not seen it."""

    r2: float
    error: ErrorSummary
    folds: int


def cross_validate(
    learn: Callable[[pd.DataFrame], TableModel],
    table: pd.DataFrame,
    target: str,
    folds: int = 10,
    groups: str | None = None,
) -> Accuracy:
    """Make a model from all but one of `folds` random folds, predict that fold, and repeat for
    each. Rows that agree in the column `groups` are held out together. Whatever the model chooses
    for itself, such as a tree's size, it chooses from the samples it learns from.

    Raises UsageError if fewer than two rows have a target, or all have the same.
    """
    must_have(table, [target] + ([groups] if groups else []))
    rows = table[np.isfinite(numbers(table[target]))]
    if len(rows) < 2:
        raise UsageError(f"two samples with a {target} are needed to judge, there are {len(rows)}")
    members = rows[groups].tolist() if groups else None
    parts = grouped_folds(group_numbers(len(rows), members), folds, 0)
    if len(parts) < 2:
        raise UsageError(f"all samples have the same {groups}: none can be held out")
    actual, predicted = numbers(rows[target]), np.empty(len(rows))
    if np.ptp(actual) == 0:
        raise UsageError(f"column {target} is {actual[0]:g} in every row: nothing to learn")
    for fold in parts:
        predicted[fold.test] = learn(rows.iloc[fold.fit]).predict(rows.iloc[fold.test])
    errors, deviations = predicted - actual, actual - actual.mean()
    r2 = 1 - float(errors @ errors) / float(deviations @ deviations)
    return Accuracy(r2, relative_errors(predicted, actual, members), len(parts))
