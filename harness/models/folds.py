"""Inputs held out in turn, whole groups at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Indices

_FOLDS = 5
_MORE_FOLDS = 16  # of 48 inputs: with 5 folds the draw of the folds decided some verdicts
_FEW_GROUPS = 20
_SOME_GROUPS = 64


@dataclass(frozen=True)
class Fold:
    """Inputs by their indices: those that are learnt from, and those that are held out."""

    fit: Indices
    test: Indices


def fold_count(groups: npt.NDArray[np.intp]) -> int:
    """How many folds judge: one for each group where groups are few."""
    count = len(np.unique(groups))
    if count <= _FEW_GROUPS:
        return count
    return _MORE_FOLDS if count <= _SOME_GROUPS else _FOLDS


def grouped_folds(groups: npt.NDArray[np.intp], parts: int, seed: int) -> list[Fold]:
    """So many folds of about equally many inputs, or one for each group if there are fewer, that
    hold out each group once. None where there is but one group."""
    names = np.unique(groups)
    if len(names) < 2:
        return []
    from sklearn.model_selection import GroupKFold  # here: it loads slowly

    # The seed reorders the groups: GroupKFold alone would deal them out by their sizes.
    folds = GroupKFold(min(parts, len(names)), shuffle=True, random_state=seed)
    return [Fold(fit, test) for fit, test in folds.split(groups, groups=groups)]
