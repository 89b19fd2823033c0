"""Measure how much tuning speeds up each kernel of the suite on this machine.

Each space under spaces/ is tuned for a few of its inputs with a small budget, and every result is
verified. The winner and the default are then measured again, interleaved. Inputs are spread evenly
from the smallest up to the first on which the default takes more than `--longest` seconds, so that
a CPU is fast enough. Run it where harness is installed, on a machine that does nothing else:

    python -m benchmarks.suite

All kernels take half an hour, `--kernel` one takes minutes. The last
line is one JSON object of its figures.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import statistics
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import harness
from benchmarks.frame import Figures, benchmark, option, show
from harness.core.records import Input, Outcome
from harness.measure.choose import measuring_as
from harness.measure.devices import Backend, choose_one
from harness.measure.kernels.measurer import KernelMeasurer
from harness.space import ConstrainedSpace
from harness.space_file import Spec, load_spec
from harness.stats import Estimate

ROOT = Path(__file__).resolve().parents[1]
QUICK = {"repeats": 3, "min_repeats": 2}


def is_of_suite(spec: Spec) -> bool:
    """Return whether a space is of a kernel without flags; others repeat a kernel or a program."""
    return spec.program is None and not spec.selected_flags


def _row(spec: Spec, backend: Backend, args: argparse.Namespace) -> dict[str, Any]:
    """Tune a kernel; return its line of the table."""
    chosen = affordable(spec.with_measure(QUICK), backend, args.longest)
    tuned = dataclasses.replace(spec, inputs=tuple(_evenly(chosen, args.inputs)))
    found = harness.tune(
        tuned,
        backend=args.backend,
        test_limit=args.tests,
        repeats=QUICK["repeats"],
        database=args.database,
        fresh=True,
        progress=False,
    )
    reports = found.findings.reports
    outcomes = Counter[Outcome]()
    for report in reports:
        outcomes.update(report.outcomes)
    verified = outcomes.pop(Outcome.OK, 0)
    ratios = [report.speedup for report in reports if report.speedup is not None]
    speedups = [ratio.value for ratio in ratios] or [math.nan]
    mean = statistics.geometric_mean(speedups)
    return {
        "kernel": spec.name,
        "legal configurations": max(report.legal or 0 for report in reports) or "many",
        "inputs": len(spec.inputs),
        "tuned": len(reports),
        "verified": verified,
        "failed": outcomes.total(),
        "speed-up": Estimate(mean, min(speedups), max(speedups)),
        "significant": sum(ratio.is_faster for ratio in ratios),
    }


def affordable(spec: Spec, backend: Backend, longest_s: float) -> list[Input]:
    """List the inputs on which the default is fast enough, the smallest first; at least one."""
    found: list[Input] = []
    with closing(KernelMeasurer(spec, measuring_as(spec, backend))) as measurer:
        for problem in sorted(spec.inputs, key=_size):
            space = ConstrainedSpace.of(spec, problem, measurer.limits, measurer.compiler)
            measured = measurer.measure(space, problem, space.default, None)
            if found and not (measured.outcome is Outcome.OK and measured.time_s <= longest_s):
                break
            found.append(problem)
    return found


def _size(problem: Input) -> float:
    return math.prod(float(v) for v in problem.values() if isinstance(v, (int, float)))


def _evenly(inputs: Sequence[Input], count: int) -> list[Input]:
    """Choose inputs evenly, with the largest among them."""
    number = min(count, len(inputs))
    return [inputs[round((k + 1) * len(inputs) / number) - 1] for k in range(number)]


@benchmark(
    option("--backend", "auto", "auto, cuda or opencl"),
    option("--tests", 12, "tests per input"),
    option("--inputs", 3, "inputs per kernel"),
    option("--longest", 0.01, "the longest time of the default, in seconds"),
    option("--kernel", [], "only this kernel; may be repeated", action="append", metavar="NAME"),
    option("--database", Path("results/suite.db"), "for the results"),
)
def main(args: argparse.Namespace) -> Figures:
    """Tune all kernels."""
    paths = [ROOT / "spaces" / f"{name}.yaml" for name in args.kernel]
    found = map(load_spec, paths or sorted((ROOT / "spaces").glob("*.yaml")))
    specs = [spec for spec in found if paths or is_of_suite(spec)]
    backend = choose_one(args.backend)
    with closing(KernelMeasurer(specs[0], measuring_as(specs[0], backend))) as measurer:
        device = str(measurer.environment)
    rows = []
    for spec in specs:
        print(spec.name, file=sys.stderr, flush=True)
        rows.append(_row(spec, backend, args))
    show([*rows[0]], [row.values() for row in rows], device)
    return {"device": device, "kernels": rows}


if __name__ == "__main__":
    sys.exit(main())
