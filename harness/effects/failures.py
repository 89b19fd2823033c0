"""Which values of parameters, alone or in pairs, explain the failures of each kind.

Every condition on one column and every pair of conditions on two is looked at, and the one that
tells most about the failures is taken; then the same again among the rows that it leaves, until
nothing significant is left (sequential covering: Cohen, "Fast Effective Rule Induction", 1995).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.effects.conditions import Condition, Rows, conditions
from harness.effects.corrections import holm
from harness.effects.trials import Trials
from harness.records import Outcome

Array = npt.NDArray[np.float64]

ALPHA = 0.05
MOST_CAUSES = 4
"""Of one kind."""

_LEAST_ODDS_RATIO = 3.0
_FEWEST_EXPLAINED = 3
_PAIRS_JUDGED = 200  # the most telling ones, in each round
_MOST_PAIRED = 500  # conditions; of more, those that tell most by themselves

# How far a configuration came before it failed: what failed earlier cannot tell of later kinds.
_REACHED = {
    Outcome.ILLEGAL: 0,
    Outcome.BUILD_FAILED: 1,
    Outcome.LAUNCH_FAILED: 2,
    Outcome.TIMEOUT: 3,
    Outcome.CRASHED: 3,
    Outcome.WRONG_RESULT: 4,
    Outcome.OK: 5,
}


@dataclass(frozen=True)
class Cause:
    """Where failures of a kind lie: `failed` of the `count` that meet the conditions, whose share
    is between `low` and `high`; `others_failed` of the `others`.

    The interval holds for all conditions that were looked at together (Clopper and Pearson's at
    Bonferroni's level), and `p_value` (Fisher's exact test) is after Holm's correction for all
    of them: that this one was picked because it looks best is allowed for.
    """

    kind: str
    conditions: tuple[Condition, ...]
    count: int
    failed: int
    low: float
    high: float
    others: int
    others_failed: int
    p_value: float
    unit: str
    """What is counted: configurations where a kind does not depend on the input, else tests."""

    def __str__(self) -> str:
        met = " and ".join(map(str, self.conditions))
        explained = self.failed / (self.failed + self.others_failed)
        beside = f"{self.others_failed / self.others:.0%} of the others" if self.others else ""
        return (
            f"{self.kind}: {self.failed / self.count:.0%} [{self.low:.0%}, {self.high:.0%}] of "
            f"{self.count:,} {self.unit} with {met} ({beside}); they explain {explained:.0%} of "
            "these failures"
        )


def causes(found: Trials) -> list[Cause]:
    """The causes of every kind of failure, the commonest kind first; empty where nothing is
    significant."""
    counts = found.ends["outcome"].value_counts()
    kinds = [str(kind) for kind in counts.index if kind != Outcome.OK.value]
    parts = [part for kind in kinds if (part := _Part.of(found, kind)) is not None]
    picked = [(part, pick) for part in parts for pick in _cover(part)]
    looks = sum(part.looks for part in parts) * MOST_CAUSES
    corrected = holm(np.array([pick.p_value for _, pick in picked]), looks).tolist()
    return [
        _told(part, pick, p_value, looks)
        for (part, pick), p_value in zip(picked, corrected, strict=True)
        if p_value <= ALPHA
    ]


@dataclass(frozen=True)
class _Part:
    """The rows that can tell of one kind of failure."""

    kind: str
    unit: str
    told: Sequence[Condition]
    met: Rows  # shape (rows, conditions)
    failed: Rows  # shape (rows,)

    @classmethod
    def of(cls, found: Trials, kind: str) -> _Part | None:
        """None where nothing varies."""
        least = _REACHED[Outcome(kind)]
        ends = found.ends[found.ends["outcome"].map(lambda name: _REACHED[Outcome(name)] >= least)]
        failing = (ends["outcome"] == kind).groupby(ends["configuration"])
        columns, unit = (*found.features, *found.parameters), "tests"
        if (failing.min() == failing.max()).all():
            # The same on all inputs: more of them are no more evidence.
            ends = ends.drop_duplicates("configuration")
            columns, unit = found.parameters, "configurations"
        told, met = conditions(found.settings.loc[ends.index], columns)
        return cls(kind, unit, told, met, (ends["outcome"] == kind).to_numpy()) if told else None

    @property
    def looks(self) -> int:
        """How many conditions and pairs of them are looked at in a round."""
        return len(self.told) * (len(self.told) + 1) // 2

    def rows(self, places: Sequence[int]) -> Rows:
        """Which rows meet all of these conditions."""
        rows: Rows = np.all(self.met[:, places], axis=1)
        return rows


@dataclass(frozen=True)
class _Pick:
    """Conditions by their places, and Fisher's p-value among the rows that were left."""

    places: tuple[int, ...]
    p_value: float


def _cover(part: _Part) -> Iterator[_Pick]:
    """The causes of a kind, one after the other."""
    left = np.ones(len(part.failed), dtype=np.bool_)
    for _ in range(MOST_CAUSES):
        pick = _best(part, left)
        if pick is None or pick.p_value * part.looks > ALPHA:
            return
        yield pick
        left &= ~part.rows(pick.places)


def _best(part: _Part, left: Rows) -> _Pick | None:
    """The condition or pair that tells most about the failures among the rows that are left."""
    failed, met = part.failed[left], part.met[left]
    rows, failures = len(failed), int(failed.sum())
    told = _likelihood_ratio(met.sum(axis=0), met[failed].sum(axis=0), rows, failures)
    paired = np.sort(np.argsort(-told, kind="stable")[:_MOST_PAIRED])
    as_floats = met[:, paired].astype(np.float32)
    counts = (as_floats.T @ as_floats).astype(np.float64)
    hits = (as_floats[failed].T @ as_floats[failed]).astype(np.float64)
    strength = _strength(counts, hits, rows, failures)
    candidates = [
        *(((int(place),), float(strength[k, k])) for k, place in enumerate(paired)),
        *_pairs(part, paired, met, failed, strength),
    ]
    places, most = max(candidates, key=lambda candidate: candidate[1])
    if most <= 0:
        return None
    return _Pick(places, _fisher(failed, np.all(met[:, places], axis=1)))


def _pairs(
    part: _Part, paired: npt.NDArray[np.intp], met: Rows, failed: Rows, strength: Array
) -> list[tuple[tuple[int, ...], float]]:
    """The most telling pair of which each half tells something where the other one holds."""
    columns = np.array([part.told[place].column for place in paired])
    allowed = np.triu(columns[:, None] != columns[None, :], 1)
    ranked = np.argsort(np.where(allowed, -strength, np.inf), axis=None)[:_PAIRS_JUDGED]
    for k, other_k in zip(*np.unravel_index(ranked, strength.shape), strict=True):
        told = strength[k, other_k]
        if not allowed[k, other_k] or told <= max(strength[k, k], strength[other_k, other_k]):
            continue
        one, other = int(paired[k]), int(paired[other_k])
        halves = ((one, other), (other, one))
        p_values = [_fisher(failed[met[:, a]], met[met[:, a], b]) for a, b in halves]
        if max(p_values) * len(part.told) <= ALPHA:  # of all that could be added to the half
            return [((one, other), float(told))]  # those that follow tell less
    return []


def _strength(counts: Array, hits: Array, rows: int, failed: int) -> Array:
    """The likelihood ratio; 0 where failures are no likelier with the conditions, or too little
    so to be a cause."""
    misses = failed - hits
    odds = (hits + 0.5) * (rows - counts - misses + 0.5)
    is_cause = odds >= _LEAST_ODDS_RATIO * (counts - hits + 0.5) * (misses + 0.5)
    told = _likelihood_ratio(counts, hits, rows, failed)
    return np.where(is_cause & (hits >= _FEWEST_EXPLAINED), told, 0.0)


def _likelihood_ratio(counts: Array, hits: Array, rows: int, failed: int) -> Array:
    """G of two-by-two tables: `counts` of the rows meet a condition, and `hits` of these are
    among the failed ones."""
    told = np.zeros(counts.shape)
    for met, share in ((hits, failed / rows), (counts - hits, 1 - failed / rows)):
        for cell, whole in ((met, counts), (share * rows - met, rows - counts)):
            expected = whole * share
            with np.errstate(divide="ignore", invalid="ignore"):
                told += np.where(cell > 0, cell * np.log(cell / expected), 0.0)
    return 2 * told


def _fisher(failed: Rows, met: Rows) -> float:
    """One-sided p-value that failures are no likelier where the conditions are met."""
    from scipy.stats import hypergeom  # here: it takes half a second to load

    hits = int((failed & met).sum())
    return float(hypergeom.sf(hits - 1, len(failed), int(failed.sum()), int(met.sum())))


def _told(part: _Part, pick: _Pick, p_value: float, looks: int) -> Cause:
    """A cause as it stands among all rows, not only among those that earlier ones left."""
    met = part.rows(pick.places)
    count, failed = int(met.sum()), int((met & part.failed).sum())
    low, high = _clopper_pearson(failed, count, ALPHA / looks)
    return Cause(
        part.kind,
        tuple(part.told[place] for place in pick.places),
        count,
        failed,
        low,
        high,
        len(met) - count,
        int(part.failed.sum()) - failed,
        p_value,
        part.unit,
    )


def _clopper_pearson(hits: int, count: int, alpha: float) -> tuple[float, float]:
    """The exact interval of a share."""
    from scipy.special import betaincinv

    low = betaincinv(hits, count - hits + 1, alpha / 2) if hits else 0.0
    high = betaincinv(hits + 1, count - hits, 1 - alpha / 2) if hits < count else 1.0
    return float(low), float(high)
