"""Measure time and memory of the commands on a common database, and on a large one.

    python -m benchmarks.commands work
    python -m benchmarks.commands large --measurements 100000

`work` tunes spaces/mvmul.yaml as the README does, 30 configurations on 48 inputs, then repeats that
tune, analyse, report and dispatch. The first run of each may judge learners and draw pictures; the
others find both in the cache, which is a folder of this benchmark's own.

`large` writes so many measurements of a simulated device, through the campaign and the store of
`harness.tune` (some 5 ms each). Then it continues that campaign, in which nothing is left, and runs
the commands that read it.

It takes minutes. Wall and CPU seconds are those of the first run and medians of the others; memory
is that of the largest process. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.frame import Figures, benchmark, option, show
from benchmarks.overhead import SEARCH_ALONE, Device, FormulaTimes, run_campaign, write_space
from harness.core.errors import HarnessError
from harness.core.records import Environment

ROOT = Path(__file__).parent.parent
SPACE = ROOT / "spaces" / "mvmul.yaml"
INPUTS = 100  # of a large database


@dataclass(frozen=True)
class Cost:
    """The cost of a command: `cpu_s` over all processors, the memory of its largest process."""

    wall_s: float
    cpu_s: float
    peak_mib: float


def as_process(words: Sequence[str]) -> Cost:
    """Run Python with these words; show its output only if it fails."""
    started = time.perf_counter()
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        process = subprocess.Popen(
            [sys.executable, *words], cwd=ROOT, stdout=output, stderr=subprocess.STDOUT
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            output.seek(0)
            raise HarnessError(f"{' '.join(words)} failed: {output.read()[-2000:]}")
    cpu_s = usage.ru_utime + usage.ru_stime
    return Cost(time.perf_counter() - started, cpu_s, usage.ru_maxrss / 1024)


def work(args: argparse.Namespace, folder: Path) -> dict[str, list[Cost]]:
    """Tune, and run the commands on the results."""
    database = folder / "mvmul.db"
    commands = {
        "tune": ["-m", "harness.tune", str(SPACE), "--database", str(database)],
        **_reading(database, SPACE),
    }
    return {
        name: [as_process(words) for _ in range(args.rounds + 1)]
        for name, words in commands.items()
    }


def _reading(database: Path, space: Path) -> dict[str, list[str]]:
    page, code = (str(database.with_name(name)) for name in ("page.html", "code"))
    return {
        "analyse": ["-m", "harness", "analyse", str(database)],
        "report": ["-m", "harness", "report", str(database), "-o", page],
        "dispatch": ["-m", "harness", "dispatch", str(database), "--spec", str(space), "-o", code],
    }


def large(args: argparse.Namespace, folder: Path) -> dict[str, list[Cost]]:
    """Write a large database, continue its campaign, and run the commands on it."""
    database, csv = folder / "large.db", str(folder / "export.csv")
    tests = str(max(1, args.measurements // INPUTS))
    writing_it = ["-m", "benchmarks.commands", "write", "--tests", tests, "--folder", str(folder)]
    commands = {
        "write": writing_it,
        "tune, nothing left": writing_it,
        **_reading(database, folder / "overhead.yaml"),
        "export": ["-m", "harness", "export", str(database), "--format", "csv", "--output", csv],
    }
    return {name: [as_process(words)] for name, words in commands.items()}


def write(folder: Path, tests: int) -> None:
    """Tune so many tests of each input on a simulated device, or continue that."""
    spec = write_space(folder, INPUTS)
    device = Device(FormulaTimes(), Environment("opencl", "a device", "", "1.0", "a compiler"))
    run_campaign(spec, f"{folder}/large.db", device, "UniformRandom", tests, **SEARCH_ALONE)


@benchmark(
    option("part", what="work or large", choices=("work", "large", "write")),
    option("--rounds", 3, "runs after the first, for work"),
    option("--measurements", 100_000, "for large"),
    option("--tests", 1, "used by large itself"),
    option("--folder", what="used by large itself", type=Path, metavar="FOLDER"),
)
def main(args: argparse.Namespace) -> Figures | None:
    """Measure a part."""
    if args.part == "write":
        write(args.folder, args.tests)
        return None
    with tempfile.TemporaryDirectory() as temporary:
        os.environ["HARNESS_CACHE_DIR"] = f"{temporary}/cache"  # which the commands inherit
        costs = (work if args.part == "work" else large)(args, Path(temporary))
    found = {name: _figures(runs) for name, runs in costs.items()}
    head = ("command", *next(iter(found.values())))
    show(head, [(name, *one.values()) for name, one in found.items()])
    return found


def _figures(costs: Sequence[Cost]) -> Mapping[str, float]:
    first, *others = costs
    figures = {f"first_{name}": value for name, value in asdict(first).items()}
    for name in ("wall_s", "cpu_s") if others else ():
        figures[name] = statistics.median(getattr(cost, name) for cost in others)
    return figures


if __name__ == "__main__":
    sys.exit(main())
