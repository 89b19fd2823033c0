"""Measure how many runs the stencil predictors save.

A campaign explores each of the eight stencils at each size with different points, and measures all
of them in random order into a database of its own. The fastest are measured again, interleaved,
since the least of 400 times is a lucky one. Each program is then predicted from the search times of
the others in the same campaign (leave one program out), and its points are taken in predicted
order:

- runs: points until one has 90 % of the best throughput by the second measurement; for random
  order, the expectation;
- Spearman: the rank correlation of predicted score and measured throughput; Pearson: the linear
  one, which suits scores that are throughputs (pca_knn) more than those on a logarithmic scale
  (forest);
- runs saved: how many times more runs random order needs;
- time saved: relative to a random search, including builds, verification, the model, and making
  every point with its features.

Every campaign draws other points. Each figure is the median of the campaigns, with the least and
the largest. Further tables show how long each phase takes, and how much features say.

After an interruption the same command continues. 400 points of the eight at one size take about an
hour of two cores.

    python -m benchmarks.stencil --sizes 512 1024 2048 --count 400 --campaigns 3

The paper's programs share nearly all designs (deduced from its rules), and so do these; the
column `shared` says how many:

    python -m benchmarks.stencil --sizes 512 --count 300 --designs shared

The paper's sizes are 512 to 8192, and it measures some 10,000 points a program:

    python -m benchmarks.stencil --sizes 512 1024 2048 4096 8192 --count 10000 --backend cuda

The last line is one JSON object with the figures; `benchmarks/papers.py` reads that of
results/stencil/overall.json.
"""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.frame import Figures, benchmark, count, option, output, show
from benchmarks.stencil_campaign import PROGRAMS, Campaign, only_environment
from benchmarks.stencil_predictors import PHASES, PREDICTORS, costs_of, information, judged
from harness.core.errors import UsageError
from harness.core.records import Environment
from harness.stats import Estimate
from harness.stencil.features import FEATURES, PUBLISHED
from harness.stencil.predicted import GROUP, training_table

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


def _points_of(campaigns: Sequence[Campaign], environment: Environment) -> pd.DataFrame:
    """Tabulate the points of all campaigns that ran; `campaign` has the number."""
    parts = []
    for campaign in campaigns:
        table = training_table(campaign.read(), environment)
        if table["program"].nunique() < 2:
            raise UsageError(f"{campaign.database} has fewer than two programs with features")
        parts.append(table.assign(campaign=campaign.number))
    points: pd.DataFrame = pd.concat(parts, ignore_index=True)
    return points


def _judged(name: str, table: pd.DataFrame, costs: pd.DataFrame) -> pd.DataFrame:
    """Evaluate a predictor in each campaign by itself."""
    parts = []
    for campaign, points in table.groupby("campaign"):
        rows = judged(PREDICTORS[name], points)
        parts.append(rows.assign(campaign=campaign))
    rows = pd.concat(parts, ignore_index=True).merge(costs, on=GROUP)
    run_s, make_s = rows["build_s"] + rows["run_s"], rows["make_s"]
    # Prediction makes all points, random order only those that it runs.
    predicted_s = rows["runs"] * run_s + rows["points"] * make_s + rows["model_s"]
    saved = rows["random_runs"] * (run_s + make_s) / predicted_s
    whole: pd.DataFrame = rows.assign(time_saved=saved)
    return whole


def _print(
    environment: Environment,
    table: pd.DataFrame,
    costs: pd.DataFrame,
    judgements: dict[str, pd.DataFrame],
    ranking: Any,
) -> None:
    print(f"{environment}: {len(table):,} points that ran")
    for name, rows in judgements.items():
        campaigns = rows["campaign"].nunique()
        title = f"{name}: medians of {campaigns} campaigns, with the least and the largest"
        show(("program", "size", *COLUMNS), judgement_rows(rows), title)
    spent = [(*group, *row[list(PHASES)].iloc[0]) for group, row in costs.groupby(GROUP)]
    show(("program", "size", *PHASES), spent, "seconds a point")
    show(
        ("feature", "information"),
        ranking.items(),
        "mutual information with throughput / sum of entropies",
    )


def _write(
    folder: Path, table: pd.DataFrame, costs: pd.DataFrame, judgements: dict[str, pd.DataFrame]
) -> None:
    table.to_csv(folder / "points.csv", index=False)
    costs.round(6).to_csv(folder / "costs.csv", index=False)
    best_points(table).to_csv(folder / "best.csv", index=False)
    figures = pd.concat(judgements, names=["predictor", None]).droplevel(1)
    figures.drop(columns=list(PHASES)).round(4).to_csv(folder / "figures.csv")


def _figures(
    judgements: dict[str, pd.DataFrame], costs: pd.DataFrame, ranking: Any
) -> dict[str, object]:
    phases = {name: float(costs[name].mean()) for name in PHASES}
    phases |= {f"{name}_model_s": float(r["model_s"].mean()) for name, r in judgements.items()}
    return {
        "campaigns": int(next(iter(judgements.values()))["campaign"].nunique()),
        "predictors": {name: figures_of(rows) for name, rows in judgements.items()},
        "mean_seconds_a_point": phases,
        "most_informative_feature": str(ranking[list(PUBLISHED)].idxmax()),
    }


@benchmark(
    output("stencil"),
    option("--sizes", [1024], "sides of grids", nargs="+", type=count, metavar="N"),
    option("--count", 400, "points of each program at each size"),
    option("--threads", 10, "the most thread configurations of a variant"),
    option("--designs", "own", "points of each program, or of all", choices=("own", "shared")),
    option("--campaigns", 1, "campaigns, each with other points"),
    option("--programs", list(PROGRAMS), nargs="+", choices=list(PROGRAMS), metavar="STENCIL"),
    option("--backend", "opencl", choices=("opencl", "cuda")),
    option("--finalists", 100, "points to measure again, interleaved"),
    option("--repeats", 10, "timed launches of a point"),
    kept=": all measurements are saved; the same command continues from there",
)
def main(args: argparse.Namespace) -> Figures:
    """Measure the campaigns, and judge the predictors."""
    campaigns = [Campaign(args.output / f"campaign_{n}", n) for n in range(args.campaigns)]
    for campaign in campaigns:
        campaign.measure(args)
    environment = only_environment(campaigns)
    table = _points_of(campaigns, environment)
    costs = costs_of(table, [results for campaign in campaigns for results in campaign.read()])
    judgements = {name: _judged(name, table, costs) for name in PREDICTORS}
    ranking = information(table)
    _print(environment, table, costs, judgements, ranking)
    _write(args.output, table, costs, judgements)
    figures = {"device": str(environment), "date": f"{datetime.date.today()}"}
    return figures | _figures(judgements, costs, ranking)


if __name__ == "__main__":
    sys.exit(main())
