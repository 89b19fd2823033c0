"""Does choosing by input beat one configuration for all? Recordings of many inputs, held out.

Reads CSV files of two kinds, compressed or not:

- convolutions of MIOpen's find-db: a row a problem and solver, with `algo` and `time_ms`. One
dispatcher a file chooses the algorithm among those that apply; the cases are its directions and
types. Layers are held out whole: all directions, types and batch sizes;

- stencils with their work-group sizes: one dispatcher and one case a device. Kernels are held out.

The oracle is the best candidate of each input that applies. The baselines that a dispatcher must
beat, the best static candidate and the fastest on the nearest tuned input, learn each case by
itself, as do the published models. Everything is learnt without the inputs that it is judged on:

    python -m benchmarks.dispatch miopen_gfx900_56.csv.gz miopen_gfx1030_36.csv.gz

It prints tables; the last line is one JSON object with the figures over all cases. 100,000 inputs
take some minutes a core.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.text import Text

from benchmarks.arguments import make_parser
from benchmarks.dispatch_runs import (
    OURS,
    STATIC,
    Done,
    Job,
    data_sets,
    folds_of,
    learners,
    run,
)
from benchmarks.dispatch_tables import LEGEND, Result, cases_table, figures, verdict_table
from benchmarks.search_tables import print_whole
from harness.commands.run import run_command
from harness.core.errors import UsageError
from harness.dispatch.verdict import ORACLE, Judged, judged, judged_lists, stacked
from harness.display.formats import make_console
from harness.display.progress import ProgressDisplay
from harness.display.text import print_line
from harness.measure.processes import Processes, Task

_LONGEST_S = 3600.0  # of one fold


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    return run_command(_parser(), arguments, _compare)


def _parser() -> argparse.ArgumentParser:
    parser = make_parser("dispatch", __doc__)
    parser.add_argument("file", nargs="+", type=Path, metavar="FILE", help="a CSV file")
    parser.add_argument(
        "--only",
        metavar="NAMES",
        help=f"the learners to judge beside '{STATIC}', with commas between; one of "
        f"{', '.join(OURS)} among them (default: all)",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default 0")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N")
    return parser


def _names(only: str | None) -> list[str]:
    """Return the wanted learners, in the order of the tables."""
    there = list(learners(()))
    if only is None:
        return there
    wanted = [STATIC, *(name.strip() for name in only.split(","))]
    for name in wanted:
        if name not in there:
            raise UsageError(f"--only: there is no learner {name!r}; there are {', '.join(there)}")
    if not set(wanted) & set(OURS):
        raise UsageError(f"--only: name a dispatcher as well: {', '.join(OURS)}")
    return [name for name in there if name in wanted]


def _compare(args: argparse.Namespace) -> int:
    """Judge, print, and end with the JSON object."""
    console, log = make_console(), make_console(stderr=True)
    names = _names(args.only)
    found = [(path, index) for path in args.file for index in range(len(data_sets(path)))]
    with ProgressDisplay(log) as display, contextlib.closing(Processes(args.jobs)) as pool:
        jobs = [
            Job(path, index, fold, name, args.seed)
            for path, index in found
            for name in reversed(names)  # the slow ones first
            for fold in range(len(folds_of(path, index, args.seed)))
        ]
        display.begin_stage("folds", len(jobs))
        tasks: dict[Job, Task[Done]] = {
            job: pool.schedule(run, job, timeout_s=_LONGEST_S) for job in jobs
        }
        done: dict[Job, Done] = {}
        for job, task in tasks.items():
            done[job] = pool.result_of(task)
            display.step(f"{job.learner} on {job.path.name}")
    results = [_result(path, index, names, done, args.seed) for path, index in found]
    for result in results:
        print_line(console, f"\n{result.data.name}", "bold")
        print_whole(cases_table(result))
        print_whole(verdict_table(result))
    print_whole(Text(LEGEND, style="dim"))
    print(json.dumps(figures(results)))
    return 0


def _result(
    path: Path, index: int, names: Sequence[str], done: dict[Job, Done], seed: int
) -> Result:
    """Put the folds of a data set together."""
    data = data_sets(path)[index]
    folds = folds_of(path, index, seed)
    by_name, fit_s, leaves, splits = dict[str, Judged](), {}, {}, {}
    for name in names:
        parts = [done[Job(path, index, fold, name, seed)] for fold in range(len(folds))]
        lists = stacked(folds, [part.lists for part in parts])
        by_name |= {one.name: one for one in judged_lists(name, data.matrix, lists)}
        fit_s[name] = float(np.mean([part.fit_s for part in parts]))
        if parts[0].leaves is not None:
            leaves[name] = float(np.mean([part.leaves for part in parts if part.leaves]))
            splits[name] = float(np.mean([part.splits for part in parts]))
    by_name[ORACLE] = judged(ORACLE, data.matrix, data.matrix.best)
    return Result(data, by_name, fit_s, leaves, splits)


if __name__ == "__main__":
    sys.exit(main())
