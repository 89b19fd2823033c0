"""Shares of failures, against scipy's own."""

from __future__ import annotations

import pytest
from scipy import stats

from harness.stats.proportions import clopper_pearson


@pytest.mark.parametrize("alpha", [0.05, 0.2])
@pytest.mark.parametrize(("hits", "count"), [(0, 7), (1, 7), (3, 10), (7, 7), (1, 1)])
def test_the_interval_of_a_share_is_the_exact_one(hits: int, count: int, alpha: float) -> None:
    wanted = stats.binomtest(hits, count).proportion_ci(1 - alpha, method="exact")
    found = clopper_pearson(hits / count, count, alpha)
    assert found.value == hits / count
    assert (found.low, found.high) == (pytest.approx(wanted.low), pytest.approx(wanted.high))


def test_a_share_need_not_be_of_whole_successes() -> None:
    found = clopper_pearson(0.25, 10, alpha=0.1)
    assert found.low == pytest.approx(stats.beta(2.5, 8.5).ppf(0.05))
    assert found.high == pytest.approx(stats.beta(3.5, 7.5).ppf(0.95))
