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
- time saved: relative to a random search, including builds, verification, the model, and making
  every point with its features.

Every campaign draws other points. Each figure is the median of the campaigns, with the least and
the largest. Further tables show how long each phase takes, and the features of the best points.

After an interruption the same command continues. 400 points of the eight at one size take about an
hour of two cores.

    python -m benchmarks.stencil --sizes 512 1024 2048 --count 400 --campaigns 3

The paper's sizes are 512 to 8192, and it measures some 10,000 points a program:

    python -m benchmarks.stencil --sizes 512 1024 2048 4096 8192 --count 10000 --backend cuda

The last line is one JSON object with the figures; `benchmarks/published.py` reads that of
results/stencil/overall.json.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.arguments import count, make_parser
from benchmarks.stencil_campaign import Campaign, Plan, only_environment
from benchmarks.stencil_costs import PHASES, costs_of
from benchmarks.stencil_predictors import PREDICTORS, information, judged, time_saved
from benchmarks.stencil_tables import (
    best_points,
    best_tables,
    costs_table,
    figures_of,
    judgement_table,
    ranking_table,
)
from harness.commands.run import run_command
from harness.core.errors import UsageError
from harness.core.records import Environment
from harness.display.formats import make_console
from harness.stencil.definition import program_names
from harness.stencil.features import PUBLISHED
from harness.stencil.predicted import GROUP, training_table


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    kept = ": all measurements are saved; the same command continues from there"
    return run_command(_parser(), arguments, _run, kept)


def _parser() -> argparse.ArgumentParser:
    parser = make_parser("stencil", __doc__)
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("results") / "benchmarks" / "stencil",
        metavar="FOLDER",
        help="for the spaces, the databases and the figures (default results/benchmarks/stencil)",
    )
    parser.add_argument(
        "--sizes", nargs="+", type=count, default=[1024], metavar="N", help="sides of grids (1024)"
    )
    parser.add_argument(
        "--count", type=count, default=400, metavar="N",
        help="points of each program at each size (400)",
    )  # fmt: skip
    parser.add_argument(
        "--threads", type=count, default=10, metavar="N",
        help="the most thread configurations of a variant (10)",
    )  # fmt: skip
    parser.add_argument(
        "--campaigns", type=count, default=1, metavar="N",
        help="campaigns, each with other points (1)",
    )  # fmt: skip
    parser.add_argument(
        "--programs", nargs="+", choices=program_names(), default=program_names(),
        metavar="STENCIL", help="the stencils to measure (all eight)",
    )  # fmt: skip
    parser.add_argument(
        "--backend", choices=("opencl", "cuda"), default="opencl", help="(default opencl)"
    )
    parser.add_argument(
        "--finalists", type=count, default=100, metavar="N",
        help="points to measure again, interleaved (100)",
    )  # fmt: skip
    parser.add_argument(
        "--repeats", type=count, default=10, metavar="N", help="timed launches of a point (10)"
    )
    parser.add_argument(
        "--only-judge", action="store_true", help="evaluate the databases, measure nothing"
    )
    return parser


def _run(args: argparse.Namespace) -> int:
    plan = Plan(
        args.programs, args.sizes, args.count, args.threads, args.backend, args.finalists,
        args.repeats,
    )  # fmt: skip
    campaigns = [Campaign(args.output / f"campaign_{n}", n) for n in range(args.campaigns)]
    if not args.only_judge:
        for campaign in campaigns:
            campaign.measure(plan)
    environment = only_environment(campaigns)
    table = _points_of(campaigns, environment)
    costs = costs_of(table, [results for campaign in campaigns for results in campaign.read()])
    judgements = {name: _judged(name, table, costs) for name in PREDICTORS}
    ranking = information(table)
    _print(environment, table, costs, judgements, ranking)
    _write(args.output, table, costs, judgements)
    figures = {"device": str(environment), "date": f"{datetime.date.today()}"}
    print(json.dumps(figures | _figures(judgements, costs, ranking)))
    return 0


def _points_of(campaigns: Sequence[Campaign], environment: Environment) -> pd.DataFrame:
    """Tabulate the points of all campaigns that ran; `campaign` has the number."""
    parts = []
    for campaign in campaigns:
        table = training_table(campaign.read(), environment)
        if table["program"].nunique() < 2:
            raise UsageError(
                f"{campaign.database} has fewer than two programs with features; leave out "
                "--only-judge"
            )
        parts.append(table.assign(campaign=campaign.number))
    points: pd.DataFrame = pd.concat(parts, ignore_index=True)
    return points


def _judged(name: str, table: pd.DataFrame, costs: pd.DataFrame) -> pd.DataFrame:
    """Evaluate a predictor in each campaign by itself."""
    parts = []
    for campaign, points in table.groupby("campaign"):
        try:
            rows = judged(PREDICTORS[name], points)
        except ValueError as error:
            raise UsageError(f"campaign {campaign}: {error}; leave out --only-judge") from None
        parts.append(rows.assign(campaign=campaign))
    rows = pd.concat(parts, ignore_index=True).merge(costs, on=GROUP)
    saved = [
        time_saved(
            row.runs,
            row.random_runs,
            row.points,
            row.build_s + row.run_s,
            row.explore_s + row.lower_s + row.features_s,
            row.model_s,
        )
        for row in rows.itertuples()
    ]
    whole: pd.DataFrame = rows.assign(time_saved=saved)
    return whole


def _print(
    environment: Environment,
    table: pd.DataFrame,
    costs: pd.DataFrame,
    judgements: dict[str, pd.DataFrame],
    ranking: Any,
) -> None:
    console = make_console()
    campaigns = table["campaign"].nunique()
    console.print(f"{environment}: {len(table):,} points that ran, campaigns: {campaigns}")
    for name, rows in judgements.items():
        console.print(judgement_table(name, rows))
    console.print(costs_table(costs, {n: rows["model_s"].mean() for n, rows in judgements.items()}))
    for best in best_tables(best_points(table)):
        console.print(best)
    console.print(ranking_table(ranking))


def _write(
    folder: Path, table: pd.DataFrame, costs: pd.DataFrame, judgements: dict[str, pd.DataFrame]
) -> None:
    table.to_csv(folder / "points.csv", index=False)
    costs.round(6).to_csv(folder / "costs.csv", index=False)
    best_points(table).to_csv(folder / "best.csv", index=False)
    pd.concat(judgements, names=["predictor", None]).droplevel(1).drop(
        columns=[*PHASES, "measured_points"]
    ).round(4).to_csv(folder / "figures.csv")


def _figures(
    judgements: dict[str, pd.DataFrame], costs: pd.DataFrame, ranking: Any
) -> dict[str, object]:
    phases: dict[str, object] = {name: round(float(costs[name].mean()), 5) for name in PHASES}
    for name, rows in judgements.items():
        phases[f"{name}_model_s"] = round(float(rows["model_s"].mean()), 3)
    return {
        "campaigns": int(next(iter(judgements.values()))["campaign"].nunique()),
        "predictors": {name: figures_of(rows) for name, rows in judgements.items()},
        "mean_seconds_a_point": phases,
        "most_informative_feature": str(ranking[list(PUBLISHED)].idxmax()),
    }


if __name__ == "__main__":
    sys.exit(main())
