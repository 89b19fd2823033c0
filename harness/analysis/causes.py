"""Find the values of parameters and features that explain the failures of each kind.

A regression tree splits the tests that came far enough to fail in this way. A region of at most two
parameters is a cause if its tests fail much more often than those that no cause covers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from harness.analysis.coverage import sampled
from harness.core.arrays import Flags, Indices
from harness.core.records import Outcome
from harness.models.starchart import Growth, Region, TreeNode, grow
from harness.results.view import Results

if TYPE_CHECKING:
    import pandas as pd

FAILURES_HEAD = ("failure", "tests", "share", "configurations")

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
_MOST_PARAMETERS = 2
_LEAST_GAIN = 0.01  # the share of the squared error that a split must remove
_FEWEST_FAILED = 5  # configurations
_LEAST_RATIO = 2.0  # of the shares that fail
_LEVEL = 1e-4  # of Fisher's exact test; low, since a tree tries hundreds of splits
_LAST_LEVEL = 1e-2  # of a last split, which only decides whether a cause has one more condition
_FAILED = "the failure"  # a column; no parameter has such a name


@dataclass(frozen=True)
class _Cause:
    """A region that explains failures of one kind: `failed` of the `count` tests in it failed, and
    `others_failed` of the `others`, which no cause of this kind covers."""

    kind: Outcome
    region: Region
    count: int
    failed: int
    others: int
    others_failed: int

    def __str__(self) -> str:
        met = " and ".join(map(str, self.region.parts.values()))
        return (
            f"{self.kind}: {self.failed:,} of {self.count:,} tests with {met} failed, "
            f"{self.others_failed:,} of {self.others:,} others"
        )


def _causes(results: Results) -> Iterator[_Cause]:
    """Return the causes of failures in the search and in the measurements across inputs, or in a
    sample of them."""
    import pandas as pd  # here: it takes half a second to load

    rows = sampled(results.searched)
    columns = rows.columns
    selected = rows.selected.tolist()
    tests = [{**columns.input(row), **columns.config(row)} for row in selected]
    settings = pd.DataFrame(tests, dtype=object)
    outcomes = rows.of(columns.outcome).tolist()
    configurations = rows.of(columns.config_codes)
    return causes_among(settings.where(settings.notna(), None), outcomes, configurations)


def causes_among(
    settings: pd.DataFrame, outcomes: Sequence[Outcome], configurations: Indices
) -> Iterator[_Cause]:
    """Yield the causes of each kind of failure, the most frequent kind first.

    `settings` has a row per test, with its features and parameters; `configurations`, shape
    (tests,), numbers the tests' configurations.
    """
    stages = np.array([_STAGE[outcome] for outcome in outcomes])
    counts = Counter(outcome for outcome in outcomes if outcome is not Outcome.OK)
    for kind, _ in counts.most_common():
        here = np.flatnonzero(stages >= _STAGE[kind])
        failed = np.array([outcomes[row] is kind for row in here.tolist()])
        yield from _Tests(settings.iloc[here], failed, configurations[here]).causes(kind)


@dataclass(frozen=True)
class _Tests:
    """The tests that came far enough to fail in one way, and which of them did, shape (tests,)."""

    settings: pd.DataFrame
    failed: Flags
    configurations: Indices

    def causes(self, kind: Outcome) -> Iterator[_Cause]:
        """Yield the causes, the one with most failures first."""
        if self.failed.all():
            return
        table = self.settings.assign(**{_FAILED: self.failed.astype(np.float64)})
        names = list(map(str, self.settings.columns))
        tree = grow(table, _FAILED, names, Growth(threshold=_LEAST_GAIN))
        regions = sorted(self._regions(tree.root), key=lambda node: node.mean)
        others = self._rows(regions[0])
        taken: list[TreeNode] = []
        for node in regions[1:]:
            rows = self._rows(node)
            if self._is_clear(rows, others, _LEVEL):
                taken.append(node)
            else:
                others |= rows
        for node in sorted(taken, key=lambda node: -node.count * node.mean):
            rows = self._rows(node)
            yield _Cause(
                kind,
                node.box,
                count=int(rows.sum()),
                failed=int(self.failed[rows].sum()),
                others=int(others.sum()),
                others_failed=int(self.failed[others].sum()),
            )

    def _rows(self, node: TreeNode) -> Flags:
        return node.box.holds(self.settings)

    def _regions(self, node: TreeNode) -> list[TreeNode]:
        """Return the regions that a node is split into, without splits on a third parameter, and
        without last splits that separate nothing clearly."""
        if not node.sides or len({*node.box.parts, node.parameter}) > _MOST_PARAMETERS:
            return [node]
        low, high = map(self._regions, node.sides)
        if len(low) == len(high) == 1:
            below = self._rows(low[0])
            above = self._rows(high[0])
            is_clear = self._is_clear(below, above, _LAST_LEVEL)
            if not is_clear and not self._is_clear(above, below, _LAST_LEVEL):
                return [node]
        return low + high

    def _is_clear(self, rows: Flags, others: Flags, level: float) -> bool:
        """Say whether these tests clearly fail more often than the others.

        Configurations are counted, not tests: the same failure on many inputs is evidence once.
        """
        from scipy.stats import fisher_exact  # here: it takes time to load

        failed, count = self._configurations(rows)
        others_failed, others_count = self._configurations(others)
        if failed < _FEWEST_FAILED or failed / count < _LEAST_RATIO * others_failed / others_count:
            return False
        table = [[failed, count - failed], [others_failed, others_count - others_failed]]
        return float(fisher_exact(table, alternative="greater").pvalue) <= level

    def _configurations(self, rows: Flags) -> tuple[int, int]:
        """Count the configurations of these tests, and those that failed; one that failed in a part
        of its tests counts in part."""
        tests = np.bincount(self.configurations[rows])
        failed = np.bincount(self.configurations[rows], self.failed[rows])
        here = tests > 0
        return round(float((failed[here] / tests[here]).sum())), int(here.sum())


# ------------------------------------------------------------------------------------- text


def failures_rows(results: Results) -> list[tuple[str, ...]]:
    """Return a row per kind of failure under FAILURES_HEAD, the most frequent first."""
    searched = results.searched
    columns = results.searched.columns
    failed = searched.where(~searched.of(columns.works))
    rows: list[tuple[str, ...]] = []
    for outcome, count in failed.outcomes.most_common():
        part = failed.where(failed.of(columns.outcome) == outcome)
        configurations = len(np.unique(part.of(columns.config_codes)))
        share = f"{count / len(searched):.1%}"
        rows.append((str(outcome), f"{count:,}", share, f"{configurations:,}"))
    return rows


def causes_lines(results: Results) -> Iterator[str]:
    """List the causes of failures, one per line."""
    all_causes = list(_causes(results))
    if not all_causes:
        yield "No parameter value, and no pair of values, explains the failures."
        return
    yield "Values that explain failures (others: tests that no line of the same kind covers):"
    for cause in all_causes:
        yield f"    {cause}"
