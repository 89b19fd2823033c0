"""Compare how fast harness and Kernel Tuner make spaces ready for a search.

For each space of benchmarks/space_cases.yaml a tuner opens the space, counts its legal
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
import itertools
import json
import math
import random
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks.frame import Figures, benchmark, option, show
from harness.constraints.expression import Expression
from harness.core.errors import HarnessError
from harness.space import ConstrainedSpace
from harness.space_file import Parameter

TUNERS = ("ours", "kernel_tuner")
NEIGHBOURS = 1000
MAX_THREADS = 1024
QUICK_S = 5.0  # a run that takes longer is not repeated
MEMORY_GB, REPEATS = 16, 3
_BLOCK = {"block_size_x", "block_size_y"}
_MB = 1e6


@dataclass(frozen=True)
class Case:
    """A space: parameters with their values, and restrictions that both tuners understand."""

    name: str
    parameters: Mapping[str, Sequence[int]]
    restrictions: Sequence[str]


def read_cases() -> dict[str, Case]:
    """Read the cases by name."""
    text = Path(__file__).with_name("space_cases.yaml").read_text(encoding="utf-8")
    cases = {}
    for case in yaml.safe_load(text):
        values = {name: _values(listed) for name, listed in case["parameters"].items()}
        cases[case["name"]] = Case(case["name"], values, case["restrictions"])
    return cases


def _values(listed: list[int] | str) -> Sequence[int]:
    """Parse a list of values, or `FIRST..LAST by STEP`."""
    if isinstance(listed, list):
        return listed
    first, _, rest = listed.partition("..")
    last, _, step = rest.partition(" by ")
    return range(int(first), int(last) + 1, int(step or 1))


Cost = dict[str, float]
"""The legal configurations that a tuner counts, its seconds for each step and for all, and the peak
memory of its process."""


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


def _measure(tuner: str, case: Case) -> None:
    """Measure in this process, and print the figures as JSON."""
    limit = int(MEMORY_GB * 1e9)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    count, ended = _ours(case) if tuner == "ours" else _kernel_tuner(case)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / _MB
    ready, draw, _, judge = (after - before for before, after in itertools.pairwise(ended))
    steps_s = {"ready_s": ready, "draw_s": draw, "judge_s": judge}
    total_s = sum(steps_s.values())
    print(json.dumps({"legal": count, **steps_s, "total_s": total_s, "peak_mb": peak_mb}))


# --------------------------------------------------------------------- side by side


def _run(tuner: str, case: Case, timeout_s: float) -> Cost | str:
    """Measure in a new process; return the figures, or the limit that it reached."""
    command = [sys.executable, "-m", "benchmarks.space", "--measure", tuner, case.name]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        return f"over {timeout_s:g} s"
    if done.returncode == 0:
        cost: Cost = json.loads(done.stdout.splitlines()[-1])
        return cost
    if "memory ran out" in done.stderr or "MemoryError" in done.stderr:
        return f"over {MEMORY_GB:g} GB"
    raise HarnessError(f"{tuner} failed on {case.name}:\n{done.stderr}")


def _typical(tuner: str, case: Case, timeout_s: float) -> Cost | str:
    """Return the median of several runs by total time; do not repeat a long run."""
    runs: list[Cost] = []
    while len(runs) < REPEATS:
        found = _run(tuner, case, timeout_s)
        if isinstance(found, str):
            return found
        runs.append(found)
        if found["total_s"] > QUICK_S:
            break
    return sorted(runs, key=lambda run: run["total_s"])[(len(runs) - 1) // 2]


def _row(case: Case, found: Mapping[str, Cost | str]) -> list[Any]:
    counts = {cost["legal"] for cost in found.values() if not isinstance(cost, str)}
    if len(counts) > 1:
        raise HarnessError(f"the counts of {case.name} differ: {found}")
    points = math.prod(len(values) for values in case.parameters.values())
    cells: list[Any] = [case.name, float(points), max(counts, default="-")]
    for one in found.values():
        cells += [one, ""] if isinstance(one, str) else [one["total_s"], one["peak_mb"]]
    return cells


@benchmark(
    option("--timeout", 120.0, "the most seconds of a run"),
    option("--measure", nargs=2, metavar=("TUNER", "SPACE"), what="used by the benchmark itself"),
)
def main(args: argparse.Namespace) -> Figures | None:
    """Measure all spaces with both tuners."""
    cases = read_cases()
    if args.measure:
        tuner, name = args.measure
        _measure(tuner, cases[name])
        return None
    found: dict[str, dict[str, Cost | str]] = {}
    for name, case in cases.items():
        print(name, file=sys.stderr, flush=True)
        found[name] = {tuner: _typical(tuner, case, args.timeout) for tuner in TUNERS}
    head = ("space", "points", "legal", "harness, s", "MB", "Kernel Tuner, s", "MB")
    show(head, [_row(cases[name], tuners) for name, tuners in found.items()])
    return found


if __name__ == "__main__":
    sys.exit(main())
