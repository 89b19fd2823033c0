"""Measure how long a tune of nothing new, analyse, report and dispatch take on one database.

Without arguments it first tunes spaces/mvmul.yaml as the README does: 30 configurations on 48
inputs. Then each command runs several times. Its first run may judge learners and draw pictures;
the others find both in the cache, which is a folder of this benchmark's own.

    python -m benchmarks.commands
    python -m benchmarks.commands results/mvmul.db --space spaces/mvmul.yaml --rounds 5

A database that is named is copied, and tune continues the copy, so name one of this device. It
takes some four minutes, or one with a database. The last line is one JSON object: for each command
the wall and CPU seconds of the first run and the medians of the others.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.arguments import count, make_parser
from benchmarks.results_scale import Command, Cost, as_process
from harness.commands.run import run_command

_SPACE = Path(__file__).parent.parent / "spaces" / "mvmul.yaml"


def main(arguments: Sequence[str] | None = None, run: Command = as_process) -> int:
    """Run the command; return its exit code."""
    parser = make_parser("commands", __doc__)
    parser.add_argument("database", nargs="?", type=Path, help="results (tuned by the benchmark)")
    parser.add_argument(
        "--space", type=Path, metavar="FILE", default=_SPACE, help=f"its space ({_SPACE.name})"
    )
    parser.add_argument("--rounds", type=count, default=3, help="runs after the first (3)")
    return run_command(parser, arguments, lambda args: _measure(args, run))


def _measure(args: argparse.Namespace, run: Command) -> int:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        os.environ["HARNESS_CACHE_DIR"] = str(folder / "cache")  # which the commands inherit
        database = folder / "copy.db"
        if args.database is not None:
            shutil.copyfile(args.database, database)
        figures = {
            name: _figures(name, [run(words) for _ in range(args.rounds + 1)])
            for name, words in _commands(database, args.space, folder).items()
        }
    print(json.dumps(figures))
    return 0


def _commands(database: Path, space: Path, folder: Path) -> Mapping[str, list[str]]:
    page, code = str(folder / "page.html"), str(folder / "code")
    return {
        "tune": ["-m", "harness.tune", str(space), "--database", str(database)],
        "analyse": ["-m", "harness.analyse", str(database)],
        "report": ["-m", "harness.report", str(database), "-o", page],
        "dispatch": [
            *("-m", "harness.dispatch", str(database)),
            *("--spec", str(space), "-o", code),
        ],
    }


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
