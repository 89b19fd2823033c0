"""Run one configuration of a program on one input; every run has a folder of its own, so that
nothing is left over from the run before."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import HostModuleError, LaunchFailed
from harness.core.records import Measurement, Outcome
from harness.measure import trial
from harness.measure.processes import is_from_outside
from harness.measure.programs.building import command_words
from harness.measure.programs.checking import Checker, CheckTimeout, ProgramRun
from harness.measure.programs.outputs import Expected, Written, WrongOutput, reported_s
from harness.measure.programs.sandbox import (
    STDERR,
    STDOUT,
    Bounds,
    CannotStart,
    CommandResult,
    run_command,
)
from harness.measure.programs.sealed import SealedFile
from harness.measure.run_folder import require_room
from harness.measure.sensors.energy import counted, energy_of_runs
from harness.measure.sensors.rapl import RaplCounter
from harness.measure.trial import Job, RunFailed
from harness.space_file import ProgramPlan
from harness.space_file.program_model import ProgramVerify

PROOF_RTOL = 1e-3
_IN_HOME = (
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_RUNTIME_DIR",
)
_CLOCKS_APART = 1.05
_CLOCKS_APART_S = 1e-3


@dataclass(frozen=True, kw_only=True)
class ProgramJob(Job):
    """What the measurement of a program needs.

    The output must equal the file `expected`. It must also equal the file `proof`, within 0.1 %
    where the space sets no tolerance. Of the file `shape` only the words are compared, and an
    output with other words is no failure.
    """

    words: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]
    files: tuple[Path, ...]
    timeout_s: float
    expected: Path | SealedFile | None = None
    proof: SealedFile | None = None
    shape: SealedFile | None = None


@dataclass(frozen=True)
class FirstRun:
    """The seconds of a configuration's first run, and those on processors.

    `elsewhere_bytes` is the most that this or another run has written outside of its folder.
    """

    time_s: float
    cpu_s: float
    elsewhere_bytes: int = 0

    def with_later(self, other: FirstRun) -> FirstRun:
        """Return this run with the most that it or a later one wrote outside of its folder."""
        most = max(self.elsewhere_bytes, other.elsewhere_bytes)
        return dataclasses.replace(self, elsewhere_bytes=most)


@dataclass(frozen=True)
class ProgramResult:
    """A measurement, the seconds of the process of each sample, whether an output had other words
    than the baseline's, the first run of all, and the least that a sample wrote outside of its
    folder."""

    measurement: Measurement
    process_s: tuple[float, ...] = ()
    has_other_shape: bool = False
    first: FirstRun | None = None
    elsewhere_bytes: int = 0


def measure_program(plan: ProgramPlan, job: ProgramJob) -> ProgramResult:
    """Measure one configuration by itself; raises HostModuleError."""
    with opened(plan, job) as runner:
        return runner.result(trial.measure(runner))


def measure_interleaved(
    plan: ProgramPlan, jobs: Sequence[ProgramJob], rounds: int, order: int = 0
) -> list[ProgramResult]:
    """Measure several configurations, one sample of each per round; each has its own deadline.

    `order` seeds their order in each round. Raises HostModuleError.
    """
    with ExitStack() as stack:
        runners = [stack.enter_context(opened(plan, job)) for job in jobs]
        measured = trial.measure_interleaved(runners, rounds, order)
        pairs = zip(measured, runners, strict=True)
        return [runner.result(each) for each, runner in pairs]


def run_twice(
    plan: ProgramPlan, job: ProgramJob, outputs: Sequence[SealedFile]
) -> list[tuple[float, CommandResult]]:
    """Run a configuration once for each file, which keeps the output; return times and results.

    Raises LaunchFailed and RunFailed where a run fails.
    """
    with opened(plan, job) as runner:
        return [runner.run_once(path) for path in outputs]


@contextmanager
def opened(plan: ProgramPlan, job: ProgramJob) -> Iterator[ProgramRunner]:
    """Make a runner in a folder of its own, which is removed afterwards."""
    with _emptied_folder("program-") as folder:
        yield ProgramRunner(plan, job, folder)


@contextmanager
def _emptied_folder(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """Make a folder, and remove it afterwards; what a program has protected, or nested too deep,
    stays."""
    folder = tempfile.TemporaryDirectory(prefix=prefix, dir=parent)
    try:
        yield Path(folder.name)
    finally:
        with contextlib.suppress(OSError, RecursionError):
            folder.cleanup()


class _KilledFromOutside(RunFailed):
    """A run was killed by a signal that others send, or for lack of memory."""


class ProgramRunner:
    """A `Runner` that runs and verifies one configuration of a program in a folder."""

    tick_s = 0.0

    def __init__(self, plan: ProgramPlan, job: ProgramJob, folder: Path) -> None:
        self.job = job
        self.has_other_shape = False
        self.host_read = ()
        self.wall_s = 0.0  # of its own runs: other configurations may be interleaved with it
        self._plan = plan
        self._folder = folder
        self._results: list[CommandResult] = []
        self._observed: dict[str, float] = {}
        self._first: FirstRun | None = None
        tight = plan.verify
        loose = tight.model_copy(update={"rtol": PROOF_RTOL}) if tight.rtol is None else tight
        wanted = [(job.expected, tight), (job.proof, loose)]
        self._counter = RaplCounter() if job.energy_s else None
        self._expected = [self._read(path, verify) for path, verify in wanted if path]
        self._shape = self._read(job.shape, tight) if job.shape else None
        self._checker = None if plan.host is None else Checker(plan.host)
        self._program = folder / "program"
        self._program.write_bytes(job.binary.data)
        self._program.chmod(0o700)
        self._as_made = _version_of(self._program)

    def _read(self, path: Path | SealedFile, verify: ProgramVerify) -> Expected:
        return Expected(path.read_bytes(), verify, self._plan.time)

    def prepare(self) -> Iterator[float]:
        """Make the warm-up runs, which are verified like all others."""
        for _ in range(self.job.sampling.warmup):
            yield self.run_once()[0]

    def run(self) -> float:
        """Run and verify once, for a sample; return the seconds."""
        time_s, result = self.run_once()
        self._results.append(result)
        return time_s

    def is_warm(self) -> bool:
        """Say yes: a program's device is not watched."""
        return True

    def keeps_sample(self) -> bool:
        """Say yes: all samples of programs are kept."""
        return True

    def verify(self) -> None:
        """Do nothing: every run was verified."""

    def finish(self) -> None:
        """Keep what was observed of the samples: every run was verified."""
        self._observed = {"cpu_s": statistics.median(r.cpu_s for r in self._results)}
        left = max(r.left for r in self._results)
        if left:
            self._observed["left_running"] = left
        if self._plan.time is not None:
            self._observed["process_s"] = statistics.median(r.wall_s for r in self._results)
        self._observed |= energy_of_runs([(r.wall_s, r.energy_j) for r in self._results])

    def check_writes(self) -> None:
        """Do nothing: a program has no arguments in harness's memory."""

    def observed(self) -> dict[str, float]:
        """Return the processor time, that of the process where the program measures itself, how
        many processes it left running where it did, and the energy where it is measured."""
        return self._observed

    def result(self, measurement: Measurement) -> ProgramResult:
        """Return a measurement of this runner with what only its runs know."""
        process_s = tuple(result.wall_s for result in self._results)
        least = min((result.elsewhere_bytes for result in self._results), default=0)
        return ProgramResult(measurement, process_s, self.has_other_shape, self._first, least)

    def run_once(self, output: SealedFile | None = None) -> tuple[float, CommandResult]:
        """Run and verify once; return the seconds and how the command ended.

        Keeps the run's output in a file where one is named. Raises RunFailed and LaunchFailed, and
        OSError where the temporary folder is full.
        """
        try:
            try:
                return self._run_timed(output)
            except _KilledFromOutside:
                # It says nothing of the configuration, unless it happens again.
                return self._run_timed(output)
        except (RunFailed, LaunchFailed):
            require_room()
            raise

    def _run_timed(self, output: SealedFile | None) -> tuple[float, CommandResult]:
        began_s = time.perf_counter()
        try:
            with _emptied_folder("run-", self._folder) as folder:
                timed = self._run(folder, output)
        finally:
            self.wall_s += time.perf_counter() - began_s
        if folder.exists():
            raise LaunchFailed(
                f"harness cannot remove what the program left in {folder}, such as immutable "
                "files; remove it yourself"
            )
        return timed

    def _run(self, folder: Path, output: SealedFile | None) -> tuple[float, CommandResult]:
        written = Written(folder / "work", folder)
        written.folder.mkdir()
        for path in self.job.files:
            shutil.copy(path, written.folder)
        home = folder / "home"
        home.mkdir()
        result = self._run_command(written, home)
        left_s = self.job.timeout_s - self.wall_s - result.wall_s
        try:
            if output is not None:
                output.write_bytes(written.content(self._plan.verify.output))
            self._verify(written, left_s)
            time_s = self._time_s(written, result)
            run = FirstRun(time_s, result.cpu_s, result.elsewhere_bytes)
            self._first = run if self._first is None else self._first.with_later(run)
            return time_s, result
        except CheckTimeout as error:
            raise RunFailed(Outcome.TIMEOUT, str(error)) from None
        except WrongOutput as error:
            message = f"{error}{_left_running(result)}"
            raise RunFailed(Outcome.WRONG_RESULT, message, error.worst) from None

    def _run_command(self, written: Written, home: Path) -> CommandResult:
        """Run the program to its end; raise RunFailed where it did not end as it should."""
        job, plan = self.job, self._plan
        if _version_of(self._program) != self._as_made:
            raise HostModuleError(
                f"{self._program}: somebody changed or removed this file, the program of "
                f"{job.config}; one of the programs that are measured may have done so"
            )
        words = command_words(job.words, plan.shell, self._program, plan.folder)
        limits = plan.limits
        left_s = job.timeout_s - self.wall_s
        deadline_s = max(0.0, min(left_s, limits.deadline_s or left_s))
        bounds = Bounds(limits.memory_mb << 20, limits.output_mb << 20, deadline_s)
        try:
            variables = {**home_variables(home), **dict(job.variables)}
            with counted(self._counter) as energy:
                result = run_command(words, written.folder, written.streams, bounds, variables)
            result = dataclasses.replace(result, energy_j=energy.passed_j)
        except CannotStart as error:
            raise LaunchFailed(str(error)) from None
        if result.unended:
            raise LaunchFailed(
                f"the program left processes running, of which {result.unended} cannot be killed; "
                "kill them before you tune on"
            )
        if result.status is None:
            is_own = limits.deadline_s is not None and limits.deadline_s <= left_s
            what = (
                f"a run did not end within {deadline_s:g} s (program.limits.deadline_s)"
                if is_own
                else f"its runs did not end within {job.timeout_s:g} s (measure.timeout_s)"
            )
            message = f"{what} and it was killed{_last_words(written)}"
            raise RunFailed(Outcome.TIMEOUT, message)
        if result.status < 0:
            message = f"the program {result.description}{_last_words(written)}"
            kind = _KilledFromOutside if is_from_outside(-result.status) else RunFailed
            raise kind(Outcome.CRASHED, message)
        if result.status != plan.verify.exit_status:
            expected = f", expected {plan.verify.exit_status}"
            message = f"the program {result.description}{expected}{_last_words(written)}"
            raise RunFailed(Outcome.WRONG_RESULT, message)
        return result

    def _verify(self, written: Written, timeout_s: float) -> None:
        """Compare and check what a run wrote; raise WrongOutput and CheckTimeout."""
        name = self._plan.verify.output
        for expected in self._expected:
            expected.check(written.content(name))
        if self._checker is not None:
            run = ProgramRun(
                features=dict(self.job.input),
                config=dict(self.job.config),
                folder=written.folder,
                stdout=written.text(STDOUT),
                stderr=written.text(STDERR),
            )
            self._checker.check(run, timeout_s)
        if self._shape is not None and not self._shape.has_shape_of(written.content(name)):
            self.has_other_shape = True

    def _time_s(self, written: Written, result: CommandResult) -> float:
        if self._plan.time is None:
            return result.wall_s
        time_s = reported_s(self._plan.time, written)
        if time_s > _CLOCKS_APART * result.wall_s + _CLOCKS_APART_S:
            raise LaunchFailed(
                f"the program reports {time_s:.3g} s, but ended after {result.wall_s:.3g} s; is "
                f"`unit: {self._plan.time.unit}` of program.time right?"
            )
        return time_s


def home_variables(home: Path) -> dict[str, str]:
    """Return the variables that make a folder the user's home.

    A run could otherwise leave files at home for later runs, also for those of the default.
    """
    moved = ("HOME", *(name for name in _IN_HOME if name in os.environ))
    return dict.fromkeys(moved, str(home))


def _version_of(path: Path) -> tuple[int, int] | None:
    """Return what changes whenever a file is written or replaced, and nobody can set back."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_ctime_ns


def _last_words(written: Written) -> str:
    """Return the end of the program's standard error, for a message."""
    text = " ".join(written.text(STDERR)[-300:].split())
    return f", with stderr: {text}" if text else ""


def _left_running(result: CommandResult) -> str:
    """Return what explains a missing or short output, for a message."""
    if not result.left:
        return ""
    return f"; {result.left} of its processes still ran when it ended, and harness killed them"
