"""Predict a point's throughput from other programs.

A table has one row for each point: `program`, `size`, `point` (the digest of its configuration),
the columns FEATURES, `design`, `time_s` as the search measured it, and `final_s` from the
interleaved second measurement (NaN for points without one). Throughput is the best time of the
same program and size over the point's time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.ensemble import RandomForestRegressor

from harness.core.records import Measurement, Outcome
from harness.stencil.features import FEATURES

Array = npt.NDArray[np.float64]

GROUP = ["program", "size"]
_NAMES = list(FEATURES)
_TREES = 300


def forest(known: pd.DataFrame, points: pd.DataFrame) -> Array:
    """Predict with a random forest that compares points within their program and size.

    Features are logarithms relative to the median, so a stencil with 25 loads a point resembles
    one with 5. The target is the logarithm of the throughput in standard deviations from its mean,
    so a program with few fast points counts as much as one with many.
    """
    speeds = throughput(known).map(math.log)
    by_program = speeds.groupby([known[name] for name in GROUP])
    scores = (speeds - by_program.transform("mean")) / by_program.transform("std")
    model = RandomForestRegressor(_TREES, min_samples_leaf=3, max_features=0.5, random_state=0)
    model.fit(_relative(known).to_numpy(), scores.fillna(0.0).to_numpy())
    predicted: Array = model.predict(_relative(points).to_numpy())
    return predicted


def _relative(table: pd.DataFrame) -> pd.DataFrame:
    logs: pd.DataFrame = np.log1p(table[_NAMES])
    medians = logs.groupby([table[name] for name in GROUP]).transform("median")
    relative: pd.DataFrame = logs - medians
    return relative


def table_of(
    program: str,
    size: int,
    measured: Iterable[Measurement],
    finals: Iterable[Measurement] = (),
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
