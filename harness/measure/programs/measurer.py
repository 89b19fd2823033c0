"""Measure programs on this machine: other processes build them, one runs them, one at a time,
while nothing is built."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from harness.core.errors import BackendUnavailable, BuildFailed, HostModuleError, UsageError
from harness.core.flag_file import with_copies
from harness.core.program import Binary
from harness.core.records import Config, Input, Measurement, Outcome
from harness.measure.build_queue import BuildQueue
from harness.measure.flags.fit import fitted_to_program
from harness.measure.local import LocalMeasurer
from harness.measure.occasions import Block
from harness.measure.plausibility import Refusal, failed_proof
from harness.measure.processes import Processes, ProcessLost
from harness.measure.programs import proof
from harness.measure.programs.building import CommandBackend, CommandBuild
from harness.measure.programs.proof import PairedRuns, Reference
from harness.measure.programs.runner import FirstRun, ProgramJob, ProgramResult
from harness.measure.programs.sealed import SealedFile
from harness.measure.programs.worker import ProgramBuildWorker, ProgramWorker
from harness.measure.run_folder import RunFolder
from harness.measure.sensors import energy_notices
from harness.measure.sensors.energy import ENERGY_S
from harness.space import Space
from harness.space_file import Spec

_DESCRIBE_TIMEOUT_S = 300.0
_GRACE_S = 60.0
_NATIVE = re.compile(r"(?:^|[=\s])native\b")
"""For verification and cleaning up, beyond the deadline at which programs are killed."""

_ON_GPU = (
    "the program runs on a GPU (its compiler is nvcc), and harness knows the energy of processors "
    "and of kernels that it launches itself"
)

T = TypeVar("T")


def backend_of(spec: Spec) -> CommandBackend:
    """Return the backend of a space that tunes a program; raises UsageError for kernels."""
    if spec.program is None:
        raise UsageError(
            f"{spec.path} tunes a kernel; the command backend runs programs, with `program:` in "
            "place of `kernel:` and `launch:` (docs/programs.md)"
        )
    return CommandBackend(spec.program, spec.program_compiler)


def command_build(
    spec: Spec, space: Space, config: Config, problem: Input, device: str = ""
) -> CommandBuild:
    """Return what is built for a configuration of a program; features count where the build names
    them, and the device where the build is for the one that is here."""
    plan = backend_of(spec).plan
    # Sorted flag by flag, for the build cache: the words of one flag stay in their order.
    flags = sorted(p.options(config[p.name]) for p in space.parameters if p.role == "flag")
    options = [word for flag in flags for word in flag]
    limits, files = plan.limits, spec.files_of(config)
    passed = with_copies(options, files)
    words = plan.build_words({**config, **problem}, passed) if plan.build else ()
    is_native = any(map(_NATIVE.search, words))
    return CommandBuild(
        words=words,
        options=tuple(options),
        texts=tuple(t for s in plan.sources for t in (s.path.name, s.text, *s.includes.values())),
        shell=plan.shell,
        memory_bytes=limits.memory_mb << 20,
        file_bytes=limits.output_mb << 20,
        device=device if is_native else "",
        files=files,
        timeout_s=limits.build_timeout_s,
    )


class ProgramMeasurer(LocalMeasurer[CommandBuild, ProgramJob]):
    """Measure the program of a space; a `harness.measure.measurer.Measurer`."""

    def __init__(self, spec: Spec, owner: ProgramMeasurer | None = None) -> None:
        """Ask the compiler for its identity, in the process of `owner` if there is one.

        Raises BackendUnavailable where the compiler is missing, UsageError for a space of kernels.
        """
        self._backend = backend = backend_of(spec)
        self._plan = backend.plan
        self._is_guest = owner is not None
        self._processes: Processes = (
            owner._processes if owner else Processes(1, partial(ProgramWorker, backend))
        )
        try:
            facts = self._call(ProgramWorker.describe, timeout_s=_DESCRIBE_TIMEOUT_S)
            builds = BuildQueue(backend, facts.environment.compiler, ProgramBuildWorker)
            self._folder = RunFolder()
        except ProcessLost as lost:
            self._leave_process()
            raise BackendUnavailable(f"the process that asks the compiler {lost}") from None
        except BaseException:
            self._leave_process()
            raise
        self._floor_s = facts.floor_s
        no_energy = _ON_GPU if backend.compiler == "nvcc" else facts.no_energy
        self.notices = energy_notices(spec.measure.energy, no_energy)
        self._energy_s = ENERGY_S if spec.measure.energy and no_energy is None else 0.0
        super().__init__(
            spec,
            builds,
            environment=facts.environment,
            limits=backend.limits,
            compiler=backend.compiler,
            builds_disturb=True,
        )
        self._references: dict[Input, Reference | HostModuleError] = {}
        self._first_runs: dict[tuple[Input, Config], FirstRun] = {}

    def fitted(self, spec: Spec) -> Spec:
        """Return the space without the flags that the program's compiler does not know."""
        return fitted_to_program(spec)

    def expect(self, space: Space, configs: Iterable[Config]) -> None:
        """Start the builds of these configurations, unless builds differ from input to input."""
        if not self._builds_by_input:
            for config in self._due(configs):
                self._builds.start(self._program(space, config, Input({})))

    @property
    def _builds_by_input(self) -> bool:
        features = set(self._spec.features)
        return any(features & template.names for template in self._plan.build)

    def build(self, space: Space, config: Config, problem: Input) -> Binary | Measurement:
        """Build, or return the measurement of a failed build."""
        try:
            return self._built(self._program(space, config, problem))
        except BuildFailed as error:
            return Measurement(config, problem, Outcome.BUILD_FAILED, message=str(error))

    def close(self) -> None:
        """End all worker processes at once, unless they are another measurer's."""
        self._leave_process()
        super().close()
        self._folder.close()

    def _call(self, method: Callable[..., T], *args: object, timeout_s: float) -> T:
        """Call a method of ProgramWorker; raises what it raises, or ProcessLost."""
        serve: Callable[..., T] = ProgramWorker.serve
        return self._processes.run(serve, self._backend, method, *args, timeout_s=timeout_s)

    def _leave_process(self) -> None:
        if not self._is_guest:
            self._processes.close()

    # ---------------------------------------------------------------------------- the baseline

    def _reference(self, space: Space, problem: Input) -> Reference:
        """Return the result of the default on an input; raises HostModuleError at every call."""
        if problem not in self._references:
            try:
                self._references[problem] = self._take_reference(space, problem)
            except HostModuleError as error:
                self._references[problem] = error
        found = self._references[problem]
        if isinstance(found, HostModuleError):
            raise found
        return found

    def _take_reference(self, space: Space, problem: Input) -> Reference:
        default = space.canonical(space.default)
        binary = self.build(space, default, problem)
        if isinstance(binary, Measurement):
            raise HostModuleError(
                f"the default configuration ({default}) does not build, so that no other can be "
                f"compared with it: {binary.message}"
            )
        job = self._job_of(problem, default, binary, None)
        kept = self._folder.path / f"{len(self._references)}"
        timeout_s = job.timeout_s + _GRACE_S
        try:
            return self._call(ProgramWorker.take_reference, job, kept, timeout_s=timeout_s)
        except ProcessLost as lost:
            raise HostModuleError(
                f"the process that runs the default on ({problem}) {lost}"
            ) from None

    # ------------------------------------------------------------------------------- preparing

    def _program(self, space: Space, config: Config, problem: Input) -> CommandBuild:
        device = self.environment.device if self._plan.device is not None else ""
        return command_build(self._spec, space, config, problem, device)

    def _job(
        self, space: Space, problem: Input, config: Config, best_s: float | None
    ) -> ProgramJob | Measurement:
        reference = self._reference(space, problem)
        binary = self.build(space, config, problem)
        if isinstance(binary, Measurement):
            return binary
        job = self._job_of(problem, config, binary, reference)
        return dataclasses.replace(job, best_s=best_s)

    def _job_of(
        self, problem: Input, config: Config, binary: Binary, reference: Reference | None
    ) -> ProgramJob:
        plan = self._plan
        expected: Path | SealedFile | None = plan.expected_file(problem)
        shape = None
        if reference is not None and plan.verify.against == "baseline":
            expected = reference.output
        if reference is not None and plan.verify.against == "nothing":
            shape = reference.output
        words, variables = self._command(problem, config)
        return ProgramJob(
            config=config,
            input=problem,
            binary=binary,
            sampling=self._sampling,
            words=words,
            variables=variables,
            files=plan.files_for(problem),
            timeout_s=self._spec.measure.timeout_s,
            expected=expected,
            shape=shape,
            energy_s=self._energy_s,
        )

    def _command(
        self, problem: Input, config: Config
    ) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
        """Return the words of a run, and its environment variables."""
        values = {**config, **problem}
        return self._plan.run_words(values), self._plan.variables(values)

    def _launched(self, space: Space, problem: Input, config: Config) -> tuple[object, ...]:
        return self._command(problem, config)

    # ------------------------------------------------------------------------------- measuring

    def _measured(self, space: Space, job: ProgramJob) -> Measurement:
        return self._plausible(space, job, self._run(job))

    def _measured_interleaved(
        self, space: Space, jobs: Sequence[ProgramJob], block: Block
    ) -> list[Measurement]:
        results = self._run_interleaved(jobs, block)
        pairs = list(zip(jobs, results, strict=True))
        default = next((r for job, r in pairs if self._is_default(space, job)), None)
        return [self._plausible(space, job, result, default) for job, result in pairs]

    def _run(self, job: ProgramJob) -> ProgramResult:
        try:
            return self._call(ProgramWorker.run, job, timeout_s=job.timeout_s + _GRACE_S)
        except ProcessLost as lost:
            return _lost(job, lost)

    def _run_interleaved(self, jobs: Sequence[ProgramJob], block: Block) -> list[ProgramResult]:
        measure = self._spec.measure
        # The timeout of a configuration covers its `repeats` runs.
        timeout_s = measure.timeout_s * (1 + block.rounds / measure.repeats)
        # Each run is a new process, which later occasions need not warm up again.
        warmup = 0 if block.order else measure.warmup
        sampling = dataclasses.replace(self._sampling, warmup=warmup)
        jobs = [dataclasses.replace(job, timeout_s=timeout_s, sampling=sampling) for job in jobs]
        timeout_s = sum(job.timeout_s for job in jobs) + _GRACE_S
        try:
            return self._call(ProgramWorker.run_interleaved, jobs, block, timeout_s=timeout_s)
        except ProcessLost as lost:
            return [_lost(job, lost) for job in jobs]

    # ---------------------------------------------------------------------------- plausibility

    def _is_default(self, space: Space, job: ProgramJob) -> bool:
        return job.config == space.canonical(space.default)

    def _plausible(
        self,
        space: Space,
        job: ProgramJob,
        result: ProgramResult,
        default: ProgramResult | None = None,
    ) -> Measurement:
        """Return a measurement that is plausible, proved or refused.

        `default` is the result of the default where it ran in the same rounds.
        """
        measured = result.measurement
        # The default itself seems fast where the machine was busy when its reference was taken.
        if measured.outcome is not Outcome.OK or self._is_default(space, job):
            return measured
        paired = None
        if default is not None and default.measurement.outcome is Outcome.OK:
            paired = PairedRuns.of(default, result)
        result = self._with_first_of_all(job, result)
        reference = self._reference(space, job.input)
        speedup = reference.time_s / measured.time_s if paired is None else paired.speedup
        refusal = proof.why_cached(result, reference)
        if paired is not None:
            refusal = paired.why_contradicted() or refusal
        if refusal is not None:
            reason = f"it is {speedup:.3g} times as fast as the default"
            why_not = partial(Refusal, Outcome.IMPLAUSIBLE, refusal)
            return self._proofs.settle(measured, reason, why_not, always=True)
        return self._proofs.settle(
            measured,
            self._why_implausible(space, job, result, paired),
            lambda: self._why_unproved(space, job, measured),
            always=result.has_other_shape,  # a proof of the speed says nothing about the output
        )

    def _with_first_of_all(self, job: ProgramJob, result: ProgramResult) -> ProgramResult:
        """Return a result with the first run of any measurement of this configuration: it may use
        what it has left only from some later measurement on."""
        if result.first is None:
            return result
        key = job.input, job.config
        first = self._first_runs.get(key, result.first).with_later(result.first)
        self._first_runs[key] = first
        return dataclasses.replace(result, first=first)

    def _why_implausible(
        self, space: Space, job: ProgramJob, result: ProgramResult, paired: PairedRuns | None
    ) -> str | None:
        """Return why a time needs a proof; None where it is plausible, or does not win."""
        reference = self._reference(space, job.input)
        reason = proof.why_implausible(result, reference, self._plan, self._floor_s)
        is_settled = paired is not None and paired.is_settled
        wins = job.best_s is None or result.measurement.time_s < job.best_s
        if reason is None and wins and not is_settled:
            return proof.why_doubted(result, reference)
        return reason

    def _why_unproved(self, space: Space, job: ProgramJob, measured: Measurement) -> Refusal | None:
        reference = self._reference(space, job.input)
        if self._plan.verify.against == "nothing" and not reference.has_words:
            reason = "nothing can prove it, since the default writes nothing to compare with"
            return Refusal(Outcome.IMPLAUSIBLE, reason)
        proof_job = dataclasses.replace(job, proof=reference.output)
        return super()._why_unproved(space, proof_job, measured)

    def _run_proof(self, space: Space, job: ProgramJob, measured: Measurement) -> Refusal | None:
        reference = self._reference(space, job.input)
        again = self._run(job)
        if again.measurement.outcome is not Outcome.OK:
            return failed_proof(again.measurement)
        if proof.is_proved(again, measured, reference):
            return None
        return self._why_unproved_paired(space, job, measured)

    def _why_unproved_paired(
        self, space: Space, job: ProgramJob, measured: Measurement
    ) -> Refusal | None:
        """Run a second build beside the default until its speed-up is clear, or often enough."""
        reference = self._reference(space, job.input)
        default = space.canonical(space.default)
        binary = self.build(space, default, job.input)
        if isinstance(binary, Measurement):
            reason = f"the default does not build beside it: {binary.message}"
            return Refusal(Outcome.IMPLAUSIBLE, reason)
        default_job = self._job_of(job.input, default, binary, reference)
        parts: list[PairedRuns] = []
        for number, rounds in enumerate(proof.ROUNDS):
            results = self._run_interleaved([default_job, job], Block(rounds, order=number))
            beside, again = (result.measurement for result in results)
            if again.outcome is not Outcome.OK:
                return failed_proof(again)
            if beside.outcome is not Outcome.OK:
                reason = f"a run of the default beside it failed: {beside.message}"
                return Refusal(Outcome.IMPLAUSIBLE, reason)
            parts.append(PairedRuns.of(*results))
            if proof.joined(parts).is_settled:
                break
        unproved = proof.why_unproved_paired(proof.joined(parts), measured, reference)
        return None if unproved is None else Refusal(Outcome.IMPLAUSIBLE, unproved)


def _lost(job: ProgramJob, lost: ProcessLost) -> ProgramResult:
    """Return the end of the process that runs and verifies, as check() may cause it."""
    message = f"the process that runs and verifies it {lost}"
    build = job.binary.build
    outcome = Outcome.TIMEOUT if lost.hung else Outcome.CRASHED
    measured = Measurement(job.config, job.input, outcome, build=build, message=message)
    return ProgramResult(measured)
