"""Trials of equal code: tune it, compare it and learn a dispatcher from it; each claim is false.

`benchmarks.false_claims` counts them. A simulated machine can also make a change that is true.
"""

from __future__ import annotations

import contextlib
import os
import random
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from benchmarks.noise import MODELS, TIME_S, Burdened, Noise, SimulatedMeasurer, Times
from harness.analysis.coverage import input_reports
from harness.analysis.inputs import InputReport
from harness.compare import LEVEL, RUN_NOISE, THRESHOLD
from harness.compare.comparison import Comparison, Rules, compare
from harness.compare.reading import read_kernel_results
from harness.compare.rerun import opened_sides, plan_rerun, rerun_kernel
from harness.compare.statistics import Verdict
from harness.core.records import Input
from harness.dispatch.candidates import matrix_of
from harness.dispatch.single import single_of
from harness.dispatch.study import QUICK, Study
from harness.display.progress import Display
from harness.measure.choose import open_measurer
from harness.measure.measurer import Measurer
from harness.results import COMPLETE, Store, writing
from harness.results.view import read_results
from harness.search import SearchOptions
from harness.space_file import Spec, load_spec
from harness.tuning import CampaignPlan
from harness.tuning.finals import measure_candidates, measure_finals
from harness.tuning.state import State

POCL = "PoCL"
FILES = Path(__file__).with_name("equal")
PARTS = ("compare", "dispatch")
"""What a trial does besides tuning."""

OLD, NEW = "old", "new"
"""The folders of the two campaigns."""

_BURDEN = 1.3
_BEGINS = 0.25  # of a campaign or a rerun
_CLAIMS = (Verdict.SLOWER, Verdict.FASTER)
_MEMORY = Path("/dev/shm")  # where a commit does not wait for a disk


def write_space(folder: Path, inputs: int, seed: int, edited: bool = False) -> Spec:
    """Write a space of equal configurations, with its kernel and host module, and load it."""
    rng = random.Random(seed)
    sizes = rng.sample(range(1 << 12, 1 << 16, 8), inputs)
    values = ", ".join(f"{{n: {n}, m: {rng.randrange(1, 1000)}}}" for n in sizes)
    folder.mkdir(parents=True, exist_ok=True)
    for file in FILES.iterdir():
        text = file.read_text(encoding="utf-8").replace("INPUTS", values)
        text += "#define EDITED\n" if edited and file.suffix == ".cl" else ""
        (folder / file.name).write_text(text, encoding="utf-8")
    return load_spec(folder / "equal.yaml")


def tune(spec: Spec, measurer: Measurer, database: Path, seed: int) -> list[InputReport]:
    """Measure every configuration, the candidates and the finals, as `harness.tune` does."""
    with writing(str(database)) as engine:
        store = Store(engine)
        options = SearchOptions(("UniformRandom",), 6, seed, label="", parallelism=1)
        number = store.choose_campaign(spec, measurer.environment, fresh=False)
        state = State(CampaignPlan(spec, options, number), measurer, store, Display())
        rng = random.Random(seed)
        for problem in spec.inputs:
            _search(state, problem, rng)
        measure_candidates(state)
        measure_finals(state)
        reports = input_reports(state.results())
        for run_id in state.runs.values():
            store.end_run(run_id, COMPLETE)
        store.close()
    return reports


def _search(state: State, problem: Input, rng: random.Random) -> None:
    """Measure the default, then all other configurations in random order."""
    space, best_s = state.space(problem), None
    state.runs[problem] = state.store.begin_run(state.run_plan(problem), {})
    others = [config for config in space if config != space.default]
    for config in [space.default, *rng.sample(others, len(others))]:
        found = state.measurer.measure(space, problem, config, best_s)
        state.add_measurements(problem, "search", [found])
        best_s = min(found.time_s, best_s or found.time_s)
    state.store.commit()


def is_claim(report: InputReport) -> bool:
    """Say whether an input's report claims a speed-up."""
    return report.speedup is not None and report.speedup.is_faster


def is_any_claim(comparison: Comparison) -> bool:
    """Say whether a comparison claims any difference."""
    return any(row.verdict in _CLAIMS for row in comparison.rows)


def claims_across(database: Path) -> tuple[bool, bool]:
    """Say whether `harness dispatch` writes a choice by input from a database, and whether one
    configuration for all inputs is called faster than the default."""
    (results,) = read_results([str(database)])
    matrix = matrix_of(results)
    found = Study.of(matrix, QUICK)
    single = single_of(matrix, input_reports(results), results.finals, results.default)
    is_faster = single is not None and single.speedup is not None
    return found.gain(found.best).is_better, is_faster


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

    def open(
        self, spec: Spec, owner: Measurer | None = None, begins: float | None = None
    ) -> Measurer:
        """Open a measurer, in the process of the `owner` if there is one.

        After `begins` more launches, if it is set, other work begins.
        """

    @property
    def launches(self) -> int:
        """The number of launches so far; 0 where other work cannot be ordered."""


@dataclass(frozen=True)
class Effect:
    """True changes: by what share all configurations are faster than the default, and by what share
    everything takes longer in the second campaign."""

    faster: float = 0.0
    slower: float = 0.0

    def times(self, spec: Spec) -> Times:
        """Return the true times of a campaign's configurations."""
        time_s = TIME_S * (1 + self.slower if spec.path.parent.name == NEW else 1.0)
        return lambda problem, config: time_s / (1 + self.faster if config["TAG"] else 1.0)


class SimulatedBench:
    """A simulated machine, which goes on from one measurer to the next."""

    def __init__(self, noise: Noise, effect: Effect) -> None:
        self._noise, self._effect = noise, effect

    def open(
        self, spec: Spec, owner: Measurer | None = None, begins: float | None = None
    ) -> SimulatedMeasurer:
        """Open a measurer on the same machine."""
        times = self._effect.times(spec)
        if isinstance(owner, SimulatedMeasurer):
            return SimulatedMeasurer(spec, owner.noise, times, owner)
        noise = self._noise if begins is None else Burdened(self._noise, begins, _BURDEN)
        return SimulatedMeasurer(spec, noise, times)

    @property
    def launches(self) -> int:
        """The number of launches so far."""
        return self._noise.launches


class PoclBench:
    """PoCL on this machine."""

    launches = 0

    def open(
        self, spec: Spec, owner: Measurer | None = None, begins: float | None = None
    ) -> Measurer:
        """Open a device's process, or use the one of the `owner`."""
        return open_measurer(spec, "opencl", owner)[0]


def trial(folder: Path, inputs: int, seed: int, bench: Bench, parts: Sequence[str]) -> Tally:
    """Tune equal code twice, compare, rerun, and learn a dispatcher from each database; then
    compare with a burdened campaign and in a burdened rerun, where work can be ordered."""
    tally = Tally()
    specs = [write_space(folder / name, inputs, seed, name == NEW) for name in (OLD, NEW)]
    databases = [folder / f"{name}.db" for name in (OLD, NEW)]
    for number, (spec, database) in enumerate(zip(specs, databases, strict=True)):
        began = bench.launches
        _campaign(tally, spec, bench, database, 2 * seed + number, parts)
        launches = bench.launches - began
    if "compare" not in parts:
        return tally
    old, new = (read_kernel_results(str(database)) for database in databases)
    compared = compare(old, new, _rules())
    tally.add("compare", is_any_claim(compared))
    for row in compared.rows:
        tally.add("compare inputs", row.verdict in _CLAIMS)
    began = bench.launches
    tally.add("rerun", _rerun(folder / "rerun.db", specs, databases, bench, None))
    if launches:
        during = _BEGINS * (bench.launches - began)
        late = folder / "late.db"
        tune(specs[1], bench.open(specs[1], begins=_BEGINS * launches), late, seed)
        burdened = compare(old, read_kernel_results(str(late)), _rules())
        tally.add("burden", is_any_claim(burdened))
        again = _rerun(folder / "again.db", specs, databases, bench, during)
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
        for what, claim in zip(("dispatch", "single"), claims_across(database), strict=True):
            tally.add(what, claim)


def _rerun(
    stored: Path,
    specs: Sequence[Spec],
    databases: Sequence[Path],
    bench: Bench,
    begins: float | None,
) -> bool:
    """Rerun both sides as `harness compare --rerun` does, and say whether anything is claimed."""
    base, candidate = (str(database) for database in databases)
    (planned,) = plan_rerun(base, candidate, [specs[1].path], [specs[0].path])
    opened = opened_sides(planned, lambda spec, beside: bench.open(spec, beside, begins))
    with writing(str(stored)) as engine, opened as sides:
        store = Store(engine)
        old, new = rerun_kernel(*sides, store)
        store.close()
    return is_any_claim(compare([old], [new], _rules(is_rerun=True)))


def trials(
    model: str, effect: Effect, inputs: int, seed: int, count: int, parts: Sequence[str]
) -> Tally:
    """Count the claims of some trials under a noise model, or on PoCL, each with a seed and a
    machine of its own."""
    tally = Tally()
    where = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    for number in range(seed, seed + count):
        bench: Bench = PoclBench()
        if model != POCL:
            bench = SimulatedBench(MODELS[model](random.Random(number)), effect)
        with tempfile.TemporaryDirectory(prefix="false-claims-", dir=where) as folder:
            tally.update(trial(Path(folder), inputs, number, bench, parts))
    return tally
