"""The workers of programs: one builds them, one runs them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from harness.core.errors import HostModuleError, LaunchFailed
from harness.core.modules import ImportsApart
from harness.core.records import Environment
from harness.measure.builds.queue import BuildWorker
from harness.measure.programs.building import CommandBackend, CommandBuild
from harness.measure.programs.outputs import Expected, WrongOutput
from harness.measure.programs.proof import Reference
from harness.measure.programs.runner import (
    ProgramJob,
    ProgramResult,
    measure_interleaved,
    measure_program,
    run_twice,
)
from harness.measure.programs.sandbox import end_programs_when_terminated
from harness.measure.sensors.energy import RaplCounter, SensorUnavailable
from harness.measure.trial.occasions import Block
from harness.measure.trial.trial import RunFailed, outcome_of

T = TypeVar("T")


@dataclass(frozen=True)
class ProgramFacts:
    """The environment of times, and why energy cannot be measured, None where it can."""

    environment: Environment
    no_energy: str | None


class ProgramBuildWorker(BuildWorker[CommandBuild]):
    """Build programs; the command of a build ends with its process."""

    def __init__(self, backend: CommandBackend) -> None:
        super().__init__(backend)
        self._backend_here = backend
        end_programs_when_terminated()

    def identity(self) -> str:
        """Return the compiler's identity; raises BackendUnavailable where it is missing."""
        return self._backend_here.open_compiler().identity


class ProgramWorker:
    """Run programs; the command of a run ends with its process."""

    def __init__(self, backend: CommandBackend) -> None:
        self._backend = backend
        self._plan = backend.plan
        self._imports = ImportsApart()
        end_programs_when_terminated()

    def serve(self, backend: CommandBackend, method: Callable[..., T], *args: object) -> T:
        """Call a method for one of the spaces that this process measures."""
        self._backend, self._plan = backend, backend.plan
        self._imports.turn_to(self._plan.folder)
        return method(self, *args)

    def describe(self) -> ProgramFacts:
        """Describe the machine and the compiler; raises BackendUnavailable."""
        identity = self._backend.open_compiler().identity
        return ProgramFacts(self._backend.environment(identity), _why_no_energy())

    def run(self, job: ProgramJob) -> ProgramResult:
        """Measure one configuration; raises HostModuleError."""
        import scipy.special  # noqa: F401  (harness.stats.timing needs it, while a deadline runs)

        return measure_program(self._plan, job)

    def run_interleaved(self, jobs: Sequence[ProgramJob], block: Block) -> list[ProgramResult]:
        """Measure several configurations, one sample of each per round; raises HostModuleError."""
        return measure_interleaved(self._plan, jobs, block.rounds, block.order)

    def take_reference(self, job: ProgramJob) -> Reference:
        """Run the default configuration twice; other outputs are compared with the first.

        Raises HostModuleError where a run fails, or where the second output differs though all
        outputs must equal the first.
        """
        default = f"the default configuration ({job.config})"
        try:
            first, second = run_twice(self._plan, job)
        except (LaunchFailed, RunFailed) as error:
            home = _about_home(job) if isinstance(error, RunFailed) else ""
            raise HostModuleError(
                f"{default} does not work, so that no other can be compared with it: "
                f"{outcome_of(error)}: {error}{home}"
            ) from None
        expected = Expected(first.output, self._plan.verify, self._plan.time)
        if self._plan.verify.against == "baseline":
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


def _why_no_energy() -> str | None:
    try:
        RaplCounter()
    except SensorUnavailable as error:
        return str(error)
    return None


def _about_home(job: ProgramJob) -> str:
    """Return what a program misses that works for its user, for a message."""
    if "HOME" in dict(job.variables):
        return ""
    home = os.environ.get("HOME", "/home/me")
    return (
        "; HOME is an empty folder in each run: where the program needs files of yours, write "
        f"`environment: {{HOME: {home}}}` under `program`"
    )
