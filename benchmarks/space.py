"""Compare how fast harness and Kernel Tuner make spaces ready for a search.

For each space of benchmarks/space_cases.py a tuner opens the space, counts its legal
configurations, draws one of them uniformly and checks 1,000 configurations that differ from it in
one parameter. The table has the total time. Each tuner runs in its own process with limits on
memory and time, and both must count the same. Needs Kernel Tuner beside harness:

    pip install -e '.[bench]'
    python -m benchmarks.space

It takes some minutes; `--timeout` limits each run. The last line is one JSON object. For each space
and tuner it has the seconds and the megabytes, or the limit that was reached.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import math
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benchmarks.arguments import make_parser
from benchmarks.space_cases import CASES, Case
from harness.constraints.expression import Expression
from harness.space import ConstrainedSpace
from harness.space_file import Parameter

TUNERS = ("ours", "kernel_tuner")
NEIGHBOURS = 1000
MAX_THREADS = 1024
QUICK_S = 5.0  # a run that takes longer is not repeated
_BLOCK = {"block_size_x", "block_size_y"}
_MB = 1e6


@dataclass(frozen=True)
class Figures:
    """The cost of one tuner: seconds for each step, and the peak memory of its process."""

    legal: int
    ready_s: float
    draw_s: float
    judge_s: float
    peak_mb: float

    @property
    def total_s(self) -> float:
        """Return the time of all steps."""
        return self.ready_s + self.draw_s + self.judge_s


# ------------------------------------------------------------------------ one tuner


def _ours(case: Case) -> tuple[int, list[float]]:
    """Return the number of legal configurations, and the time when each step ended."""
    rng = np.random.default_rng(0)
    ended = [time.perf_counter()]
    restrictions = list(case.restrictions)
    if set(case.parameters) >= _BLOCK:  # Kernel Tuner adds it by itself
        restrictions.append(f"block_size_x * block_size_y <= {MAX_THREADS}")
    space = ConstrainedSpace(
        [
            Parameter(n, "ordered", values, "source", values[0])
            for n, values in case.parameters.items()
        ],
        [Expression(text) for text in restrictions],
    )
    count = space.count
    ended.append(time.perf_counter())
    (drawn,) = space.sample_points(rng, 1)
    ended.append(time.perf_counter())
    changed = np.repeat(drawn[None, :], NEIGHBOURS, axis=0)
    for row, (axis, value) in enumerate(_changes(case, drawn.tolist())):
        changed[row, axis] = value
    ended.append(time.perf_counter())
    space.are_legal(changed)
    ended.append(time.perf_counter())
    assert count is not None, "not counted"
    return count, ended


def _kernel_tuner(case: Case) -> tuple[int, list[float]]:
    """Return the same for Kernel Tuner."""
    from kernel_tuner.searchspace import Searchspace

    values = {name: list(listed) for name, listed in case.parameters.items()}
    ended = [time.perf_counter()]
    space = Searchspace(values, list(case.restrictions), MAX_THREADS)
    count = space.size
    ended.append(time.perf_counter())
    (drawn,) = space.get_random_sample(1)
    ended.append(time.perf_counter())
    names = list(values)
    indices = [values[name].index(value) for name, value in zip(names, drawn, strict=True)]
    changed = [
        (*drawn[:axis], values[names[axis]][index], *drawn[axis + 1 :])
        for axis, index in _changes(case, indices)
    ]
    ended.append(time.perf_counter())
    for config in changed:
        space.is_param_config_valid(config)
    ended.append(time.perf_counter())
    return count, ended


def _changes(case: Case, drawn: Sequence[int]) -> list[tuple[int, int]]:
    """Draw (parameter, other value) pairs, among the parameters with several values."""
    rng = random.Random(0)
    extents = [len(values) for values in case.parameters.values()]
    free = [axis for axis, extent in enumerate(extents) if extent > 1]
    axes = [rng.choice(free) for _ in range(NEIGHBOURS)]
    return [
        (axis, (drawn[axis] + rng.randrange(1, extents[axis])) % extents[axis]) for axis in axes
    ]


def _measure(tuner: str, case: Case, memory_gb: float) -> None:
    """Measure in this process, and print the figures as JSON."""
    limit = int(memory_gb * 1e9)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    count, ended = _ours(case) if tuner == "ours" else _kernel_tuner(case)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / _MB
    ready, draw, _, judge = (after - before for before, after in itertools.pairwise(ended))
    print(json.dumps(asdict(Figures(count, ready, draw, judge, peak_mb))))


# --------------------------------------------------------------------- side by side


def _run(tuner: str, case: Case, args: argparse.Namespace) -> Figures | str:
    """Measure in a new process; return the figures, or the limit that it reached."""
    command = [sys.executable, "-m", "benchmarks.space", "--measure", tuner, case.name]
    command += ["--memory", str(args.memory)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=args.timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return f"over {args.timeout:g} s"
    if done.returncode == 0:
        return Figures(**json.loads(done.stdout.splitlines()[-1]))
    if "MemoryError" in done.stderr:
        return f"over {args.memory:g} GB"
    if done.returncode < 0:
        return f"killed by signal {-done.returncode}"
    raise SystemExit(f"{tuner} failed on {case.name}:\n{done.stderr}")


def _typical(tuner: str, case: Case, args: argparse.Namespace) -> Figures | str:
    """Return the median of several runs by total time; do not repeat a long run."""
    runs: list[Figures] = []
    for _ in range(args.repeats):
        found = _run(tuner, case, args)
        if isinstance(found, str):
            return found
        runs.append(found)
        if found.total_s > QUICK_S:
            break
    median_s = statistics.median_low(run.total_s for run in runs)
    return next(run for run in runs if run.total_s == median_s)


def _row(case: Case, found: dict[str, Figures | str]) -> str:
    points = math.prod(len(values) for values in case.parameters.values())
    counts = {figures.legal for figures in found.values() if isinstance(figures, Figures)}
    if len(counts) > 1:
        raise SystemExit(f"the counts of {case.name} differ: {found}")
    cells = [case.name, _short(points), *(f"{count:,}" for count in counts)]
    for figures in found.values():
        cells += (
            [figures, ""]
            if isinstance(figures, str)
            else [
                f"{figures.total_s:.3f} s",
                f"{figures.peak_mb:.0f} MB",
            ]
        )
    ours, theirs = found["ours"], found["kernel_tuner"]
    if isinstance(ours, Figures) and isinstance(theirs, Figures):
        cells.append(f"{theirs.total_s / ours.total_s:.0f}x")
    return f"| {' | '.join([*cells, ''][:8])} |"


def _short(points: int) -> str:
    return f"{points:,}" if points < 1e10 else f"{points:.1e}"


def _as_json(figures: Figures | str) -> Any:
    return figures if isinstance(figures, str) else asdict(figures)


def _parser() -> argparse.ArgumentParser:
    parser = make_parser("space", __doc__)
    parser.add_argument(
        "--memory", type=float, default=16, metavar="GB", help="the most memory of a process (16)"
    )
    parser.add_argument(
        "--timeout", type=float, default=120, metavar="S", help="the most seconds of a run (120)"
    )
    parser.add_argument(
        "--repeats", type=int, default=3, metavar="N", help="runs to take the median of (3)"
    )
    parser.add_argument("--measure", nargs=2, metavar=("TUNER", "SPACE"), help=argparse.SUPPRESS)
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table and the JSON line."""
    args = _parser().parse_args(arguments)
    if args.measure:
        tuner, name = args.measure
        _measure(tuner, next(case for case in CASES if case.name == name), args.memory)
        return
    if importlib.util.find_spec("kernel_tuner") is None:
        raise SystemExit("Kernel Tuner is not installed: pip install -e '.[bench]'")
    print("| space | points | legal | ours | | Kernel Tuner | | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    all_figures = {}
    for case in CASES:
        found = {tuner: _typical(tuner, case, args) for tuner in TUNERS}
        print(_row(case, found), flush=True)
        all_figures[case.name] = {tuner: _as_json(figures) for tuner, figures in found.items()}
    print(json.dumps(all_figures))


if __name__ == "__main__":
    main()
