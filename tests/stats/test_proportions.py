"""Shares of failures and corrections for several tests, against scipy's own and formulas written
another way."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from harness.stats.multiple_tests import benjamini_hochberg, holm, holm_levels
from harness.stats.proportions import clopper_pearson, fisher, likelihood_ratio, strength

TABLES = [table for table in itertools.product(range(5), repeat=4) if sum(table) > 0]
"""Failed and not of those that meet the condition, failed and not of the others."""


def g_of(hits: int, passed: int, misses: int, others: int) -> float:
    """The sum of 2 n log(n / expected) over the four cells."""
    table = np.array([[hits, passed], [misses, others]], float)
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
    return float(
        2 * sum(n * np.log(n / e) for n, e in zip(table.flat, expected.flat, strict=True) if n)
    )


def arguments(hits: int, passed: int, misses: int, others: int) -> tuple:
    counts, found = np.array([hits + passed]), np.array([hits])
    return counts, found, hits + passed + misses + others, hits + misses


def test_the_likelihood_ratio_is_that_of_the_four_cells() -> None:
    for table in TABLES:
        assert likelihood_ratio(*arguments(*table)) == pytest.approx([g_of(*table)], abs=1e-12)


def test_the_likelihood_ratio_is_that_of_scipy() -> None:
    found = likelihood_ratio(np.array([10, 40]), np.array([8, 5]), 100, 20)
    tables = ([[8, 2], [12, 78]], [[5, 35], [15, 45]])
    wanted = [
        stats.chi2_contingency(table, correction=False, lambda_="log-likelihood")[0]
        for table in tables
    ]
    assert found == pytest.approx(wanted)


def test_a_cause_has_three_failures_and_an_odds_ratio_of_three() -> None:
    for hits, passed, misses, others in TABLES:
        odds_ratio = (hits + 0.5) * (others + 0.5) / ((passed + 0.5) * (misses + 0.5))
        is_cause = hits >= 3 and odds_ratio >= 3 * (1 - 1e-12)
        wanted = g_of(hits, passed, misses, others) if is_cause else 0.0
        found = strength(*arguments(hits, passed, misses, others))
        assert found == pytest.approx([wanted], abs=1e-12)
    assert strength(*arguments(4, 1, 1, 1))[0] > 0, "an odds ratio of exactly 3"


def test_the_p_value_is_that_of_fishers_exact_test() -> None:
    for hits, passed, misses, others in TABLES[::7]:
        failed = np.repeat([True, False, True, False], [hits, passed, misses, others])
        met = np.repeat([True, True, False, False], [hits, passed, misses, others])
        table = [[hits, passed], [misses, others]]
        wanted = stats.fisher_exact(table, alternative="greater").pvalue
        assert fisher(failed, met) == pytest.approx(wanted)


def test_the_p_value_is_right_for_a_million_rows() -> None:
    rng = np.random.default_rng(0)
    failed, met = rng.random(1_000_000) < 0.1, rng.random(1_000_000) < 0.3
    hits, margins = int((failed & met).sum()), (len(met), int(failed.sum()), int(met.sum()))
    assert fisher(failed, met) == pytest.approx(stats.hypergeom.sf(hits - 1, *margins), rel=1e-6)
    failed[:1500] = met[:1500] = True
    hits, margins = int((failed & met).sum()), (len(met), int(failed.sum()), int(met.sum()))
    assert fisher(failed, met) == pytest.approx(stats.hypergeom.sf(hits - 1, *margins), rel=1e-6)


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


def test_p_values_count_by_how_many_are_not_smaller() -> None:
    assert holm(np.array([0.01, 0.02, 0.03]), 3) == pytest.approx([0.03, 0.04, 0.04])
    assert holm(np.array([0.03, 0.01]), 2) == pytest.approx([0.03, 0.02])
    # 2 x 0.04, 4 x 0.01, 0.6, 3 x 0.013 and no less than before
    assert holm(np.array([0.04, 0.01, 0.6, 0.013]), 4) == pytest.approx([0.08, 0.04, 0.6, 0.04])


def test_tests_that_are_not_passed_are_larger_than_all() -> None:
    assert holm(np.array([0.02, 0.01]), 10) == pytest.approx([0.18, 0.10])


def test_no_adjusted_p_value_exceeds_1() -> None:
    assert holm(np.array([0.9, 0.6, 0.4]), 3).tolist() == [1.0, 1.0, 1.0]
    assert holm(np.array([0.01, 0.9]), 2) == pytest.approx([0.02, 0.9])


def test_levels_stop_where_the_first_is_not_rejected() -> None:
    found = holm_levels(np.array([0.04, 0.001, 0.03, 0.5]), 0.06)
    assert found == pytest.approx([0.06 / 3, 0.06 / 4, 0.06 / 3, 0.06 / 3])


def test_a_p_value_at_its_level_is_rejected() -> None:
    assert holm_levels(np.array([0.025, 0.9]), 0.05) == pytest.approx([0.025, 0.05])
    assert holm_levels(np.array([0.01, 0.02]), 0.05) == pytest.approx([0.025, 0.05])


def test_false_discoveries_count_by_how_many_are_not_larger() -> None:
    # 4 x 0.01, 4 / 3 x 0.04, 4 / 2 x 0.03 and no more than the next, 0.2
    found = benjamini_hochberg(np.array([0.01, 0.04, 0.03, 0.2]))
    assert found == pytest.approx([0.04, 0.16 / 3, 0.16 / 3, 0.2])
    assert benjamini_hochberg(np.array([0.9, 0.8])) == pytest.approx([0.9, 0.9])
    assert benjamini_hochberg(np.array([])).tolist() == []
    p_values = np.random.default_rng(0).random(60) ** 3
    expected = stats.false_discovery_control(p_values)
    assert benjamini_hochberg(p_values) == pytest.approx(expected)
