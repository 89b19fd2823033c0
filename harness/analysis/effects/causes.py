"""Find the parameter values, alone or in pairs, that explain the failures of each kind.

Every condition on one column, and every pair of conditions on two columns, is a candidate. The one
that explains most is taken, then the search continues among the rows that it does not cover, until
nothing significant is left (sequential covering: Cohen, "Fast Effective Rule Induction", 1995).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from harness.analysis.effects.conditions import ColumnCondition
from harness.analysis.effects.evidence import Evidence, Population, above_mean, failed_shares
from harness.analysis.effects.trials import Trials
from harness.core.arrays import Array, Flags, Indices
from harness.core.records import Outcome
from harness.stats import Estimate
from harness.stats.proportions import clopper_pearson, fisher, likelihood_ratio, strength

ALPHA = 0.05
MOST_CAUSES = 4
"""The most causes of one kind of failure."""

_PAIRS_JUDGED = 200  # in each round, the strongest ones
_MOST_PAIRED = 500  # conditions; if there are more, those that explain most alone


@dataclass(frozen=True)
class Cause:
    """Conditions that explain failures of one kind.

    `failed` of the `count` rows that meet the conditions failed, and `others_failed` of the
    `others`. `share` is the failed share, with its interval.

    Both the interval (Clopper and Pearson's, for as many rows as there are configurations) and
    `p_value` (Fisher's exact test, among the rows that earlier causes leave) are corrected for all
    candidates of a round (Bonferroni). The number of rounds needs no correction, because a round
    starts only where the one before found a significant cause (testing in a fixed sequence: Maurer,
    Hothorn, Lehmacher, 1995).
    """

    kind: str
    conditions: tuple[ColumnCondition, ...]
    count: int
    failed: int
    share: Estimate
    others: int
    others_failed: int
    p_value: float
    unit: str
    """What is counted: tests, where a condition is on a feature, else configurations. A
    configuration counts as failed if it fails on a larger share of its inputs than the mean one."""

    def __str__(self) -> str:
        met = " and ".join(map(str, self.conditions))
        explained = self.failed / (self.failed + self.others_failed)
        others = f" ({self.others_failed / self.others:.0%} of the others)" if self.others else ""
        return (
            f"{self.kind}: {self.share.text('.0%')} of {self.count:,} {self.unit} with {met}"
            f"{others}; explains {explained:.0%} of these failures"
        )


def causes(found: Trials) -> list[Cause]:
    """Return the significant causes of each kind of failure, the most frequent kind first."""
    counts = found.ends["outcome"].value_counts()
    kinds = [str(kind) for kind in counts.index if kind != Outcome.OK.value]
    evidence = [Evidence.of(found, kind) for kind in kinds]
    comparisons = sum(one.comparisons for one in evidence)
    return [cause for one in evidence for cause in _cover(one, comparisons)]


# ------------------------------------------------------------------------------ covering


def _cover(evidence: Evidence, comparisons: int) -> Iterator[Cause]:
    """Yield the causes of a kind, each significant after correction for so many comparisons.

    Tests that a feature explains are no evidence about configurations.
    """
    tests, whole = evidence.tests, evidence.configurations
    left, count = np.ones(len(tests.failed), dtype=np.bool_), 0
    for columns, p_value in _covering(tests, left, MOST_CAUSES, comparisons):
        yield _cause(tests, columns, p_value, comparisons)
        left, count = left & ~tests.rows(columns), count + 1
    kept = np.unique(tests.clusters[left])
    shares = failed_shares(tests.failed[left], tests.clusters[left], len(whole.failed))
    failed, remaining = np.zeros_like(whole.failed), np.zeros_like(whole.failed)
    failed[kept], remaining[kept] = above_mean(shares[kept]), True
    rest = replace(whole, failed=failed)
    for columns, p_value in _covering(rest, remaining, MOST_CAUSES - count, comparisons):
        yield _cause(whole, columns, p_value, comparisons)


def _covering(
    population: Population, left: Flags, most: int, comparisons: int
) -> Iterator[tuple[tuple[int, ...], float]]:
    """Yield at most so many causes among the rows that are left, as columns and p-values."""
    for _ in range(most):
        here = population.subset(left)
        columns = _best(here)
        if not columns or (p_value := _p_value(here, columns)) * comparisons > ALPHA:
            return
        yield columns, p_value
        left = left & ~population.rows(columns)


def _best(population: Population) -> tuple[int, ...]:
    """Return the condition or pair that explains most failures; empty where none does."""
    failed, met = population.failed, population.met
    rows, failures = len(failed), int(failed.sum())
    if not population.conditions or not failures:
        return ()
    ratios = likelihood_ratio(met.sum(axis=0), met[failed].sum(axis=0), rows, failures)
    paired = np.sort(np.argsort(-ratios, kind="stable")[:_MOST_PAIRED])
    as_floats = met[:, paired].astype(np.float32)
    counts = (as_floats.T @ as_floats).astype(np.float64)
    hits = (as_floats[failed].T @ as_floats[failed]).astype(np.float64)
    strengths = strength(counts, hits, rows, failures)
    alone = np.where(population.wanted[paired], strengths.diagonal(), 0.0)
    single, pair = int(alone.argmax()), _best_pair(population, paired, strengths)
    if pair and strengths[pair] > alone[single]:
        return int(paired[pair[0]]), int(paired[pair[1]])
    return (int(paired[single]),) if alone[single] > 0 else ()


def _best_pair(population: Population, paired: Indices, strengths: Array) -> tuple[int, int] | None:
    """Return the strongest pair in which each half adds something to the other, as indices into
    `paired`."""
    columns = np.array([population.conditions[column].column for column in paired])
    wanted = population.wanted[paired]
    allowed = np.triu(columns[:, None] != columns[None, :], 1) & (wanted[:, None] | wanted)
    ranked = np.argsort(np.where(allowed, -strengths, np.inf), axis=None)[:_PAIRS_JUDGED]
    for k, other_k in zip(*np.unravel_index(ranked, strengths.shape), strict=True):
        most = max(strengths[k, k], strengths[other_k, other_k])
        if not allowed[k, other_k] or strengths[k, other_k] <= most:
            continue
        p_values = _halves(population, int(paired[k]), int(paired[other_k]))
        if max(p_values) * len(population.conditions) <= ALPHA:  # any condition could be added
            return int(k), int(other_k)  # the pairs that follow are weaker
    return None


def _halves(population: Population, one: int, other: int) -> list[float]:
    """Return the p-value of what each half adds where the other one holds.

    A condition on a parameter, next to one on a feature, is tested over configurations.
    """
    p_values = []
    for held, added in ((one, other), (other, one)):
        here = population.subset(population.met[:, held])
        failed, met = here.failed, here.met[:, added]
        if not population.wanted[added]:
            _, firsts, codes = np.unique(here.clusters, return_index=True, return_inverse=True)
            failed, met = above_mean(failed_shares(failed, codes, len(firsts))), met[firsts]
        p_values.append(fisher(failed, met))
    return p_values


def _p_value(population: Population, columns: tuple[int, ...]) -> float:
    """Return the p-value that the conditions explain nothing; that either half explains nothing
    where one is on a parameter and one on a feature."""
    if population.wanted[list(columns)].all():
        return fisher(population.failed, population.rows(columns))
    return max(_halves(population, *columns))


def _cause(
    population: Population, columns: tuple[int, ...], p_value: float, comparisons: int
) -> Cause:
    """Count the cause over all rows, not only those that earlier causes left."""
    met = population.rows(columns)
    count, failed = int(met.sum()), int((met & population.failed).sum())
    distinct = len(np.unique(population.clusters[met]))
    return Cause(
        population.kind,
        tuple(population.conditions[column] for column in columns),
        count,
        failed,
        clopper_pearson(failed / count, distinct, ALPHA / comparisons),
        len(met) - count,
        int(population.failed.sum()) - failed,
        p_value * comparisons,
        population.unit,
    )
