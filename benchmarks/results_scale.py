"""Measure time and memory of the commands that read large results databases.

It writes a database through harness's own store: configurations of 14 parameters, each measured on
every input in the search, and finals of each input. One pair of values fails to compile, one makes
the kernel 50 % slower, one is faster on large inputs, and the rest is noise of two percent. Then it
runs analyse, report and export on it, each as a separate command, and SQLite's own scan of the
same rows (Python's sqlite3 over measurements and samples) beside them. Needs Linux, which reports
the memory of a process in KiB.

    python -m benchmarks.results_scale --measurements 10000 100000 1000000

The last line is one JSON object. For each number of measurements it has the wall seconds, the CPU
seconds and the peak memory in MiB of each command, and the sizes of the database and the page.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.arguments import count, make_parser
from harness.commands.run import run_command
from harness.core.errors import HarnessError
from harness.core.records import (
    Build,
    Config,
    Environment,
    Input,
    Measurement,
    Outcome,
    StopReason,
    Timing,
    Value,
)
from harness.results import Store, writing
from harness.results.store import RunPlan
from harness.space_file import Spec, load_spec

PARAMETERS: dict[str, Sequence[int]] = {
    "BLOCK": range(1, 1025),
    "UNROLL": range(1, 17),
    **{f"F{number}": (0, 1) if number % 2 else (1, 2, 4, 8) for number in range(12)},
}
"""2^32 points."""

SIZES = (10_000, 100_000)

_SPREAD = 0.02
_BATCH = 5_000
_ENVIRONMENT = Environment("opencl", "a device", "a platform", "1.0", "a compiler")
_SPACE = """\
name: scale
kernel: {{function: kernel, source: kernel.cl, host: kernel.py}}
parameters:
{parameters}
constraints: [UNROLL <= BLOCK * 16]
launch: {{group: [BLOCK], grid: [n]}}
inputs: {{features: [m, n], values: [{{m: 64, n: 64}}]}}
"""
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


@dataclass(frozen=True)
class Shape:
    """The size of a database: configurations on each of the inputs, with so many samples."""

    measurements: int
    inputs: int
    samples: int

    @property
    def configurations(self) -> int:
        """The number of distinct configurations."""
        return max(1, self.measurements // self.inputs)


# ------------------------------------------------------------------------------ the database


def write_database(path: Path, shape: Shape, seed: int = 0) -> None:
    """Write the measurements of a sweep, and finals, through the store."""
    rng = np.random.default_rng(seed)
    spec = _spec(path.parent)
    configs = _configs(shape.configurations, rng)
    default = Config({p.name: p.default for p in spec.parameters})
    with writing(str(path)) as engine:
        store = Store(engine)
        for problem in _inputs(shape.inputs):
            plan = RunPlan(spec, _ENVIRONMENT, problem, "UniformRandom", 0, len(configs), 1, "", 1)
            run = store.begin_run(plan, {}).id
            ordinal, best = 0, (float("inf"), default)
            for start in range(0, len(configs), _BATCH):
                found = list(_measured(problem, configs[start : start + _BATCH], shape, rng))
                ids = store.add_measurements(run, plan, "search", found)
                store.add_tests(run, ordinal, ids, ids, ["UniformRandom"] * len(ids))
                ordinal += len(ids)
                best = min(best, *((m.time_s, m.config) for m in found), key=lambda one: one[0])
            pair = _measured(problem, [default, best[1]], shape, rng, StopReason.INTERLEAVED)
            store.add_interleaved(run, plan, "final", list(pair))
            store.end_run(run, "complete")


def _spec(folder: Path) -> Spec:
    parameters = "\n".join(f"  {name}: {_values(found)}" for name, found in PARAMETERS.items())
    (folder / "space.yaml").write_text(_SPACE.format(parameters=parameters), encoding="utf-8")
    (folder / "kernel.cl").write_text(" ".join(["kernel", *PARAMETERS]), encoding="utf-8")
    host = "def arguments(features, rng): ...\n\n\ndef reference(arguments): ...\n"
    (folder / "kernel.py").write_text(host, encoding="utf-8")
    return load_spec(folder / "space.yaml")


def _values(values: Sequence[int]) -> str:
    if isinstance(values, range):
        return f"{{type: integer, min: {values[0]}, max: {values[-1]}, default: {values[0]}}}"
    return f"{{values: {list(values)}, default: {values[0]}}}"


def _inputs(number: int) -> Iterator[Input]:
    for index in range(number):
        yield Input({"m": 64 + index, "n": 64 << (index % 11)})


def _configs(number: int, rng: np.random.Generator) -> list[Config]:
    """Draw distinct configurations uniformly."""
    found: dict[Config, None] = {}
    while len(found) < number:
        drawn = {name: rng.choice(values, number).tolist() for name, values in PARAMETERS.items()}
        rows = zip(*drawn.values(), strict=True)
        found |= dict.fromkeys(Config(dict(zip(drawn, row, strict=True))) for row in rows)
    return list(found)[:number]


def _measured(
    problem: Input,
    configs: Sequence[Config],
    shape: Shape,
    rng: np.random.Generator,
    stopped: StopReason = StopReason.REPEATS,
) -> Iterator[Measurement]:
    noise = np.exp(rng.normal(0, _SPREAD, (len(configs), 1 + shape.samples)))
    for config, (own, *samples) in zip(configs, noise.tolist(), strict=True):
        build = Build(config.digest, f"-D{config}", "a compiler", 0.3, config.digest, 32, 0, 0)
        if config["F1"] == 1 and config["F0"] == 4:
            message = f"kernel.cl:{config['BLOCK']}: error: F0 and F1 do not go together"
            yield Measurement(config, problem, Outcome.BUILD_FAILED, message=message)
            continue
        time_s = _time_s(problem, config) * own
        timing = Timing(tuple(time_s * one for one in samples), stopped)
        yield Measurement(
            config, problem, Outcome.OK, timing, build, None, "", (2 * time_s,), 0.5, {}, ("F2",)
        )


def _time_s(problem: Input, config: Config) -> float:
    size: Value = problem["n"]
    large = isinstance(size, int) and size > 1000
    return 1e-3 * (1.5 if config["F3"] else 1.0) * (0.8 if large == bool(config["F5"]) else 1.0)


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


def measure(database: Path, run: Command = as_process) -> Scale:
    """Run the commands on a database, in its folder."""
    page, csv = database.with_name("page.html"), database.with_name("export.csv")
    costs = {
        "scan": run(["-c", _SCAN, str(database)]),
        "analyse": run(["-m", "harness.analyse", str(database)]),
        "report": run(["-m", "harness.report", str(database), "-o", str(page)]),
        "export": run(
            ["-m", "harness.export", str(database), "--format", "csv", "--output", str(csv)]
        ),
    }
    return Scale(costs, database.stat().st_size, page.stat().st_size)


def main(arguments: Sequence[str] | None = None, run: Command = as_process) -> int:
    """Run the command; return its exit code."""
    parser = make_parser("results_scale", __doc__)
    parser.add_argument(
        "--measurements", type=count, nargs="+", default=SIZES, metavar="N",
        help="the number of measurements of each database (10000 100000)",
    )  # fmt: skip
    parser.add_argument("--inputs", type=count, default=100, help="inputs of a database (100)")
    parser.add_argument("--samples", type=count, default=10, help="samples each (10)")
    parser.add_argument(
        "--folder", type=Path, metavar="DIR",
        help="write the databases here, and use those that are there",
    )  # fmt: skip
    return run_command(parser, arguments, lambda args: _measure_all(args, run))


def _measure_all(args: argparse.Namespace, run: Command) -> int:
    """Measure each size; print a table and the JSON line."""
    heads = ("time", "processors", "memory", "file")
    print(f"{'measurements':>14}  {'command':8}" + "".join(f"{head:>12}" for head in heads))
    found = {}
    for size in args.measurements:
        shape = Shape(size, args.inputs, args.samples)
        with tempfile.TemporaryDirectory() as temporary:
            folder = args.folder or Path(temporary)
            scale = measure(_database(folder, shape), run)
        files = {"scan": scale.database_bytes, "report": scale.page_bytes}
        for name, cost in scale.commands.items():
            cells = [f"{cost.wall_s:.1f} s", f"{cost.cpu_s:.1f} s", f"{cost.peak_mib:.0f} MiB"]
            cells += [f"{files[name] / 1e6:.2f} MB"] if name in files else []
            print(f"{size:14,}  {name:8}" + "".join(f"{cell:>12}" for cell in cells), flush=True)
        found[str(size)] = asdict(scale)
    print(json.dumps(found))
    return 0


def _database(folder: Path, shape: Shape) -> Path:
    path = folder / f"{shape.measurements}x{shape.inputs}x{shape.samples}" / "scale.db"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_database(path.with_suffix(".part"), shape)
        path.with_suffix(".part").rename(path)
    return path


if __name__ == "__main__":
    sys.exit(main())
