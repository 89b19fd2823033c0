"""Measure time, memory and page size of the commands on a sweep of many flags.

It writes a Kernel Tuner cache with random configurations of 30 flags and their times. Then it runs
tune, analyse and report on it, each as a separate command. One pair of flags fails to compile, one
flag makes the program 50 % slower, and the rest is noise of two percent. Needs Linux, which reports
the memory of a process in KiB.

    python -m benchmarks.scale

The last line is one JSON object. For each number of configurations it has the wall seconds, the CPU
seconds and the peak memory in MiB of each command, and the size of the page in bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script

from benchmarks.arguments import count
from harness.commands.run import run_command
from harness.core.errors import HarnessError

FLAGS = {f"F{number}": (0, 1) if number % 2 else (1, 2, 4, 8) for number in range(30)}
SIZES = (1_000, 10_000)

_SPREAD = 0.02


@dataclass(frozen=True)
class Cost:
    """The cost of a command: `cpu_s` over all processors, the memory of its largest process."""

    wall_s: float
    cpu_s: float
    peak_mib: float


Command = Callable[[Sequence[str]], Cost]
"""Runs `python -m` with these words; raises HarnessError if that fails."""


@dataclass(frozen=True)
class Scale:
    """The cost of a sweep."""

    commands: dict[str, Cost]
    page_bytes: int


def write_recording(path: Path, configurations: int, seed: int = 0) -> None:
    """Write a Kernel Tuner cache of distinct configurations, with times in milliseconds."""
    rng = random.Random(seed)
    cache: dict[str, dict[str, object]] = {}
    while len(cache) < configurations:
        config = {name: rng.choice(values) for name, values in FLAGS.items()}
        fails = config["F1"] == 1 and config["F0"] == 4
        time_ms = (1.5 if config["F3"] else 1.0) * (1 + _SPREAD * rng.random())
        time_or_failure = "CompilationFailedConfig" if fails else time_ms
        cache[",".join(map(str, config.values()))] = {**config, "time": time_or_failure}
    data = {
        "device_name": "a device",
        "kernel_name": "scale",
        "problem_size": [1],
        "tune_params_keys": list(FLAGS),
        "tune_params": {name: list(values) for name, values in FLAGS.items()},
        "cache": cache,
    }
    path.write_text(json.dumps(data), encoding="utf-8")


def as_process(words: Sequence[str]) -> Cost:
    """Run a command in its own process; show its output only if it fails."""
    started = time.perf_counter()
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", *words], stdout=output, stderr=subprocess.STDOUT
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            output.seek(0)
            raise HarnessError(f"{' '.join(words)} failed: {output.read()[-2000:]}")
    cpu_s = usage.ru_utime + usage.ru_stime
    return Cost(time.perf_counter() - started, cpu_s, usage.ru_maxrss / 1024)


def measure(configurations: int, folder: Path, run: Command = as_process) -> Scale:
    """Tune, analyse and report in a folder."""
    recording, database, page = (folder / name for name in ("scale.json", "scale.db", "x.html"))
    write_recording(recording, configurations)
    limit = ["--test-limit", str(configurations), "--no-progress"]
    sampling = ["--replay", str(recording), "--technique", "UniformRandom", *limit]
    costs = {
        "tune": run(["harness.tune", *sampling, "--database", str(database)]),
        "analyse": run(["harness.analyse", str(database)]),
        "report": run(["harness.report", str(database), "-o", str(page)]),
    }
    return Scale(costs, page.stat().st_size)


def main(arguments: Sequence[str] | None = None, run: Command = as_process) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--configurations", type=count, nargs="+", default=SIZES, metavar="N",
        help="the number of configurations of each sweep (1000 10000)",
    )  # fmt: skip
    return run_command(parser, arguments, lambda args: _measure_all(args.configurations, run))


def _measure_all(sizes: Sequence[int], run: Command) -> int:
    """Measure each size; print a table and the JSON line."""
    heads = ("time", "processors", "memory", "page")
    print(f"{'configurations':>14}  {'command':8}" + "".join(f"{head:>12}" for head in heads))
    found = {}
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            scale = measure(size, Path(folder), run)
        for name, cost in scale.commands.items():
            cells = [f"{cost.wall_s:.1f} s", f"{cost.cpu_s:.1f} s", f"{cost.peak_mib:.0f} MiB"]
            cells += [f"{scale.page_bytes / 1e6:.2f} MB"] if name == "report" else []
            print(f"{size:14,}  {name:8}" + "".join(f"{cell:>12}" for cell in cells), flush=True)
        found[str(size)] = asdict(scale)
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
