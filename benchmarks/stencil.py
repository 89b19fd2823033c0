"""Measure how many runs the stencil predictors save.

Each of the eight stencils is explored at each size with different points, and all points are
measured in random order into one database. The fastest are measured again, interleaved, since the
least of 400 times is a lucky one. Each program is then predicted from the search times of the
others (leave one program out), and its points are taken in predicted order:

- runs: points until one has 90 % of the best throughput by the second measurement; for random
  order, the expectation;
- correlation: the rank correlation of predicted and measured throughput;
- time saved: relative to a random search, including builds, verification, and making every point
  with its features.

Run it where harness is installed, with its extra `bench` for the pictures. After an interruption
the same command continues. 400 points of the eight at one size take about an hour of two cores.

    python -m benchmarks.stencil --sizes 1024 --count 400

The last line is one JSON object with the figures.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table

from benchmarks.arguments import count, make_parser
from benchmarks.stencil_plot import draw
from benchmarks.stencil_predictors import PREDICTORS, information, judged, time_saved
from harness.commands.run import EXIT_INTERRUPTED, run_command
from harness.commands.stencil import main as explore_command
from harness.commands.tune import main as tune_command
from harness.core.errors import UsageError
from harness.core.records import Environment
from harness.display.formats import make_console
from harness.results.view import Results, read_results
from harness.stencil.definition import load_definition, program_names
from harness.stencil.explore import explore
from harness.stencil.features import features
from harness.stencil.predicted import GROUP, training_table

_POINTS_TO_TIME = 50


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    kept = ": all measurements are saved; the same command continues from there"
    return run_command(_parser(), arguments, _campaign, kept)


def _parser() -> argparse.ArgumentParser:
    parser = make_parser("stencil", __doc__)
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("results") / "benchmarks" / "stencil",
        metavar="FOLDER",
        help="for the spaces, the database and the figures (default results/benchmarks/stencil)",
    )
    parser.add_argument(
        "--sizes", nargs="+", type=count, default=[1024], metavar="N", help="sides of grids (1024)"
    )
    parser.add_argument(
        "--count", type=count, default=400, metavar="N", help="points of each program (400)"
    )
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
        "--only-judge", action="store_true", help="evaluate the existing database, measure nothing"
    )
    return parser


def _campaign(args: argparse.Namespace) -> int:
    database = args.output / "stencil.db"
    if not args.only_judge:
        _check_backend(database, args.backend)
        for size in args.sizes:
            for program in args.programs:
                _measure(program, size, database, args)
    found = read_results([str(database)])
    environment = _environment(found, database)
    table = training_table(found, environment)
    if table["program"].nunique() < 2:
        raise UsageError(
            f"{database} has fewer than two programs with features; leave out --only-judge"
        )
    costs = _costs(table, found)
    try:
        judgements = {
            name: _with_saving(judged(predict, table), costs)
            for name, predict in PREDICTORS.items()
        }
    except ValueError as error:
        raise UsageError(f"{database}: {error}; leave out --only-judge") from None
    ranking = information(table)
    console = make_console()
    console.print(f"{environment}: {len(table):,} points that ran")
    for name, judgement in judgements.items():
        console.print(_judgement_table(name, judgement))
    _print_ranking(console, ranking)
    table.to_csv(args.output / "points.csv", index=False)
    pd.concat(judgements, names=["predictor", None]).droplevel(1).round(4).to_csv(
        args.output / "figures.csv"
    )
    draw(args.output, judgements, ranking, environment.device)
    print(json.dumps(_figures(judgements, ranking)))
    return 0


def _check_backend(database: Path, backend: str) -> None:
    """Refuse to add times of another backend to a database, before hours are spent on them."""
    try:
        found = read_results([str(database)]) if database.exists() else []
    except UsageError:  # no results yet
        return
    backends = {results.campaign.environment.backend for results in found}
    if backends - {backend}:
        raise UsageError(f"{database} has times of --backend {', '.join(sorted(backends))}; "
                         "name another folder with --output")  # fmt: skip


def _environment(found: Sequence[Results], database: Path) -> Environment:
    """Return the only environment; times of two devices have no common best."""
    first, *others = dict.fromkeys(results.campaign.environment for results in found)
    if others:
        raise UsageError(f"{database} has times of {first} and of {others[0]}; measure each into "
                         "its own folder with --output")  # fmt: skip
    return first


def _measure(program: str, size: int, database: Path, args: argparse.Namespace) -> None:
    """Measure all points of a program at a size that the database does not have yet."""
    space = args.output / f"{program}_{size}" / f"{program}.yaml"
    if not space.exists():
        options = ["--size", str(size), "--count", str(args.count), "-o", str(space.parent)]
        code = explore_command(["explore", program, *options])
        _check_ended(code, f"{program} cannot be explored at size {size}")
    explored = re.search(r"--count (\d+)", space.read_text(encoding="utf-8"))
    if explored and int(explored[1]) != args.count:
        raise UsageError(f"{space.parent} was explored with --count {explored[1]}; use that, or "
                         "name another folder with --output")  # fmt: skip
    options = ["--technique", "UniformRandom", "--test-limit", str(args.count), "--quiet"]
    options += ["--backend", args.backend, "--repeats", str(args.repeats)]
    options += ["--finalists", str(args.finalists)]
    code = tune_command([str(space), *options, "--database", str(database)])
    _check_ended(code, f"{space} cannot be tuned; the database is {database}")


def _check_ended(code: int, message: str) -> None:
    """Check a command's exit code; 1 says that no configuration worked, which is a result too."""
    if code == EXIT_INTERRUPTED:
        raise KeyboardInterrupt
    if code not in (0, 1):
        raise UsageError(message)


# -------------------------------------------------------------------------------------- judging


def _costs(table: pd.DataFrame, found: Sequence[Results]) -> pd.DataFrame:
    """Compute the mean seconds of a run with its build, and of making a point with its features.

    There is a row for each program and size. The second cost is measured here.
    """
    rows = []
    for group, points in table.groupby(GROUP):
        program, size = str(group[0]), int(str(group[1]))
        spent = [
            m.wall_s + (m.build.compile_s if m.build else 0.0)
            for results in found
            if results.campaign.space_name == program
            for problem, measured in results.measured.items()
            if problem["size"] == size
            for m in measured.values()
        ]
        rows.append(
            {
                "program": program,
                "size": size,
                "run_s": statistics.fmean(spent),
                "make_s": _time_to_make(program, size) / _POINTS_TO_TIME,
                "measured_points": len(points),
            }
        )
    costs: pd.DataFrame = pd.DataFrame(rows)
    return costs


def _time_to_make(program: str, size: int) -> float:
    """Time the derivation of some points with their features, in seconds."""
    expression = load_definition(program).expression(size)
    begin_s = time.process_time()
    for variant in explore("k", expression, _POINTS_TO_TIME, random.Random(0)):
        for kernel in variant.kernels.values():
            features(kernel)
    return time.process_time() - begin_s


def _with_saving(judgement: pd.DataFrame, costs: pd.DataFrame) -> pd.DataFrame:
    rows = judgement.merge(costs, on=GROUP)
    saved = [
        time_saved(row.runs, row.random_runs, row.points, row.run_s, row.make_s)
        for row in rows.itertuples()
    ]
    whole: pd.DataFrame = rows.assign(time_saved=saved)
    return whole


def _figures(judgements: dict[str, pd.DataFrame], ranking: Any) -> dict[str, object]:
    return {
        "predictors": {
            name: {
                "median_runs": float(rows["runs"].median()),
                "median_random_runs": float(rows["random_runs"].median()),
                "median_correlation": round(float(rows["correlation"].median()), 3),
                "median_time_saved": round(float(rows["time_saved"].median()), 1),
                "points": int(rows["points"].min()),
                "most_shared_designs": round(float(rows["shared"].max()), 3),
            }
            for name, rows in judgements.items()
        },
        "most_informative_feature": str(ranking.index[0]),
    }


# -------------------------------------------------------------------------------------- printing


def _judgement_table(name: str, rows: pd.DataFrame) -> Table:
    title = f"{name}: leave one program out"
    table = Table("program", "size", "points", "correlation", "runs", "at random", "time saved",
                  "shared designs", title=title)  # fmt: skip
    for row in rows.itertuples():
        table.add_row(
            str(row.program),
            str(row.size),
            str(row.points),
            f"{row.correlation:.2f}",
            str(row.runs),
            f"{row.random_runs:.0f}",
            f"{row.time_saved:.1f}x",
            f"{row.shared:.0%}",
        )
    return table


def _print_ranking(console: Console, ranking: Any) -> None:
    console.print("mutual information with throughput, over the sum of the entropies:")
    for name, value in ranking.items():
        console.print(f"  {name:16} {value:.3f}")


if __name__ == "__main__":
    sys.exit(main())
