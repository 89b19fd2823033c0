"""Explain the times in a results database with a tree, and judge how well it predicts.

Pure functions on plain tables, for scripts, harness analyse and harness report; `samples` makes the
table. The model is Starchart's tree (harness.models.starchart).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.analysis import SLOWDOWN
from harness.analysis.coverage import sampled
from harness.core.arrays import Array, Indices
from harness.core.cache import Cache, content_key
from harness.core.errors import UsageError
from harness.core.observations import HOW_TIMED
from harness.core.records import Value
from harness.core.text import first_few
from harness.models.columns import must_have, values_of
from harness.models.folds import Accuracy, cross_validate
from harness.models.starchart import Axis, Growth, Tree, TreeTarget, grow, importance
from harness.results import MeasurementRows
from harness.results.view import Results

if TYPE_CHECKING:
    import pandas as pd


MEASUREMENT = "measurement"
"""The column with the number of the measurement that a sample comes from."""

PLATFORM = "platform"
"""The column with the device, of samples of several."""

FEWEST_SAMPLES = 20
MOST_SAMPLES = 4_000
"""If there are more, so many are drawn at random. The tree's first splits no longer change
then."""

_FOLDS = 5


@dataclass(frozen=True)
class Samples:
    """A table with one row per measurement that worked.

    Its columns are features, parameters, `time_s`, `slowdown`, `unbiased`, `measurement` and the
    observed quantities. Samples with the same `measurement` are of configurations with the same
    machine code, one of which was measured. `parameters` names the parameters and features that
    vary; `features` names all features.
    """

    table: pd.DataFrame
    parameters: tuple[str, ...]
    features: tuple[str, ...]

    @property
    def targets(self) -> list[str]:
        """The columns that can be a target."""
        others = {*self.parameters, "unbiased", MEASUREMENT}
        return [str(name) for name in self.table.columns if name not in others]

    def with_all(self, targets: Sequence[str]) -> Samples:
        """Keep the samples that have a number for each of these targets; raises UsageError for an
        unknown one."""
        must_have(self.table, targets)
        columns = [self.table[name].to_numpy(dtype=np.float64) for name in targets]
        is_usable = np.logical_and.reduce([np.isfinite(column) for column in columns])
        return replace(self, table=self.table[is_usable])

    def drawn(self) -> pd.DataFrame:
        """Draw at most MOST_SAMPLES rows at random, always the same ones."""
        table = self.table
        if len(table) > MOST_SAMPLES:
            table = table.sample(MOST_SAMPLES, random_state=0)
        return table

    def grow(self, target: TreeTarget, growth: Growth) -> Tree:
        """Grow a tree on at most MOST_SAMPLES.

        Raises UsageError for an unknown target and for too few samples.
        """
        usable = _usable(self, target)
        return grow(usable, target, self.parameters, replace(growth, groups=MEASUREMENT))


def samples(results: Results) -> Samples:
    """Make the table from the search and the measurements across inputs, or from a sample of them.

    Finals are left out, because they have many samples of few configurations. Raises UsageError if
    a parameter or feature has the name of a measured column.
    """
    import pandas as pd

    searched = results.searched
    rows = sampled(searched.where(searched.of(searched.columns.works)))
    columns = rows.columns
    selected = rows.selected.tolist()
    features = _columns(map(columns.input, selected))
    parts = features | _columns(map(columns.config, selected))
    time_s = rows.of(columns.time_s)
    measured = {"time_s": time_s, "unbiased": results.unbiased(rows)}
    for name, values in columns.observed.items():
        if name not in HOW_TIMED and not np.isnan(results.rows.of(values)).all():
            measured[name] = rows.of(values)
    measured[SLOWDOWN] = time_s / _least(searched)[rows.of(columns.input_codes)]
    measured[MEASUREMENT] = _numbers(rows)
    taken = sorted(parts.keys() & measured.keys())
    if taken:
        raise UsageError(
            f"the parameter or feature `{taken[0]}` has the name of a measured column; rename it"
        )
    varying = tuple(name for name, column in parts.items() if len(set(values_of(column))) > 1)
    return Samples(pd.DataFrame(measured | parts), varying, tuple(features))


def _numbers(rows: MeasurementRows) -> Indices:
    """Number the measurements that were really made, in the order in which they appear, shape
    (rows,).

    Of configurations with the same machine code, one was measured on an input; the others have its
    samples and its number.
    """
    columns = rows.columns
    origins = rows.of(columns.origins).astype(np.int64)
    width = int(origins.max(initial=0)) + 1
    codes = rows.of(columns.input_codes) * width + origins
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    numbers: Indices = np.argsort(np.argsort(first))[inverse]
    return numbers


def _least(rows: MeasurementRows) -> Array:
    """Return the least time of each input, by its code."""
    columns = rows.columns
    least = np.full(len(columns.inputs), np.inf)
    np.minimum.at(least, rows.of(columns.input_codes), rows.of(columns.time_s))
    return least


def _columns(rows: Iterable[Mapping[str, Value]]) -> dict[str, pd.Series[Any]]:
    """Return the columns of rows; one that some rows lack keeps its values as they are and None,
    since pandas would turn integers into floats."""
    import pandas as pd

    table = pd.DataFrame(list(map(dict, rows)), dtype=object)
    columns: dict[str, pd.Series[Any]] = {}
    for name, column in table.items():
        there = column.notna()
        if there.all():
            columns[str(name)] = column.infer_objects()
        else:
            columns[str(name)] = column.where(there, None)
    return columns


def pooled(all_results: Sequence[Results]) -> Samples:
    """Join samples of one kernel on several platforms, with the platform as a parameter.

    Quantities that were not observed on all platforms are left out. Raises UsageError if two
    Results are of the same platform, or have other parameters.
    """
    import pandas as pd

    tables: dict[str, Samples] = {}
    for results in all_results:
        name = str(results.campaign.environment)
        if name in tables:
            raise UsageError(
                "--platforms needs each platform with one campaign, but there are "
                + "; ".join(of_platform.title for of_platform in all_results)
            )
        tables[name] = samples(results)
    parameters: dict[str, None] = {}
    for of_platform in tables.values():
        parameters |= dict.fromkeys(of_platform.parameters)
    if PLATFORM in parameters:
        raise UsageError(f"--platforms adds a parameter `{PLATFORM}`; rename yours")
    for results, of_platform in zip(all_results, tables.values(), strict=True):
        lacking = [name for name in parameters if name not in of_platform.table]
        if lacking:
            raise UsageError(
                f"--platforms needs the same kernel on each platform, but {results.title} has no "
                f"parameter {first_few(lacking, ', ')}, which varies on another"
            )
    parts = []
    for name, of_platform in tables.items():
        numbers = [f"{name}: {number}" for number in of_platform.table[MEASUREMENT]]
        parts.append(of_platform.table.assign(**{MEASUREMENT: numbers, PLATFORM: name}))
    features = next(iter(tables.values())).features
    table: pd.DataFrame = pd.concat(parts, join="inner", ignore_index=True)
    return Samples(table, (PLATFORM, *parameters), features)


@dataclass(frozen=True)
class Explanation:
    """A tree of all samples, and the accuracy of such trees on held-out samples."""

    tree: Tree
    accuracy: Accuracy
    unbiased: int
    """How many samples were drawn uniformly, or are the whole space; a search chose the
    others."""
    measurements: int
    """How many were really made; the other samples have the machine code of one of these."""

    @property
    def nothing(self) -> str | None:
        """Say that the tree explains nothing, where the mean predicts held-out samples as well."""
        if self.accuracy.r2 > 0:
            return None
        target = self.tree.target
        r2 = self.accuracy.r2
        return f"Nothing explains the {target}: a tree's R2 on held-out samples is {r2:.3f}."

    def lines(self) -> Iterator[str]:
        """Say what the target depends on, from how many samples, and how accurate the tree is."""
        tree = self.tree
        count = len(self.tree.samples)
        shared = count - self.measurements
        made = f"{self.measurements:,} measured"
        also = f" ({made}; {shared:,} have the machine code of one of these)" if shared else ""
        yield (
            f"Importance of parameters and inputs for {tree.target}, from a tree (Starchart) of "
            f"{count:,} samples{also}, {_origin(self)}:"
        )
        yield f"    {importance_text(tree)}"
        is_published = tree.growth.threshold is not None
        rule = "by the published rule" if is_published else "as cross-validation chooses"
        leaves = sum(1 for _ in tree.root.leaves())
        error = self.accuracy.error
        among = f" of the {error.count:,} that are not 0" if error.count < self.measurements else ""
        yield (
            f"    accuracy on held-out samples, leaves {rule} ({leaves}): "
            f"R2 {self.accuracy.r2:.3f}, median error{among} {error.median.text('.1%')}"
        )


def _origin(explanation: Explanation) -> str:
    """Say how many of the samples are unbiased."""
    if explanation.unbiased == len(explanation.tree.samples):
        return "all drawn uniformly or the whole space"
    if explanation.unbiased:
        return f"{explanation.unbiased:,} of them drawn uniformly, the others by a search"
    return "all of them chosen by a search, so they are biased"


def importance_text(tree: Tree, inside: str | None = None) -> str:
    """List the importance of parameters, in a part of the space where one is given."""
    shares = importance(tree, inside)
    parts = [f"{name} {share:.0%}" for name, share in shares.items() if share >= 0.005]
    return f"{', '.join(parts)} of the squared error" if parts else "no parameter matters"


def explain(
    drawn: Samples, target: TreeTarget, cache: Cache | None = None, growth: Growth | None = None
) -> Explanation:
    """Grow a tree on at most MOST_SAMPLES, and judge such trees on held-out samples; what
    was found before is in the `cache`.

    Raises UsageError for an unknown target, one that is the same for all samples, and for too few
    samples.
    """
    usable = _usable(drawn, target)
    growth = replace(growth or Growth(), groups=MEASUREMENT)
    # Of all samples, since a fold may lack a word.
    axes = [Axis.of(usable, name) for name in drawn.parameters]
    table = [[str(name), str(column.dtype), column.tolist()] for name, column in usable.items()]
    wanted = [target.column, target.per, target.log, drawn.parameters, growth.threshold]

    def explained() -> Explanation:
        in_fold = replace(growth, folds=_FOLDS)

        def learn(part: pd.DataFrame) -> Callable[[pd.DataFrame], pd.Series[float]]:
            return grow(part, target, axes, in_fold).predict

        accuracy = cross_validate(learn, usable, target.column, _FOLDS, MEASUREMENT)
        tree = grow(usable, target, axes, growth)
        measurements = usable[MEASUREMENT].nunique()
        return Explanation(tree, accuracy, int(usable["unbiased"].sum()), measurements)

    key = content_key("explained by a tree", table, wanted)
    return (cache or Cache()).recall(key, explained)


def _usable(samples: Samples, target: TreeTarget) -> pd.DataFrame:
    must_have(samples.table, [target.column, *target.per])
    drawn = samples.drawn()
    usable: pd.DataFrame = drawn[np.isfinite(drawn[target.column].to_numpy(dtype=np.float64))]
    made = usable[MEASUREMENT].nunique()
    if made < FEWEST_SAMPLES or not samples.parameters:
        shared = f" ({len(usable):,} samples share them)" if made < len(usable) else ""
        raise UsageError(
            f"{made} measurements with a {target.column}{shared} and {len(samples.parameters)} "
            f"parameters that vary are too few; {FEWEST_SAMPLES} and 1 are needed"
        )
    return usable
