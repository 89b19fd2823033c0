"""Measure how long analyse, report and dispatch take on one database.

By default it writes a small database by itself: 30 configurations on 48 inputs, 10 samples each.
The first run of each command judges all learners; the others read what was judged from the cache,
which is a folder of this benchmark's own.

    python -m benchmarks.commands
    python -m benchmarks.commands results/mvmul.db --space spaces/mvmul.yaml --rounds 5

It takes some two minutes. The last line is one JSON object: for each command the wall and CPU
seconds of the first run and the medians of the others. `dispatch` needs the space's YAML file.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.arguments import count, make_parser
from benchmarks.large_database import Shape, write_database
from benchmarks.results_scale import Command, Cost, as_process
from harness.commands.run import run_command

_SHAPE = Shape(measurements=1440, inputs=48, samples=10)


def main(arguments: Sequence[str] | None = None, run: Command = as_process) -> int:
    """Run the command; return its exit code."""
    parser = make_parser("commands", __doc__)
    parser.add_argument("database", nargs="?", type=Path, help="results (a database of its own)")
    parser.add_argument("--space", type=Path, metavar="FILE", help="the space of the database")
    parser.add_argument("--rounds", type=count, default=3, help="runs after the first (3)")
    return run_command(parser, arguments, lambda args: _measure(args, run))


def _measure(args: argparse.Namespace, run: Command) -> int:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        os.environ["HARNESS_CACHE_DIR"] = str(folder / "cache")  # which the commands inherit
        database, space = args.database, args.space
        if database is None:
            database, space = folder / "small.db", folder / "space.yaml"
            write_database(database, _SHAPE)
        figures = {
            name: _figures(name, [run(words) for _ in range(args.rounds + 1)])
            for name, words in _commands(database, space, folder).items()
        }
    print(json.dumps(figures))
    return 0


def _commands(database: Path, space: Path | None, folder: Path) -> Mapping[str, list[str]]:
    page, code = str(folder / "page.html"), str(folder / "code")
    commands = {
        "analyse": ["-m", "harness.analyse", str(database)],
        "report": ["-m", "harness.report", str(database), "-o", page],
    }
    if space is not None:
        words = ["--spec", str(space), "-o", code, "--force"]
        commands["dispatch"] = ["-m", "harness.dispatch", str(database), *words]
    return commands


def _figures(name: str, costs: Sequence[Cost]) -> dict[str, float]:
    """Print a command's figures and return them."""
    first, *others = costs
    wall_s, cpu_s = (
        round(statistics.median(values), 2)
        for values in ([one.wall_s for one in others], [one.cpu_s for one in others])
    )
    print(
        f"{name:10} first {first.wall_s:.2f} s ({first.cpu_s:.2f} s of processors), "
        f"then {wall_s:.2f} s ({cpu_s:.2f} s)",
        flush=True,
    )
    return {
        "first_wall_s": round(first.wall_s, 2),
        "first_cpu_s": round(first.cpu_s, 2),
        "wall_s": wall_s,
        "cpu_s": cpu_s,
    }


if __name__ == "__main__":
    sys.exit(main())
