"""The test behind harness.compare: no false alarms, and true ones found; by seeded simulation."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from harness.compare import LEVEL
from harness.compare.comparison import ComparedRow, joined
from harness.compare.statistics import (
    OccasionVariance,
    Pair,
    Verdict,
    fit_prior,
    judge,
    occasion_variance,
)
from harness.core.records import Build, Config, Environment, Input, Measurement, Outcome, Timing


def families(threshold):
    """Judge 40 families of eight inputs whose candidates are as fast as the base. Occasions differ
    far more than their samples, and inputs have very different noise."""
    rng, found = np.random.default_rng(1), []
    for _ in range(40):
        samples = 0.002 * rng.standard_normal((8, 2, 2, 20))  # inputs, sides, occasions, samples
        noise = rng.lognormal(-0.7, 0.8, (8, 1, 1, 1))
        logs = noise * (0.01 * rng.standard_normal((8, 2, 2, 1)) + samples)
        pairs = [
            Pair(*np.exp(last).tolist(), occasion_variance(means.tolist()))
            for last, means in zip(logs[:, :, -1], logs.mean(axis=-1), strict=True)
        ]
        found.append(judge(pairs, LEVEL, threshold))
    return found


def test_occasions_that_differ_are_no_false_alarms():
    alarms = 0
    for family in families(0):
        alarms += any(change.verdict is not Verdict.WITHIN_NOISE for change in family)
    assert alarms <= 5  # 2 of 40 are expected at most; 6 have a chance of 1.4 %


def pair(ratio, noise=0.002, count=20, seed=0):
    """A pair of which the candidate takes `ratio` times as long, on known noise."""
    rng = np.random.default_rng(seed)
    base, candidate = 1e-3 * np.exp(noise * rng.standard_normal((2, count)))
    variance = OccasionVariance(noise**2 * (1 + 1e-9 * seed), 4)
    return Pair(base.tolist(), (ratio * candidate).tolist(), variance)


def verdicts(pairs, **rules):
    return [change.verdict for change in judge(pairs, **rules)]


def test_an_interval_is_beyond_the_threshold_exactly_where_the_verdict_is_clear():
    rng = np.random.default_rng(3)
    seen = set()
    for _ in range(20):
        ratios = np.exp(0.02 * rng.standard_normal(6))
        pairs = [pair(ratio, 0.005, seed=seed) for seed, ratio in enumerate(ratios)]
        for change in judge(pairs, threshold=0.01):
            seen.add(change.verdict)
            assert (change.ratio.low > 1.01) == (change.verdict is Verdict.SLOWER)
            assert (change.ratio.high < 1 / 1.01) == (change.verdict is Verdict.FASTER)
            assert change.ratio.low <= change.ratio.value <= change.ratio.high
            assert (change.p_value <= 0.05) == (change.verdict is not Verdict.WITHIN_NOISE)
    assert seen == {Verdict.SLOWER, Verdict.FASTER, Verdict.WITHIN_NOISE}


def test_a_limit_holds_whatever_the_other_verdicts_are():
    """Of three comparisons Bonferroni's 0.05 / 3, also beside two that are clear."""
    quiet, *found = (judge([pair(1.0), pair(r, seed=1), pair(r, seed=2)]) for r in (1.0, 1.2))
    assert [change.verdict for change in found[0][1:]] == [Verdict.SLOWER] * 2
    assert found[0][0].verdict is quiet[0].verdict is Verdict.WITHIN_NOISE
    assert found[0][0].ratio.high == quiet[0].ratio.high


def test_an_occasion_variance_is_the_pooled_variance_within_groups():
    found = occasion_variance([(1.0, 3.0), (5.0,), (0.0, 1.0, 2.0)])
    assert found == OccasionVariance(pytest.approx((2.0 + 2.0) / 3), 3)
    assert occasion_variance([(5.0,), ()]) == OccasionVariance()


def test_groups_that_share_occasions_count_each_once():
    """A carried database has ten occasions of BASE's and one of its own, as BASE has."""
    shared = {f"uuid {number}": float(number % 3) for number in range(10)}
    base, candidate = shared | {"base": 1.0}, shared | {"candidate": 1.0}
    assert joined([base, candidate]) == [base | candidate]
    assert joined([base, {"another": 1.0}]) == [base, {"another": 1.0}]


def test_the_prior_is_found_again_in_variances_drawn_from_it():
    rng, freedom, prior = np.random.default_rng(0), 3, OccasionVariance(0.04, 6)
    true = prior.variance * prior.freedom / rng.chisquare(prior.freedom, 4000)
    drawn = true * rng.chisquare(freedom, 4000) / freedom
    found = fit_prior(OccasionVariance(variance, freedom) for variance in drawn)
    assert found.variance == pytest.approx(prior.variance, rel=0.1)
    assert found.freedom == pytest.approx(prior.freedom, rel=0.2)


def test_equal_noise_is_shared_and_one_input_alone_has_no_prior():
    alike = [OccasionVariance(0.01 * (1 + 1e-6 * k), 2) for k in range(10)]
    shared = fit_prior(alike)
    assert shared.freedom == 18  # of the others; it is not surer than what was measured
    # Variances that do not scatter at all have a mean above that of their logarithms.
    assert shared.variance == pytest.approx(0.01 * math.exp(0.5772156649), rel=1e-3)
    assert fit_prior(alike[:1]) == OccasionVariance()


def test_a_variance_is_at_least_that_of_the_samples():
    """Welch's test, where occasions differ less; else Student's, with twice their variance."""
    rng = np.random.default_rng(0)
    base, candidate = rng.lognormal(0, 0.05, 12), rng.lognormal(0.03, 0.02, 9)
    logs = np.log(candidate), np.log(base)
    welch = stats.ttest_ind(*logs, equal_var=False)
    sides = base.tolist(), candidate.tolist()
    (alone,) = judge([Pair(*sides, OccasionVariance(1e-9, 1e6))], 0.05, 0)
    assert alone.p_value == pytest.approx(welch.pvalue)
    assert math.log(alone.ratio.high) == pytest.approx(welch.confidence_interval().high)
    (change,) = judge([Pair(*sides, OccasionVariance(0.0004, 3))], 0.05, 0)
    difference = logs[0].mean() - logs[1].mean()
    assert change.p_value == pytest.approx(2 * stats.t.sf(difference / math.sqrt(0.0008), 3))


def test_occasions_of_a_rerun_are_tested_by_their_differences():
    differences = [0.02, 0.05, 0.01, 0.04]
    pair = Pair((1.0, 1.1), (1.2, 1.3), OccasionVariance(0.01, 5), differences)
    (found,) = judge([pair], 0.05, 0)
    test = stats.ttest_1samp(differences, 0)
    interval = np.exp(test.confidence_interval())
    assert found.p_value == pytest.approx(test.pvalue)
    assert (found.ratio.low, found.ratio.high) == pytest.approx(tuple(interval))


def test_assumed_noise_is_added_to_that_of_the_samples():
    """Degrees of freedom by Welch and Satterthwaite, of which the assumed part is certain."""
    logs = np.random.default_rng(1).normal([[0.0], [0.05]], 0.02, (2, 6))
    welch = stats.ttest_ind(logs[1], logs[0], equal_var=False)
    within = logs.var(axis=1, ddof=1).sum() / 6
    total = within + 2 * 0.01**2
    freedom = welch.df * (total / within) ** 2
    difference = logs[1].mean() - logs[0].mean()
    (change,) = judge([Pair(*np.exp(logs).tolist())], 0.05, 0, run_noise=0.01)
    assert change.p_value == pytest.approx(2 * stats.t.sf(difference / math.sqrt(total), freedom))


def test_without_repeated_occasions_the_noise_between_runs_is_assumed():
    single, many = Pair((1.0,), (1.03,)), Pair((1.0, 1.001) * 10, (1.03, 1.031) * 10)
    assert verdicts([single], run_noise=0.005) == [Verdict.SLOWER]
    for measured_once in (single, many):
        assert verdicts([measured_once], run_noise=0.05) == [Verdict.WITHIN_NOISE]


def test_a_clocks_error_widens_the_threshold():
    """A clock of 10 ms: half a tick of each side."""
    error = 0.005 / 0.10 + 0.005 / 0.11
    pair = Pair([0.10] * 20, [0.11] * 20, OccasionVariance(1e-6, 2), clock_error=error)
    assert verdicts([pair]) == [Verdict.WITHIN_NOISE]
    assert verdicts([replace(pair, clock_error=0.0)]) == [Verdict.SLOWER]


# ---------- the same code on both sides


ENVIRONMENT = Environment("opencl", "a device", "a platform", "1.0", "a compiler")
PROGRAM = replace(ENVIRONMENT, backend="command")


def measured(block=16, binary=None):
    build = Build("key", "", "a compiler", 0.1, binary) if binary else None
    timing = Timing((1e-3, 2e-3))
    return Measurement(Config({"BLOCK": block}), Input({"n": 8}), Outcome.OK, timing, build)


def test_code_is_the_same_where_sources_environment_and_configuration_are():
    for base, candidate, environment, is_same in (
        (measured(16), measured(16), ENVIRONMENT, True),
        (measured(16), measured(64), ENVIRONMENT, False),
        (None, measured(16), ENVIRONMENT, False),
        (measured(16), None, ENVIRONMENT, False),
        # A program's sources may be incomplete: its binaries must be known and equal.
        (measured(16, "ab"), measured(16, "ab"), PROGRAM, True),
        (measured(16, "ab"), measured(16, "cd"), PROGRAM, False),
        (measured(16, "ab"), measured(16), PROGRAM, False),
        (measured(16), measured(16), PROGRAM, False),
    ):
        row = ComparedRow("k", environment, Input({}), "best", base, candidate)
        assert replace(row, same_sources=True).is_same_code is is_same
        assert not row.is_same_code
