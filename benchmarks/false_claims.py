"""How often tune, compare and dispatch claim a difference where there is none.

Every configuration is equally fast, so each claim is false. A simulated machine (benchmarks.noise)
has one of ten kinds of noise. On it, campaigns of a few inputs measure every configuration, the
candidates and the finals, through the functions that `harness.tune` uses, into databases like
those of `harness.tune`. From these:

    tune      the share of inputs, and of campaigns, with a significant speed-up
    compare   the share of comparisons of two databases with any `slower` or `faster`; the kernel
              was edited in between, to one of equal speed
    rerun     the same for `compare --rerun`
    burden    the same for `compare`, where other work makes the machine 30 % slower from a quarter
              of the second campaign on; `burden rerun` for a rerun, from a quarter of the rerun on
    dispatch  the share of databases from which a dispatcher is written

    python -m benchmarks.false_claims
    python -m benchmarks.false_claims --pocl      on this machine, with PoCL, in place of noise

The first command takes an hour on two cores, the second some minutes; measure with nothing beside
it. Each rate has its 95 % interval (Clopper and Pearson). The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from benchmarks.arguments import count, make_parser, use_one_thread
from benchmarks.noise import MODELS, Burdened, Noise, SimulatedMeasurer
from harness.analysis.inputs import InputReport
from harness.compare.comparison import Comparison, Rules, compare
from harness.compare.reading import KernelResults, read_kernel_results
from harness.compare.rerun import RerunSide, rerun_kernel
from harness.compare.statistics import LEVEL, RUN_NOISE, THRESHOLD, ChangeVerdict
from harness.core.records import Input
from harness.dispatch.candidates import matrix_of
from harness.dispatch.study import QUICK, study
from harness.measure.choose import open_measurer
from harness.measure.measurer import Measurer
from harness.measure.processes import Processes
from harness.results import Store, writing
from harness.results.view import read_results
from harness.search import SearchOptions
from harness.space import ConstrainedSpace
from harness.space_file import Spec, load_spec
from harness.stats.proportions import clopper_pearson
from harness.tuning import CampaignPlan
from harness.tuning.crossing import measure_candidates
from harness.tuning.finals import final_reports
from harness.tuning.progress import SilentDisplay
from harness.tuning.state import State

STATED = {"tune": 0.025, "tune campaigns": 0.05, "dispatch": 0.025}
"""The largest rate that is promised; LEVEL for what is not named."""

_BURDEN = 1.3
_BEGINS = 0.25  # of a campaign or a rerun
_CHUNK = 4  # campaigns of one job
_LONGEST_S = 3600.0
PARTS = ("compare", "dispatch")
_CLAIMS = (ChangeVerdict.SLOWER, ChangeVerdict.FASTER)

_SPACE = """\
name: {name}
kernel: {{function: equal, source: equal.cl, host: equal.py}}
parameters:
  TAG: {{values: [0, 1, 2, 3, 4, 5], role: source, default: 0}}
launch: {{group: [64], grid: ["ceil_div(n, 64)"]}}
inputs:
  features: [n, m]
  values: [{inputs}]
"""
_KERNEL = """\
// TAG is stored where no work-item comes, so that machine codes differ and times do not.
__kernel void equal(__global const float *x, __global float *y, int n)
{
    int i = get_global_id(0);
    if (i >= 0 && i < n) y[i] = 2.0f * x[i];
    if (i < 0) y[0] = TAG;
}
"""
_HOST = """\
import numpy as np

def arguments(features, rng):
    x = rng.random(features["n"], dtype=np.float32)
    return {"x": x, "y": np.zeros_like(x), "n": np.int32(features["n"])}

def reference(arguments):
    return {"y": 2 * arguments["x"]}
"""


def write_space(folder: Path, inputs: int, seed: int, edited: bool = False) -> Spec:
    """Write a space of equal configurations, with its kernel and host module, and load it."""
    rng = random.Random(seed)
    sizes = rng.sample(range(1 << 12, 1 << 16, 8), inputs)
    values = ", ".join(f"{{n: {n}, m: {rng.randrange(1, 1000)}}}" for n in sizes)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "equal.cl").write_text(_KERNEL + ("// edited\n" if edited else ""))
    (folder / "equal.py").write_text(_HOST)
    path = folder / "equal.yaml"
    path.write_text(_SPACE.format(name="equal", inputs=values))
    return load_spec(path)


# --------------------------------------------------------------------------------- campaigns


def tune(spec: Spec, measurer: Measurer, database: Path, seed: int) -> list[InputReport]:
    """Measure every configuration, the candidates and the finals, as `harness.tune` does."""
    with writing(str(database)) as engine:
        store = Store(engine)
        options = SearchOptions(
            ("UniformRandom",), test_limit=6, seed=seed, label="false claims", parallelism=1
        )
        state = State(
            CampaignPlan(spec, options),
            measurer,
            store,
            SilentDisplay(),
            space=lambda problem: ConstrainedSpace.of(
                spec, problem, measurer.limits, measurer.compiler
            ),
        )
        rng = random.Random(seed)
        for problem in spec.inputs:
            _search(state, problem, rng)
        measure_candidates(state)
        reports = final_reports(state)
        for run_id in state.runs.values():
            store.end_run(run_id, "complete")
        store.sessions.remove()
    return reports


def _search(state: State, problem: Input, rng: random.Random) -> None:
    """Measure the default, then all other configurations in random order."""
    space, plan, best_s = state.space(problem), state.run_plan(problem), None
    state.runs[problem] = run_id = state.store.begin_run(plan, {}).id
    others = [config for config in space if config != space.default]
    for config in [space.default, *rng.sample(others, len(others))]:
        found = state.measurer.measure(space, problem, config, best_s)
        state.store.add_measurement(run_id, plan, "search", found)
        best_s = min(found.time_s, best_s or found.time_s)
    state.store.commit()


def is_claim(report: InputReport) -> bool:
    """Say whether an input's report claims a speed-up."""
    return report.speedup is not None and report.speedup.is_faster


def is_any_claim(comparison: Comparison) -> bool:
    """Say whether a comparison claims any difference."""
    return any(row.verdict in _CLAIMS for row in comparison.rows)


def ships(database: Path) -> bool:
    """Say whether `harness.dispatch` writes a dispatcher from a database."""
    (results,) = read_results([str(database)])
    found = study(matrix_of(results), QUICK)
    return found.gain(found.best).is_better


def _rules(is_rerun: bool = False) -> Rules:
    return Rules(LEVEL, THRESHOLD, RUN_NOISE, is_rerun=is_rerun)


@dataclass(frozen=True)
class Tally:
    """How many of so many trials ended in a false claim, by what claimed it."""

    trials: Counter[str] = field(default_factory=Counter)
    claims: Counter[str] = field(default_factory=Counter)

    def add(self, what: str, claim: bool) -> None:
        """Count a trial."""
        self.trials[what] += 1
        self.claims[what] += claim

    def update(self, other: Tally) -> None:
        """Add the counts of another tally."""
        self.trials.update(other.trials)
        self.claims.update(other.claims)


class Bench(Protocol):
    """Where code is measured."""

    def open(self, spec: Spec, begins: float | None = None) -> Measurer:
        """Open a measurer; after `begins` more launches, if it is set, other work begins."""

    @property
    def launches(self) -> int:
        """The number of launches so far; 0 where other work cannot be ordered."""


class SimulatedBench:
    """A simulated machine, which goes on from one measurer to the next."""

    def __init__(self, noise: Noise) -> None:
        self._noise = noise

    def open(self, spec: Spec, begins: float | None = None) -> SimulatedMeasurer:
        """Open a measurer on the same machine."""
        noise = self._noise if begins is None else Burdened(self._noise, begins, _BURDEN)
        return SimulatedMeasurer(spec, noise)

    @property
    def launches(self) -> int:
        """The number of launches so far."""
        return self._noise.launches


class PoclBench:
    """PoCL on this machine."""

    launches = 0

    def open(self, spec: Spec, begins: float | None = None) -> Measurer:
        """Open a device's process."""
        return open_measurer(spec, "opencl")[0]


def trial(folder: Path, inputs: int, seed: int, bench: Bench, parts: Sequence[str]) -> Tally:
    """Tune equal code twice, compare, rerun, and learn a dispatcher from each database; then
    compare with a burdened campaign and in a burdened rerun, where work can be ordered."""
    tally = Tally()
    specs = [write_space(folder / name, inputs, seed, name == "new") for name in ("old", "new")]
    databases = [folder / f"{name}.db" for name in ("old", "new")]
    for number, (spec, database) in enumerate(zip(specs, databases, strict=True)):
        began = bench.launches
        _campaign(tally, spec, bench, database, 2 * seed + number, parts)
        launches = bench.launches - began
    if "compare" not in parts:
        return tally
    old, new = (read_kernel_results(str(database)) for database in databases)
    tally.add("compare", is_any_claim(compare(old, new, _rules())))
    began = bench.launches
    tally.add("rerun", _rerun(folder / "rerun.db", specs, (old, new), bench, None))
    if launches:
        during = _BEGINS * (bench.launches - began)
        late = folder / "late.db"
        tune(specs[1], bench.open(specs[1], _BEGINS * launches), late, seed)
        burdened = compare(old, read_kernel_results(str(late)), _rules())
        tally.add("burden", is_any_claim(burdened))
        again = _rerun(folder / "again.db", specs, (old, new), bench, during)
        tally.add("burden rerun", again)
    return tally


def _campaign(
    tally: Tally, spec: Spec, bench: Bench, database: Path, seed: int, parts: Sequence[str]
) -> None:
    """Tune, and count the claims of the reports and of a dispatcher."""
    with contextlib.closing(bench.open(spec)) as measurer:
        reports = tune(spec, measurer, database, seed)
    for report in reports:
        tally.add("tune", is_claim(report))
    tally.add("tune campaigns", any(map(is_claim, reports)))
    if "dispatch" in parts:
        tally.add("dispatch", ships(database))


def _rerun(
    database: Path,
    specs: Sequence[Spec],
    sides: Sequence[Sequence[KernelResults]],
    bench: Bench,
    begins: float | None,
) -> bool:
    """Rerun both sides, and say whether anything is claimed."""
    with contextlib.ExitStack() as stack, writing(str(database)) as engine:
        store = Store(engine)
        shared = bench.open(specs[0], begins)
        measurers = [shared, bench.open(specs[1]) if begins is None else shared]
        for measurer in measurers:
            stack.callback(measurer.close)
        planned = [
            RerunSide(name, str(database), side[0], spec, measurer)
            for name, side, spec, measurer in zip(
                ("BASE", "CANDIDATE"), sides, specs, measurers, strict=True
            )
        ]
        old, new = rerun_kernel(planned[0], planned[1], store)
        store.sessions.remove()
    return is_any_claim(compare([old], [new], _rules(is_rerun=True)))


# ----------------------------------------------------------------------------------- figures


def simulated(model: str, inputs: int, seed: int, trials: int, parts: Sequence[str]) -> Tally:
    """Count the false claims of some trials under a noise model."""
    tally = Tally()
    for number in range(seed, seed + trials):
        bench = SimulatedBench(MODELS[model](random.Random(number)))
        with tempfile.TemporaryDirectory(prefix="false-claims-") as folder:
            tally.update(trial(Path(folder), inputs, number, bench, parts))
    return tally


def pocl(inputs: int, seed: int, trials: int, parts: Sequence[str]) -> Tally:
    """Count the false claims of some trials on PoCL."""
    tally = Tally()
    for number in range(seed, seed + trials):
        with tempfile.TemporaryDirectory(prefix="false-claims-") as folder:
            tally.update(trial(Path(folder), inputs, number, PoclBench(), parts))
    return tally


def figures(tally: Tally) -> dict[str, dict[str, float]]:
    """Return the rate of each claim, with its 95 % interval, and the number of trials."""
    found = {}
    for what, trials in tally.trials.items():
        rate = clopper_pearson(tally.claims[what] / trials, trials, 0.05)
        found[what] = {
            "claims": tally.claims[what],
            "trials": trials,
            "rate": round(rate.value, 4),
            "low": round(rate.low, 4),
            "high": round(rate.high, 4),
        }
    return found


def print_figures(name: str, found: Mapping[str, Mapping[str, float]]) -> None:
    """Print a line for each claim: its rate with the interval, and what is promised."""
    print(name)
    for what, one in found.items():
        rates = f"{one['rate']:7.2%} [{one['low']:.2%}, {one['high']:.2%}]"
        counts = f"{one['claims']:g} of {one['trials']:g}"
        print(f"  {what:16}{rates:28}{counts:16}stated {STATED.get(what, LEVEL):.1%}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Count false claims; print them and the JSON line."""
    args = _parser().parse_args(arguments)
    use_one_thread()
    found: dict[str, Any] = {"inputs": args.inputs, "stated": STATED | {"level": LEVEL}}
    if args.pocl:
        found["pocl"] = figures(pocl(args.inputs, args.seed, args.trials, args.only))
        print_figures("PoCL", found["pocl"])
    else:
        for model, tally in _all_models(args):
            found[model] = figures(tally)
            print_figures(model, found[model])
    print(json.dumps(found))
    return 0


def _all_models(args: argparse.Namespace) -> Iterator[tuple[str, Tally]]:
    """Yield the tally of each model; chunks of trials run in worker processes."""
    starts = range(args.seed, args.seed + args.trials, _CHUNK)
    sizes = [min(_CHUNK, args.seed + args.trials - start) for start in starts]
    with contextlib.closing(Processes(args.jobs)) as pool:
        tasks = {
            model: [
                pool.schedule(
                    simulated, model, args.inputs, start, size, args.only, timeout_s=_LONGEST_S
                )
                for start, size in zip(starts, sizes, strict=True)
            ]
            for model in args.models
        }
        for model, parts in tasks.items():
            tally = Tally()
            for part in parts:
                tally.update(pool.result_of(part))
            yield model, tally


def _parser() -> argparse.ArgumentParser:
    parser = make_parser("false_claims", __doc__)
    parser.add_argument(
        "--pocl", action="store_true", help="measure with PoCL on this machine, without a model"
    )
    parser.add_argument(
        "--trials", type=count, default=100, metavar="N", help="of two campaigns each (100)"
    )
    parser.add_argument(
        "--inputs", type=count, default=8, metavar="N", help="inputs in a campaign (8)"
    )
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--only", nargs="*", choices=PARTS, default=PARTS, help="besides tune")
    parser.add_argument("--seed", type=int, default=0, help="of the first trial (0)")
    parser.add_argument(
        "--jobs", type=count, default=os.cpu_count() or 1, metavar="N", help="processes at a time"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
