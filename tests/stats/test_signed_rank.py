"""Whether paired differences lie below zero, beside scipy's tests."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from harness.stats.signed_rank import p_below


@pytest.mark.parametrize("shift", [-1.5, -0.3, 0.0, 0.8])
@pytest.mark.parametrize("count", [1, 5, 12])
def test_it_is_twice_the_smaller_p_value_of_both_tests(shift: float, count: int) -> None:
    differences = np.random.default_rng(count).normal(shift, 1.0, count)
    signs = stats.binomtest(int((differences > 0).sum()), count, alternative="less").pvalue
    ranks = stats.wilcoxon(differences, alternative="less", method="exact").pvalue
    wanted = min(1.0, 2 * min(signs, ranks))
    assert p_below(differences.tolist()) == pytest.approx(wanted)


def test_a_burst_hides_nothing_from_the_signs_nor_even_noise_from_the_ranks() -> None:
    burst = [-1.0] * 9 + [50.0]
    assert p_below(burst) == pytest.approx(2 * 11 / 1024)
    even = [-5.0, -4.0, -3.0, -2.0, 1.0]
    assert p_below(even) == pytest.approx(2 * 2 / 32), "ranks below 1 or of 1"


def test_equal_times_are_not_below() -> None:
    assert p_below([0.0] * 10) == 1.0
    assert p_below([0.0, -2.0, -3.0]) == pytest.approx(2 * 2 / 8)


def test_nothing_is_known_of_no_differences() -> None:
    assert p_below([]) == 1.0
