"""Compare the share of failures among rows that meet a condition with that among the others."""

from __future__ import annotations

import numpy as np

from harness.core.arrays import Array, Flags, Indices
from harness.stats import Estimate

_MIN_ODDS_RATIO = 3.0
_MIN_EXPLAINED = 3  # failures


def strength(counts: Array, hits: Array, rows: int, failed: int) -> Array:
    """Return the likelihood ratio of each condition that may be a cause, else 0.

    A cause needs three failures and an odds ratio of at least 3. Arguments as for
    `likelihood_ratio`.
    """
    misses = failed - hits
    odds = (hits + 0.5) * (rows - counts - misses + 0.5)
    is_cause = odds >= _MIN_ODDS_RATIO * (counts - hits + 0.5) * (misses + 0.5)
    ratios = likelihood_ratio(counts, hits, rows, failed)
    return np.where(is_cause & (hits >= _MIN_EXPLAINED), ratios, 0.0)


def likelihood_ratio(counts: Array, hits: Array, rows: int, failed: int) -> Array:
    """Return the statistic G of two-by-two tables, one for each condition.

    `counts` of all `rows` meet the condition; `hits` of these are among the `failed` rows.
    """
    from scipy.special import rel_entr  # here: scipy.special takes time to load

    total = np.zeros(counts.shape)
    for met, whole in ((hits, failed), (counts - hits, rows - failed)):
        for observed, condition in ((met, counts), (whole - met, rows - counts)):
            total += rel_entr(observed, condition * whole / rows)
    return 2 * total


def fisher(failed: Flags, met: Flags) -> float:
    """Return the one-sided p-value of Fisher's exact test: failures are no likelier in `met`.

    It is the upper tail of the hypergeometric distribution, summed here: `scipy.stats` has it, but
    takes twice as long to load as `scipy.special`.
    """
    rows, failures, count = len(failed), int(failed.sum()), int(met.sum())
    hits: Indices = np.arange(int((failed & met).sum()), min(failures, count) + 1)
    tail = np.exp(
        _log_choices(count, hits)
        + _log_choices(rows - count, failures - hits)
        - _log_choices(rows, failures)
    )
    return min(1.0, float(tail.sum()))


def _log_choices(count: int, taken: Indices | int) -> Array:
    """Return the logarithm of the number of ways to take so many of `count`."""
    from scipy.special import betaln  # here: it takes time to load

    choices: Array = -np.log(count + 1) - betaln(count - taken + 1, taken + 1)
    return choices


def clopper_pearson(share: float, count: int, alpha: float) -> Estimate:
    """Estimate a share of `count` independent rows, with its exact interval at level 1 - alpha.

    scipy's `binomtest` takes whole numbers of successes only; `share * count` need not be one.
    """
    from scipy.special import betaincinv

    hits = share * count
    low = betaincinv(hits, count - hits + 1, alpha / 2) if share > 0 else 0.0
    high = betaincinv(hits + 1, count - hits, 1 - alpha / 2) if share < 1 else 1.0
    return Estimate(share, float(low), float(high))
