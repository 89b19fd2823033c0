"""Dispatchers of few configurations, and what each more gains on held-out inputs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.core.config_diff import difference
from harness.core.records import Config
from harness.dispatch.choice import LearntSelector
from harness.dispatch.ensemble import EnsembleLearner
from harness.dispatch.gadapt import GAdapt
from harness.dispatch.learners import Learner
from harness.dispatch.matrix import Matrix
from harness.dispatch.portfolio import greedy_portfolio
from harness.dispatch.tree import TreeLearner
from harness.dispatch.verdict import Slowdowns, held_out
from harness.models.folds import fold_count, grouped_folds

MOST_TRIED = 5000  # portfolios; where there are more, greedy with exchanges
_MOST_SHOWN = 5  # configurations of the largest portfolio of the table


@dataclass(frozen=True)
class AtMost:
    """Learns a dispatcher that chooses among at most so many configurations."""

    learner: TreeLearner | EnsembleLearner | GAdapt
    most: int

    @property
    def name(self) -> str:
        """That of the learner."""
        return self.learner.name

    def fit(self, matrix: Matrix, seed: int) -> LearntSelector:
        """Choose the configurations for all inputs of a matrix, and learn to choose among them."""
        return self.learner.fit(_among(matrix, _best_portfolio(matrix, self.most)), seed)


def limited(learner: Learner, most: int) -> Learner:
    """Limit the configurations of a learner of dispatchers; others stay as they are."""
    if not isinstance(learner, TreeLearner | EnsembleLearner | GAdapt):
        return learner
    return AtMost(learner, most)


def _among(matrix: Matrix, portfolio: Sequence[int]) -> Matrix:
    """Make all other candidates apply to no input; leave out the inputs to which none applies."""
    applies = np.zeros_like(matrix.applies)
    applies[:, portfolio] = matrix.applies[:, portfolio]
    return replace(matrix, applies=applies).rows(np.flatnonzero(applies.any(axis=1)))


def _best_portfolio(matrix: Matrix, most: int) -> list[int]:
    """Return the indices of the candidates whose best has the least mean log slowdown over all
    inputs: of all sets of at most `most`, or of those that exchanges of single candidates reach
    from the greedy one. A candidate counts on inputs to which it does not apply as one that costs
    more than all others."""
    table, weights = matrix.costs, matrix.learning_weights
    known = np.flatnonzero(matrix.applies.any(axis=0)).tolist()
    greedy = greedy_portfolio(matrix, most)
    if len(greedy) < most:  # more gain almost nothing
        return greedy

    def mean(portfolio: Iterable[int]) -> float:
        return float(np.average(table[:, list(portfolio)].min(axis=1), weights=weights))

    if math.comb(len(known), most) <= MOST_TRIED:
        return min(map(list, itertools.combinations(known, most)), key=mean)
    best: tuple[int, ...] = ()
    tried = {tuple(greedy): mean(greedy)}
    while (better := min(tried, key=tried.__getitem__)) != best:
        best = better
        others = [index for index in known if index not in best]
        for place, other in itertools.product(range(most), others):
            exchanged = (*best[:place], other, *best[place + 1 :])
            tried[exchanged] = mean(exchanged)
    return list(best)


@dataclass(frozen=True)
class Portfolio:
    """Configurations that together suit all inputs best, and the slowdowns of the best of such a
    portfolio on held-out inputs."""

    configs: tuple[Config, ...]
    slowdowns: Slowdowns


def portfolios(matrix: Matrix, seed: int = 0) -> Iterator[Portfolio]:
    """Yield portfolios of 1, 2, 3 and more configurations, up to 5, or until one more gains almost
    nothing."""
    matrix, before = matrix.comparable(), 0
    folds = grouped_folds(matrix.groups, fold_count(matrix.groups), seed)
    parts = [(held_out(matrix, fold), fold.test) for fold in folds]
    for most in range(1, 1 + _MOST_SHOWN):
        best = _best_portfolio(matrix, most)
        if len(best) == before:
            return
        before = len(best)
        indices = np.empty(len(matrix.features), dtype=np.intp)
        for (fit, test), rows in parts:
            portfolio = np.array(_best_portfolio(fit, most))
            logs = np.where(test.applies, test.log_slowdown, np.inf)[:, portfolio]
            some = np.isfinite(logs).any(axis=1)
            indices[rows] = np.where(some, portfolio[logs.argmin(axis=1)], -1)
        slowdowns = Slowdowns.of(f"at most {most}", matrix, indices)
        yield Portfolio(tuple(matrix.candidates[index] for index in best), slowdowns)


PORTFOLIOS_TITLE = "Slowdown of the best of few configurations, on held-out inputs"
PORTFOLIOS_HEAD = ("most", "geometric mean", "configurations")


def portfolio_rows(portfolios: Sequence[Portfolio], default: Config) -> list[tuple[str, ...]]:
    """Make a row a portfolio; configurations list only changes from the default."""
    return [
        (
            str(len(one.configs)),
            one.slowdowns.mean.text(".3f"),
            "; ".join(difference(config, default) for config in one.configs),
        )
        for one in portfolios
    ]
