"""Measure programs on this machine: other processes build them, one runs them, one at a time,
while nothing is built.

A program that prints its own time may print any. So in interleaved rounds, where the default runs
beside it, its process must end sooner by at least half of the seconds that it claims to save.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import TypeVar

from harness.core.errors import BackendUnavailable, BuildFailed, HostModuleError
from harness.core.observations import UNTIMED
from harness.core.program import Binary
from harness.core.records import Config, Input, Measurement, Outcome
from harness.core.text import format_time
from harness.measure.builds.queue import BuildQueue
from harness.measure.claims import unclaimed
from harness.measure.flags import fitted_to_program
from harness.measure.measurer import LocalMeasurer
from harness.measure.occasions import Block
from harness.measure.process.child import Child, ChildLost
from harness.measure.programs.building import CommandBuild, backend_of, command_build
from harness.measure.programs.runner import ProgramJob, ProgramWorker
from harness.measure.sensors.nvml import energy_notices
from harness.space import Space
from harness.space_file import Spec
from harness.stats.timing import time_ratio

_DESCRIBE_TIMEOUT_S = 300.0
_GRACE_S = 60.0
"""For verification and cleaning up, beyond the deadline at which programs are killed."""

_NO_ENERGY = "harness reads it around kernels that it launches itself, on NVIDIA GPUs"

T = TypeVar("T")


class ProgramMeasurer(LocalMeasurer[CommandBuild, ProgramJob]):
    """Measure the program of a space; a `harness.measure.measurer.Measurer`."""

    def __init__(self, spec: Spec, owner: ProgramMeasurer | None = None) -> None:
        """Ask the compiler for its identity, in the process of `owner` if there is one.

        Raises BackendUnavailable where the compiler is missing, UsageError for a space of kernels.
        """
        backend = backend_of(spec)
        self._plan = backend.plan
        self._child: Child = owner._child if owner else Child(ProgramWorker)
        with ExitStack() as opened:
            if owner is None:
                opened.callback(self._child.close)
            try:
                environment = self._child.call_again(
                    ProgramWorker.describe, backend, timeout_s=_DESCRIBE_TIMEOUT_S
                )
            except ChildLost as lost:
                raise BackendUnavailable(f"the process that asks the compiler {lost}") from None
            builds = BuildQueue(backend, environment.compiler)
            self._opened = opened.pop_all()
        self.notices = energy_notices(spec.measure.energy, _NO_ENERGY)
        super().__init__(
            spec,
            builds,
            environment=environment,
            limits=backend.limits,
            compiler=backend.compiler,
            builds_disturb=True,
        )
        self._references: dict[Input, bytes] = {}

    def fitted(self, spec: Spec) -> Spec:
        return fitted_to_program(spec)

    def expect(self, space: Space, configs: Iterable[Config]) -> None:
        """Start the builds of these configurations, unless builds differ from input to input."""
        features = set(self._spec.features)
        if not any(features & template.names for template in self._plan.build):
            for config in self._due(configs):
                self._builds.start(self._program(space, config, Input({})))

    def build(self, space: Space, config: Config, problem: Input) -> Binary | Measurement:
        """Build, or return the measurement of a failed build."""
        try:
            return self._builds.finish(self._program(space, config, problem))
        except BuildFailed as error:
            return Measurement(config, problem, Outcome.BUILD_FAILED, message=str(error))

    def close(self) -> None:
        """End all worker processes at once, unless they are another measurer's."""
        self._opened.close()
        super().close()

    def _call_alone(self, method: Callable[..., T], *args: object, timeout_s: float) -> T:
        """Call a method of ProgramWorker while nothing is built; raises ChildLost as well."""
        with self._builds.undisturbed():
            return self._child.call_again(method, *args, timeout_s=timeout_s)

    # ---------------------------------------------------------------------------- the baseline

    def _reference(self, space: Space, problem: Input) -> bytes:
        """Return the output of the default on an input; raises HostModuleError."""
        if problem not in self._references:
            self._references[problem] = self._take_reference(space, problem)
        return self._references[problem]

    def _take_reference(self, space: Space, problem: Input) -> bytes:
        default = space.canonical(space.default)
        binary = self.build(space, default, problem)
        if isinstance(binary, Measurement):
            raise HostModuleError(
                f"the default configuration ({default}) does not build, so that no other can be "
                f"compared with it: {binary.message}"
            )
        job = self._job_of(problem, default, binary)
        timeout_s = job.timeout_s + _GRACE_S
        try:
            return self._call_alone(ProgramWorker.take_reference, job, timeout_s=timeout_s)
        except ChildLost as lost:
            raise HostModuleError(
                f"the process that runs the default on ({problem}) {lost}"
            ) from None

    # ------------------------------------------------------------------------------- preparing

    def _program(self, space: Space, config: Config, problem: Input) -> CommandBuild:
        device = self.environment.device if self._plan.model.device is not None else ""
        return command_build(self._spec, space, config, problem, device)

    def _job(
        self, space: Space, problem: Input, config: Config, best_s: float | None
    ) -> ProgramJob | Measurement:
        reference = self._reference(space, problem)
        binary = self.build(space, config, problem)
        if isinstance(binary, Measurement):
            return binary
        job = self._job_of(problem, config, binary)
        return dataclasses.replace(job, reference=reference, best_s=best_s)

    def _job_of(self, problem: Input, config: Config, binary: Binary) -> ProgramJob:
        """Return what the runs of a reference need."""
        return ProgramJob(
            config=config,
            input=problem,
            binary=binary,
            sampling=self._sampling,
            plan=self._plan,
            timeout_s=self._spec.measure.timeout_s,
        )

    def _launched(self, space: Space, problem: Input, config: Config) -> tuple[object, ...]:
        values = {**config, **problem}
        return self._plan.run_words(values), self._plan.variables(values)

    # ------------------------------------------------------------------------------- measuring

    def _measured(self, space: Space, job: ProgramJob) -> Measurement:
        try:
            return self._call_alone(ProgramWorker.run, job, timeout_s=job.timeout_s + _GRACE_S)
        except ChildLost as lost:
            return _lost(job, lost)

    def _measured_interleaved(
        self, space: Space, jobs: Sequence[ProgramJob], block: Block
    ) -> list[Measurement]:
        measure = self._spec.measure
        # The timeout of a configuration covers its `repeats` runs.
        timeout_s = measure.timeout_s * (1 + block.rounds / measure.repeats)
        # Each run is a new process, which later occasions need not warm up again.
        warmup = 0 if block.order else measure.warmup
        sampling = dataclasses.replace(self._sampling, warmup=warmup)
        jobs = [dataclasses.replace(job, timeout_s=timeout_s, sampling=sampling) for job in jobs]
        timeout_s = sum(job.timeout_s for job in jobs) + _GRACE_S
        try:
            return self._call_alone(ProgramWorker.run_interleaved, jobs, block, timeout_s=timeout_s)
        except ChildLost as lost:
            return [_lost(job, lost) for job in jobs]

    def _shown(
        self, measured: Measurement, default: Measurement, seeds: Sequence[int]
    ) -> Measurement:
        return without_unshown_gain(measured, default)


def _lost(job: ProgramJob, lost: ChildLost) -> Measurement:
    """Return the end of the process that runs and verifies, as check() may cause it."""
    message = f"the process that runs and verifies it {lost}"
    build = job.binary.build
    outcome = Outcome.TIMEOUT if lost.hung else Outcome.CRASHED
    return Measurement(job.config, job.input, outcome, build=build, message=message)


def without_unshown_gain(measured: Measurement, default: Measurement) -> Measurement:
    """Return a measurement of the rounds of the default, marked as UNCLAIMED where the program
    reports a significant gain, and its process does not show half of it."""
    if measured.timing is None or default.timing is None or UNTIMED not in measured.observed:
        return measured
    claimed_s = default.time_s - measured.time_s
    # What a busy machine adds to the timed part lengthens the process alike: only the rest counts.
    saved_s = claimed_s + default.observed[UNTIMED] - measured.observed[UNTIMED]
    if saved_s >= claimed_s / 2 or not time_ratio(default.timing, measured.timing).is_faster:
        return measured
    sooner = f"{format_time(saved_s)} sooner" if saved_s > 0 else "no sooner"
    return unclaimed(
        measured,
        f"the program reports that it saves {format_time(claimed_s)} a run, but its process ends "
        f"{sooner} than the default's; let it report the time of all its work, or write "
        "`time: wall`; if it does, let the timed part be more of its process",
    )
