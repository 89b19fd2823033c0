"""Times that a program reports and its process contradicts, on a machine with a fake clock."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness.commands import tune
from harness.core.observations import UNTIMED
from harness.core.records import (
    Config,
    Environment,
    Input,
    Measurement,
    Outcome,
    StopReason,
    Timing,
)
from harness.measure.programs.measurer import ProgramMeasurer, without_unshown_gain
from harness.measure.programs.runner import ProgramJob, ProgramWorker, Reference
from harness.measure.trial.occasions import Block
from harness.space import ConstrainedSpace
from harness.space_file import Spec, load_spec
from harness.stats.interleaved import is_shown
from harness.stats.timing import time_ratio
from harness.tuning.finals import FINAL_OCCASIONS
from tests.helpers.fake_kernels import measure_programs_here

PROGRAMS = {
    "default": (0.1, 0.11),
    "fake_1.8": (0.0565, 0.11),
    "fake_2.5": (0.04, 0.11),
    "fake_5": (0.02, 0.11),
    "fake_20": (0.005, 0.11),
    "honest_1.5": (0.067, 0.077),
    "honest_2.5": (0.04, 0.05),
    "honest_15": (0.0067, 0.0167),
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
    now_s: float = 0.0
    programs: dict[str, tuple[float, float]] = field(default_factory=lambda: dict(PROGRAMS))

    def once(self, job: ProgramJob) -> tuple[float, float]:
        """Return the reported seconds of a run, and those of its process."""
        reported_s, process_s = self.programs[str(job.config["MODE"])]
        factor = self.burden(self.now_s, self.rng)
        self.now_s += process_s * factor
        return reported_s * factor, process_s * factor

    def take_reference(self, _: ProgramWorker, job: ProgramJob) -> Reference:
        """Run the default twice, as its worker does."""
        return Reference(b"", min(self.once(job)[0] for _ in range(2)), True, True)

    def run(self, _: ProgramWorker, job: ProgramJob) -> Measurement:
        """Measure one program alone."""
        return self.results([job], job.sampling.repeats)[0]

    def run_interleaved(
        self, _: ProgramWorker, jobs: Sequence[ProgramJob], block: Block
    ) -> list[Measurement]:
        """Measure several in turns."""
        return self.results(jobs, block.rounds)

    def results(self, jobs: Sequence[ProgramJob], rounds: int) -> list[Measurement]:
        """Return the result of each job, run once per round."""
        table = [[self.once(job) for job in jobs] for _ in range(rounds)]
        return [
            measured(job.config, *zip(*runs, strict=True), build=job.binary.build)
            for job, runs in zip(jobs, zip(*table, strict=True), strict=True)
        ]


def measured(
    config: Config, samples_s: Sequence[float], process_s: Sequence[float], **more: object
) -> Measurement:
    timing = Timing(tuple(samples_s), StopReason.INTERLEAVED)
    pairs = zip(process_s, samples_s, strict=True)
    observed = {UNTIMED: statistics.median(whole_s - part_s for whole_s, part_s in pairs)}
    return Measurement(config, GIVEN, Outcome.OK, timing, observed=observed, **more)


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    (tmp_path / "claims.sh").write_text("echo 1 s")
    (tmp_path / "claims.yaml").write_text(SPACE)
    return load_spec(tmp_path / "claims.yaml")


Judge = Callable[[str, str, int], tuple[Measurement, Measurement, Measurement]]


@pytest.fixture
def judge(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> Judge:
    """Measures a program under a burden, with a seed, first alone and then as in the finals, beside
    the default."""
    measure_programs_here(monkeypatch)
    facts = Environment("command", "fake", "", "", "none", ()), None
    monkeypatch.setattr(ProgramWorker, "describe", lambda *_: facts)

    def judged(mode: str, burden: str, seed: int) -> tuple[Measurement, Measurement, Measurement]:
        machine = Machine(BURDENS[burden], random.Random(seed))
        for name in ("take_reference", "run", "run_interleaved"):
            method = getattr(machine, name)
            monkeypatch.setattr(ProgramWorker, name, lambda *args, method=method: method(*args))
        space = ConstrainedSpace.of(spec, GIVEN, None, None)
        config = Config({"MODE": mode})
        with closing(ProgramMeasurer(spec)) as measurer:
            searched = measurer.measure(space, GIVEN, config, None)
            both = [config, space.canonical(space.default)]
            final, default = measurer.measure_interleaved(
                space, GIVEN, both, 20, (1,) * FINAL_OCCASIONS
            )
        return searched, final, default

    return judged


@pytest.mark.parametrize("burden", BURDENS)
@pytest.mark.parametrize("mode", ["fake_1.8", "fake_2.5", "fake_5", "fake_20"])
def test_made_up_times_are_no_claim_on_busy_machines(judge: Judge, mode: str, burden: str) -> None:
    for seed in range(3):
        searched, final, default = judge(mode, burden, seed)
        assert searched.outcome is Outcome.OK, "the finals judge it"
        assert default.timing is not None
        assert final.timing is not None
        if is_shown(final):
            assert not time_ratio(default.timing, final.timing).is_faster, f"with seed {seed}"
        else:
            assert "but its process ends " in final.message


@pytest.mark.parametrize("burden", BURDENS)
@pytest.mark.parametrize("mode", ["honest_1.5", "honest_2.5", "honest_15"])
def test_honest_times_survive_also_on_a_busy_machine(judge: Judge, mode: str, burden: str) -> None:
    for seed in range(3):
        for found in judge(mode, burden, seed):
            assert found.outcome is Outcome.OK, f"with seed {seed}: {found.message}"


def beside(time_s: float, process_s: float, *, scatter: float = 0.01) -> Measurement:
    """A program beside a default of 1 s in a process of 2 s."""
    factors = [1 + scatter * (number % 3 - 1) for number in range(20)]
    default, found = (
        measured(Config({"N": number}), [one_s * f for f in factors], [all_s * f for f in factors])
        for number, (one_s, all_s) in enumerate([(1.0, 2.0), (time_s, process_s)])
    )
    return without_unshown_gain(found, default)


@pytest.mark.parametrize(
    ("time_s", "process_s", "is_claimed"),
    [
        (0.2, 1.59, True),  # saves 0.41 s of the 0.8 s that it reports
        (0.2, 1.61, False),
        (0.565, 2.0, False),  # 1.77 times as fast
        (1.0, 2.5, True),  # no gain is reported
        (1.2, 2.0, True),
    ],
)
def test_a_process_must_save_half_of_the_seconds_that_the_program_reports(
    time_s: float, process_s: float, is_claimed: bool
) -> None:
    found = beside(time_s, process_s)
    assert is_shown(found) == is_claimed, found.message
    assert found.timing is not None, "it may be chance"


def test_the_message_says_what_was_reported_and_what_was_seen() -> None:
    assert beside(0.2, 1.61).message.startswith(
        "the program reports that it saves 800 ms a run, but its process "
        "ends 390 ms sooner than the default's"
    )
    assert "its process ends no sooner than the default's" in beside(0.2, 2.1).message


def test_a_gain_that_may_be_chance_is_not_refused() -> None:
    found = measured(Config({"N": 1}), [0.9, 1.1, 0.8, 1.15], [2.5] * 4)
    default = measured(Config({"N": 0}), [1.0] * 4, [2.0] * 4)
    assert without_unshown_gain(found, default) is found


def test_a_process_that_is_timed_itself_needs_no_other_clock() -> None:
    found = Measurement(Config({"N": 1}), GIVEN, Outcome.OK, Timing((0.1,) * 4))
    default = Measurement(Config({"N": 0}), GIVEN, Outcome.OK, Timing((1.0,) * 4))
    assert without_unshown_gain(found, default) is found


MADE_UP = """\
name: clock
program:
  sources: [clock.sh]
  run: [sh, "{source}", "{SHARE}"]
  time: {pattern: 'took (.*) s', unit: s}
parameters:
  SHARE: {values: ["1", "0.565"], default: "1"}
inputs: {features: [n], values: [{n: 1}]}
measure: {repeats: 6, min_repeats: 6}
"""


@pytest.mark.slow
def test_made_up_clock_wins_no_campaign(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "clock.yaml").write_text(MADE_UP)
    (tmp_path / "clock.sh").write_text(
        "began=$(date +%s%N); sleep 0.05; ended=$(date +%s%N)\n"
        """awk "BEGIN {print \\"took \\" ($ended - $began) * 1e-9 * $1 \\" s\\"}"\n"""
    )
    database = str(tmp_path / "results.db")
    assert tune.main([str(tmp_path / "clock.yaml"), "--database", database]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "n=1 default" in said
    assert "1.77x" not in said
    assert "A gain is not claimed on" in said
    assert "the program reports that it saves" in said
