"""Compare the share of failures among rows that meet a condition with that among the others."""

from __future__ import annotations

import numpy as np

from harness.core.arrays import Array, Flags
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
    """Return the one-sided p-value of Fisher's exact test: failures are no likelier in `met`."""
    from scipy.stats import hypergeom  # here: it takes half a second to load

    hits = int((failed & met).sum())
    return float(hypergeom.sf(hits - 1, len(failed), int(failed.sum()), int(met.sum())))


def clopper_pearson(share: float, count: int, alpha: float) -> Estimate:
    """Estimate a share of `count` independent rows, with its exact interval at level 1 - alpha.

    scipy's `binomtest` takes whole numbers of successes only; `share * count` need not be one.
    """
    from scipy.special import betaincinv

    hits = share * count
    low = betaincinv(hits, count - hits + 1, alpha / 2) if share > 0 else 0.0
    high = betaincinv(hits + 1, count - hits, 1 - alpha / 2) if share < 1 else 1.0
    return Estimate(share, float(low), float(high))
