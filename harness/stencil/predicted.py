"""Order a stencil's points by predicted speed, with a predictor trained on other stencils.

A table has one row for each point: `program`, `size`, `point` (the digest of its configuration),
the columns FEATURES, `design`, `time_s` as the search measured it, and `final_s` from the
interleaved second measurement (NaN for points without one). Throughput is the best time of the
same program and size over the point's time.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestRegressor
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from harness.core.arrays import Array
from harness.core.errors import UsageError
from harness.core.records import Config, Environment, Outcome
from harness.core.text import command_line
from harness.results import sqlite_path
from harness.results.view import Results, read_results
from harness.stencil.features import COUNTS, FEATURES, PUBLISHED

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


def pca_knn(training: pd.DataFrame, points: pd.DataFrame) -> Array:
    """Predict throughput with the model of Remmelg and others (2020) from their features: principal
    components with 95 % of the variance, the mean of 5 neighbours."""
    names = list(PUBLISHED)
    neighbours = KNeighborsRegressor(min(5, len(training)))
    model = make_pipeline(StandardScaler(), PCA(0.95), neighbours)
    model.fit(training[names].to_numpy(), throughput(training).to_numpy())
    predicted: Array = model.predict(points[names].to_numpy())
    return predicted


def throughput(table: pd.DataFrame, column: str = "time_s") -> pd.Series[float]:
    """Return the best time of each program and size over each of its times: 1 for the best."""
    best: pd.Series[float] = table[column].groupby([table[n] for n in GROUP]).transform("min")
    return best / table[column]


def training_table(
    results: Sequence[Results], environment: Environment, without: str | None = None
) -> pd.DataFrame:
    """Collect the stencil points that were measured in an environment, all that succeeded and have
    features.

    Points of the program `without` are left out.
    """
    names = [*FEATURES, "design"]
    rows = []
    for of_space in results:
        program, is_here = of_space.campaign.space_name, of_space.campaign.environment
        if program == without or is_here != environment:
            continue
        for problem, measured in of_space.measured.items():
            final_s = {m.config: m.time_s for m in of_space.finals.get(problem, ()) if m.timing}
            rows += [
                {"program": program, "size": problem["size"], "point": m.config.digest}
                | {"time_s": m.time_s, "final_s": final_s.get(m.config, np.nan)}
                | {name: m.observed[name] for name in names}
                for m in measured.values()
                if m.outcome is Outcome.OK and m.observed.keys() >= {*names}
            ]
    table: pd.DataFrame = pd.DataFrame(rows, columns=[*GROUP, "point", *names, "time_s", "final_s"])
    return table


_MODELS = {"Predicted": ("a forest", forest), "PredictedKNN": ("nearest neighbours", pca_knn)}
"""The model of each technique: from points of other programs and points of one program to a score,
larger for faster ones."""


class StencilPredictor:
    """Orders the points of a stencil's space by what other stencils in a database took.

    All is read when this is made, before the search begins to write.
    """

    def __init__(self, url: str, space: Path, technique: str = "Predicted") -> None:
        """Raises UsageError if the space is not a stencil's."""
        self.technique = technique
        self._space = space
        self._configs, self._points = _read_points(space)
        self._results: list[Results] = []
        path = sqlite_path(url)
        if path is None or path.exists():
            with contextlib.suppress(UsageError):  # no results yet
                # Each size of each stencil has kernels of its own.
                self._results = read_results([url], all_campaigns=True)

    def order(self, environment: Environment) -> tuple[list[Config], str] | None:
        """Order the configurations, the most promising first, by a predictor trained on other
        stencils that were measured in the environment; None without any.

        The text names these, and the share of this space's designs that they have too: a predictor
        looks better than it is on designs that it has seen.
        """
        training = training_table(self._results, environment, self._space.stem)
        if training.empty:
            return None
        points = self._points.assign(program=self._space.name, size=0)
        model, predict = _MODELS[self.technique]
        scores = predict(training, points)
        shared = self._points["design"].isin(training["design"]).mean()
        programs = ", ".join(sorted(training["program"].unique()))
        return [self._configs[index] for index in np.argsort(-scores, kind="stable")], (
            f"ordered by {model} trained on {len(training):,} points of {programs}; "
            f"{shared:.0%} of this space's designs are among theirs"
        )


def _read_points(space: Path) -> tuple[list[Config], pd.DataFrame]:
    """Read the configurations and features of NAME.features.csv next to a stencil's space."""
    path = space.with_suffix(".features.csv")
    if not path.exists():
        raise UsageError(
            f"{space} is not a stencil's space: {path.name} is not in its folder. "
            f"{command_line('stencil', 'explore')} writes both"
        )
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
