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
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import harness
from benchmarks.frame import Figures, benchmark, option, show
from harness.analysis.inputs import InputReport
from harness.core.records import Input, Outcome
from harness.measure.choose import with_cache
from harness.measure.devices import Backend, choose_one
from harness.measure.kernels.measurer import KernelMeasurer
from harness.space import ConstrainedSpace
from harness.space_file import Spec, load_spec

ROOT = Path(__file__).resolve().parents[1]
QUICK = {"repeats": 3, "min_repeats": 2}


@dataclass(frozen=True)
class KernelRow:
    """A kernel's line of the table, with the speed-ups of the tuned inputs."""

    kernel: str
    legal: int | None
    inputs: int
    tuned: int
    outcomes: Mapping[str, int]
    speedups: Sequence[float]
    clear: int

    @property
    def mean(self) -> float:
        """Return the geometric mean of the speed-ups over the default."""
        return statistics.geometric_mean(self.speedups) if self.speedups else math.nan


def is_of_suite(spec: Spec) -> bool:
    """Return whether a space is of a kernel without flags; others repeat a kernel or a program."""
    return spec.program is None and not spec.selected_flags


def _row(spec: Spec, backend: Backend, args: argparse.Namespace) -> KernelRow:
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
    return _summed(spec, found.findings.reports)


def affordable(spec: Spec, backend: Backend, longest_s: float) -> list[Input]:
    """List the inputs on which the default is fast enough, the smallest first; at least one."""
    found: list[Input] = []
    with closing(KernelMeasurer(spec, with_cache(spec, backend))) as measurer:
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


def _summed(spec: Spec, reports: Sequence[InputReport]) -> KernelRow:
    outcomes: dict[str, int] = {}
    for report in reports:
        for outcome, count in report.outcomes.items():
            outcomes[outcome.value] = outcomes.get(outcome.value, 0) + count
    ratios = [report.speedup for report in reports if report.speedup is not None]
    legal = [report.legal for report in reports if report.legal is not None]
    return KernelRow(
        kernel=spec.name,
        legal=max(legal) if legal else None,
        inputs=len(spec.inputs),
        tuned=len(reports),
        outcomes=outcomes,
        speedups=[ratio.value for ratio in ratios],
        clear=sum(ratio.is_significant and ratio.value > 1 for ratio in ratios),
    )


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
    with closing(KernelMeasurer(specs[0], with_cache(specs[0], backend))) as measurer:
        device = str(measurer.environment)
    rows: list[KernelRow] = []
    for spec in specs:
        print(spec.name, file=sys.stderr, flush=True)
        rows.append(_row(spec, backend, args))
    head = ("kernel", "legal configurations", "inputs", "tuned", "verified", "failed", "speed-up")
    show((*head, "least", "most", "significant"), [_cells(row) for row in rows], device)
    return {"device": device, "kernels": [vars(row) | {"mean": row.mean} for row in rows]}


def _cells(row: KernelRow) -> list[Any]:
    failed = sum(count for outcome, count in row.outcomes.items() if outcome != "ok")
    legal = "many" if row.legal is None else row.legal
    least, most = (f(row.speedups, default=math.nan) for f in (min, max))
    return [
        row.kernel,
        legal,
        row.inputs,
        row.tuned,
        row.outcomes.get("ok", 0),
        failed,
        row.mean,
        least,
        most,
        row.clear,
    ]


if __name__ == "__main__":
    sys.exit(main())
