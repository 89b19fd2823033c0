"""Measure time and memory of the commands that read large results databases.

It writes a database (benchmarks/large_database.py): configurations of 14 parameters, each measured
on every input in the search, and finals of each input. One pair of values fails to compile, one
makes the kernel 50 % slower, one is faster on large inputs, and the rest is noise of two percent.
OpenTuner's record of the search is there too. With `--campaigns`, the measurements are of several
campaigns, as of a nightly tune; the commands read the last one. Then it runs analyse, analyse
again, report, export and dispatch on it, and continues the last campaign (benchmarks/resume.py),
each as a separate command, after SQLite's own scan of the same rows (Python's sqlite3 over
measurements and samples). Needs Linux, which reports the memory of a process in KiB.

    python -m benchmarks.results_scale --measurements 10000000 --campaigns 10

Set HARNESS_CACHE_DIR to an empty folder, so that `analyse again` alone finds what was kept. Ten
million measurements take some thirty minutes and 10 GB, fewer take less in proportion. The last
line is one JSON object: `resume_s_1e7`, `analyse_s_1e7`, `report_s_1e7`, `size_bytes_1e7` and
`peak_mib_1e7` of 10^7 measurements, and for each number of measurements the wall seconds, the CPU
seconds and the peak memory in MiB of each command, and the sizes of the database and the page.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from benchmarks.arguments import count, make_parser
from benchmarks.large_database import Shape, write_database
from harness.commands.run import run_command
from harness.core.errors import HarnessError

SIZES = (10_000, 100_000)

_SCAN = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
for table in ("measurements", "samples"):
    for row in connection.execute(f"SELECT * FROM {table}"):
        pass
"""


@dataclass(frozen=True)
class Cost:
    """The cost of a command: `cpu_s` over all processors, the memory of its largest process."""

    wall_s: float
    cpu_s: float
    peak_mib: float


Command = Callable[[Sequence[str]], Cost]
"""Runs `python` with these words; raises HarnessError if that fails."""


@dataclass(frozen=True)
class Scale:
    """The cost of the commands on one database."""

    commands: dict[str, Cost]
    database_bytes: int
    page_bytes: int

    def figures(self, size: str) -> dict[str, float]:
        """Return the figures to compare, named for a size such as 1e7."""
        names = ("resume", "analyse", "report", "dispatch")
        seconds = {f"{name}_s_{size}": self.commands[name].wall_s for name in names}
        peak_mib = max(self.commands[name].peak_mib for name in names)
        return seconds | {f"size_bytes_{size}": self.database_bytes, f"peak_mib_{size}": peak_mib}


# ------------------------------------------------------------------------------ the commands


def as_process(words: Sequence[str]) -> Cost:
    """Run Python with these words; show its output only if it fails."""
    started = time.perf_counter()
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        process = subprocess.Popen(
            [sys.executable, *words], stdout=output, stderr=subprocess.STDOUT
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            output.seek(0)
            raise HarnessError(f"{' '.join(words)} failed: {output.read()[-2000:]}")
    cpu_s = usage.ru_utime + usage.ru_stime
    return Cost(time.perf_counter() - started, cpu_s, usage.ru_maxrss / 1024)


def measure(
    database: Path, run: Command = as_process, show: Callable[[str, Cost], None] = lambda *_: None
) -> Scale:
    """Run the commands on a database, in its folder; `show` gets each with its cost."""
    size_bytes = database.stat().st_size  # before the last command writes to it
    page, csv = database.with_name("page.html"), database.with_name("export.csv")
    words: dict[str, list[str]] = {
        "scan": ["-c", _SCAN, str(database)],
        "analyse": ["-m", "harness.analyse", str(database)],
        "again": ["-m", "harness.analyse", str(database)],
        "report": ["-m", "harness.report", str(database), "-o", str(page)],
        "export": ["-m", "harness.export", str(database), "--format", "csv", "--output", str(csv)],
        "dispatch": [
            *("-m", "harness.dispatch", str(database)),
            *("--spec", str(database.with_name("space.yaml"))),
            *("-o", str(database.with_name("code"))),
        ],
        "resume": ["-m", "benchmarks.resume", str(database)],
    }
    costs = {}
    for name, command in words.items():
        costs[name] = run(command)
        show(name, costs[name])
    return Scale(costs, size_bytes, page.stat().st_size)


def main(arguments: Sequence[str] | None = None, run: Command = as_process) -> int:
    """Run the command; return its exit code."""
    parser = make_parser("results_scale", __doc__)
    parser.add_argument(
        "--measurements", type=count, nargs="+", default=SIZES, metavar="N",
        help="the number of measurements of each database (10000 100000)",
    )  # fmt: skip
    parser.add_argument("--inputs", type=count, default=100, help="inputs of a database (100)")
    parser.add_argument("--samples", type=count, default=10, help="samples each (10)")
    parser.add_argument("--campaigns", type=count, default=1, help="campaigns of a database (1)")
    parser.add_argument(
        "--folder", type=Path, metavar="DIR",
        help="write the databases here, and use those that are there",
    )  # fmt: skip
    return run_command(parser, arguments, lambda args: _measure_all(args, run))


def _measure_all(args: argparse.Namespace, run: Command) -> int:
    """Measure each size; print a table and the JSON line."""
    heads = ("time", "processors", "memory")
    print(f"{'measurements':>14}  {'command':8}" + "".join(f"{head:>12}" for head in heads))
    found: dict[str, object] = {}
    for size in args.measurements:
        shape = Shape(size, args.inputs, args.samples, args.campaigns)
        with tempfile.TemporaryDirectory() as temporary:
            database = _database(args.folder or Path(temporary), shape)
            print(
                f"{size:14,}  the database has {database.stat().st_size / 1e6:.2f} MB", flush=True
            )
            scale = measure(database, run, partial(_print_cost, size))
            found |= {str(size): asdict(scale), **scale.figures(_short(size))}
    print(json.dumps(found))
    return 0


def _short(size: int) -> str:
    """Write a power of ten as 1e7, other numbers in full."""
    zeros = str(size).removeprefix("1")
    return str(size) if zeros.strip("0") else f"1e{len(zeros)}"


def _print_cost(size: int, name: str, cost: Cost) -> None:
    cells = [f"{cost.wall_s:.1f} s", f"{cost.cpu_s:.1f} s", f"{cost.peak_mib:.0f} MiB"]
    print(f"{size:14,}  {name:8}" + "".join(f"{cell:>12}" for cell in cells), flush=True)


def _database(folder: Path, shape: Shape) -> Path:
    name = "x".join(map(str, dataclasses.astuple(shape)))
    path = folder / name / "scale.db"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_database(path.with_suffix(".part"), shape, step=partial(_print_progress, shape))
        path.with_suffix(".part").rename(path)
    return path


def _print_progress(shape: Shape, inputs: int) -> None:
    text = f"writing {shape.measurements:,} measurements: {inputs:,} of {shape.inputs:,} inputs"
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
