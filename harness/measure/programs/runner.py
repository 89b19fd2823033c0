"""Run configurations of a program, each run in a folder of its own: nothing is left over in it."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from harness.core.errors import HostModuleError, LaunchFailed
from harness.core.modules import ImportsApart
from harness.core.observations import UNTIMED
from harness.core.records import Environment, Measurement, Outcome
from harness.measure.failures import RunFailed, outcome_of
from harness.measure.occasions import Block
from harness.measure.process.child import is_from_outside
from harness.measure.process.run_folder import require_room
from harness.measure.programs.building import (
    CommandBackend,
    home_advice,
    home_variables,
    run_filled,
)
from harness.measure.programs.outputs import (
    Checker,
    Expected,
    ProgramRun,
    Written,
    WrongOutput,
    reported_s,
)
from harness.measure.programs.sandbox import (
    STDERR,
    STDOUT,
    CannotStart,
    CommandResult,
    end_programs_when_terminated,
)
from harness.measure.trial import trial
from harness.measure.trial.trial import Job
from harness.space_file import ProgramPlan
from harness.space_file.program import SEED_MARK

_CLOCKS_APART = 1.05
_CLOCKS_APART_S = 1e-3


@dataclass(frozen=True, kw_only=True)
class ProgramJob(Job):
    """What the measurement of a program needs; the first runs of the default, which take its output
    as the `reference`, have none."""

    plan: ProgramPlan
    timeout_s: float
    reference: bytes | None = None


class _OneRun(NamedTuple):
    """The seconds of a run that was right, how its command ended, and its output where one is
    compared with it."""

    time_s: float
    ended: CommandResult
    output: bytes


class _KilledFromOutside(RunFailed):
    """A run was killed by a signal that others send, or for lack of memory."""


class _ProgramRunner:
    """A `Runner` that runs and verifies one configuration of a program in a folder."""

    tick_s = 0.0

    def __init__(self, job: ProgramJob, folder: Path) -> None:
        self.job = job
        self.host_read = ()
        self.wall_s = 0.0  # of its own runs: other configurations may be interleaved with it
        self._plan = plan = job.plan
        self._folder = folder
        self._samples: list[_OneRun] = []
        self._observed: dict[str, float] = {}
        values = {**job.config, **job.input}
        self._words, self._variables = plan.run_words(values), plan.variables(values)
        self._checker = None if plan.host is None else Checker(plan.host)
        self._expected: Expected | None = None
        file = plan.expected_file(job.input)
        if file is not None:
            self._expected = Expected(file.read_bytes(), plan.verify, plan.model.time)
        elif job.reference is not None and plan.verify.against == "baseline":
            self._expected = Expected(job.reference, plan.verify, plan.model.time)

    def prepare(self) -> Iterator[float]:
        """Make the warm-up runs, which are verified like all others."""
        for _ in range(self.job.sampling.warmup):
            yield self.run_once().time_s

    def run(self) -> float:
        """Run and verify once, for a sample; return the seconds."""
        sample = self.run_once()
        self._samples.append(sample)
        return sample.time_s

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
        ended = [sample.ended for sample in self._samples]
        self._observed = {"cpu_s": statistics.median(each.cpu_s for each in ended)}
        left = max(each.left for each in ended)
        if left:
            self._observed["left_running"] = left
        if self._plan.model.time is not None:
            self._observed["process_s"] = statistics.median(each.wall_s for each in ended)
            untimed_s = [sample.ended.wall_s - sample.time_s for sample in self._samples]
            self._observed[UNTIMED] = statistics.median(untimed_s)

    def check_writes(self) -> None:
        """Do nothing: a program has no arguments in harness's memory."""

    def observed(self) -> dict[str, float]:
        """Return the processor time, that of the process where the program measures itself, and
        the processes that it left running where there are any."""
        return self._observed

    def run_once(self, keeps_output: bool = False) -> _OneRun:
        """Run and verify once; return the output as well where it `keeps_output`.

        Raises RunFailed and LaunchFailed, and OSError where the temporary folder is full.
        """
        try:
            # It says nothing of the configuration, unless it happens again.
            with contextlib.suppress(_KilledFromOutside):
                return self._run_timed(keeps_output)
            return self._run_timed(keeps_output)
        except (RunFailed, LaunchFailed):
            require_room()
            raise

    def _run_timed(self, keeps_output: bool) -> _OneRun:
        began_s = time.perf_counter()
        try:
            # What a program has protected stays, until the command removes its folder.
            with tempfile.TemporaryDirectory(
                prefix="run-", dir=self._folder, ignore_cleanup_errors=True
            ) as folder:
                return self._run(Path(folder), keeps_output)
        finally:
            self.wall_s += time.perf_counter() - began_s

    def _run(self, folder: Path, keeps_output: bool) -> _OneRun:
        written = Written(folder / "work", folder)
        written.folder.mkdir()
        for path in self._plan.files_for(self.job.input):
            shutil.copy(path, written.folder)
        home = folder / "home"
        home.mkdir()
        # The program's file is there only while it runs: no other one can change it.
        program = folder / "program"
        program.write_bytes(self.job.binary.data)
        program.chmod(0o700)
        seed = secrets.randbelow(1 << 31)
        result = self._run_command(written, program, home, seed)
        time_s = self._time_s(written, result)
        try:
            output = written.content(self._plan.verify.output) if keeps_output else b""
            self._verify(written, seed)
            return _OneRun(time_s, result, output)
        except WrongOutput as error:
            raise WrongOutput(f"{error}{result.left_running}", error.worst) from None

    def _run_command(self, written: Written, program: Path, home: Path, seed: int) -> CommandResult:
        """Run the program to its end; raise RunFailed where it did not end as it should."""
        job, plan = self.job, self._plan
        seeded = [word.replace(SEED_MARK, str(seed)) for word in self._words]
        set_by_space = {name: text.replace(SEED_MARK, str(seed)) for name, text in self._variables}
        limits = plan.model.limits
        left_s = job.timeout_s - self.wall_s
        deadline_s = max(0.0, min(left_s, limits.deadline_s or left_s))
        try:
            variables = {**home_variables(home), **set_by_space}
            folders = written.folder, written.streams
            result = run_filled(plan, seeded, program, folders, deadline_s, variables)
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
            raise WrongOutput(message)
        return result

    def _verify(self, written: Written, seed: int) -> None:
        """Compare and check what a run wrote; raise WrongOutput."""
        if self._expected is not None:
            self._expected.check(written.content(self._plan.verify.output))
        if self._checker is not None:
            run = ProgramRun(
                features=dict(self.job.input),
                config=dict(self.job.config),
                folder=written.folder,
                stdout=written.text(STDOUT),
                stderr=written.text(STDERR),
                seed=seed,
            )
            self._checker.check(run)

    def _time_s(self, written: Written, result: CommandResult) -> float:
        if self._plan.model.time is None:
            return result.wall_s
        time_s = reported_s(self._plan.model.time, written)
        if time_s > _CLOCKS_APART * result.wall_s + _CLOCKS_APART_S:
            raise LaunchFailed(
                f"the program reports {time_s:.3g} s, but ended after {result.wall_s:.3g} s; is "
                f"`unit: {self._plan.model.time.unit}` of program.time right?"
            )
        return time_s


def _last_words(written: Written) -> str:
    """Return the end of the program's standard error, for a message."""
    text = " ".join(written.text(STDERR)[-300:].split())
    return f", with stderr: {text}" if text else ""


class ProgramWorker:
    """Run programs; the command of a run ends with its process."""

    def __init__(self) -> None:
        self._imports = ImportsApart()
        end_programs_when_terminated()

    def describe(self, backend: CommandBackend) -> Environment:
        """Return the environment; raises BackendUnavailable."""
        return backend.environment()

    def run(self, job: ProgramJob) -> Measurement:
        """Measure one configuration by itself; raises HostModuleError."""
        with self._opened(job) as runner:
            return trial.measure(runner)

    def run_interleaved(self, jobs: Sequence[ProgramJob], block: Block) -> list[Measurement]:
        """Measure several configurations, one sample of each per round; each has its own deadline.

        Raises HostModuleError.
        """
        with ExitStack() as stack:
            runners = [stack.enter_context(self._opened(job)) for job in jobs]
            return trial.measure_interleaved(runners, block.rounds, block.order)

    def take_reference(self, job: ProgramJob) -> bytes:
        """Run the default configuration twice; return its first output.

        Raises HostModuleError where a run fails, or where the second output differs though all
        outputs must equal the first.
        """
        plan, default = job.plan, f"the default configuration ({job.config})"
        try:
            with self._opened(job) as runner:
                first, second = (runner.run_once(keeps_output=True) for _ in range(2))
        except (LaunchFailed, RunFailed) as error:
            home = home_advice(job.plan) if isinstance(error, RunFailed) else ""
            raise HostModuleError(
                f"{default} does not work, so that no other can be compared with it: "
                f"{outcome_of(error)}: {error}{home}"
            ) from None
        if plan.verify.against == "baseline":
            try:
                Expected(first.output, plan.verify, plan.model.time).check(second.output)
            except WrongOutput as error:
                raise HostModuleError(
                    f"{default} does not write the same twice: {error}; leave lines that change "
                    "out with verify.ignore, or set verify.rtol or verify.atol"
                ) from None
        return first.output

    @contextmanager
    def _opened(self, job: ProgramJob) -> Iterator[_ProgramRunner]:
        """Make a runner in a folder of its own, which is removed afterwards."""
        self._imports.turn_to(job.plan.folder)
        with tempfile.TemporaryDirectory(prefix="program-", ignore_cleanup_errors=True) as folder:
            yield _ProgramRunner(job, Path(folder))
