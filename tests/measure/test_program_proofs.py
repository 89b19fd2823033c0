"""Times that a program reports and its process contradicts, on a machine with a fake clock."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness.core.errors import HostModuleError
from harness.core.records import Config, Environment, Input, Measurement, Outcome, Timing
from harness.measure.occasions import Block
from harness.measure.plausibility import PROVED
from harness.measure.programs import measurer as measurer_module
from harness.measure.programs import worker
from harness.measure.programs.measurer import ProgramMeasurer
from harness.measure.programs.proof import (
    DOUBTED_FROM,
    Reference,
)
from harness.measure.programs.runner import ProgramJob, ProgramResult
from harness.measure.programs.sealed import SealedFile
from harness.measure.programs.worker import ProgramFacts, ProgramWorker
from harness.space import ConstrainedSpace, Space
from harness.space_file import Spec, load_spec
from tests.helpers.fakes import HereProcesses

PROGRAMS = {
    "default": (0.1, 0.11),
    "fake_2.5": (0.04, 0.11),
    "fake_5": (0.02, 0.11),
    "fake_20": (0.005, 0.11),
    "honest_1.5": (0.067, 0.077),
    "honest_2.5": (0.04, 0.05),
    "honest_15": (0.0067, 0.0167),
    "tiny": (0.0001, 0.11),
}
"""The seconds that a program reports and those of its process, on a machine without other work."""

SPACE = f"""\
name: claims
program:
  sources: [claims.sh]
  run: [sh, "{{source}}", "{{MODE}}"]
  time: {{pattern: '(.*) s', unit: s}}
parameters:
  MODE: {{values: [{", ".join(PROGRAMS)}], default: default}}
inputs: {{features: [n], values: [{{n: 1}}]}}
measure: {{repeats: 5, warmup: 1}}
"""
GIVEN = Input({"n": 1})

Burden = Callable[[float, random.Random], float]
"""How many times as long a run takes at a second of the fake clock."""

BURDENS: dict[str, Burden] = {
    "quiet": lambda now_s, rng: rng.lognormvariate(0, 0.02),
    "busy": lambda now_s, rng: rng.lognormvariate(0, 0.3),
    "bursts": lambda now_s, rng: rng.choice([1, 1, 1, 1, 4]),
    "begins": lambda now_s, rng: 1 if now_s < 0.4 else 3,
    "ends": lambda now_s, rng: 3 if now_s < 0.4 else 1,
    "waves": lambda now_s, rng: 1 + 2 * (int(now_s / 0.7) % 2),
}


@dataclass
class Machine:
    """Runs programs by their figures; a busy machine lengthens what they report as well."""

    burden: Burden
    rng: random.Random
    programs: dict[str, tuple[float, float]] = field(default_factory=lambda: dict(PROGRAMS))
    now_s: float = 0.0
    runs: list[str] = field(default_factory=list)

    def once(self, job: ProgramJob) -> tuple[float, float]:
        """Return the reported seconds of a run, and those of its process."""
        mode = str(job.config["MODE"])
        reported_s, process_s = self.programs[mode]
        factor = self.burden(self.now_s, self.rng)
        self.now_s += process_s * factor
        self.runs.append(mode)
        return reported_s * factor, process_s * factor

    def take_reference(self, _: ProgramWorker, job: ProgramJob, kept: Path) -> Reference:
        """Run the default twice, as its worker does."""
        runs = [self.once(job) for _ in range(2)]
        return Reference(
            SealedFile(kept), min(r for r, _ in runs), min(p for _, p in runs), True, True
        )

    def run(self, _: ProgramWorker, job: ProgramJob) -> ProgramResult:
        """Measure one program alone."""
        return self.results([job], job.sampling.repeats)[0]

    def run_interleaved(
        self, _: ProgramWorker, jobs: Sequence[ProgramJob], block: Block
    ) -> list[ProgramResult]:
        """Measure several in turns."""
        return self.results(jobs, block.rounds)

    def results(self, jobs: Sequence[ProgramJob], rounds: int) -> list[ProgramResult]:
        """Return the result of each job, run once per round."""
        table = [[self.once(job) for job in jobs] for _ in range(rounds)]
        found = []
        for job, runs in zip(jobs, zip(*table, strict=True), strict=True):
            samples, process_s = zip(*runs, strict=True)
            measured = Measurement(
                job.config, job.input, Outcome.OK, Timing(samples), job.binary.build
            )
            found.append(ProgramResult(measured, process_s))
        return found


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    (tmp_path / "claims.sh").write_text("echo 1 s")
    (tmp_path / "claims.yaml").write_text(SPACE)
    return load_spec(tmp_path / "claims.yaml")


On = Callable[[Machine], ProgramMeasurer]
Judge = Callable[[str, str, int], tuple[Measurement, Measurement]]


@pytest.fixture
def on(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> On:
    """Opens measurers whose programs run on a machine."""
    monkeypatch.setattr(measurer_module, "Processes", HereProcesses)
    monkeypatch.setattr("harness.measure.build_queue.Processes", HereProcesses)
    monkeypatch.setattr(worker, "end_programs_when_terminated", lambda: None)
    facts = ProgramFacts(Environment("command", "fake", "", "", "none", ()), 0.0, None)
    monkeypatch.setattr(ProgramWorker, "describe", lambda _: facts)

    def opened(machine: Machine) -> ProgramMeasurer:
        for name in ("take_reference", "run", "run_interleaved"):
            method = getattr(machine, name)
            monkeypatch.setattr(ProgramWorker, name, lambda *args, method=method: method(*args))
        return ProgramMeasurer(spec)

    return opened


@pytest.fixture
def space(spec: Spec) -> Space:
    return ConstrainedSpace.of(spec, GIVEN, None, None)


@pytest.fixture
def machine() -> Machine:
    return Machine(BURDENS["quiet"], random.Random(0))


@pytest.fixture
def judge(space: Space, on: On) -> Judge:
    """Measures a program under a burden, with a seed, first alone and then beside the default."""

    def judged(mode: str, burden: str, seed: int) -> tuple[Measurement, Measurement]:
        config = Config({"MODE": mode})
        with closing(on(Machine(BURDENS[burden], random.Random(seed)))) as measurer:
            searched = measurer.measure(space, GIVEN, config, None)
            if searched.outcome is not Outcome.OK:
                return searched, searched
            both = [config, space.canonical(space.default)]
            return searched, measurer.measure_interleaved(space, GIVEN, both, 20)[0]

    return judged


FAST_S = PROGRAMS["default"][0] / DOUBTED_FROM


@pytest.mark.parametrize("burden", BURDENS)
@pytest.mark.parametrize("mode", ["fake_2.5", "fake_5", "fake_20"])
def test_made_up_times_do_not_win_also_on_a_busy_machine(
    judge: Judge, mode: str, burden: str
) -> None:
    for seed in range(3):
        searched, final = judge(mode, burden, seed)
        assert final.time_s > FAST_S, f"with seed {seed}: {searched.time_s} s in the search"
        assert final.outcome is Outcome.OK or "but its process ends only" in final.message


@pytest.mark.parametrize("burden", BURDENS)
@pytest.mark.parametrize("mode", ["honest_1.5", "honest_2.5", "honest_15"])
def test_honest_times_survive_also_on_a_busy_machine(judge: Judge, mode: str, burden: str) -> None:
    for seed in range(3):
        for found in judge(mode, burden, seed):
            assert found.outcome is Outcome.OK, f"with seed {seed}: {found.message}"


def test_a_clock_that_agrees_costs_no_run_beside_the_default(
    machine: Machine, on: On, space: Space
) -> None:
    with closing(on(machine)) as measurer:
        measurer.measure(space, GIVEN, Config({"MODE": "honest_2.5"}), None)
        assert machine.runs.count("default") == 2, "those of the reference"
        fast = measurer.measure(space, GIVEN, Config({"MODE": "honest_15"}), None)
        assert machine.runs.count("default") == 2
    assert fast.observed[PROVED] == 1
    assert machine.runs.count("honest_15") == 2 * 5, "the measurement, and the proof"


def test_a_time_that_does_not_win_needs_no_clock(machine: Machine, on: On, space: Space) -> None:
    fake = Config({"MODE": "fake_2.5"})
    with closing(on(machine)) as measurer:
        assert measurer.measure(space, GIVEN, fake, 0.03).outcome is Outcome.OK
        assert measurer.measure(space, GIVEN, fake, 0.05).outcome is Outcome.IMPLAUSIBLE


def test_a_winner_is_proved_once(machine: Machine, on: On, space: Space) -> None:
    fast = Config({"MODE": "honest_15"})
    with closing(on(machine)) as measurer:
        counts = []
        for _ in range(2):
            (found,) = measurer.measure_interleaved(space, GIVEN, [fast], 10)
            assert found.observed[PROVED] == 1
            counts.append(len(machine.runs))
    assert counts == [2 + 10 + 5, 2 + 10 + 5 + 10]


def test_seconds_below_what_the_clock_resolves_are_not_contradicted(
    machine: Machine, on: On, space: Space
) -> None:
    machine.programs["default"] = (0.0015, 0.11)
    with closing(on(machine)) as measurer:
        found = measurer.measure(space, GIVEN, Config({"MODE": "tiny"}), None)
    assert found.observed[PROVED] == 1


def test_reference_that_somebody_removed_is_an_error_that_names_it(tmp_path: Path) -> None:
    sealed = SealedFile(tmp_path / "0")
    sealed.write_bytes(b"3.5\n")
    assert sealed.read_bytes() == b"3.5\n"
    sealed.path.unlink()
    with pytest.raises(HostModuleError, match="somebody changed or removed this file"):
        sealed.read_bytes()
