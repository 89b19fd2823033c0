"""The learners, and what each chooses for held-out inputs: the jobs of the benchmark."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.dispatch_data import DataSet, read_data_sets
from benchmarks.shortlists import listed
from harness.core.arrays import Flags, Indices
from harness.dispatch.choice import LearntSelector
from harness.dispatch.ensemble import EnsembleLearner
from harness.dispatch.gadapt import GAdapt
from harness.dispatch.learners import Learner, Nearest, Selector, Starchart, Static
from harness.dispatch.matrix import Matrix
from harness.dispatch.tree import TreeLearner
from harness.dispatch.verdict import held_out
from harness.models.folds import Fold, fold_count, grouped_folds

if TYPE_CHECKING:
    import pandas as pd

MOST_LEAVES = 4096
"""The most leaves of a tree, which must tell all cases of a file apart."""


@dataclass(frozen=True)
class ByCaseSelector:
    """What was learnt for each case; `words` are the features that separate cases."""

    words: tuple[str, ...]
    parts: dict[str, Selector]

    def indices(self, features: pd.DataFrame, applies: Flags) -> Indices:
        """See `harness.dispatch.learners.Selector`."""
        chosen = np.empty(len(features), dtype=np.intp)
        for case, rows in _parts(features, self.words):
            chosen[rows] = self.parts[case].indices(features.iloc[rows], applies[rows])
        return chosen


@dataclass(frozen=True)
class ByCase:
    """A learner that learns each case by itself, so that, for example, the best static candidate is
    the best of each direction and type."""

    learner: Learner
    words: tuple[str, ...]

    @property
    def name(self) -> str:
        """The learner's name."""
        return self.learner.name

    def fit(self, matrix: Matrix, seed: int) -> ByCaseSelector:
        """Learn each case."""
        parts = _parts(matrix.features, self.words)
        return ByCaseSelector(
            self.words, {case: self.learner.fit(matrix.rows(rows), seed) for case, rows in parts}
        )


def _parts(features: pd.DataFrame, words: Sequence[str]) -> Iterator[tuple[str, Indices]]:
    """Iterate over the cases among these inputs, each with the indices of its inputs."""
    cases = np.full(len(features), "", dtype=object)
    for word in words:
        cases = cases + " " + features[word].to_numpy(dtype=object)
    for case in sorted(set(cases.tolist())):
        yield case, np.flatnonzero(cases == case)


def learners(words: Sequence[str]) -> dict[str, Learner]:
    """Return all learners by name; the published ones and the baselines learn each case by itself,
    ours all cases of a data set together."""
    others: tuple[Learner, ...] = (Static(), Nearest(), GAdapt(), Starchart())
    ours: tuple[Learner, ...] = (TreeLearner(MOST_LEAVES), EnsembleLearner())
    by_case = [ByCase(learner, tuple(words)) for learner in others]
    return {learner.name: learner for learner in (*by_case, *ours)}


STATIC = Static().name
OURS = (TreeLearner().name, EnsembleLearner().name)
"""The dispatchers, cheapest to run first."""


@dataclass(frozen=True)
class Job:
    """One learner on one fold of a data set, by their indices."""

    path: Path
    index: int
    fold: int
    learner: str
    seed: int


@dataclass(frozen=True)
class Done:
    """The lists for the held-out inputs of a fold (see `shortlists.listed`), the processor seconds
    of learning, and the leaves of a dispatcher."""

    lists: Indices
    fit_s: float
    leaves: int | None


@lru_cache(maxsize=2)
def data_sets(path: Path) -> list[DataSet]:
    """Read the data sets of a file, once in each process."""
    return read_data_sets(path)


@lru_cache(maxsize=4)
def folds_of(path: Path, index: int, seed: int) -> list[Fold]:
    """Return the folds of a data set."""
    groups = data_sets(path)[index].matrix.groups
    return grouped_folds(groups, fold_count(groups), seed)


def run(job: Job) -> Done:
    """Learn without a fold, and choose for it."""
    data = data_sets(job.path)[job.index]
    fit, test = held_out(data.matrix, folds_of(job.path, job.index, job.seed)[job.fold])
    learner = learners(case_words(data))[job.learner]
    began = time.process_time()
    learnt = learner.fit(fit, job.seed)
    fit_s = time.process_time() - began
    lists = listed(learnt, test)
    if not isinstance(learnt, LearntSelector):
        return Done(lists, fit_s, None)
    return Done(lists, fit_s, learnt.choice.leaf_count)


def case_words(data: DataSet) -> tuple[str, ...]:
    """Return the features that separate the cases of a data set."""
    return tuple(name for name in ("dir", "dtype") if name in data.matrix.features)
