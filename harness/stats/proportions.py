"""How two shares differ: of rows that meet a condition and rows that do not, which ones failed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Rows
from harness.stats.estimate import Estimate

Array = npt.NDArray[np.float64]

_LEAST_ODDS_RATIO = 3.0
_FEWEST_EXPLAINED = 3


def strength(counts: Array, hits: Array, rows: int, failed: int) -> Array:
    """The likelihood ratio; 0 where failures are no likelier with the conditions, or too little
    so to be a cause."""
    misses = failed - hits
    odds = (hits + 0.5) * (rows - counts - misses + 0.5)
    is_cause = odds >= _LEAST_ODDS_RATIO * (counts - hits + 0.5) * (misses + 0.5)
    told = likelihood_ratio(counts, hits, rows, failed)
    return np.where(is_cause & (hits >= _FEWEST_EXPLAINED), told, 0.0)


def likelihood_ratio(counts: Array, hits: Array, rows: int, failed: int) -> Array:
    """G of two-by-two tables: `counts` of the rows meet a condition, and `hits` of these are
    among the failed ones."""
    told = np.zeros(counts.shape)
    for met, share in ((hits, failed / rows), (counts - hits, 1 - failed / rows)):
        for cell, whole in ((met, counts), (share * rows - met, rows - counts)):
            expected = whole * share
            with np.errstate(divide="ignore", invalid="ignore"):
                told += np.where(cell > 0, cell * np.log(cell / expected), 0.0)
    return 2 * told


def fisher(failed: Rows, met: Rows) -> float:
    """One-sided p-value that failures are no likelier where the conditions are met."""
    from scipy.stats import hypergeom  # here: it takes half a second to load

    hits = int((failed & met).sum())
    return float(hypergeom.sf(hits - 1, len(failed), int(failed.sum()), int(met.sum())))


def clopper_pearson(share: float, count: int, alpha: float) -> Estimate:
    """Estimate a share of `count` independent rows, with its exact interval at level 1 - alpha."""
    from scipy.special import betaincinv

    hits = share * count
    low = betaincinv(hits, count - hits + 1, alpha / 2) if share > 0 else 0.0
    high = betaincinv(hits + 1, count - hits, 1 - alpha / 2) if share < 1 else 1.0
    return Estimate(share, float(low), float(high))
