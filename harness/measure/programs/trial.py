"""Measure configurations of a program in a worker process: warm up, then sample until enough.

Every run is verified, and has a folder of its own: nothing is left over in it. A failure of the
configuration is an outcome, never an exception.
"""

from __future__ import annotations

import random
import secrets
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import HostModuleError, LaunchFailed
from harness.core.modules import ImportsApart
from harness.core.observations import UNTIMED
from harness.core.program import Binary
from harness.core.records import (
    Config,
    Environment,
    Input,
    Measurement,
    Outcome,
    StopReason,
    Timing,
)
from harness.measure.failures import RunFailed, outcome_of
from harness.measure.occasions import Block
from harness.measure.process.child import is_from_outside
from harness.measure.process.run_folder import require_room
from harness.measure.programs.building import (
    WORK,
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
from harness.space_file import ProgramPlan
from harness.space_file.program import SEED_MARK
from harness.stats.timing import Sampling

_CLOCKS_APART = 1.05
_CLOCKS_APART_S = 1e-3
"""The seconds that a program reports may exceed those of its process by so much."""

Launched = tuple[tuple[str, ...], tuple[tuple[str, str], ...]]
"""The words of a command, and the names and texts of its variables."""


@dataclass(frozen=True, kw_only=True)
class ProgramJob:
    """What the measurement of a configuration on an input needs.

    `launched` are the words and the variables of its runs, which take `timeout_s` at most in all.
    The outputs must equal the `reference`. It is None where a file, check() or nothing decides
    what is right, and for the runs that take it.
    """

    config: Config
    input: Input
    binary: Binary
    plan: ProgramPlan
    launched: Launched
    sampling: Sampling
    timeout_s: float
    reference: bytes | None


class ProgramWorker:
    """Run programs; the command of a run ends with its process."""

    def __init__(self) -> None:
        self._imports = ImportsApart()
        end_programs_when_terminated()

    def describe(self, backend: CommandBackend) -> Environment:
        """Return the environment; raises BackendUnavailable."""
        return backend.environment()

    def measure(self, job: ProgramJob, best_s: float | None) -> Measurement:
        """Measure one configuration: warm up, then sample until enough. `best_s` is the time of the
        best so far. Raises HostModuleError.
        """
        trial = self._begin(job)
        try:
            trial.warm_up()
            while True:
                trial.sample()
                reason = job.sampling.stop(trial.samples_s, best_s)
                if reason is not None:
                    return trial.succeeded(reason)
        except (LaunchFailed, RunFailed) as error:
            return trial.failed(error)

    def measure_interleaved(self, jobs: Sequence[ProgramJob], block: Block) -> list[Measurement]:
        """Take one sample of each configuration per round, so that drift affects all alike.

        The order in each round is random: no configuration always follows the same other one, or
        meets the same phase of a disturbance. One that fails drops out. Raises HostModuleError.
        """
        trials = [self._begin(job) for job in jobs]
        if block.order == 0:  # each run is a new process: later occasions need no warm-up
            for trial in trials:
                trial.attempt(trial.warm_up)
        rng = random.Random(block.order)
        for _ in range(block.rounds):
            for trial in rng.sample(trials, len(trials)):
                trial.attempt(trial.sample)
        return [trial.failure or trial.succeeded(StopReason.INTERLEAVED) for trial in trials]

    def take_reference(self, job: ProgramJob) -> bytes | None:
        """Run the default configuration twice; return its output, None where no other is compared
        with it.

        Raises HostModuleError where a run fails, or where the second output differs though all
        outputs must equal the first.
        """
        verify = job.plan.verify
        default = f"the default configuration ({job.config})"
        trial = self._begin(job)
        try:
            trial.run()
            reference = trial.output
            trial.run()
        except (LaunchFailed, RunFailed) as error:
            advice = home_advice(job.plan) if isinstance(error, RunFailed) else ""
            raise HostModuleError(
                f"{default} does not work, so that no other can be compared with it: "
                f"{outcome_of(error)}: {error}{advice}"
            ) from None
        if verify.against != "baseline":
            return None
        try:
            Expected(reference, verify, job.plan.model.time).check(trial.output)
        except WrongOutput as error:
            raise HostModuleError(
                f"{default} does not write the same twice: {error}; leave lines that change "
                "out with verify.ignore, or set verify.rtol or verify.atol"
            ) from None
        return reference

    def _begin(self, job: ProgramJob) -> _Trial:
        """Let check() import what lies in the space's folder; raises HostModuleError."""
        self._imports.turn_to(job.plan.folder)
        return _Trial(job)


class _KilledFromOutside(RunFailed):
    """A run was killed by a signal that others send, or for lack of memory."""


class _Trial:
    """The runs of one configuration so far, and the `output` of the last one.

    `_wall_s` counts the seconds of these runs alone: runs of others may come between them.
    """

    def __init__(self, job: ProgramJob) -> None:
        """Raises HostModuleError where the module with check() cannot be loaded."""
        self.samples_s: list[float] = []
        self.output = b""
        self.failure: Measurement | None = None
        self._job = job
        self._warmup_s: list[float] = []
        self._wall_s = 0.0
        self._processes: list[CommandResult] = []  # of the samples
        plan = job.plan
        self._checker = None if plan.host is None else Checker(plan.host)
        file = plan.expected_file(job.input)
        expected = job.reference if file is None else file.read_bytes()
        self._expected: Expected | None = None
        if expected is not None:
            self._expected = Expected(expected, plan.verify, plan.model.time)

    def warm_up(self) -> None:
        """Make the warm-up runs."""
        for _ in range(self._job.sampling.warmup):
            time_s, _ = self.run()
            self._warmup_s.append(time_s)

    def sample(self) -> None:
        """Take one sample, which is one run."""
        time_s, process = self.run()
        self.samples_s.append(time_s)
        self._processes.append(process)

    def attempt(self, step: Callable[[], None]) -> None:
        """Take a step, unless the trial has failed; a failure becomes its outcome."""
        if self.failure is None:
            try:
                step()
            except (LaunchFailed, RunFailed) as error:
                self.failure = self.failed(error)

    def failed(self, error: LaunchFailed | RunFailed) -> Measurement:
        """Return the measurement of a configuration that failed."""
        worst = error.worst if isinstance(error, RunFailed) else None
        return Measurement(
            self._job.config,
            self._job.input,
            outcome_of(error),
            build=self._job.binary.build,
            worst_element=worst,
            message=str(error),
            warmup_s=tuple(self._warmup_s),
            wall_s=self._wall_s,
            host_read=(),
        )

    def succeeded(self, reason: StopReason) -> Measurement:
        """Return the measurement of a configuration whose runs were all right."""
        job = self._job
        processes = self._processes
        observed = {"cpu_s": statistics.median(process.cpu_s for process in processes)}
        left = max(process.left for process in processes)
        if left:
            observed["left_running"] = left
        if job.plan.model.time is not None:
            wall_s = [process.wall_s for process in processes]
            pairs = zip(wall_s, self.samples_s, strict=True)
            observed["process_s"] = statistics.median(wall_s)
            observed[UNTIMED] = statistics.median(whole_s - timed_s for whole_s, timed_s in pairs)
        statistic = job.sampling.statistic
        return Measurement(
            job.config,
            job.input,
            Outcome.OK,
            Timing(tuple(self.samples_s), reason, statistic=statistic),
            job.binary.build,
            warmup_s=tuple(self._warmup_s),
            wall_s=self._wall_s,
            observed=observed,
            host_read=(),
        )

    # --------------------------------------------------------------------------------- one run

    def run(self) -> tuple[float, CommandResult]:
        """Run and verify once, in an empty folder; return the seconds, and how the process ended.

        Raises RunFailed and LaunchFailed, and OSError where the temporary folder is full.
        """
        is_again = False
        while True:
            began_s = time.perf_counter()
            try:
                # What a program has protected stays until harness ends.
                with tempfile.TemporaryDirectory(
                    prefix="run-", ignore_cleanup_errors=True
                ) as folder:
                    return self._run_in(Path(folder))
            except (RunFailed, LaunchFailed) as error:
                require_room()
                # A run that was killed from outside says nothing of the configuration, unless
                # it happens again.
                if is_again or not isinstance(error, _KilledFromOutside):
                    raise
                is_again = True
            finally:
                self._wall_s += time.perf_counter() - began_s

    def _run_in(self, folder: Path) -> tuple[float, CommandResult]:
        """Run and verify once, in this folder; raises _KilledFromOutside as well."""
        job = self._job
        plan = job.plan
        written = Written(folder / WORK, folder)
        written.folder.mkdir()
        for path in plan.files_for(job.input):
            shutil.copy(path, written.folder)
        home = folder / "home"
        home.mkdir()
        # The program's file is there only while it runs: no other one can change it.
        program = folder / "program"
        program.write_bytes(job.binary.data)
        program.chmod(0o700)
        seed = secrets.randbelow(1 << 31)
        marked_words, marked_texts = job.launched
        words = [word.replace(SEED_MARK, str(seed)) for word in marked_words]
        variables = home_variables(home)
        for name, text in marked_texts:
            variables[name] = text.replace(SEED_MARK, str(seed))
        left_s = max(0.0, job.timeout_s - self._wall_s)
        deadline_s = min(left_s, plan.model.limits.deadline_s or left_s)
        try:
            process = run_filled(plan, words, program, folder, deadline_s, variables)
        except CannotStart as error:
            raise LaunchFailed(str(error)) from None
        self._check_end(process, written, deadline_s)
        time_s = process.wall_s
        if plan.model.time is not None:
            time_s = reported_s(plan.model.time, written)
            if time_s > _CLOCKS_APART * process.wall_s + _CLOCKS_APART_S:
                raise LaunchFailed(
                    f"the program reports {time_s:.3g} s, but ended after {process.wall_s:.3g} s; "
                    f"is `unit: {plan.model.time.unit}` of program.time right?"
                )
        try:
            self._verify(written, seed)
        except WrongOutput as error:
            raise WrongOutput(f"{error}{process.left_running}", error.worst) from None
        return time_s, process

    def _check_end(self, process: CommandResult, written: Written, deadline_s: float) -> None:
        """Raise RunFailed or LaunchFailed where a process did not end as it should."""
        if process.unended:
            raise LaunchFailed(
                f"the program left processes running, of which {process.unended} cannot be killed; "
                "kill them before you tune on"
            )
        plan = self._job.plan
        expected = plan.verify.exit_status
        if process.status == expected:
            return
        text = " ".join(written.text(STDERR)[-300:].split())
        last_words = f", with stderr: {text}" if text else ""
        if process.status is None:
            late = f"its runs did not end within {self._job.timeout_s:g} s (measure.timeout_s)"
            if deadline_s == plan.model.limits.deadline_s:
                late = f"a run did not end within {deadline_s:g} s (program.limits.deadline_s)"
            raise RunFailed(Outcome.TIMEOUT, f"{late} and it was killed{last_words}")
        message = f"the program {process.description}"
        if process.status >= 0:
            raise WrongOutput(f"{message}, expected {expected}{last_words}")
        kind = _KilledFromOutside if is_from_outside(-process.status) else RunFailed
        raise kind(Outcome.CRASHED, f"{message}{last_words}")

    def _verify(self, written: Written, seed: int) -> None:
        """Compare and check what a run wrote; raise WrongOutput."""
        verify = self._job.plan.verify
        if verify.against == "baseline" or self._expected is not None:
            self.output = written.content(verify.output)
        if self._expected is not None:
            self._expected.check(self.output)
        if self._checker is not None:
            run = ProgramRun(
                features=dict(self._job.input),
                config=dict(self._job.config),
                folder=written.folder,
                stdout=written.text(STDOUT),
                stderr=written.text(STDERR),
                seed=seed,
            )
            self._checker.check(run)
