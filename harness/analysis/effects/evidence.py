"""Select the tests, or configurations, that came far enough to fail in a given way.

Tests of one configuration on several inputs are not independent evidence about its parameters.
Causes that involve parameters only therefore count each configuration once; causes that involve a
feature of the input count tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.analysis.effects.conditions import ColumnCondition, conditions
from harness.analysis.effects.trials import Trials
from harness.core.arrays import Array, Flags, Indices
from harness.core.records import Outcome

# How far a configuration came: one that failed earlier is no evidence about later stages.
_STAGE = {
    Outcome.ILLEGAL: 0,
    Outcome.BUILD_FAILED: 1,
    Outcome.OUT_OF_MEMORY: 2,
    Outcome.LAUNCH_FAILED: 3,
    Outcome.TIMEOUT: 4,
    Outcome.CRASHED: 4,
    Outcome.WRONG_RESULT: 5,
    Outcome.IMPLAUSIBLE: 6,
    Outcome.OK: 7,
}


@dataclass(frozen=True)
class Population:
    """Tests, or configurations, that are evidence about one kind of failure.

    `met`, shape (rows, conditions), marks the rows that meet each condition, `failed`, shape
    (rows,), those that failed. `clusters`, shape (rows,), numbers their configurations. A cause
    has at least one of the `wanted` conditions, shape (conditions,): among tests, one on a feature.
    """

    kind: str
    unit: str
    conditions: Sequence[ColumnCondition]
    met: Flags
    wanted: Flags
    failed: Flags
    clusters: Indices

    @property
    def comparisons(self) -> int:
        """The number of conditions, and pairs of them, that may be a cause."""
        count, unwanted = len(self.conditions), int((~self.wanted).sum())
        return (count * (count + 1) - unwanted * (unwanted + 1)) // 2

    def rows(self, columns: Sequence[int]) -> Flags:
        """Return which rows meet all of these conditions."""
        rows: Flags = np.all(self.met[:, columns], axis=1)
        return rows

    def subset(self, rows: Flags) -> Population:
        """Keep these rows only."""
        met, failed, clusters = self.met[rows], self.failed[rows], self.clusters[rows]
        return replace(self, met=met, failed=failed, clusters=clusters)


@dataclass(frozen=True)
class Evidence:
    """The evidence about one kind of failure: tests, where it depends on the input, and
    configurations, whose rows are in the order of the tests' clusters."""

    tests: Population
    configurations: Population

    @classmethod
    def of(cls, found: Trials, kind: str) -> Evidence:
        """Select the tests that came far enough to fail in this way."""
        stage = _STAGE[Outcome(kind)]
        ends = found.ends[found.ends["outcome"].map(lambda name: _STAGE[Outcome(name)] >= stage)]
        settings = found.settings.loc[ends.index]
        failed = (ends["outcome"] == kind).to_numpy()
        _, firsts, clusters = np.unique(
            ends["configuration"].to_numpy(), return_index=True, return_inverse=True
        )
        shares = failed_shares(failed, clusters, len(firsts))
        listed, met = conditions(settings.iloc[firsts], found.parameters)
        configurations = Population(
            kind,
            "configurations",
            listed,
            met,
            np.ones(len(listed), dtype=np.bool_),
            above_mean(shares),
            np.arange(len(firsts)),
        )
        depends_on_input = bool(((shares > 0) & (shares < 1)).any())
        features = found.features if depends_on_input else ()
        listed, met = conditions(settings, (*features, *found.parameters) if features else ())
        wanted = np.array([condition.column in features for condition in listed], dtype=np.bool_)
        tests = Population(kind, "tests", listed, met, wanted, failed, clusters)
        return cls(tests, configurations)

    @property
    def comparisons(self) -> int:
        """The number of conditions, and pairs of them, that are looked at in a round."""
        return self.tests.comparisons + self.configurations.comparisons


def failed_shares(failed: Flags, clusters: Indices, count: int) -> Array:
    """Return the share of failed rows in each cluster, shape (count,)."""
    rows = np.bincount(clusters, minlength=count)
    return np.bincount(clusters, failed, count) / np.maximum(rows, 1)


def above_mean(shares: Array) -> Flags:
    """Return which clusters fail more often than the mean cluster, shape (clusters,)."""
    return shares > shares.mean() + 1e-9 if len(shares) else shares > 0
