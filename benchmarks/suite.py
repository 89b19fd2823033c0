"""What tuning brings to each kernel of the suite on this machine, all measured in one run.

Every space under spaces/ is tuned for a few of its inputs with a small budget, every result
verified; the winner and the default are then measured in turn. Inputs are taken evenly, from the
smallest up to the first on which the default runs for more than `--longest` seconds, so that a CPU
can follow. Run it where harness is installed, on a machine that does nothing else:

    python benchmarks/suite.py

It prints a table in Markdown; the last line is one JSON object of its figures.
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

from harness.analysis.inputs import InputReport
from harness.commands.run import run_command
from harness.core.records import Input, Outcome
from harness.display import ProgressDisplay, make_console
from harness.measure.backends.choose import Backend, choose
from harness.measure.kernels import KernelMeasurer
from harness.results import Store, writing
from harness.search import SearchOptions, make_opentuner_tables, resolve_techniques
from harness.space import ConstrainedSpace
from harness.space_file import Spec, load_spec
from harness.tuning import Campaign, CampaignPlan

ROOT = Path(__file__).resolve().parents[1]
QUICK = {"repeats": 3, "min_repeats": 2}


@dataclass(frozen=True)
class Row:
    """A kernel's line of the table; the speed-ups are those of the inputs that were tuned."""

    kernel: str
    legal: int | None
    inputs: int
    tuned: int
    outcomes: Mapping[str, int]
    speedups: Sequence[float]
    clear: int

    @property
    def mean(self) -> float:
        """The geometric mean of the speed-ups over the default."""
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


def main() -> int:
    """The command; returns its exit code."""
    return run_command(_parser(), None, _measure)


def _measure(args: argparse.Namespace) -> int:
    """Tune, print the table, and end with the JSON object."""
    paths = [ROOT / "spaces" / f"{name}.yaml" for name in args.kernel]
    found = map(load_spec, paths or sorted((ROOT / "spaces").glob("*.yaml")))
    specs = [spec for spec in found if paths or _is_of_suite(spec)]
    backend = choose(args.backend)
    with closing(KernelMeasurer(specs[0], backend)) as measurer:
        where = str(measurer.environment)
    rows: list[Row] = []
    with writing(str(args.database)) as engine:
        store = Store(engine)
        make_opentuner_tables(store)
        for spec in specs:
            rows.append(_row(spec, backend, store, args))
            print(rows[-1].markdown(), flush=True)
        store.sessions.remove()
    print(f"\n{where}\n\n{HEAD}")
    print("\n".join(row.markdown() for row in rows))
    print(json.dumps({"device": where, "kernels": [_figures(row) for row in rows]}))
    return 0


def _is_of_suite(spec: Spec) -> bool:
    """Programs, and kernels that stand in `spaces` a second time with flags, are not."""
    return spec.program is None and not spec.named_flags


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--backend", default="auto", help="auto, cuda or opencl")
    parser.add_argument("--tests", type=int, default=12, help="per input (default 12)")
    parser.add_argument("--inputs", type=int, default=3, help="per kernel (default 3)")
    parser.add_argument("--longest", type=float, default=0.01, help="seconds (default 0.01)")
    parser.add_argument(
        "--kernel", action="append", default=[], help="only this one; several times"
    )
    parser.add_argument("--database", type=Path, default=Path("results/suite.db"))
    return parser


def _row(spec: Spec, backend: Backend, store: Store, args: argparse.Namespace) -> Row:
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
        closing(KernelMeasurer(tuned, backend)) as measurer,
        ProgressDisplay(make_console(), quiet=True) as display,
    ):
        plan = CampaignPlan(tuned, options, fresh=True)
        campaign = Campaign(plan, measurer, store, display)
        reports = campaign.run()
    return _summed(spec, reports)


def _affordable(spec: Spec, backend: Backend, longest_s: float) -> list[Input]:
    """The inputs on which the default is fast enough, the smallest first; one at least."""
    found: list[Input] = []
    with closing(KernelMeasurer(spec, backend)) as measurer:
        for given in sorted(spec.inputs, key=_size):
            space = ConstrainedSpace.of(spec, given, measurer.limits, measurer.compiler)
            measured = measurer.measure(space, given, space.default, None)
            if found and not (measured.outcome is Outcome.OK and measured.time_s <= longest_s):
                break
            found.append(given)
    return found


def _size(given: Input) -> float:
    return math.prod(float(v) for v in given.values() if isinstance(v, (int, float)))


def _evenly(inputs: Sequence[Input], count: int) -> list[Input]:
    """So many of them, the largest always and the rest evenly spread."""
    if len(inputs) <= count:
        return list(inputs)
    places = {round((k + 1) * len(inputs) / count) - 1 for k in range(count)}
    return [inputs[place] for place in sorted(places)]


def _summed(spec: Spec, reports: Sequence[InputReport]) -> Row:
    outcomes: dict[str, int] = {}
    for report in reports:
        for outcome, count in report.outcomes.items():
            outcomes[outcome.value] = outcomes.get(outcome.value, 0) + count
    ratios = [report.speedup for report in reports if report.speedup is not None]
    legal = [report.legal for report in reports if report.legal is not None]
    return Row(
        kernel=spec.name,
        legal=max(legal) if legal else None,
        inputs=len(spec.inputs),
        tuned=len(reports),
        outcomes=outcomes,
        speedups=[ratio.value for ratio in ratios],
        clear=sum(ratio.is_significant and ratio.value > 1 for ratio in ratios),
    )


def _figures(row: Row) -> dict[str, Any]:
    mean = round(row.mean, 3) if row.speedups else None
    return dataclasses.asdict(row) | {"mean_speedup": mean}


if __name__ == "__main__":
    sys.exit(main())
