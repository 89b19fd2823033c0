"""Inputs held out in turn, whole groups at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.dispatching.matrix import Places

_FOLDS = 5
_FEW_GROUPS = 20  # up to here each group is held out by itself


@dataclass(frozen=True)
class Fold:
    """Inputs by their places: those that are learnt from, and those that are held out."""

    fit: Places
    test: Places


def grouped_folds(groups: npt.NDArray[np.intp], seed: int, most: int = _FOLDS) -> list[Fold]:
    """Folds that hold out each group once: each one by itself where groups are few, else in `most`
    parts of about equally many inputs. None where there is but one group."""
    names = np.unique(groups)
    if len(names) < 2:
        return []
    from sklearn.model_selection import GroupKFold  # here: it loads slowly

    parts = len(names) if len(names) <= _FEW_GROUPS else most
    # The seed reorders the groups: GroupKFold alone would deal them out by their sizes.
    folds = GroupKFold(parts, shuffle=True, random_state=seed)
    return [Fold(fit, test) for fit, test in folds.split(groups, groups=groups)]
