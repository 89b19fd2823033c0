"""Measures programs on this machine: builds in builder processes, runs in one process of its own,
one at a time, while nothing is built."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from harness.core.errors import BackendUnavailable, BuildFailed, HostModuleError, UsageError
from harness.core.program import Binary
from harness.core.records import Config, DeviceLimits, Environment, Input, Measurement, Outcome
from harness.measure.build_queue import Builds
from harness.measure.deduplicate import EqualCode
from harness.measure.plausibility import PROOF_RUNS, proved, refused
from harness.measure.processes import Processes, ProcessLost
from harness.measure.programs import proof, worker
from harness.measure.programs.building import CommandBackend, CommandBuild
from harness.measure.programs.proof import Reference
from harness.measure.programs.runner import ProgramJob, ProgramResult
from harness.space import Space
from harness.space_file import ProgramPlan, Spec
from harness.stats.timing import Sampling

_DESCRIBE_TIMEOUT_S = 300.0
_GRACE_S = 60.0
"""For verification and cleaning up, beyond the deadline that programs are killed at."""


def backend_of(spec: Spec) -> CommandBackend:
    """The backend of a space that tunes a program; raises UsageError for one of kernels."""
    if spec.program is None:
        raise UsageError(
            f"{spec.path} tunes a kernel; the command backend runs programs, with `program:` in "
            "place of `kernel:` and `launch:` (docs/programs.md)"
        )
    return CommandBackend(spec.program, spec.program_compiler)


def command_build(spec: Spec, space: Space, config: Config, given: Input) -> CommandBuild:
    """What is built for a configuration; features count where the build names them."""
    plan = _plan(spec)
    # Sorted flag by flag, for the build cache: the words of one flag stay in their order.
    flags = sorted(p.options(config[p.name]) for p in space.parameters if p.role == "flag")
    options = [word for flag in flags for word in flag]
    limits = plan.limits
    return CommandBuild(
        words=plan.build_words({**config, **given}, options) if plan.build else (),
        options=tuple(options),
        texts=tuple(t for s in plan.sources for t in (s.path.name, s.text, *s.includes.values())),
        shell=plan.shell,
        memory_bytes=limits.memory_mb << 20,
        file_bytes=limits.output_mb << 20,
    )


def _plan(spec: Spec) -> ProgramPlan:
    assert spec.program is not None
    return spec.program


class CommandMeasurer:
    """Measures the program of a space; a `harness.measure.kernels.Measurer`."""

    def __init__(self, spec: Spec) -> None:
        """Asks the compiler who it is; raises BackendUnavailable where it is not here, UsageError
        for a space of kernels."""
        self._spec = spec
        self._backend = backend_of(spec)
        self._plan = self._backend.plan
        self._processes = Processes(1)
        try:
            self._facts = self._described()
        except BaseException:
            self._processes.close()
            raise
        self._builds = Builds(self._backend, self._facts.identity, worker.build_program)
        self._folder = tempfile.TemporaryDirectory(prefix="harness-baselines-")
        self._references: dict[Input, Reference | HostModuleError] = {}
        self._recalled: dict[Input, list[Measurement]] = {}
        self._equal: dict[Input, EqualCode] = {}
        self._proofs: set[tuple[Input, Config]] = set()

    @property
    def environment(self) -> Environment:
        """The processor, or what program.device names, with the compiler."""
        return self._facts.environment

    @property
    def limits(self) -> DeviceLimits:
        """The number of cores."""
        return self._backend.limits

    @property
    def compiler(self) -> str | None:
        """The compiler whose flags are tuned; None where none are."""
        return self._backend.compiler

    @property
    def is_replay(self) -> bool:
        """It measures."""
        return False

    def expect(self, space: Space, configs: Iterable[Config]) -> None:
        """Start the builds of these configurations, unless they differ from input to input."""
        if not self._builds_by_input:
            for config in configs:
                self._builds.start(command_build(self._spec, space, config, Input({})))

    @property
    def _builds_by_input(self) -> bool:
        features = set(self._spec.features)
        return any(features & template.names for template in self._plan.build)

    def recall(self, given: Input, measured: Iterable[Measurement]) -> None:
        """Remember them until the first build of the input asks."""
        self._recalled.setdefault(given, []).extend(measured)

    def measure(
        self, space: Space, given: Input, config: Config, best_s: float | None
    ) -> Measurement:
        """Build, run, verify and time, unless the same program has been run with the same words;
        what is too good to be true is proved a second time, or else a wrong result.

        Raises HostModuleError where the default configuration does not work on this input.
        """
        reference = self._reference(space, given)
        binary = self.built(space, config, given)
        if isinstance(binary, Measurement):
            return binary
        job = self._job(given, config, binary, reference)
        equal, key = self._equal_code(given), job.launched
        shared = equal.find(config, binary.build, key)
        if shared is not None:
            return shared
        result = self._measured(dataclasses.replace(job, best_s=best_s))
        found = self._believed(space, job, result, reference)
        equal.add(found, key)
        return found

    def measure_interleaved(
        self, space: Space, given: Input, configs: Sequence[Config], rounds: int
    ) -> list[Measurement]:
        """Measure in turn, one run of each a round; what is too good to be true is proved as in
        `measure`."""
        reference = self._reference(space, given)
        built = [self.built(space, config, given) for config in configs]
        measure = self._spec.measure
        # A configuration's time is enough for its `repeats` runs.
        timeout_s = measure.timeout_s * (1 + rounds / measure.repeats)
        jobs = [
            dataclasses.replace(self._job(given, config, binary, reference), timeout_s=timeout_s)
            for config, binary in zip(configs, built, strict=True)
            if isinstance(binary, Binary)
        ]
        pairs = zip(jobs, self._together(jobs, rounds) if jobs else (), strict=True)
        measured = iter([self._believed(space, job, found, reference) for job, found in pairs])
        return [next(measured) if isinstance(b, Binary) else b for b in built]

    def close(self) -> None:
        """End all worker processes at once."""
        self._processes.close()
        self._builds.close()
        self._folder.cleanup()

    # ---------------------------------------------------------------------------- the baseline

    def _reference(self, space: Space, given: Input) -> Reference:
        """What the default came to on an input; raises HostModuleError, and again whenever it is
        asked again."""
        if given not in self._references:
            try:
                self._references[given] = self._taken(space, given)
            except HostModuleError as error:
                self._references[given] = error
        found = self._references[given]
        if isinstance(found, HostModuleError):
            raise found
        return found

    def _taken(self, space: Space, given: Input) -> Reference:
        default = space.canonical(space.default)
        binary = self.built(space, default, given)
        if isinstance(binary, Measurement):
            raise HostModuleError(
                f"the default configuration ({default}) does not build, and others are held "
                f"against it: {binary.message}"
            )
        job = self._job(given, default, binary, None)
        keep = Path(self._folder.name) / f"{len(self._references)}"
        try:
            reference: Reference = self._run(worker.take_reference, job, keep)
        except ProcessLost as lost:
            raise HostModuleError(
                f"the process that runs the default on ({given}) {lost}"
            ) from None
        return reference

    # ------------------------------------------------------------------------------- measuring

    def built(self, space: Space, config: Config, given: Input) -> Binary | Measurement:
        """What is run, or the measurement of a build that failed; when it is back, nothing is
        being built."""
        build = command_build(self._spec, space, config, given)
        self._builds.start(build)
        self._builds.wait_for_all()
        try:
            return self._builds.finish(build)
        except BuildFailed as error:
            return Measurement(config, given, Outcome.BUILD_FAILED, message=str(error))

    def _job(
        self, given: Input, config: Config, binary: Binary, reference: Reference | None
    ) -> ProgramJob:
        plan, measure = self._plan, self._spec.measure
        values = {**config, **given}
        expected, shape = plan.expected_file(given), None
        if reference is not None and plan.verify.against == "baseline":
            expected = reference.output
        if reference is not None and plan.verify.against == "nothing":
            shape = reference.output
        return ProgramJob(
            config=config,
            input=given,
            binary=binary,
            words=plan.run_words(values),
            variables=plan.variables(values),
            files=plan.files_for(given),
            sampling=Sampling(**measure.model_dump(exclude={"timeout_s"})),
            timeout_s=measure.timeout_s,
            expected=expected,
            shape=shape,
        )

    def _believed(
        self,
        space: Space,
        job: ProgramJob,
        result: ProgramResult,
        reference: Reference,
    ) -> Measurement:
        """The measurement; of what is too good to be true, only where it is true. The default is
        what others are held against: faster than itself it is where the machine was busy."""
        found, has_other_shape = result.measurement, result.has_other_shape
        if found.outcome is not Outcome.OK or job.config == space.default:
            return found
        floor_s = self._facts.floor_s
        doubt = proof.why_doubtful(found, has_other_shape, reference, self._plan, floor_s)
        if doubt is None:
            return found
        key = job.input, job.config
        if key in self._proofs and not has_other_shape:  # one proof of a speed is enough
            return proved(found, doubt)
        if self._plan.verify.against == "nothing" and not reference.has_words:
            why = "nothing can prove it, since the default writes nothing to compare it with"
            return refused(found, doubt, why)
        try:
            binary = self._builds.anew(command_build(self._spec, space, job.config, job.input))
        except BuildFailed as error:
            return refused(found, doubt, f"a second build failed: {error}")
        sampling = dataclasses.replace(job.sampling, repeats=PROOF_RUNS)
        again = self._measured(
            dataclasses.replace(
                job, binary=binary, sampling=sampling, best_s=None, proof=reference.output
            )
        ).measurement
        why_not = proof.why_unproved(again, found, reference)
        if why_not is not None:
            return refused(found, doubt, why_not)
        self._proofs.add(key)
        return proved(found, doubt)

    def _measured(self, job: ProgramJob) -> ProgramResult:
        try:
            found: ProgramResult = self._run(worker.run, job)
        except ProcessLost as lost:
            return ProgramResult(_lost(job, lost))
        return found

    def _together(self, jobs: Sequence[ProgramJob], rounds: int) -> list[ProgramResult]:
        timeout_s = sum(job.timeout_s for job in jobs) + _GRACE_S
        try:
            found: list[ProgramResult] = self._processes.run(
                worker.run_interleaved, self._backend, jobs, rounds, timeout_s=timeout_s
            )
        except ProcessLost as lost:
            return [ProgramResult(_lost(job, lost)) for job in jobs]
        return found

    def _run(self, function: Callable[..., Any], job: ProgramJob, *args: object) -> Any:
        timeout_s = job.timeout_s + _GRACE_S
        return self._processes.run(function, self._backend, job, *args, timeout_s=timeout_s)

    def _equal_code(self, given: Input) -> EqualCode:
        """What is measured of an input, with what is recalled of it."""
        equal = self._equal.setdefault(given, EqualCode())
        for measured in self._recalled.pop(given, []):
            values = {**measured.config, **given}
            equal.add(measured, (self._plan.run_words(values), self._plan.variables(values)))
        return equal

    def _described(self) -> worker.CommandFacts:
        try:
            return self._processes.run(
                worker.describe, self._backend, timeout_s=_DESCRIBE_TIMEOUT_S
            )
        except ProcessLost as lost:
            raise BackendUnavailable(f"the process that asks the compiler {lost}") from None


def _lost(job: ProgramJob, lost: ProcessLost) -> Measurement:
    """The process died that runs and verifies, not the program: as check() may bring about."""
    message = f"the process that runs and verifies it {lost}"
    build = job.binary.build
    return Measurement(job.config, job.input, Outcome.CRASHED, build=build, message=message)
