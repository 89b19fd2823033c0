"""Estimate shares."""

from __future__ import annotations

from harness.stats import Estimate


def clopper_pearson(share: float, count: int, alpha: float) -> Estimate:
    """Estimate a share of `count` independent rows, with its exact interval at level 1 - alpha.

    scipy's `binomtest` takes whole numbers of successes only; `share * count` need not be one.
    """
    from scipy.special import betaincinv  # here: it takes time to load

    hits = share * count
    low = betaincinv(hits, count - hits + 1, alpha / 2) if share > 0 else 0.0
    high = betaincinv(hits + 1, count - hits, 1 - alpha / 2) if share < 1 else 1.0
    return Estimate(share, float(low), float(high))
