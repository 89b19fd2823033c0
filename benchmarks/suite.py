"""Measure how much tuning speeds up each kernel of the suite on this machine.

Each space under spaces/ is tuned for a few of its inputs with a small budget, and every result is
verified. The winner and the default are then measured again, interleaved. Inputs are spread evenly
from the smallest up to the first on which the default takes more than `--longest` seconds, so that
a CPU is fast enough. Run it where harness is installed, on a machine that does nothing else:

    python -m benchmarks.suite

All kernels take half an hour, `--kernel` one takes minutes. It prints a table in Markdown; the last
line is one JSON object of its figures.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.arguments import make_parser
from harness.analysis.inputs import InputReport
from harness.commands.run import run_command
from harness.core.records import Input, Outcome
from harness.display.formats import make_console
from harness.display.progress import ProgressDisplay
from harness.measure.backends.choose import Backend, choose
from harness.measure.choose import with_cache
from harness.measure.kernels import KernelMeasurer
from harness.results import Store, writing
from harness.search import SearchOptions, make_opentuner_tables, resolve_techniques
from harness.space import ConstrainedSpace
from harness.space_file import Spec, load_spec
from harness.tuning import Campaign, CampaignPlan

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

    def markdown(self) -> str:
        """Render as a row of a Markdown table."""
        failed = sum(count for outcome, count in self.outcomes.items() if outcome != "ok")
        spread = f"{min(self.speedups):.2f} to {max(self.speedups):.2f}" if self.speedups else "-"
        speedup = f"{self.mean:.2f}x ({spread}), {self.clear} of {self.tuned} significant"
        legal = "many" if self.legal is None else f"{self.legal:,}"
        verified = self.outcomes.get("ok", 0)
        cells = (self.kernel, legal, f"{self.inputs}", f"{self.tuned}", f"{verified}", f"{failed}")
        return "| " + " | ".join((*cells, speedup)) + " |"


HEAD = """\
| kernel | legal configurations | inputs | tuned inputs | verified | failed | speed-up |
|---|--:|--:|--:|--:|--:|---|"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    return run_command(_parser(), arguments, _measure)


def _measure(args: argparse.Namespace) -> int:
    """Tune, print the table, and end with the JSON line."""
    paths = [ROOT / "spaces" / f"{name}.yaml" for name in args.kernel]
    found = map(load_spec, paths or sorted((ROOT / "spaces").glob("*.yaml")))
    specs = [spec for spec in found if paths or _is_of_suite(spec)]
    backend = choose(args.backend)
    with closing(KernelMeasurer(specs[0], with_cache(specs[0], backend))) as measurer:
        device = str(measurer.environment)
    rows: list[KernelRow] = []
    with writing(str(args.database)) as engine:
        store = Store(engine)
        make_opentuner_tables(store)
        for spec in specs:
            rows.append(_row(spec, backend, store, args))
            print(rows[-1].markdown(), flush=True)
        store.close()
    print(f"\n{device}\n\n{HEAD}")
    print("\n".join(row.markdown() for row in rows))
    print(json.dumps({"device": device, "kernels": [_figures(row) for row in rows]}))
    return 0


def _is_of_suite(spec: Spec) -> bool:
    """Return whether a space is of a kernel without flags; others repeat a kernel or a program."""
    return spec.program is None and not spec.named_flags


def _parser() -> argparse.ArgumentParser:
    parser = make_parser("suite", __doc__)
    parser.add_argument("--backend", default="auto", help="auto, cuda or opencl (default auto)")
    parser.add_argument("--tests", type=int, default=12, metavar="N", help="tests per input (12)")
    parser.add_argument("--inputs", type=int, default=3, metavar="N", help="inputs per kernel (3)")
    parser.add_argument(
        "--longest", type=float, default=0.01, metavar="S",
        help="the longest time of the default, in seconds (0.01)",
    )  # fmt: skip
    parser.add_argument(
        "--kernel", action="append", default=[], metavar="NAME",
        help="only this kernel; repeat it for several",
    )  # fmt: skip
    parser.add_argument(
        "--database", type=Path, default=Path("results/suite.db"), metavar="FILE",
        help="for the results (default results/suite.db)",
    )  # fmt: skip
    return parser


def _row(spec: Spec, backend: Backend, store: Store, args: argparse.Namespace) -> KernelRow:
    chosen = _affordable(spec.with_measure(QUICK), backend, args.longest)
    tuned = dataclasses.replace(spec, inputs=tuple(_evenly(chosen, args.inputs)))
    options = SearchOptions(
        techniques=resolve_techniques(["auto"]),
        test_limit=args.tests,
        seed=0,
        label="suite",
        parallelism=4,
    )
    with (
        closing(KernelMeasurer(tuned, with_cache(tuned, backend))) as measurer,
        ProgressDisplay(make_console(), quiet=True) as display,
    ):
        plan = CampaignPlan(tuned, options, fresh=True)
        campaign = Campaign(plan, measurer, store, display)
        reports = campaign.run()
    return _summed(spec, reports)


def _affordable(spec: Spec, backend: Backend, longest_s: float) -> list[Input]:
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
    if len(inputs) <= count:
        return list(inputs)
    indices = {round((k + 1) * len(inputs) / count) - 1 for k in range(count)}
    return [inputs[index] for index in sorted(indices)]


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


def _figures(row: KernelRow) -> dict[str, Any]:
    mean = round(row.mean, 3) if row.speedups else None
    return dataclasses.asdict(row) | {"mean_speedup": mean}


if __name__ == "__main__":
    sys.exit(main())
