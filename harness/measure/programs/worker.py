"""What is run in worker processes: builds, and the runs of programs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import HostModuleError, LaunchFailed
from harness.core.program import Binary
from harness.core.records import Environment
from harness.measure.build_cache import BuildCache
from harness.measure.programs.building import CommandBackend, CommandBuild, CommandCompiler
from harness.measure.programs.outputs import Expected, WrongOutput
from harness.measure.programs.proof import Reference, launch_floor_s
from harness.measure.programs.runner import (
    ProgramJob,
    ProgramResult,
    measure_interleaved,
    measure_program,
    run_twice,
)
from harness.measure.programs.sandbox import end_programs_when_terminated

_compiler: CommandCompiler | None = None


@dataclass(frozen=True)
class CommandFacts:
    """What a worker process tells of the machine: what times may be compared with, the compiler,
    and the seconds that a program takes that does nothing."""

    environment: Environment
    identity: str
    floor_s: float


def describe(backend: CommandBackend) -> CommandFacts:
    """Look at the machine; raises BackendUnavailable."""
    identity = backend.open_compiler().identity
    return CommandFacts(backend.environment(identity), identity, launch_floor_s())


def build_program(backend: CommandBackend, build: CommandBuild) -> Binary:
    """Build and keep in the build cache; raises BuildFailed."""
    global _compiler
    end_programs_when_terminated()
    if _compiler is None:
        _compiler = backend.open_compiler()
    binary = _compiler.compile(build)
    BuildCache().put(binary)
    return binary


def run(backend: CommandBackend, job: ProgramJob) -> ProgramResult:
    """See trial.measure; raises HostModuleError."""
    end_programs_when_terminated()
    import scipy.special  # noqa: F401  (for harness.stats.timing, and now: before a clock runs)

    return measure_program(backend.plan, job)


def run_interleaved(
    backend: CommandBackend, jobs: Sequence[ProgramJob], rounds: int
) -> list[ProgramResult]:
    """See trial.measure_interleaved; raises HostModuleError."""
    end_programs_when_terminated()
    return measure_interleaved(backend.plan, jobs, rounds)


def take_reference(backend: CommandBackend, job: ProgramJob, keep: Path) -> Reference:
    """Run the baseline twice; what it writes is what others are held against.

    Raises HostModuleError where it fails, or where its output is not the same twice though that
    of the others is to equal it.
    """
    end_programs_when_terminated()
    plan, told = backend.plan, f"the default configuration ({job.config})"
    first, second = (keep.with_name(f"{keep.name}.{k}") for k in range(2))
    try:
        times_s, ends = run_twice(plan, job, (first, second))
    except LaunchFailed as error:
        why = f"does not work, and others are held against it: {error}"
        raise HostModuleError(f"{told} {why}") from None
    expected = Expected(first.read_bytes(), plan.verify, plan.time)
    if plan.verify.against == "baseline":
        try:
            expected.check(second.read_bytes())
        except WrongOutput as error:
            raise HostModuleError(
                f"{told} does not write the same twice: {error}; leave lines that change out with "
                "verify.ignore, or give verify.rtol or verify.atol"
            ) from None
    return Reference(
        output=first,
        time_s=min(times_s),
        process_s=statistics.median(ended.wall_s for ended in ends),
        has_words=not expected.is_empty,
        has_same_shape=expected.has_shape_of(second.read_bytes()),
    )
