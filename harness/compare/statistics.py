"""Find the kernels that became slower, at a stated rate of false alarms over all of them.

Samples taken in one go (an occasion) share clocks, temperature and memory placement. Their spread
says little about the next occasion: on a recording with free clocks, Welch's t-test at 5 % calls a
third of equal pairs different, and raises a false alarm in 58 % of families of 20. So this test
works on occasions. Where the same configuration was measured on several occasions, the variance
s^2 of their mean logarithms, with d degrees of freedom, contains everything: launches, their
autocorrelation, and the changes from one occasion to the next.

One input has few occasions (d is about 2), but a comparison has many inputs. Their variances are
moderated as in Smyth, "Linear models and empirical Bayes methods for assessing differential
expression in microarray experiments" (2004): a prior s0^2 with d0 degrees of freedom is fitted to
all of them, and the variance of each input becomes (d0 s0^2 + d s^2) / (d0 + d), with d0 + d
degrees of freedom. Where inputs are equally noisy, d0 is large and they share information; where
they are not, d0 is small and each input relies on its own occasions. The variance of a difference
is twice that. It is at least the variance that the samples' own spread gives (Welch); then the
smaller of the two degrees of freedom applies.

A rerun (harness.compare.rerun) measures both sides together on several occasions. There the test
is Student's t on the differences between the sides, one per occasion.

A coarse clock hides differences below its tick, however many samples there are. A measurement of a
kernel states how many seconds (`harness.measure.device.clocks`), by which each side widens the
threshold. Recordings and times of programs do not state this: if theirs have coarse ticks, the
threshold must be above a tick.

A change is significant where the t-test rejects that it is within +- the threshold: kernels that
differ by less are never regressions. Holm's procedure (1979) over all comparisons keeps the
probability of any false `slower` or `faster` at the level.

Where a change is not significant, its interval bounds the slowdown that may have been missed.
These intervals are Bonferroni's, at the level over the number of comparisons, so they hold
simultaneously: the probability that any true slowdown exceeds its upper limit is at most the
level. The power of the test would say less, since it does not depend on the result: of two equally
noisy inputs, the one that came out 1 % faster has a lower limit than the one that came out 1 %
slower.

Of Welch's test, effective sample sizes, batch means, the variance of each input alone and a pooled
variance, the first three call runs different that are not, pooling fails where inputs are unevenly
noisy, and the variance of each input alone finds far fewer slowdowns.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from harness.compare import LEVEL, RUN_NOISE, THRESHOLD
from harness.stats import Estimate
from harness.stats.timing import LogDifference, holm, log_difference, variance

_LARGEST = 700.0  # half-width of a logarithm: e to this power is finite, as JSON needs


@dataclass(frozen=True)
class OccasionVariance:
    """The variance of an occasion's mean logarithm, and its degrees of freedom."""

    variance: float = 0.0
    freedom: float = 0.0


@dataclass(frozen=True)
class Pair:
    """The samples of one occasion each, in seconds, and the variance of their input's occasions.

    Where both sides were measured together on several occasions, the samples are those of all
    occasions, and `differences` has the difference of the mean logarithms in each of them.
    `clock_error` is by how much the clocks may put that off, as far as the measurements state it.
    """

    base_s: Sequence[float]
    candidate_s: Sequence[float]
    occasions: OccasionVariance = OccasionVariance()
    differences: Sequence[float] = ()
    clock_error: float = 0.0


class Verdict(str, Enum):
    """What is said of a row. The first three are results of a test; the others need none, or the
    code is the same, so that only the machine can have changed."""

    SLOWER = "slower"
    FASTER = "faster"
    WITHIN_NOISE = "within noise"
    SAME = "not measured again"
    BROKEN = "works no more"
    FIXED = "works now"
    MISSING = "not compared"
    MACHINE = "the machine changed"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Change:
    """The ratio of candidate time to base time, and whether it is significant.

    The whole interval is beyond the threshold exactly where the verdict is slower or faster; its
    level is then that of the step of Holm's procedure that gave the verdict. Within noise the
    interval is Bonferroni's, and `ratio.high` is the upper simultaneous confidence limit: the
    largest slowdown that may have been missed. `p_value` is adjusted for all comparisons (Holm).
    """

    ratio: Estimate
    p_value: float
    verdict: Verdict


def occasion_variance(groups: Iterable[Sequence[float]]) -> OccasionVariance:
    """Pool the variance within groups of mean logarithms; a group is one configuration on one
    input."""
    repeated = [group for group in groups if len(group) > 1]
    freedom = sum(len(group) - 1 for group in repeated)
    if not freedom:
        return OccasionVariance()
    squares = sum((len(group) - 1) * variance(group) for group in repeated)
    return OccasionVariance(squares / freedom, freedom)


def fit_prior(variances: Iterable[OccasionVariance]) -> OccasionVariance:
    """Fit the prior of the moderated variances by the moments of log s^2 (Smyth 2004, section 6.2).

    Its degrees of freedom are bounded by those that were measured, and are 0 where fewer than two
    variances are known.
    """
    usable = [s for s in variances if s.freedom and s.variance > 0]
    if len(usable) < 2:
        return OccasionVariance()
    from scipy.optimize import brentq  # here: it takes long to load
    from scipy.special import digamma, polygamma

    freedom = np.array([s.freedom for s in usable], dtype=np.float64)
    halves = freedom / 2
    logs = np.log([s.variance for s in usable]) - digamma(halves) + np.log(halves)
    mean = float(logs.mean())
    most = float(freedom.sum() - freedom.max())
    excess = float(logs.var(ddof=1) - polygamma(1, halves).mean())
    if excess <= 0:
        return OccasionVariance(math.exp(mean), most)
    # Trigamma of x lies between 1/x and 1/x + 1/x^2.
    half = float(brentq(lambda x: polygamma(1, x) - excess, 1 / excess, 1 + 1 / excess))
    mean += float(digamma(half)) - math.log(half)
    return OccasionVariance(math.exp(mean), min(2 * half, most))


def judge(
    pairs: Sequence[Pair],
    level: float = LEVEL,
    threshold: float = THRESHOLD,
    run_noise: float = RUN_NOISE,
) -> list[Change]:
    """Test all pairs as one family, and return their changes in order.

    Pairs of the same input have the same variance, which counts once. `run_noise` is the standard
    deviation of an occasion, as a fraction of the time, where no variance is known.
    """
    prior = fit_prior(dict.fromkeys(pair.occasions for pair in pairs if not pair.differences))
    margin = math.log1p(threshold)
    differences = [_difference(pair, prior, run_noise) for pair in pairs]
    p_values = np.array([_p_value(difference, margin) for difference in differences])
    adjusted = holm(p_values).tolist()
    ranks = np.argsort(np.argsort(p_values, kind="stable")).tolist()  # in Holm's procedure
    changes: list[Change] = []
    for difference, p_value, rank in zip(differences, adjusted, ranks, strict=True):
        verdict = Verdict.WITHIN_NOISE
        tests_left = len(pairs)
        if p_value <= level:
            verdict = Verdict.SLOWER if difference.mean > 0 else Verdict.FASTER
            tests_left -= rank
        half = min(difference.half_width(1 - level / tests_left), _LARGEST)
        changes.append(Change(Estimate.from_log(difference.mean, half), p_value, verdict))
    return changes


def _difference(pair: Pair, prior: OccasionVariance, run_noise: float) -> LogDifference:
    """Return the difference of two occasions, with the variance of both."""
    if pair.differences:
        return LogDifference.of_pairs(pair.differences, pair.clock_error)
    welch = log_difference(pair.candidate_s, pair.base_s)
    within = welch.error**2 if welch.error < math.inf else 0.0
    of_input = pair.occasions
    freedom = of_input.freedom + prior.freedom
    if freedom:
        squares = prior.freedom * prior.variance + of_input.freedom * of_input.variance
        squared = 2 * squares / freedom
        if within > squared:
            squared = within
            freedom = min(welch.freedom, freedom)
    else:
        squared = within + 2 * run_noise**2
        freedom = _CERTAIN
        if within:
            freedom = welch.freedom * (squared / within) ** 2
    return LogDifference(welch.mean, math.sqrt(squared), freedom, pair.clock_error)


_CERTAIN = 1e9
"""The degrees of freedom of a known variance."""


def _p_value(difference: LogDifference, margin: float) -> float:
    """Return the two-sided p-value that a difference is within +- the margin."""
    beyond = dataclasses.replace(difference, mean=abs(difference.mean) - margin)
    return min(1.0, 2 * beyond.p_value_of_more())
