"""Judge the shortlists of an ensemble: the best that each lists, and what it costs to try all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from harness.core.arrays import Array, Flags, Indices
from harness.dispatch.choice import WORTH_A_TRY, LearntSelector, tuned_rows
from harness.dispatch.learners import Selector
from harness.dispatch.matrix import Matrix
from harness.dispatch.verdict import Slowdowns
from harness.models.columns import column_values
from harness.models.folds import Fold

if TYPE_CHECKING:
    import pandas as pd

MOST_TRIED = 3
"""Candidates of the longest shortlist that is judged."""


@dataclass(frozen=True)
class Tries:
    """What it costs to try shortlists, shape (inputs,): how many candidates are listed, and by how
    many calls of the best one a call of each listed takes longer than as many calls of the best."""

    listed: Indices
    excess_calls: Array

    @property
    def unsure(self) -> Flags:
        """Where there is anything to try."""
        found: Flags = self.listed > 1
        return found


def listed(learnt: Selector, test: Matrix) -> Indices:
    """List what a selector would try on each input, shape (inputs, listed), its choice first."""
    if isinstance(learnt, LearntSelector) and learnt.choice.predicts_times:
        return shortlists(learnt, test.features, test.applies, MOST_TRIED)
    return learnt.indices(test.features, test.applies)[:, None]


def shortlists(
    learnt: LearntSelector, features: pd.DataFrame, applies: Flags, most: int
) -> Indices:
    """List up to `most` candidates that are worth a try on each input, as `select_top` does: their
    indices, shape (inputs, most), likeliest first, -1 behind the last."""
    members = np.array(learnt.portfolio)
    costs = learnt.choice.costs(column_values(learnt.columns, features))
    usable = applies[:, members]
    costs = np.where(usable, costs, np.inf)
    worth: Flags = usable & (costs <= costs.min(axis=1, keepdims=True) + WORTH_A_TRY)
    static = np.where(usable.any(axis=1), usable.argmax(axis=1), -1)
    leads = np.flatnonzero(~tuned_rows(learnt.tuned, features) & (static >= 0))
    costs[leads, static[leads]] = -np.inf
    worth[leads, static[leads]] = True
    order = np.argsort(np.where(worth, costs, np.inf), axis=1, kind="stable")[:, :most]
    found: Indices = np.full((len(applies), most), -1)
    is_listed = np.take_along_axis(worth, order, axis=1)
    found[:, : order.shape[1]] = np.where(is_listed, members[order], -1)
    return found


def stacked(folds: Sequence[Fold], lists: Sequence[Indices]) -> Indices:
    """Put the lists of the held-out inputs of all folds in the order of the inputs. Where a fold's
    inputs were too much alike for an ensemble, its lists are short."""
    inputs = np.argsort(np.concatenate([fold.test for fold in folds]))
    most = max(one.shape[1] for one in lists)
    wide = [np.pad(one, ((0, 0), (0, most - one.shape[1])), constant_values=-1) for one in lists]
    stack: Indices = np.concatenate(wide)[inputs]
    return stack


def judged_lists(
    name: str, matrix: Matrix, lists: Indices
) -> tuple[list[Slowdowns], dict[str, Tries]]:
    """Judge the first of each list, shape (inputs, listed), and then the best of the first two and
    of the first three, where there are so many; -1 is behind the last of a list. Also return what
    trying costs, by the names of these rows."""
    found, tries = [Slowdowns.of(name, matrix, lists[:, 0])], dict[str, Tries]()
    logs = matrix.log_slowdown[np.arange(len(lists))[:, None], lists]
    logs[lists < 0] = np.inf
    for most in range(2, lists.shape[1] + 1):
        tried = logs[:, :most]
        best = np.take_along_axis(lists, tried.argmin(axis=1)[:, None], axis=1)[:, 0]
        found.append(Slowdowns.of(f"{name}, best of top {most}", matrix, best))
        excess = np.exp(np.where(np.isinf(tried), 0.0, tried)).sum(axis=1) - most
        tries[found[-1].name] = Tries((lists[:, :most] >= 0).sum(axis=1), excess)
    return found, tries
