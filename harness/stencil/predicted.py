"""Order a stencil's points by predicted speed, with a predictor trained on other stencils.

A table has one row for each point: `program`, `size`, `point` (the digest of its configuration),
the columns FEATURES, `design`, `time_s` as the search measured it, and `final_s` from the
interleaved second measurement (NaN for points without one). Throughput is the best time of the
same program and size over the point's time.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.ensemble import RandomForestRegressor

from harness.core.errors import UsageError
from harness.core.records import Config, Environment, Input, Measurement, Outcome
from harness.core.text import command_line
from harness.results import sqlite_path
from harness.results.view import Results, read_results
from harness.stencil.features import COUNTS, FEATURES

Array = npt.NDArray[np.float64]

GROUP = ["program", "size"]
_TREES = 300


def forest(training: pd.DataFrame, points: pd.DataFrame) -> Array:
    """Predict with a random forest that compares points within their program and size.

    Its inputs are the features and the counts of the whole launch, as logarithms relative to the
    median, so a stencil with 25 loads a point resembles one with 5. The target is the logarithm of
    the throughput in standard deviations from its mean, so a program with few fast points counts as
    much as one with many.
    """
    speeds = throughput(training).map(math.log)
    by_program = speeds.groupby([training[name] for name in GROUP])
    scores = (speeds - by_program.transform("mean")) / by_program.transform("std")
    model = RandomForestRegressor(_TREES, min_samples_leaf=3, max_features=0.5, random_state=0)
    model.fit(_relative(training).to_numpy(), scores.fillna(0.0).to_numpy())
    predicted: Array = model.predict(_relative(points).to_numpy())
    return predicted


def _relative(table: pd.DataFrame) -> pd.DataFrame:
    threads = table[["global_size_x", "global_size_y", "global_size_z"]].prod(axis="columns")
    totals = table[list(COUNTS)].mul(threads, axis="index").add_prefix("launch_")
    logs: pd.DataFrame = np.log1p(pd.concat([table[list(FEATURES)], totals], axis="columns"))
    medians = logs.groupby([table[name] for name in GROUP]).transform("median")
    relative: pd.DataFrame = logs - medians
    return relative


def table_of(
    program: str, size: int, measured: Iterable[Measurement], finals: Iterable[Measurement] = ()
) -> pd.DataFrame:
    """Tabulate a program's successful points with their observed features and times."""
    names = [*FEATURES, "design"]
    final_s = {m.config: m.time_s for m in finals if m.timing}
    rows = [
        {"program": program, "size": size, "point": m.config.digest}
        | {"time_s": m.time_s, "final_s": final_s.get(m.config, np.nan)}
        | {name: m.observed[name] for name in names}
        for m in measured
        if m.outcome is Outcome.OK and all(name in m.observed for name in names)
    ]
    table: pd.DataFrame = pd.DataFrame(rows, columns=[*GROUP, "point", *names, "time_s", "final_s"])
    return table


def throughput(table: pd.DataFrame, column: str = "time_s") -> pd.Series[float]:
    """Return the best time of each program and size over each of its times: 1 for the best."""
    best: pd.Series[float] = table[column].groupby([table[n] for n in GROUP]).transform("min")
    return best / table[column]


@dataclass(frozen=True)
class StencilPredictor:
    """A stencil's space and the results to train on, read before the search begins to write."""

    space: Path
    results: tuple[Results, ...]

    def order(self, environment: Environment) -> tuple[list[Config], str] | None:
        """Order the configurations, the most promising first; the text is about the training data.

        It trains on other stencils that were measured in the environment; None without any.
        """
        table = training_table(self.results, environment, self.space.stem)
        return predicted_order(table, _points_path(self.space))


def read_predictor(url: str, space: Path) -> StencilPredictor:
    """Read the training data of a database; raise UsageError if the space is not a stencil's."""
    points = _points_path(space)
    if not points.exists():
        raise UsageError(
            f"{space} is not a stencil's space: {points.name} is not in its folder. "
            f"{command_line('stencil', 'explore')} writes both"
        )
    path, results = sqlite_path(url), list[Results]()
    if path is None or path.exists():
        with contextlib.suppress(UsageError):  # no results yet
            results = read_stencils(url)
    return StencilPredictor(space, tuple(results))


def read_stencils(url: str) -> list[Results]:
    """Read all sizes of all stencils in a database; each size has kernels of its own.

    Raises UsageError where nothing is found.
    """
    return read_results([url], all_campaigns=True, kernel_version="all")


def training_table(
    results: Sequence[Results], environment: Environment, without: str | None = None
) -> pd.DataFrame:
    """Collect the stencil points that were measured in an environment.

    Points of the program `without` are left out.
    """
    parts = [
        table_of(
            of_space.campaign.space_name,
            int(problem["size"]),  # type: ignore[arg-type]
            measured.values(),
            of_space.finals.get(problem, ()),
        )
        for of_space in results
        for problem, measured in of_space.measured.items()
        if of_space.campaign.space_name != without
        and of_space.campaign.environment == environment
        and _is_stencil(problem, list(measured.values()))
    ]
    table: pd.DataFrame = pd.concat(parts, ignore_index=True) if parts else table_of("", 0, [])
    return table


def _is_stencil(problem: Input, measured: Sequence[Measurement]) -> bool:
    return list(problem) == ["size"] and any(FEATURES[0] in m.observed for m in measured)


def predicted_order(training: pd.DataFrame, path: Path) -> tuple[list[Config], str] | None:
    """Order the points of NAME.features.csv by the default predictor; None without training data.

    The text names the training programs, and the share of this space's designs that they have too:
    a predictor looks better than it is on designs that it has seen.
    """
    if training.empty:
        return None
    configs, points = read_points(path)
    scores = forest(training, points.assign(program=path.name, size=0))
    shared = points["design"].isin(training["design"]).mean()
    programs = ", ".join(sorted(training["program"].unique()))
    return [configs[index] for index in np.argsort(-scores, kind="stable")], (
        f"ordered by a forest trained on {len(training):,} points of {programs}; "
        f"{shared:.0%} of this space's designs are among theirs"
    )


def read_points(path: Path) -> tuple[list[Config], pd.DataFrame]:
    """Read the configurations and features of NAME.features.csv next to a stencil's space."""
    points = pd.read_csv(path)
    missing = [name for name in FEATURES if name not in points.columns]
    if missing:
        raise UsageError(
            f"{path} has no column {missing[0]}: another version of harness wrote this space; "
            f"write it again into a new folder with {command_line('stencil', 'explore')}"
        )
    tuned = [name for name in points.columns if name.isupper()]
    configs = [Config(row) for row in points[tuned].to_dict("records")]
    return configs, points


def _points_path(space: Path) -> Path:
    return space.with_suffix(".features.csv")
