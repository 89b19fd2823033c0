"""The worker of the process that runs programs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from harness.core.errors import HostModuleError, LaunchFailed
from harness.core.modules import ImportsApart
from harness.core.records import Environment, Measurement
from harness.measure.programs.building import CommandBackend
from harness.measure.programs.outputs import Expected, WrongOutput
from harness.measure.programs.runner import ProgramJob, ProgramRunner, Reference, emptied_folder
from harness.measure.programs.sandbox import end_programs_when_terminated
from harness.measure.sensors.energy import RaplCounter, SensorUnavailable
from harness.measure.trial import trial
from harness.measure.trial.occasions import Block
from harness.measure.trial.trial import RunFailed, outcome_of


class ProgramWorker:
    """Run programs; the command of a run ends with its process."""

    def __init__(self) -> None:
        self._imports = ImportsApart()
        end_programs_when_terminated()

    def identity(self, backend: CommandBackend) -> str:
        """Return the compiler's identity; raises BackendUnavailable where it is missing."""
        return backend.identity

    def describe(self, backend: CommandBackend) -> tuple[Environment, str | None]:
        """Return the environment, and why energy cannot be measured, None where it can; raises
        BackendUnavailable."""
        why_no_energy = None
        try:
            RaplCounter()
        except SensorUnavailable as error:
            why_no_energy = str(error)
        return backend.environment(), why_no_energy

    def run(self, job: ProgramJob) -> Measurement:
        """Measure one configuration by itself; raises HostModuleError."""
        import scipy.special  # noqa: F401  (harness.stats.timing needs it, while a deadline runs)

        with self._opened(job) as runner:
            return runner.judged(trial.measure(runner))

    def run_interleaved(self, jobs: Sequence[ProgramJob], block: Block) -> list[Measurement]:
        """Measure several configurations, one sample of each per round; each has its own deadline.

        Raises HostModuleError.
        """
        with ExitStack() as stack:
            runners = [stack.enter_context(self._opened(job)) for job in jobs]
            measured = trial.measure_interleaved(runners, block.rounds, block.order)
            return [runner.judged(m) for runner, m in zip(runners, measured, strict=True)]

    def take_reference(self, job: ProgramJob) -> Reference:
        """Run the default configuration twice; other outputs are compared with the first.

        Raises HostModuleError where a run fails, or where the second output differs though all
        outputs must equal the first.
        """
        plan, default = job.plan, f"the default configuration ({job.config})"
        try:
            with self._opened(job) as runner:
                first, second = (runner.run_once(keeps_output=True) for _ in range(2))
        except (LaunchFailed, RunFailed) as error:
            home = _about_home(job) if isinstance(error, RunFailed) else ""
            raise HostModuleError(
                f"{default} does not work, so that no other can be compared with it: "
                f"{outcome_of(error)}: {error}{home}"
            ) from None
        expected = Expected(first.output, plan.verify, plan.model.time)
        if plan.verify.against == "baseline":
            try:
                expected.check(second.output)
            except WrongOutput as error:
                raise HostModuleError(
                    f"{default} does not write the same twice: {error}; leave lines that change "
                    "out with verify.ignore, or set verify.rtol or verify.atol"
                ) from None
        return Reference(
            output=first.output,
            time_s=min(first.time_s, second.time_s),
            has_words=not expected.is_empty,
            has_same_shape=expected.has_shape_of(second.output),
        )

    @contextmanager
    def _opened(self, job: ProgramJob) -> Iterator[ProgramRunner]:
        """Make a runner in a folder of its own, which is removed afterwards."""
        self._imports.turn_to(job.plan.folder)
        with emptied_folder("program-") as folder:
            yield ProgramRunner(job, folder)


def _about_home(job: ProgramJob) -> str:
    """Return what a program misses that works for its user, for a message."""
    if "HOME" in job.plan.model.environment:
        return ""
    home = os.environ.get("HOME", "/home/me")
    return (
        "; HOME is an empty folder in each run: where the program needs files of yours, write "
        f"`environment: {{HOME: {home}}}` under `program`"
    )
