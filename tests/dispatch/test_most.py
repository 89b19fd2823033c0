"""Dispatchers of at most so many configurations."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from harness.core.records import Config
from harness.dispatch import most as module
from harness.dispatch.ensemble import EnsembleLearner
from harness.dispatch.matrix import Matrix, make_matrix
from harness.dispatch.most import best_portfolio, limited, portfolio_rows, portfolios
from harness.dispatch.study import QUICK, Study
from harness.dispatch.tree import TreeLearner


def drawn(seed: int, inputs: int = 24, candidates: int = 9) -> Matrix:
    """Each candidate suits sizes about its own."""
    rng = np.random.default_rng(seed)
    sizes = np.sort(rng.uniform(0, 12, inputs))
    logs = 0.1 * np.abs(sizes[:, None] - np.linspace(0, 12, candidates))
    features = pd.DataFrame({"n": (2**sizes).astype(int)})
    configs = [Config({"BLOCK": index}) for index in range(candidates)]
    return make_matrix(features, configs, np.exp(logs + rng.normal(0, 0.02, logs.shape)), default=4)


def mean_log(matrix: Matrix, portfolio: tuple[int, ...]) -> float:
    return float(matrix.log_slowdown[:, portfolio].min(axis=1).mean())


@pytest.mark.parametrize("most", [1, 2, 3])
def test_portfolio_is_the_best_of_its_size(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = drawn(most)
    best = min(itertools.combinations(range(9), most), key=lambda p: mean_log(matrix, p))
    assert sorted(best_portfolio(matrix, most)) == sorted(best)
    monkeypatch.setattr(module, "_MOST_TRIED", 0)
    exchanged = tuple(best_portfolio(matrix, most))
    assert mean_log(matrix, exchanged) <= mean_log(matrix, best) * 1.05, "and by exchanges nearly"


def test_dispatcher_has_no_more_configurations() -> None:
    matrix = drawn(0)
    for learner in (TreeLearner(), EnsembleLearner()):
        assert len(learner.fit(matrix, 0).portfolio) > 2
        learnt = limited(learner, 2).fit(matrix, 0)
        assert len(learnt.portfolio) == 2
        assert set(learnt.indices(matrix.features, matrix.applies)) == set(learnt.portfolio)


def test_inputs_that_nothing_serves_are_left_to_the_caller() -> None:
    matrix = drawn(0)
    matrix.applies[0, 1:] = False
    matrix.applies[1:, 0] = False
    (one,) = limited(TreeLearner(), 1).fit(matrix, 0).portfolio
    found = limited(TreeLearner(), 1).fit(matrix, 0).indices(matrix.features, matrix.applies)
    assert found.tolist() == [-1, *[one] * 23]


def test_each_more_gains_on_held_out_inputs_until_it_gains_nothing() -> None:
    matrix = drawn(1)
    found = list(portfolios(matrix))
    means = [one.slowdowns.mean.value for one in found]
    assert [len(one.configs) for one in found] == [1, 2, 3, 4, 5]
    assert means == sorted(means, reverse=True)
    assert means[-1] > 1
    assert means[0] == pytest.approx(Study.of(matrix, QUICK).slowdowns["best static"].mean.value)
    head, *_ = portfolio_rows(found, matrix.candidates[4])
    assert (head[0], head[1].split()[0]) == ("1", f"{means[0]:.3f}")
    two = make_matrix(matrix.features, matrix.candidates[:1], matrix.time_s[:, :1])
    assert len(list(portfolios(two))) == 1


def test_study_limits_its_dispatchers_alone() -> None:
    matrix = drawn(2)
    found, limited = Study.of(matrix, QUICK), Study.of(matrix, QUICK, most=1)
    assert limited.slowdowns["tree"].mean.value == pytest.approx(
        limited.slowdowns["best static"].mean.value
    )
    assert found.slowdowns["tree"].mean.value < limited.slowdowns["tree"].mean.value
    assert len(limited.learnt("tree").portfolio) == 1
    for name in ("default", "best static", "oracle"):
        assert (found.slowdowns[name].logs == limited.slowdowns[name].logs).all()
