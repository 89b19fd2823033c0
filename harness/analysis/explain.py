"""What explains the times in a results database: trees, importance, and how well models predict.

Pure functions on plain tables, for scripts and for harness.analyse; `samples` makes the table of
what a database holds. The models are Starchart's tree (harness.models.starchart) and Stargazer's
linear model (harness.models.stargazer), its baseline; G-ADAPT's accuracy (harness.models.gadapt) is
of the choices that its trees make for inputs that were left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from harness.analysis.effects.trials import measurement_numbers
from harness.core.errors import UsageError
from harness.core.records import Value
from harness.models.starchart import (
    Accuracy,
    Growth,
    Predictor,
    Tree,
    TreeTarget,
    axes_of,
    cross_validate,
    grow,
    pool,
)
from harness.models.starchart.axes import is_numeric, must_have, numbers, values_of
from harness.models.stargazer import fit_linear
from harness.results import SEARCHED
from harness.results.view import Results

if TYPE_CHECKING:
    import pandas as pd


MEASUREMENT = "measurement"
"""The column of samples that tells the measurements that were really made apart."""

SLOWDOWN = "slowdown"
"""The target by default: the time over the least known one of the same input."""

FEWEST_SAMPLES = 20
MOST_SAMPLES = 4_000
"""More are drawn from at random: the tree's first splits no longer change, and the linear model's
cost grows with its square of interactions."""

_FOLDS = 5


@dataclass(frozen=True)
class Samples:
    """Measurements as a table: a row each that worked, columns of features, parameters, `time_s`,
    `slowdown`, `unbiased`, `measurement` and of what was observed. Samples of one `measurement` are
    of configurations that share their machine code, of which one was measured. `parameters`
    includes features that vary; `features` are all."""

    table: pd.DataFrame
    parameters: tuple[str, ...]
    features: tuple[str, ...]

    @property
    def targets(self) -> list[str]:
        """The columns that can be explained."""
        known = {*self.parameters, "unbiased", MEASUREMENT}
        return [str(name) for name in self.table.columns if name not in known]

    def pick(self, most: int = MOST_SAMPLES, seed: int = 0) -> Samples:
        """At most so many of them, drawn at random."""
        if len(self.table) <= most:
            return self
        return replace(self, table=self.table.sample(most, random_state=seed))


def samples(results: Results) -> Samples:
    """What the search measured and what was measured across inputs; not the finals, of which
    there are many of few configurations.

    Raises UsageError where a parameter has the name of a column of what is measured.
    """
    import pandas as pd

    table = results.table()
    measured = table["measured"]
    works = measured["stage"].isin(SEARCHED) & (measured["outcome"] == "ok")
    plain = measured[works].drop(
        columns=["stage", "outcome", "mean_s", "std_s", "samples_s", "requestor", "message"]
    )
    given, config = table["input"][works], table["config"][works]
    found = [row.measurement for row, is_kept in zip(results.rows, works, strict=True) if is_kept]
    parts = {
        **_columns(given, [m.input for m in found]),
        **_columns(config, [m.config for m in found]),
    }
    least = plain["time_s"].groupby([given[name] for name in given.columns]).transform("min")
    made = pd.Series(measurement_numbers([row.measurement for row in results.rows]))
    taken = sorted(set(parts) & {SLOWDOWN, MEASUREMENT, *map(str, plain.columns)})
    if taken:
        raise UsageError(f"a parameter or feature has the name of what is measured: {taken[0]}")
    told = {SLOWDOWN: plain["time_s"] / least, MEASUREMENT: made[works]}
    flat = plain.assign(**told, **parts)
    varying = tuple(name for name, column in parts.items() if len(set(values_of(column))) > 1)
    return Samples(flat.reset_index(drop=True), varying, tuple(map(str, given.columns)))


def _columns(part: pd.DataFrame, told: Sequence[Mapping[str, Value]]) -> Mapping[str, pd.Series]:
    """Parameters that some configurations lack are words, of which None is one: as they were
    `told`, since pandas makes integers floats where one is lacking."""
    import pandas as pd

    return {
        str(name): pd.Series([one.get(str(name)) for one in told], index=column.index, dtype=object)
        if is_numeric(column) and column.isna().any()
        else column
        for name, column in part.items()
    }


def pooled(found: Sequence[Results]) -> Samples:
    """Samples of one space on several platforms, with the platform as a parameter. What was not
    observed on all of them, as the occupancy is on some alone, is left out.

    Raises UsageError where the spaces differ, or two are of the same platform.
    """
    spaces = {results.campaign.space_name for results in found}
    tables: dict[str, Samples] = {}
    for results in found:
        name = str(results.campaign.environment)
        if len(spaces) > 1 or name in tables:
            raise UsageError(
                "platforms are compared on one space, each with one campaign, but there are "
                + "; ".join(one.title for one in found)
            )
        tables[name] = samples(results)
    parameters = tuple(dict.fromkeys(name for one in tables.values() for name in one.parameters))
    kept = set.intersection(*(set(one.table.columns) for one in tables.values())) | {*parameters}
    alike = {
        name: one.table[[column for column in one.table.columns if column in kept]].assign(
            **{MEASUREMENT: [f"{name}: {number}" for number in one.table[MEASUREMENT]]}
        )
        for name, one in tables.items()
    }
    features = next(iter(tables.values())).features
    return Samples(pool(alike), ("platform", *parameters), features)


@dataclass(frozen=True)
class Explanation:
    """A tree of all samples, how well such trees predict samples that were held out, and how
    well the linear model does."""

    tree: Tree
    accuracy: Accuracy
    linear: Accuracy
    unbiased: int
    """Of the samples, how many were designed, drawn uniformly, or all there is; the others a search
    preferred."""
    measurements: int
    """How many were really made; the other samples share their machine code with one of these."""


def grown(found: Samples, target: TreeTarget) -> Tree:
    """The tree, of at most MOST_SAMPLES.

    Raises UsageError for an unknown target, and where there is too little to explain.
    """
    usable = _usable(found, target)
    return grow(usable, target, axes_of(usable, found.parameters), Growth(groups=MEASUREMENT))


def explain(found: Samples, target: TreeTarget) -> Explanation:
    """Grow and judge, on at most MOST_SAMPLES.

    Raises UsageError for an unknown target, one that is the same for all samples, and where there
    is too little to explain.
    """
    usable = _usable(found, target)
    axes = axes_of(usable, found.parameters)  # of all, so that a fold may lack a word
    growth = Growth(folds=_FOLDS, groups=MEASUREMENT)
    return Explanation(
        grow(usable, target, axes, Growth(groups=MEASUREMENT)),
        _judged(lambda part: grow(part, target, axes, growth), usable, target),
        _judged(lambda part: fit_linear(part, target.column, axes), usable, target),
        int(usable["unbiased"].sum()),
        usable[MEASUREMENT].nunique(),
    )


def _judged(
    learn: Callable[[pd.DataFrame], Predictor], usable: pd.DataFrame, target: TreeTarget
) -> Accuracy:
    return cross_validate(learn, usable, target.column, _FOLDS, groups=MEASUREMENT)


def _usable(found: Samples, target: TreeTarget) -> pd.DataFrame:
    must_have(found.table, [target.column, *target.per])
    drawn = found.pick()
    usable: pd.DataFrame = drawn.table[np.isfinite(numbers(drawn.table[target.column]))]
    made = usable[MEASUREMENT].nunique()
    if made < FEWEST_SAMPLES or not found.parameters:
        shared = f" ({len(usable):,} samples share them)" if made < len(usable) else ""
        raise UsageError(
            f"{made} measurements with a {target.column}{shared} and {len(found.parameters)} "
            f"parameters that vary are too few to explain it: {FEWEST_SAMPLES} and 1 are needed"
        )
    return usable
