"""Tables of stencil campaigns: each figure is a median over campaigns, with their extremes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from harness.stats import Estimate
from harness.stencil.features import FEATURES
from harness.stencil.predicted import GROUP

COLUMNS = ("spearman", "pearson", "runs", "random_runs", "runs_saved", "time_saved", "shared")
"""The figures of a judgement."""


def spread(values: pd.Series[float]) -> Estimate:
    """Return the median with the least and the largest value."""
    return Estimate(float(values.median()), float(values.min()), float(values.max()))


def campaign_medians(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the median over programs and sizes of each figure, a row for each campaign."""
    medians: pd.DataFrame = rows.groupby("campaign")[list(COLUMNS)].median()
    return medians


def judgement_rows(rows: pd.DataFrame) -> Iterator[tuple[object, ...]]:
    """Yield a row for each program and size, and the medians over them."""
    for group, found in rows.groupby(GROUP):
        yield *group, *(spread(found[name]) for name in COLUMNS)
    medians = campaign_medians(rows)
    yield "median", "", *(spread(medians[name]) for name in COLUMNS)


def best_points(table: pd.DataFrame) -> pd.DataFrame:
    """Return the point with the least final time of each program and size."""
    fastest = table.groupby(GROUP)["final_s"].idxmin().dropna()
    best: pd.DataFrame = table.loc[fastest, [*GROUP, *FEATURES, "final_s"]]
    return best


def figures_of(rows: pd.DataFrame) -> dict[str, Any]:
    """Return the median, least and largest campaign of each figure, and the campaigns' size."""
    medians = campaign_medians(rows)
    return {
        name: {how: float(getattr(medians[name], how)()) for how in ("median", "min", "max")}
        for name in COLUMNS
    } | {"points": int(rows["points"].min())}
