"""Find the values of parameters and features that explain the failures of each kind.

A tree of depth 2 splits the tests that came far enough to fail in this way. A leaf is a cause if
its tests fail much more often than those that no cause covers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.analysis.failures import group_failures
from harness.analysis.sampling import sampled
from harness.core.arrays import Flags, Indices
from harness.core.records import Outcome, Value, shown
from harness.results import MeasurementRows
from harness.results.config_table import value_key
from harness.results.view import Results

FAILURES_HEAD = ("failure", "tests", "share", "configurations", "most frequent reason")

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
_MOST_VALUES = 16  # a column with more distinct values is not split by single values
_FEWEST_FAILED = 5  # configurations
_LEAST_RATIO = 2.0  # of the shares that fail
_LEVEL = 1e-4  # of Fisher's exact test; low, since a tree tries hundreds of splits
_LAST_LEVEL = 1e-2  # of a last split, which only decides whether a cause has one more condition


@dataclass(frozen=True)
class Cause:
    """Conditions that explain failures of one kind: `failed` of the `count` tests that meet them
    failed, and `others_failed` of the `others`, which no cause of this kind covers."""

    kind: Outcome
    conditions: tuple[str, ...]
    count: int
    failed: int
    others: int
    others_failed: int

    def __str__(self) -> str:
        return (
            f"{self.kind}: {self.failed:,} of {self.count:,} tests with "
            f"{' and '.join(self.conditions)} failed, {self.others_failed:,} of {self.others:,} "
            "others"
        )


def causes(results: Results) -> list[Cause]:
    """Return the causes of failures in the search and in the measurements across inputs, or in a
    sample of them."""
    rows = sampled(results.searched)
    columns, selected = rows.columns, rows.selected.tolist()
    settings: dict[str, list[Value]] = {}
    for column in (columns.inputs, columns.configs):
        found = list(map(column.at, selected))
        names = dict.fromkeys(name for values in found for name in values)
        settings |= {name: [values.get(name) for values in found] for name in names}
    outcomes = list(map(columns.outcomes.at, selected))
    return causes_among(settings, outcomes, rows.of(columns.configs.codes))


def causes_among(
    settings: Mapping[str, Sequence[Value]], outcomes: Sequence[Outcome], configurations: Indices
) -> list[Cause]:
    """Return the causes of each kind of failure, the most frequent kind first.

    Each of `settings` has the value of a feature or parameter in each test; `configurations`, shape
    (tests,), numbers the tests' configurations.
    """
    stages = np.array([_STAGE[outcome] for outcome in outcomes])
    counts = Counter(outcome for outcome in outcomes if outcome is not Outcome.OK)
    found = list[Cause]()
    for kind, _ in counts.most_common():
        here = np.flatnonzero(stages >= _STAGE[kind])
        columns = [
            _Column.of(name, [values[row] for row in here.tolist()])
            for name, values in settings.items()
        ]
        failed = np.array([outcomes[row] is kind for row in here.tolist()])
        tests = _Tests([c for c in columns if len(c.values) > 1], failed, configurations[here])
        found += _causes_of_kind(kind, tests)
    return found


def _causes_of_kind(kind: Outcome, tests: _Tests) -> Iterator[Cause]:
    regions = sorted(tests.regions(), key=lambda region: float(tests.failed[region.rows].mean()))
    others, taken = regions[0].rows, list[_Region]()
    for region in regions[1:]:
        if tests.is_clear(region.rows, others, _LEVEL):
            taken.append(region)
        else:
            others = others | region.rows
    for region in sorted(taken, key=lambda region: -int(tests.failed[region.rows].sum())):
        yield Cause(
            kind,
            tuple(tests.columns[n].condition(kept) for n, kept in sorted(region.allowed.items())),
            int(region.rows.sum()),
            int(tests.failed[region.rows].sum()),
            int(others.sum()),
            int(tests.failed[others].sum()),
        )


@dataclass(frozen=True)
class _Column:
    """A parameter or feature: its distinct values, numbers in ascending order, and the index of
    each test's value, shape (tests,)."""

    name: str
    values: tuple[Value, ...]
    codes: Indices

    @classmethod
    def of(cls, name: str, values: Sequence[Value]) -> _Column:
        keys = [value_key(value) for value in values]
        distinct = sorted(dict(zip(keys, values, strict=True)).items(), key=lambda i: _order(i[1]))
        code_of = {key: code for code, (key, _) in enumerate(distinct)}
        codes = np.array([code_of[key] for key in keys], dtype=np.intp)
        return cls(name, tuple(value for _, value in distinct), codes)

    @property
    def _is_ordered(self) -> bool:
        return all(value is None or type(value) in (int, float) for value in self.values)

    def splits(self) -> Iterator[Indices]:
        """Yield a number for each value; a split of the tree is between two of these numbers."""
        places = np.arange(len(self.values))
        if self._is_ordered or len(places) == 2:
            yield places
        if 2 < len(places) <= _MOST_VALUES:
            yield from ((places == place).astype(np.intp) for place in places)

    def condition(self, allowed: Flags) -> str:
        """Say which values, shape (values,), are allowed: `BLOCK >= 512`, `layout=row`."""
        inside, outside = np.flatnonzero(allowed), np.flatnonzero(~allowed)
        if len(inside) == 1:
            return f"{self.name}={shown(self.values[inside[0]])}"
        if [self.values[place] for place in outside] == [None]:
            return f"{self.name} given"
        if not self._is_ordered or np.ptp(inside) >= len(inside):
            words = " or ".join(shown(self.values[place]) for place in outside)
            return f"{self.name} not {words}"
        low, high = (shown(self.values[place]) for place in (inside[0], inside[-1]))
        if allowed[-1]:
            return f"{self.name} >= {low}"
        if self.values[inside[0]] is None:
            return f"{self.name} <= {high} or absent"
        return f"{self.name} <= {high}" if allowed[0] else f"{low} <= {self.name} <= {high}"


def _order(value: Value) -> tuple[int, float, str]:
    """Sort absent values first, then numbers ascending, then words."""
    if type(value) in (int, float):
        return 1, float(value), ""  # type: ignore[arg-type]
    return (0, 0.0, "") if value is None else (2, 0.0, shown(value))


@dataclass(frozen=True)
class _Region:
    """The tests of a node, shape (tests,), and the values that its splits allow, by column."""

    rows: Flags
    allowed: Mapping[int, Flags]


@dataclass(frozen=True)
class _Tests:
    """The tests that came far enough to fail in one way, and which of them did, shape (tests,)."""

    columns: Sequence[_Column]
    failed: Flags
    configurations: Indices

    def regions(self) -> list[_Region]:
        """Return the leaves of the tree, without splits that separate nothing clearly."""
        whole = _Region(np.ones(len(self.failed), dtype=np.bool_), {})
        splits = [(n, places) for n, c in enumerate(self.columns) for places in c.splits()]
        if not splits:
            return [whole]
        from sklearn.tree import DecisionTreeClassifier  # here: it takes time to load

        table = np.column_stack([places[self.columns[n].codes] for n, places in splits])
        model = DecisionTreeClassifier(max_depth=2, random_state=0).fit(table, self.failed)
        return self._under(model.tree_, 0, whole, splits)

    def _under(
        self, tree: Any, node: int, region: _Region, splits: Sequence[tuple[int, Indices]]
    ) -> list[_Region]:
        if tree.feature[node] < 0:
            return [region]
        column, places = splits[tree.feature[node]]
        is_left = places <= tree.threshold[node]
        parts = []
        for side, child in (
            (is_left, tree.children_left[node]),
            (~is_left, tree.children_right[node]),
        ):
            rows = region.rows & side[self.columns[column].codes]
            allowed = region.allowed.get(column, np.ones_like(side)) & side
            part = _Region(rows, {**region.allowed, column: allowed})
            parts.append(self._under(tree, child, part, splits))
        left, right = parts
        if len(left) == len(right) == 1:
            pair = left[0].rows, right[0].rows
            if not any(self.is_clear(*ordered, _LAST_LEVEL) for ordered in (pair, pair[::-1])):
                return [region]
        return [*left, *right]

    def is_clear(self, rows: Flags, others: Flags, level: float) -> bool:
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
    searched, columns = results.searched, results.searched.columns
    failed = searched.where(~searched.of(columns.works))
    kinds = Counter(failed.of(columns.outcomes.codes).tolist())
    rows: list[tuple[str, ...]] = []
    for kind, count in kinds.most_common():
        part = failed.where(failed.of(columns.outcomes.codes) == kind)
        configurations = len(np.unique(part.of(columns.configs.codes)))
        share = f"{count / len(searched):.1%}"
        name = str(columns.outcomes.values[kind])
        rows.append((name, f"{count:,}", share, f"{configurations:,}", _commonest(part)))
    return rows


def _commonest(failed: MeasurementRows) -> str:
    """Return the headline of the most frequent reason."""
    messages = failed.columns.messages
    counts = Counter(failed.of(messages.codes).tolist())
    reasons = group_failures(counts, lambda code: messages.values[code])
    appeared = {code: place for place, code in enumerate(counts)}
    found = sorted(reasons, key=lambda group: appeared[group.members[0]])
    return max(found, key=lambda group: sum(counts[code] for code in group.members)).headline


def causes_lines(found: Sequence[Cause]) -> Iterator[str]:
    """List the causes of failures, one per line."""
    if not found:
        yield "No parameter value, and no pair of values, explains the failures."
        return
    yield "Values that explain failures (others: tests that no line of the same kind covers):"
    for cause in found:
        yield f"    {cause}"
