"""One configuration of a program on one input: run, verified and timed; every run in a folder of
its own, so that nothing is left of the run before."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from harness.core.errors import LaunchFailed
from harness.core.program import Binary
from harness.core.records import (
    Config,
    Input,
    Measurement,
    Outcome,
    StopReason,
    Timing,
    WorstElement,
)
from harness.measure.programs.building import command_words
from harness.measure.programs.checking import Checker, CheckTimeout, Run
from harness.measure.programs.outputs import Expected, Written, WrongOutput, reported_s
from harness.measure.programs.sandbox import (
    STDERR,
    STDOUT,
    Bounds,
    CannotStart,
    Ended,
    run_command,
)
from harness.space_file import ProgramPlan
from harness.space_file.program_model import ProgramVerify
from harness.stats.timing import Sampling

PROOF_RTOL = 1e-3
_CLOCKS_APART = 1.05
_CLOCKS_APART_S = 1e-3


@dataclass(frozen=True)
class ProgramJob:
    """Everything that one measurement of a program needs.

    `expected` is a file that the output must equal. `proof` is one that it must equal as well,
    to 0.1 % where the space gives no tolerance; with `shape` only its words are compared, and
    another output is no failure.
    """

    config: Config
    input: Input
    binary: Binary
    words: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]
    files: tuple[Path, ...]
    sampling: Sampling
    timeout_s: float
    expected: Path | None = None
    proof: Path | None = None
    shape: Path | None = None
    best_s: float | None = None


class _Failed(Exception):
    def __init__(self, outcome: Outcome, message: str, worst: WorstElement | None = None) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.worst = worst


@dataclass
class Trial:
    """A configuration while it is measured; `folder` is its own."""

    plan: ProgramPlan
    job: ProgramJob
    folder: Path
    warmup_s: list[float] = field(default_factory=list)
    samples_s: list[float] = field(default_factory=list)
    ends: list[Ended] = field(default_factory=list)
    failure: Measurement | None = None
    has_other_shape: bool = False
    spent_s: float = 0.0  # by its own runs: others may take turns with it

    def __post_init__(self) -> None:
        given = self.plan.verify
        loose = given.model_copy(update={"rtol": PROOF_RTOL}) if given.rtol is None else given
        wanted = [(self.job.expected, given), (self.job.proof, loose)]
        self._expected = [self._read(path, verify) for path, verify in wanted if path]
        self._shape = self._read(self.job.shape, given) if self.job.shape else None
        self._checker = None if self.plan.host is None else Checker(self.plan.host)
        self._program = self.folder / "program"
        self._program.write_bytes(self.job.binary.data)
        self._program.chmod(0o700)

    def _read(self, path: Path, verify: ProgramVerify) -> Expected:
        return Expected(path.read_bytes(), verify, self.plan.time)

    # -------------------------------------------------------------------------------- running

    def warm_up(self) -> None:
        """The runs that are not timed; they are verified as well."""
        for _ in range(self.job.sampling.warmup):
            self.warmup_s.append(self.run()[0])

    def sample(self) -> None:
        """Take one sample."""
        time_s, ended = self.run()
        self.samples_s.append(time_s)
        self.ends.append(ended)

    def sample_until_enough(self) -> StopReason:
        """Take samples until there is a reason to stop."""
        while True:
            self.sample()
            reason = self.job.sampling.stop(self.samples_s, self.job.best_s)
            if reason is not None:
                return reason

    def run(self, keep: Path | None = None) -> tuple[float, Ended]:
        """One run, verified: its seconds, and how it ended; its output is kept in a file where
        one is named. Raises _Failed."""
        began = time.perf_counter()
        try:
            return self._run(keep)
        finally:
            self.spent_s += time.perf_counter() - began

    def _run(self, keep: Path | None) -> tuple[float, Ended]:
        with tempfile.TemporaryDirectory(prefix="run-", dir=self.folder) as place:
            written = Written(Path(place, "work"), Path(place))
            written.folder.mkdir()
            for path in self.job.files:
                shutil.copy(path, written.folder)
            ended = self._ended(written)
            left_s = self.job.timeout_s - self.spent_s - ended.wall_s
            try:
                if keep is not None:
                    keep.write_bytes(written.content(self.plan.verify.output))
                self._verify(written, left_s)
                return self._time_s(written, ended), ended
            except CheckTimeout as error:
                raise _Failed(Outcome.TIMEOUT, str(error)) from None
            except WrongOutput as error:
                raise _Failed(Outcome.WRONG_RESULT, str(error), error.worst) from None
            except LaunchFailed as error:
                raise _Failed(Outcome.LAUNCH_FAILED, str(error)) from None

    def _ended(self, written: Written) -> Ended:
        """Run the program to its end; raises _Failed where it did not end by itself."""
        job, plan = self.job, self.plan
        words = command_words(job.words, plan.shell, self._program, plan.folder)
        limits = plan.limits
        left_s = job.timeout_s - self.spent_s
        deadline_s = max(0.0, min(left_s, limits.deadline_s or left_s))
        bounds = Bounds(limits.memory_mb << 20, limits.output_mb << 20, deadline_s)
        try:
            ended = run_command(words, written.folder, written.streams, bounds, dict(job.variables))
        except CannotStart as error:
            raise _Failed(Outcome.LAUNCH_FAILED, str(error)) from None
        said = _last_words(written)
        if ended.status is None:
            own = limits.deadline_s is not None and limits.deadline_s <= left_s
            which = (
                f"a run did not end within {deadline_s:g} s (program.limits.deadline_s)"
                if own
                else f"its runs did not end within {job.timeout_s:g} s (measure.timeout_s)"
            )
            raise _Failed(Outcome.TIMEOUT, f"{which} and it was killed{said}")
        if ended.status < 0:
            raise _Failed(Outcome.CRASHED, f"the program {ended.told}{said}")
        if ended.status != plan.verify.exit_status:
            expected = f", expected {plan.verify.exit_status}"
            message = f"the program {ended.told}{expected}{said}"
            raise _Failed(Outcome.WRONG_RESULT, message)
        return ended

    def _verify(self, written: Written, timeout_s: float) -> None:
        """Raises WrongOutput and CheckTimeout."""
        name = self.plan.verify.output
        for expected in self._expected:
            expected.check(written.content(name))
        if self._checker is not None:
            streams = (written.text(name) for name in (STDOUT, STDERR))
            run = Run(dict(self.job.input), dict(self.job.config), written.folder, *streams)
            self._checker.check(run, timeout_s)
        if self._shape is not None and not self._shape.has_shape_of(written.content(name)):
            self.has_other_shape = True

    def _time_s(self, written: Written, ended: Ended) -> float:
        if self.plan.time is None:
            return ended.wall_s
        time_s = reported_s(self.plan.time, written)
        if time_s > _CLOCKS_APART * ended.wall_s + _CLOCKS_APART_S:
            raise LaunchFailed(
                f"the program tells {time_s:.3g} s, but ended after {ended.wall_s:.3g} s; is "
                f"`unit: {self.plan.time.unit}` of program.time right?"
            )
        return time_s

    # -------------------------------------------------------------------------------- results

    def succeeded(self, reason: StopReason) -> Measurement:
        """The measurement of a configuration that went through."""
        observed = {"cpu_s": statistics.median(ended.cpu_s for ended in self.ends)}
        if self.plan.time is not None:
            observed["process_s"] = statistics.median(ended.wall_s for ended in self.ends)
        return Measurement(
            self.job.config,
            self.job.input,
            Outcome.OK,
            timing=Timing(tuple(self.samples_s), reason),
            build=self.job.binary.build,
            warmup_s=tuple(self.warmup_s),
            wall_s=self.spent_s,
            observed=observed,
            host_read=(),
        )

    def failed(self, error: _Failed) -> Measurement:
        """The measurement of one that did not."""
        return Measurement(
            self.job.config,
            self.job.input,
            error.outcome,
            build=self.job.binary.build,
            worst=error.worst,
            message=str(error),
            warmup_s=tuple(self.warmup_s),
            wall_s=self.spent_s,
            host_read=(),
        )


def _last_words(written: Written) -> str:
    """The end of what the program complained of."""
    text = " ".join(written.text(STDERR)[-300:].split())
    return f", saying: {text}" if text else ""


@contextmanager
def begun(plan: ProgramPlan, job: ProgramJob) -> Iterator[Trial]:
    """A trial in a folder of its own, which is removed after it."""
    with tempfile.TemporaryDirectory(prefix="harness-program-") as folder:
        yield Trial(plan, job, Path(folder))


def measure(plan: ProgramPlan, job: ProgramJob) -> tuple[Measurement, bool]:
    """Warm up and sample, each run verified; and whether its output has another shape than that
    of the baseline. Never raises for the configuration's own failure."""
    with begun(plan, job) as trial:
        try:
            trial.warm_up()
            reason = trial.sample_until_enough()
        except _Failed as error:
            return trial.failed(error), trial.has_other_shape
        return trial.succeeded(reason), trial.has_other_shape


def measure_interleaved(
    plan: ProgramPlan, jobs: Sequence[ProgramJob], rounds: int
) -> list[tuple[Measurement, bool]]:
    """Several configurations in turn, one sample of each a round, every second round backwards;
    one that fails drops out. Each has its own deadline, and is told as `measure` tells it."""
    with ExitStack() as stack:
        trials = [stack.enter_context(begun(plan, job)) for job in jobs]
        _each(trials, Trial.warm_up)
        for round_ in range(rounds):
            _each(trials if round_ % 2 == 0 else trials[::-1], Trial.sample)
        return [
            (trial.failure or trial.succeeded(StopReason.INTERLEAVED), trial.has_other_shape)
            for trial in trials
        ]


def _each(trials: Sequence[Trial], step: Callable[[Trial], None]) -> None:
    for trial in trials:
        if trial.failure is None:
            try:
                step(trial)
            except _Failed as error:
                trial.failure = trial.failed(error)


def run_twice(plan: ProgramPlan, job: ProgramJob, keep: Path) -> tuple[list[float], list[Ended]]:
    """Two runs of a configuration, whose outputs are kept in `keep`.0 and `keep`.1; raises
    LaunchFailed, which says what went wrong."""
    with begun(plan, job) as trial:
        try:
            runs = [trial.run(keep.with_name(f"{keep.name}.{k}")) for k in range(2)]
        except _Failed as error:
            raise LaunchFailed(f"{error.outcome}: {error}") from None
    return [time_s for time_s, _ in runs], [ended for _, ended in runs]
