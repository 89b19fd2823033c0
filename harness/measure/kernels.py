"""Where measure() runs: one isolated process for the device, others that compile for it.

A kernel that hangs, crashes or exhausts memory takes its process along, never the run: the
process is replaced, and the failure is the outcome of that one configuration. On a GPU,
builds overlap the running measurement; where kernels run on the CPU, the device waits until
nothing compiles, since it would be measured together with the compiler.

Between build and launch stands harness.measure.deduplicate: what would only run the machine code of
another configuration again is not launched.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Sequence

from harness.core.errors import BuildFailed, ExpressionError, HostModuleError, LaunchFailed
from harness.core.program import Binary, Launch, Program
from harness.core.records import Config, DeviceLimits, Environment, Input, Measurement, Outcome
from harness.measure.backends.choose import Backend
from harness.measure.build_queue import Builds
from harness.measure.deduplicate import EqualCode
from harness.measure.device_client import DeviceOwner
from harness.measure.device_worker import prove, run, run_interleaved
from harness.measure.flags.fit import fitted_to_backend
from harness.measure.kernel_runner import KernelJob, Twin
from harness.measure.measurer import Measurer
from harness.measure.plausibility import PROOF_RUNS, Doubts
from harness.measure.processes import ProcessLost
from harness.measure.verify import Tolerance
from harness.space import Space
from harness.space.program import make_program
from harness.space_file import Spec
from harness.stats.timing import Sampling

__all__ = ["LocalMeasurer", "Measurer"]


class LocalMeasurer:
    """Measures on this machine: a device process, and builder processes on the other cores."""

    def __init__(self, spec: Spec, backend: Backend) -> None:
        """Opens the device; raises BackendUnavailable where that fails."""
        self._spec = spec
        self._language = backend.language
        self._compiler = backend.compiler
        self._device = DeviceOwner(spec, backend)
        try:
            self._facts = self._device.describe()
        except BaseException:
            self._device.close()
            raise
        self._builds = Builds(backend, self._facts.compiler)
        self._recalled: dict[Input, list[Measurement]] = {}
        self._equal: dict[Input, EqualCode] = {}
        self._doubts = Doubts()

    @property
    def environment(self) -> Environment:
        """The device, as its own process told it."""
        return self._facts.environment

    @property
    def limits(self) -> DeviceLimits:
        """The device's limits."""
        return self._facts.limits

    @property
    def compiler(self) -> str:
        """The compiler whose flags are tuned."""
        return self._compiler

    @property
    def is_replay(self) -> bool:
        """It measures."""
        return False

    def fitted(self, spec: Spec) -> Spec:
        """The space without the flags that the device's compiler does not know."""
        facts = self._facts
        build = self._builds.finish
        return fitted_to_backend(spec, self._compiler, facts.arch, facts.compiler, build)

    def expect(self, space: Space, configs: Iterable[Config]) -> None:
        """Start the builds of these configurations, unless they are on disk or under way."""
        for config in configs:
            self._expect(space, config)

    def recall(self, given: Input, measured: Iterable[Measurement]) -> None:
        """Remember them until the first build of the input asks."""
        measured = list(measured)
        self._doubts.note(measured)
        self._recalled.setdefault(given, []).extend(measured)

    def measure(
        self, space: Space, given: Input, config: Config, best_s: float | None
    ) -> Measurement:
        """Build, launch, verify and time, unless the machine code has been measured; every
        failure of the configuration is an outcome.

        Raises HostModuleError: without data and a reference nothing can be measured.
        """
        job = self._job(space, given, config, best_s)
        if isinstance(job, Measurement):
            return job
        equal = self._equal_code(space, given)
        shared = equal.find(config, job.binary.build, job.launches)
        if shared is not None:
            return shared
        timeout_s = self._spec.measure.timeout_s
        try:
            measured: Measurement = self._device.run(given, run, (job,), timeout_s)
        except (ProcessLost, LaunchFailed) as error:
            return _failed(job, error, timeout_s)
        self._doubts.note([measured])
        measured = self._believed(space, job, measured, best_s)
        equal.add(measured, job.launches)
        return measured

    def _believed(
        self, space: Space, job: KernelJob, measured: Measurement, best_s: float | None
    ) -> Measurement:
        """The measurement; of what is too good to be true, and would win, only where a second
        build on other data proves it."""

        def again() -> Measurement | str:
            try:
                binary = self._builds.anew(self._program(space, job.config))
            except BuildFailed as error:
                return f"a second build failed: {error}"
            sampling = dataclasses.replace(job.sampling, repeats=PROOF_RUNS)
            other = dataclasses.replace(job, binary=binary, sampling=sampling, best_s=None)
            timeout_s = self._spec.measure.timeout_s
            try:
                if self._facts.shares_cpu:
                    self._builds.wait_for_all()
                args = (self._spec.host, other)
                found: Measurement = self._device.run(job.input, prove, args, timeout_s)
            except (ProcessLost, LaunchFailed, HostModuleError) as error:
                return f"a second run on other data failed: {error}"
            return found

        default = space.canonical(space.default)
        return self._doubts.settled(measured, default, best_s, again)

    def _equal_code(self, space: Space, given: Input) -> EqualCode:
        """What is measured of an input, with what is recalled of it."""
        equal = self._equal.setdefault(given, EqualCode())
        names = self._device.argument_names(given)
        for measured in self._recalled.pop(given, []):
            with contextlib.suppress(ExpressionError):  # it was not launched either
                equal.add(measured, self._launches(space, measured.config, names))
        return equal

    def measure_interleaved(
        self, space: Space, given: Input, configs: Sequence[Config], rounds: int
    ) -> list[Measurement]:
        """Measure in turn; where the process is lost, each alone and the survivors once more."""
        prepared = [self._job(space, given, config, None) for config in configs]
        jobs = [job for job in prepared if isinstance(job, KernelJob)]
        found = self._interleaved(given, jobs, rounds) if jobs else []
        self._doubts.note(found)
        pairs = zip(jobs, found, strict=True)
        measured = iter([self._believed(space, job, each, None) for job, each in pairs])
        return [job if isinstance(job, Measurement) else next(measured) for job in prepared]

    def _interleaved(
        self, given: Input, jobs: Sequence[KernelJob], rounds: int
    ) -> list[Measurement]:
        found, complete = self._together(given, jobs, rounds)
        if complete or len(jobs) == 1:
            return found
        # Which of them took the process along shows when each runs alone.
        alone = [self._together(given, [job], rounds)[0][0] for job in jobs]
        survivors = [job for job, m in zip(jobs, alone, strict=True) if m.outcome is Outcome.OK]
        if len(survivors) < 2:
            return alone
        again = iter(self._together(given, survivors, rounds)[0])
        return [next(again) if m.outcome is Outcome.OK else m for m in alone]

    def _together(
        self, given: Input, jobs: Sequence[KernelJob], rounds: int
    ) -> tuple[list[Measurement], bool]:
        """The measurements, and whether they were completed; if not, all have the same failure."""
        measure = self._spec.measure
        # A configuration's time is enough for its `repeats` launches and its verification.
        timeout_s = measure.timeout_s * len(jobs) * (1 + rounds / measure.repeats)
        try:
            return self._device.run(given, run_interleaved, (jobs, rounds), timeout_s), True
        except (ProcessLost, LaunchFailed) as error:
            return [_failed(job, error, timeout_s) for job in jobs], False

    def _job(
        self, space: Space, given: Input, config: Config, best_s: float | None
    ) -> KernelJob | Measurement:
        """Everything that it takes to measure, or the measurement of what failed before."""
        try:
            binary = self._built(space, config)
            names = self._device.argument_names(given)
            launches = self._launches(space, config, names)
            twin = self._twin(space, config, names)
        except BuildFailed as error:
            return Measurement(config, given, Outcome.BUILD_FAILED, message=str(error))
        except LaunchFailed as error:
            return Measurement(config, given, Outcome.LAUNCH_FAILED, message=str(error))
        except ExpressionError as error:
            return Measurement(config, given, Outcome.ILLEGAL, message=str(error))
        verify = self._spec.verify
        sampling = Sampling(**self._spec.measure.model_dump(exclude={"timeout_s"}))
        tolerance = Tolerance(verify.rtol, verify.atol)
        return KernelJob(
            config=config,
            input=given,
            binary=binary,
            launches=launches,
            tolerance=tolerance,
            sampling=sampling,
            best_s=best_s,
            arch=self._facts.arch,
            functions=self._spec.functions,
            twin=None if twin is None or twin.is_run_by(binary, launches) else twin,
        )

    def _twin(self, space: Space, config: Config, names: Sequence[str]) -> Twin | None:
        """The configuration without flags, where its output must be given bit for bit."""
        if not self._spec.is_bit_exact(self._compiler):
            return None
        absent = {p.name: p.default for p in space.parameters if p.role == "flag"}
        other = space.canonical(Config({**config, **absent}))
        if other == config:
            return None
        try:
            binary = self._built(space, other)
        except BuildFailed as error:
            raise BuildFailed(f"it does not build without flags: {error}") from None
        launches = self._launches(space, other, names)
        return Twin(other, binary, launches, self._spec.must_be_bit_exact)

    def _launches(self, space: Space, config: Config, names: Sequence[str]) -> tuple[Launch, ...]:
        """The one launch that the space tells; none where the host module tells them."""
        if self._spec.launch is None:
            return ()
        return (space.launch(config, self._spec.functions[0], names),)

    def _program(self, space: Space, config: Config) -> Program:
        return make_program(self._spec, space, config, self._language)

    def _expect(self, space: Space, config: Config) -> Program:
        program = self._program(space, config)
        self._builds.start(program)
        return program

    def _built(self, space: Space, config: Config) -> Binary:
        program = self._expect(space, config)
        if self._facts.shares_cpu:
            self._builds.wait_for_all()
        return self._builds.finish(program)

    def close(self) -> None:
        """End all worker processes at once."""
        self._device.close()
        self._builds.close()


def _failed(job: KernelJob, error: ProcessLost | LaunchFailed, timeout_s: float) -> Measurement:
    """What it means for a configuration that its process was lost, or did not take the data."""
    wall_s = 0.0
    if isinstance(error, LaunchFailed):
        outcome, message = Outcome.LAUNCH_FAILED, str(error)
    elif error.hung:
        outcome, wall_s = Outcome.TIMEOUT, timeout_s
        message = f"it did not end within {timeout_s:g} s and was killed (measure.timeout_s)"
    else:
        outcome, message = Outcome.CRASHED, f"the kernel's process {error}"
    return Measurement(
        job.config,
        job.input,
        outcome,
        build=job.binary.build,
        message=message,
        wall_s=wall_s,
        observed=job.observed(),
    )
