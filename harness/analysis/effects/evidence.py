"""What can tell of one kind of failure: tests, or configurations, that came far enough to fail so.

The tests of one configuration on several inputs are no independent evidence about its parameters.
So what is told of parameters alone counts each configuration once, and only what is told of inputs
counts tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from harness.analysis.effects.conditions import Condition, conditions
from harness.analysis.effects.trials import Trials
from harness.core.arrays import Rows
from harness.core.records import Outcome

Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]

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
class Part:
    """Tests, or configurations, that can tell of one kind of failure."""

    kind: str
    unit: str
    told: Sequence[Condition]
    met: Rows  # shape (rows, conditions)
    wanted: Rows  # shape (conditions,): a cause has one of these; among tests, those on features
    failed: Rows  # shape (rows,)
    clusters: Codes  # shape (rows,): the configuration

    @property
    def looks(self) -> int:
        """How many conditions and pairs of them are looked at in a round."""
        count, unwanted = len(self.told), int((~self.wanted).sum())
        return (count * (count + 1) - unwanted * (unwanted + 1)) // 2

    def rows(self, places: Sequence[int]) -> Rows:
        """Which rows meet all of these conditions."""
        rows: Rows = np.all(self.met[:, places], axis=1)
        return rows

    def among(self, left: Rows) -> Part:
        """These rows alone."""
        met, failed, clusters = self.met[left], self.failed[left], self.clusters[left]
        return replace(self, met=met, failed=failed, clusters=clusters)


@dataclass(frozen=True)
class Evidence:
    """A kind over tests, where it depends on the input, and over configurations. The latter's
    rows are in the order of the former's clusters."""

    tests: Part
    configurations: Part

    @classmethod
    def of(cls, found: Trials, kind: str) -> Evidence:
        """Of the tests that came far enough to fail so."""
        least = _REACHED[Outcome(kind)]
        ends = found.ends[found.ends["outcome"].map(lambda name: _REACHED[Outcome(name)] >= least)]
        settings = found.settings.loc[ends.index]
        failed = (ends["outcome"] == kind).to_numpy()
        _, firsts, clusters = np.unique(
            ends["configuration"].to_numpy(), return_index=True, return_inverse=True
        )
        shares = shares_failed(failed, clusters, len(firsts))
        told, met = conditions(settings.iloc[firsts], found.parameters)
        whole = Part(
            kind,
            "configurations",
            told,
            met,
            np.ones(len(told), dtype=np.bool_),
            failing(shares),
            np.arange(len(firsts)),
        )
        is_mixed = bool(((shares > 0) & (shares < 1)).any())
        features = found.features if is_mixed else ()
        told, met = conditions(settings, (*features, *found.parameters) if features else ())
        wanted = np.array([condition.column in features for condition in told], dtype=np.bool_)
        return cls(Part(kind, "tests", told, met, wanted, failed, clusters), whole)

    @property
    def looks(self) -> int:
        """How many conditions and pairs of them are looked at in a round over either."""
        return self.tests.looks + self.configurations.looks


def shares_failed(failed: Rows, clusters: Codes, count: int) -> Array:
    """How much of each cluster failed, shape (count,)."""
    rows = np.bincount(clusters, minlength=count)
    shares: Array = np.bincount(clusters, failed, count) / np.maximum(rows, 1)
    return shares


def failing(shares: Array) -> Rows:
    """Which clusters fail more often than the mean one."""
    rows: Rows = shares > shares.mean() + 1e-9 if len(shares) else shares > 0
    return rows
