"""Measure how many tests transfer learning saves on the later inputs of a space.

Inputs of a recording are drawn in a random order and tuned one after another, as a campaign of
harness.tune does: each search starts from the winners of similar inputs, with the results of all
earlier inputs as training data ("taught"). The same inputs are also searched independently
("alone"). For both

- tests are distinct configurations, including failures; times are medians of recorded samples;
- no search starts from a default, since a recording has none;
- the technique is `auto`, with the same random numbers.

    python -m benchmarks.transfer stencil_workgroups.csv.gz \\
        --mapping benchmarks/mappings/stencil_workgroups.yaml --where "device == 'Tahiti'"

It prints tables; the last line is one JSON object with the figures of each data set. 10 orders of
30 inputs take several minutes on one core.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.text import Text

from benchmarks.arguments import add_output, add_recordings, count, make_parser, use_one_thread
from benchmarks.search_tables import print_whole
from benchmarks.transfer_figures import ESTABLISHED, Array, Tuned, as_json, groups, since
from benchmarks.transfer_runs import DataSet, OrderJob, run
from benchmarks.transfer_tables import (
    LEGEND,
    Compared,
    ratio_line,
    table,
    write_figures,
    write_searches,
)
from harness.commands.run import run_command
from harness.display.formats import make_console
from harness.display.progress import ProgressDisplay
from harness.display.text import print_line
from harness.measure.processes import Processes
from harness.recordings.read import recording_files
from harness.tuning.progress import Display

_LONGEST_S = 3600.0  # for one order


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    return run_command(_parser(), arguments, _compare)


def _parser() -> argparse.ArgumentParser:
    parser = make_parser("transfer", __doc__)
    add_recordings(parser)
    parser.add_argument(
        "--where",
        action="append",
        metavar="EXPR",
        help="use only inputs for which this holds, as --inputs of harness.tune does; repeat it "
        "for several data sets",
    )
    parser.add_argument(
        "--inputs", type=count, default=30, metavar="N", help="inputs of an order (30)"
    )
    parser.add_argument("--seeds", type=count, default=10, metavar="N", help="random orders (10)")
    parser.add_argument(
        "--budget", type=count, default=25, metavar="N", help="tests of each input (25)"
    )
    parser.add_argument(
        "--warm-start",
        nargs="+",
        type=Path,
        default=[],
        metavar="FILE",
        help="recordings of other devices to learn from too",
    )
    add_output(parser, "transfer", "searches.csv and figures.csv")
    return parser


def _compare(args: argparse.Namespace) -> int:
    """Run all searches, print tables, and end with the JSON line."""
    console, log = make_console(), make_console(stderr=True)
    files = recording_files([*args.file, *args.warm_start], args.mapping)
    sets = [
        DataSet(source, where, tuple(files[len(args.file) :]))
        for source in files[: len(args.file)]
        for where in args.where or [None]
    ]
    for line in (line for data in sets for line in data.described()):
        print_line(console, line)
    with ProgressDisplay(log) as display:
        found = _searched(sets, args, display)
    for name, compared in found.items():
        print_line(console, f"\n{name}", "bold")
        print_whole(table(compared))
        print_line(console, ratio_line(compared))
    print_whole(Text(LEGEND, style="dim"))
    print_line(console, _write(args.output, found))
    print(json.dumps({name: _as_json(compared) for name, compared in found.items()}))
    return 0


def _searched(
    sets: Sequence[DataSet], args: argparse.Namespace, display: Display
) -> Mapping[str, Compared]:
    """Run all orders of all data sets, each in a worker process."""
    use_one_thread()
    jobs = [
        OrderJob(data, args.inputs, seed, args.budget, transfers)
        for data in sets
        for seed in range(args.seeds)
        for transfers in (False, True)
    ]
    display.begin_stage("orders", len(jobs))
    courses: dict[tuple[str, str], list[Array]] = {}
    with contextlib.closing(Processes(args.jobs)) as pool:
        tasks = [pool.schedule(run, job, timeout_s=_LONGEST_S) for job in jobs]
        for job, task in zip(jobs, tasks, strict=True):
            order = pool.result_of(task)
            courses.setdefault((job.data.name, job.search), []).append(order)
            display.step(f"{job.search} on {job.data.name}")
    found: dict[str, dict[str, Tuned]] = {}
    for (name, search), orders in courses.items():
        found.setdefault(name, {})[search] = Tuned(np.stack(orders))
    return found


def _as_json(compared: Compared) -> dict[str, Any]:
    found: dict[str, Any] = {
        search: as_json(tuned, groups(tuned.inputs)) for search, tuned in compared.items()
    }
    later = since(compared, ESTABLISHED)
    if later is not None:
        found[f"tests_taught_over_alone_from_{ESTABLISHED}th"] = [
            round(figure, 4) for figure in (later.value, later.low, later.high)
        ]
    return found


def _write(folder: Path, found: Mapping[str, Compared]) -> str:
    """Write the files; return a line that names them."""
    folder.mkdir(parents=True, exist_ok=True)
    write_searches(folder / "searches.csv", found)
    write_figures(folder / "figures.csv", found)
    return f"{folder}: searches.csv, figures.csv"


if __name__ == "__main__":
    sys.exit(main())
