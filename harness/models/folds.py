"""Cross-validation: hold inputs out fold by fold, whole groups at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.core.arrays import Indices

FEWEST_INPUTS = 4
"""Inputs that learning across inputs needs."""

ENOUGH_INPUTS = 16
"""Inputs with which a choice by input can be judged: one that is right on fewer may be wrong on
others."""

_FOLDS = 5
_MORE_FOLDS = 16  # up to 64 groups: with 5 folds of 48 inputs, their draw decided some verdicts
_FEW_GROUPS = 20
_SOME_GROUPS = 64


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
    from sklearn.model_selection import GroupKFold  # here: it loads slowly

    # Without shuffling, GroupKFold deals groups by their size, whatever the seed.
    folds = GroupKFold(min(count, len(names)), shuffle=True, random_state=seed)
    return [Fold(fit, test) for fit, test in folds.split(groups, groups=groups)]


def group_numbers(rows: int, groups: Sequence[Any] | None) -> Indices:
    """Number the groups of rows from 0, in the order of their names; without groups each row is its
    own."""
    if groups is None:
        return np.arange(rows)
    return np.unique(np.asarray(groups, dtype=str), return_inverse=True)[1]
