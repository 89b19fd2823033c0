"""Shares of failures, against scipy's own, and corrections for several tests."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from harness.stats import clopper_pearson
from harness.stats.timing import holm, holm_levels


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


# ---------------------------------------------------------------------------------- several tests


@pytest.mark.parametrize(
    ("p_values", "adjusted"),
    [
        ([0.01, 0.02, 0.03], [0.03, 0.04, 0.04]),
        ([0.03, 0.01], [0.03, 0.02]),
        # 2 x 0.04, 4 x 0.01, 0.6, 3 x 0.013 and no less than before
        ([0.04, 0.01, 0.6, 0.013], [0.08, 0.04, 0.6, 0.04]),
        ([0.9, 0.6, 0.4], [1.0, 1.0, 1.0]),
        ([0.01, 0.9], [0.02, 0.9]),
    ],
)
def test_p_values_count_by_how_many_are_not_smaller(
    p_values: list[float], adjusted: list[float]
) -> None:
    assert holm(np.array(p_values)) == pytest.approx(adjusted)


@pytest.mark.parametrize(
    ("p_values", "level", "levels"),
    [
        ([0.04, 0.001, 0.03, 0.5], 0.06, [0.06 / 3, 0.06 / 4, 0.06 / 3, 0.06 / 3]),
        ([0.025, 0.9], 0.05, [0.025, 0.05]),  # one at its level is rejected
        ([0.01, 0.02], 0.05, [0.025, 0.05]),
    ],
)
def test_levels_stop_where_the_first_is_not_rejected(
    p_values: list[float], level: float, levels: list[float]
) -> None:
    assert holm_levels(np.array(p_values), level) == pytest.approx(levels)
