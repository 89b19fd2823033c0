"""Tables of stencil campaigns: each figure is a median over campaigns, with their extremes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd
from rich.table import Table
from rich.text import Text

from benchmarks.stencil_costs import PHASES
from harness.stencil.features import FEATURES, OWN
from harness.stencil.predicted import GROUP

COLUMNS = {
    "spearman": ("Spearman", ".2f"),
    "pearson": ("Pearson", ".2f"),
    "runs": ("runs", ".4g"),
    "random_runs": ("at random", ".0f"),
    "time_saved": ("time saved", ".1f"),
    "shared": ("shared designs", ".0%"),
}
"""The title and the format of each column of a judgement."""


def spread(values: pd.Series[float], form: str) -> str:
    """Write the median, and the least and the largest value if there are several."""
    middle = format(values.median(), form)
    least, most = format(values.min(), form), format(values.max(), form)
    return middle if len(values) == 1 else f"{middle} [{least}, {most}]"


def campaign_medians(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the median over programs and sizes of each figure, a row for each campaign."""
    medians: pd.DataFrame = rows.groupby("campaign")[list(COLUMNS)].median()
    return medians


def judgement_table(name: str, rows: pd.DataFrame) -> Table:
    """Tabulate a predictor's judgement, with a row for each program and size."""
    campaigns = rows["campaign"].nunique()
    of = "one campaign" if campaigns == 1 else f"median [min, max] of {campaigns} campaigns"
    titles = [title for title, _ in COLUMNS.values()]
    table = Table("program", "size", "points", *titles, title=Text(f"{name}: {of}"))
    for group, found in rows.groupby(GROUP):
        cells = [spread(found[key], form) for key, (_, form) in COLUMNS.items()]
        table.add_row(*map(str, group), str(found["points"].min()), *map(Text, cells))
    table.add_section()
    medians = campaign_medians(rows)
    cells = [spread(medians[key], form) for key, (_, form) in COLUMNS.items()]
    table.add_row("median", "", "", *map(Text, cells))
    return table


def costs_table(costs: pd.DataFrame, model_s: Mapping[str, float]) -> Table:
    """Tabulate the milliseconds of each phase of a point, and of each model for all points."""
    phases = [name.removesuffix("_s") for name in PHASES]
    table = Table("program", "size", *phases, title="milliseconds a point")
    for group, row in costs.groupby(GROUP):
        table.add_row(*map(str, group), *(f"{1e3 * row[phase].iloc[0]:.2f}" for phase in PHASES))
    table.add_section()
    table.add_row("mean", "", *(f"{1e3 * costs[phase].mean():.2f}" for phase in PHASES))
    shares = costs[list(PHASES)].mean() / costs[list(PHASES)].mean().sum()
    table.add_row("share", "", *(f"{share:.1%}" for share in shares))
    models = ", ".join(f"{name} {1e3 * time_s:.0f}" for name, time_s in model_s.items())
    table.caption = f"training and prediction for all points of a program, in ms: {models}"
    return table


def best_points(table: pd.DataFrame) -> pd.DataFrame:
    """Return the point with the least final time of each program and size."""
    fastest = table.groupby(GROUP)["final_s"].idxmin().dropna()
    best: pd.DataFrame = table.loc[fastest, [*GROUP, *FEATURES, "final_s"]]
    return best


def best_tables(best: pd.DataFrame) -> Iterator[Table]:
    """Tabulate the features of the best points, a table for each size; ours come last."""
    for size, rows in best.groupby("size"):
        table = Table(
            "feature", *rows["program"], title=f"features of the best points, size {size}"
        )
        for name in FEATURES:
            title = f"{name} (ours)" if name in OWN else name
            table.add_row(title, *(f"{value:.4g}" for value in rows[name]))
        table.add_row("time in us", *(f"{1e6 * value:.4g}" for value in rows["final_s"]))
        yield table


def figures_of(rows: pd.DataFrame) -> dict[str, Any]:
    """Return the median, least and largest campaign of each figure, and the campaigns' size."""
    medians = campaign_medians(rows)
    return {
        name: {
            "median": round(float(medians[name].median()), 3),
            "min": round(float(medians[name].min()), 3),
            "max": round(float(medians[name].max()), 3),
        }
        for name in COLUMNS
    } | {"points": int(rows["points"].min())}


def ranking_table(ranking: Any) -> Table:
    """Tabulate the features by information, the most informative first."""
    table = Table("feature", "information", title="mutual information with throughput / sum of "
                  "entropies")  # fmt: skip
    for name, value in ranking.items():
        table.add_row(f"{name} (ours)" if name in OWN else name, f"{value:.3f}")
    return table
