"""Which values of parameters, alone or in pairs, explain the failures of each kind.

Every condition on one column and every pair of conditions on two is looked at, and the one that
tells most about the failures is taken; then the same again among the rows that it leaves, until
nothing significant is left (sequential covering: Cohen, "Fast Effective Rule Induction", 1995).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from harness.analysis.effects.conditions import Condition
from harness.analysis.effects.evidence import Evidence, Part, failing, shares_failed
from harness.analysis.effects.trials import Trials
from harness.core.arrays import Rows
from harness.core.records import Outcome
from harness.stats import Estimate
from harness.stats.proportions import clopper_pearson, fisher, likelihood_ratio, strength

Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]

ALPHA = 0.05
MOST_CAUSES = 4
"""Of one kind."""

_PAIRS_JUDGED = 200  # the most telling ones, in each round
_MOST_PAIRED = 500  # conditions; of more, those that tell most by themselves


@dataclass(frozen=True)
class Cause:
    """Where failures of a kind lie: `failed` of the `count` that meet the conditions, with their
    `share`; `others_failed` of the `others`.

    The interval holds for all conditions that were looked at together (Clopper and Pearson's at
    Bonferroni's level, for as many as there are configurations), and `p_value` (Fisher's exact
    test, among the rows that earlier causes leave) is after Bonferroni's correction for all of
    them: that this one was picked because it looks best is allowed for. One cause is looked for
    after the other, and the next only where the one before is significant, so that the number of
    rounds needs no correction (testing in a fixed sequence: Maurer, Hothorn, Lehmacher, 1995).
    """

    kind: str
    conditions: tuple[Condition, ...]
    count: int
    failed: int
    share: Estimate
    others: int
    others_failed: int
    p_value: float
    unit: str
    """What is counted: tests where a condition is on a feature; else configurations, as failed
    those that fail on a larger share of their inputs than the mean one."""

    def __str__(self) -> str:
        met = " and ".join(map(str, self.conditions))
        explained = self.failed / (self.failed + self.others_failed)
        beside = f"{self.others_failed / self.others:.0%} of the others" if self.others else ""
        return (
            f"{self.kind}: {self.share.text('.0%')} of "
            f"{self.count:,} {self.unit} with {met} ({beside}); they explain {explained:.0%} of "
            "these failures"
        )


def causes(found: Trials) -> list[Cause]:
    """The causes of every kind of failure, the commonest kind first; empty where nothing is
    significant."""
    counts = found.ends["outcome"].value_counts()
    kinds = [str(kind) for kind in counts.index if kind != Outcome.OK.value]
    evidence = [Evidence.of(found, kind) for kind in kinds]
    looks = sum(one.looks for one in evidence)
    return [_told(pick, looks) for one in evidence for pick in _cover(one, looks)]


# ------------------------------------------------------------------------------ covering


@dataclass(frozen=True)
class _Pick:
    """Conditions by their places, and the p-value among the rows that were left."""

    part: Part
    places: tuple[int, ...]
    p_value: float


def _cover(evidence: Evidence, looks: int) -> Iterator[_Pick]:
    """The causes of a kind, one after the other, each significant among so many looks in a round;
    tests that inputs explain are no evidence about configurations."""
    tests, whole = evidence.tests, evidence.configurations
    left, count = np.ones(len(tests.failed), dtype=np.bool_), 0
    for places, p_value in _covering(tests, left, MOST_CAUSES, looks):
        yield _Pick(tests, places, p_value)
        left, count = left & ~tests.rows(places), count + 1
    kept = np.unique(tests.clusters[left])
    shares = shares_failed(tests.failed[left], tests.clusters[left], len(whole.failed))
    failed, remaining = np.zeros_like(whole.failed), np.zeros_like(whole.failed)
    failed[kept], remaining[kept] = failing(shares[kept]), True
    rest = replace(whole, failed=failed)
    for places, p_value in _covering(rest, remaining, MOST_CAUSES - count, looks):
        yield _Pick(whole, places, p_value)


def _covering(
    part: Part, left: Rows, most: int, looks: int
) -> Iterator[tuple[tuple[int, ...], float]]:
    """At most so many causes among the rows that are left: places of conditions, and p-values."""
    for _ in range(most):
        here = part.among(left)
        places = _best(here)
        if not places or (p_value := _p_value(here, places)) * looks > ALPHA:
            return
        yield places, p_value
        left = left & ~part.rows(places)


def _best(part: Part) -> tuple[int, ...]:
    """The condition or pair that tells most about the failures; empty where none does."""
    failed, met = part.failed, part.met
    rows, failures = len(failed), int(failed.sum())
    if not part.told or not failures:
        return ()
    told = likelihood_ratio(met.sum(axis=0), met[failed].sum(axis=0), rows, failures)
    paired = np.sort(np.argsort(-told, kind="stable")[:_MOST_PAIRED])
    as_floats = met[:, paired].astype(np.float32)
    counts = (as_floats.T @ as_floats).astype(np.float64)
    hits = (as_floats[failed].T @ as_floats[failed]).astype(np.float64)
    strengths = strength(counts, hits, rows, failures)
    alone = np.where(part.wanted[paired], strengths.diagonal(), 0.0)
    single, pair = int(alone.argmax()), _best_pair(part, paired, strengths)
    if pair and strengths[pair] > alone[single]:
        return int(paired[pair[0]]), int(paired[pair[1]])
    return (int(paired[single]),) if alone[single] > 0 else ()


def _best_pair(part: Part, paired: Codes, strengths: Array) -> tuple[int, int] | None:
    """The most telling pair, by its places in `paired`, of which each half tells something where
    the other one holds."""
    columns = np.array([part.told[place].column for place in paired])
    wanted = part.wanted[paired]
    allowed = np.triu(columns[:, None] != columns[None, :], 1) & (wanted[:, None] | wanted)
    ranked = np.argsort(np.where(allowed, -strengths, np.inf), axis=None)[:_PAIRS_JUDGED]
    for k, other_k in zip(*np.unravel_index(ranked, strengths.shape), strict=True):
        most = max(strengths[k, k], strengths[other_k, other_k])
        if not allowed[k, other_k] or strengths[k, other_k] <= most:
            continue
        p_values = _halves(part, int(paired[k]), int(paired[other_k]))
        if max(p_values) * len(part.told) <= ALPHA:  # of all that could be added to the half
            return int(k), int(other_k)  # those that follow tell less
    return None


def _halves(part: Part, one: int, other: int) -> list[float]:
    """The p-value of what each half adds where the other one holds; of a condition on parameters
    beside one on a feature over configurations."""
    p_values = []
    for held, added in ((one, other), (other, one)):
        here = part.among(part.met[:, held])
        failed, met = here.failed, here.met[:, added]
        if not part.wanted[added]:
            _, firsts, codes = np.unique(here.clusters, return_index=True, return_inverse=True)
            failed, met = failing(shares_failed(failed, codes, len(firsts))), met[firsts]
        p_values.append(fisher(failed, met))
    return p_values


def _p_value(part: Part, places: tuple[int, ...]) -> float:
    """That the conditions explain nothing; where one is on parameters and one on a feature, that
    either half does not."""
    if part.wanted[list(places)].all():
        return fisher(part.failed, part.rows(places))
    return max(_halves(part, *places))


def _told(pick: _Pick, looks: int) -> Cause:
    """A cause as it stands among all rows, not only among those that earlier ones left."""
    part = pick.part
    met = part.rows(pick.places)
    count, failed = int(met.sum()), int((met & part.failed).sum())
    distinct = len(np.unique(part.clusters[met]))
    return Cause(
        part.kind,
        tuple(part.told[place] for place in pick.places),
        count,
        failed,
        clopper_pearson(failed / count, distinct, ALPHA / looks),
        len(met) - count,
        int(part.failed.sum()) - failed,
        pick.p_value * looks,
        part.unit,
    )
