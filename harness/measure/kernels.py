"""Measure kernels on this machine: one process owns the device, others compile for it.

On a GPU, builds overlap the running measurement: they keep one core free, and its times hold no
work of the host. Where kernels run on the CPU, or no core can be kept free, the device waits until
nothing compiles: it would be measured together with the compiler.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

from harness.core.errors import (
    BuildFailed,
    DataDoesNotFit,
    ExpressionError,
    HostModuleError,
    LaunchFailed,
    OutOfDeviceMemory,
)
from harness.core.machine import spare_cores, usable_cores
from harness.core.program import Launch, Program
from harness.core.records import Config, Input, Measurement, Outcome
from harness.measure.backends.choose import Backend
from harness.measure.build_queue import BuildQueue
from harness.measure.child import ChildLost
from harness.measure.clock_tick import GPU_LEAST_TIME_S
from harness.measure.clock_watch import GPU_WARMUP_S
from harness.measure.device_client import DeviceClient
from harness.measure.device_worker import SEARCH_SEED, DeviceWorker, Reply, Together
from harness.measure.flags.fit import fitted_to_backend
from harness.measure.kernel_job import KernelJob, Twin, failed_job
from harness.measure.kernel_proof import PROOF_DATA, ProofRuns
from harness.measure.local import LocalMeasurer
from harness.measure.occasions import Block
from harness.measure.plausibility import FLOOR_S, GPU_FLOOR_S, KernelTimes, Proofs, Refusal
from harness.measure.sensors.choose import energy_notices
from harness.measure.sensors.energy import DEADLINE, ENERGY_S
from harness.measure.sensors.nvml import processes_notice
from harness.measure.verify import Tolerance
from harness.space import Space
from harness.space.launches import make_program
from harness.space_file import Spec

T = TypeVar("T")

_WEAK_TESTS_S = 1.0
"""Weak tests are looked for on the first inputs, for about so long in all."""

_WEAK_TIMEOUT_S = 10.0  # a reference may hang on data that do not fit together

_BROKEN = (Outcome.BUILD_FAILED, Outcome.LAUNCH_FAILED, Outcome.CRASHED, Outcome.TIMEOUT)
"""The outcomes of every kernel where an installation is broken."""

_GPU_DEFAULTS = {"warmup_time_s": GPU_WARMUP_S, "least_time_s": GPU_LEAST_TIME_S}


class KernelMeasurer(LocalMeasurer[Program, KernelJob]):
    """Measure the kernel of a space; a `harness.measure.measurer.Measurer`."""

    def __init__(
        self,
        spec: Spec,
        backend: Backend,
        owner: KernelMeasurer | None = None,
        *,
        equal: KernelMeasurer | None = None,
        devices: int = 1,
        builders: int | None = None,
    ) -> None:
        """Open the device, in the process of `owner` if there is one.

        `equal` is the measurer of an equal device, whose builds this one uses; it must be closed
        later. `devices` is how many measure at once. At most `builders` programs are built at once.
        Raises BackendUnavailable, DeviceBusy where another process measures on the device.
        """
        self._backend = backend
        owned = owner._device if owner else None
        self._device: DeviceClient = DeviceClient(spec.host, backend, owned)
        spare = spare_cores(devices=devices)
        self._owns_builds = equal is None
        try:
            self._facts = self._device.describe()
            disturb = self._facts.shares_cpu or spare == 0
            # Where the device waits for all builds, they may have its cores as well.
            at_once = min(usable_cores() if disturb else spare, builders or usable_cores())
            queue = partial(BuildQueue, at_once=at_once)
            builds = equal._builds if equal else queue(backend, self._facts.environment.compiler)
        except BaseException:
            self._device.close()
            raise
        super().__init__(
            spec,
            builds,
            environment=self._facts.environment,
            limits=self._facts.limits,
            compiler=backend.compiler,
            builds_disturb=disturb,
            defaults=_GPU_DEFAULTS if backend.is_gpu else {},
        )
        self._is_tried = False
        self._proofs = Proofs()
        self._tolerance = Tolerance(spec.verify.rtol, spec.verify.atol)
        self._looked_s: dict[Input, float] = {}  # how long weak tests were looked for
        self._times: KernelTimes = KernelTimes(FLOOR_S if self._facts.shares_cpu else GPU_FLOOR_S)
        sensors = self._facts.sensors
        self.notices: tuple[str, ...] = (
            *processes_notice(self._facts.others),
            *sensors.denied,
            *energy_notices(spec.measure.energy, sensors.no_energy),
        )
        self._energy_s = ENERGY_S * (spec.measure.energy and sensors.no_energy is None)
        if owner:
            self._times.seen_by_any = owner._times.seen_by_any

    @property
    def cuda_compiler(self) -> str:
        """What compiles CUDA kernels: nvcc or nvrtc."""
        return self._backend.cuda_compiler

    def fitted(self, spec: Spec) -> Spec:
        """Return the space without the flags that the device's compiler does not know."""
        compiler, identity = self._backend.compiler, self.environment.compiler
        build = self._builds.finish
        return fitted_to_backend(spec, compiler, self._facts.arch, identity, build)

    def measure(
        self, space: Space, problem: Input, config: Config, best_s: float | None
    ) -> Measurement:
        """Measure a configuration; see LocalMeasurer.measure.

        Raises BackendUnavailable where the first one fails, and on a CPU an empty kernel as well.
        A GPU has run one when it was opened.
        """
        measured = super().measure(space, problem, config, best_s)
        if not self._is_tried and not self._backend.is_gpu and measured.outcome in _BROKEN:
            self._device.require_working()
        self._is_tried = True
        if measured.outcome is Outcome.OK:
            self._look_for_weak_tests(problem)
        return measured

    def _look_for_weak_tests(self, problem: Input) -> None:
        """Note what verification would let pass on an input, each weakness once."""
        looked_s = sum(self._looked_s.values())
        if problem in self._looked_s or looked_s > _WEAK_TESTS_S:
            return
        began_s, method, found = time.perf_counter(), DeviceWorker.weak_tests, list[str]()
        with suppress(ChildLost, LaunchFailed, HostModuleError):
            found = self._device.run(
                problem, method, problem, self._tolerance, timeout_s=_WEAK_TIMEOUT_S
            )
        self._looked_s[problem] = time.perf_counter() - began_s
        for text in found:
            if not any(known.endswith(f": {text}.") for known in self.notices):
                self.notices += (f"verify is weak on {problem}: {text}.",)

    def expect(self, space: Space, configs: Iterable[Config]) -> None:
        """Start the builds of these configurations, unless they are on disk or under way."""
        for config in self._due(configs):
            self._builds.start(self._program(space, config))

    def recall(self, problem: Input, measured: Iterable[Measurement]) -> None:
        """Keep earlier measurements, also to compare new times with the default's."""
        measured = list(measured)
        self._times.note(measured)
        super().recall(problem, measured)

    def close(self) -> None:
        """End all worker processes at once."""
        self._device.close()
        if self._owns_builds:
            super().close()

    # ------------------------------------------------------------------------------ preparing

    def _program(self, space: Space, config: Config, problem: Input | None = None) -> Program:
        """Return the program of a configuration, which is the same for all inputs."""
        return make_program(self._spec, space, config, self._backend.language)

    def _job(
        self, space: Space, problem: Input, config: Config, best_s: float | None
    ) -> KernelJob | Measurement:
        try:
            binary = self._built(self._program(space, config))
            launches = self._launched(space, problem, config)
            twin = self._twin(space, problem, config)
        except BuildFailed as error:
            return Measurement(config, problem, Outcome.BUILD_FAILED, message=str(error))
        except ExpressionError as error:
            return Measurement(config, problem, Outcome.ILLEGAL, message=str(error))
        return KernelJob(
            config=config,
            input=problem,
            binary=binary,
            sampling=self._sampling,
            best_s=best_s,
            launches=launches,
            tolerance=self._tolerance,
            arch=self._facts.arch,
            functions=self._spec.functions,
            twin=None if twin is None or twin.is_run_by(binary, launches) else twin,
            energy_s=self._energy_s,
        )

    def _launched(self, space: Space, problem: Input, config: Config) -> tuple[Launch, ...]:
        """Return the one launch of the space; none where the host module yields the launches.

        Raises HostModuleError and ExpressionError.
        """
        names = self._device.argument_names(problem)
        if self._spec.launch is None:
            return ()
        return (space.launch(config, self._spec.functions[0], names),)

    def _twin(self, space: Space, problem: Input, config: Config) -> Twin | None:
        """Return the configuration without flags, where outputs must equal its bit for bit."""
        if not self._spec.is_bit_exact(self._backend.compiler):
            return None
        absent = {p.name: p.default for p in space.parameters if p.role == "flag"}
        other = space.canonical(Config({**config, **absent}))
        if other == config:
            return None
        try:
            binary = self._built(self._program(space, other))
        except BuildFailed as error:
            raise BuildFailed(f"it does not build without flags: {error}") from None
        launches = self._launched(space, problem, other)
        return Twin(other, binary, launches, self._spec.must_be_bit_exact)

    # ------------------------------------------------------------------------------ measuring

    def _run(
        self,
        problem: Input,
        method: Callable[..., Reply[T]],
        *args: object,
        timeout_s: float,
        seed: int = SEARCH_SEED,
    ) -> T:
        """Call a method of DeviceWorker, while nothing compiles if builds disturb times."""
        with self._builds.undisturbed() if self._builds_disturb else nullcontext():
            return self._device.run(problem, method, *args, timeout_s=timeout_s, seed=seed)

    def _measured(self, space: Space, job: KernelJob) -> Measurement:
        timeout_s = self._spec.measure.timeout_s + DEADLINE * job.energy_s
        try:
            measured = self._run(job.input, DeviceWorker.run, job, timeout_s=timeout_s)
        except (ChildLost, LaunchFailed) as error:
            return failed_job(job, error, timeout_s)
        self._times.note([measured])
        return self._plausible(space, job, measured)

    def _measured_interleaved(
        self, space: Space, jobs: Sequence[KernelJob], block: Block
    ) -> list[Measurement]:
        measured = self._interleaved(jobs, block)
        self._times.note(measured, block.seed, is_renewed=True)
        pairs = zip(jobs, measured, strict=True)
        return [self._plausible(space, job, each) for job, each in pairs]

    def _interleaved(self, jobs: Sequence[KernelJob], block: Block) -> list[Measurement]:
        """Measure interleaved; after a fault of the process or of the device, each alone and the
        survivors once more."""
        measured, complete = self._together(jobs, block)
        if complete or len(jobs) == 1:
            return measured
        # Alone, each shows whether it was the one that broke the process or the device.
        alone = [self._together([job], block).measured[0] for job in jobs]
        survivors = [job for job, m in zip(jobs, alone, strict=True) if m.outcome is Outcome.OK]
        if len(survivors) < 2:
            return alone
        again = iter(self._together(survivors, block).measured)
        return [next(again) if m.outcome is Outcome.OK else m for m in alone]

    def _together(self, jobs: Sequence[KernelJob], block: Block) -> Together:
        """Return the measurements; of a lost process, the failure of all."""
        measure = self._spec.measure
        # The timeout of a configuration covers its `repeats` launches and its verification.
        timeout_s = measure.timeout_s * len(jobs) * (1 + block.rounds / measure.repeats)
        run = partial(self._run, jobs[0].input, DeviceWorker.run_interleaved, jobs, block)
        try:
            return run(timeout_s=timeout_s, seed=block.seed)
        except (ChildLost, LaunchFailed) as error:
            return Together([failed_job(job, error, timeout_s) for job in jobs], complete=False)

    # ---------------------------------------------------------------------------- plausibility

    def _plausible(self, space: Space, job: KernelJob, measured: Measurement) -> Measurement:
        default = space.canonical(space.default)
        reason = self._times.why_implausible(measured, default, job.best_s)
        return self._proofs.settle(
            measured, reason, lambda: self._why_unproved(space, job, measured)
        )

    def _why_unproved(self, space: Space, job: KernelJob, measured: Measurement) -> Refusal | None:
        """Build again, and run on new data beside the default until the verdict is clear."""
        try:
            binary = self._builds.rebuild(self._program(space, job.config))
        except BuildFailed as error:
            return Refusal(Outcome.IMPLAUSIBLE, f"a second build failed: {error}")
        if self._builds_disturb:
            self._builds.wait_for_all()
        job = replace(job, binary=binary, best_s=None)
        default, default_s = self._default_beside(space, job)
        runs: ProofRuns | None = None
        for count in PROOF_DATA:
            # It makes its data as well, for which a busy machine may need twice as long as before.
            timeout_s = 4 * self._spec.measure.timeout_s + 2 * self._device.made_s(job.input)
            try:
                run = partial(self._run, job.input, DeviceWorker.prove, job, default, count)
                more = run(timeout_s=count * timeout_s)
            except (ChildLost, LaunchFailed, HostModuleError) as error:
                return _lost_proof(error)
            runs = more if runs is None else runs.with_later(more)
            verdict = runs.judge(measured.time_s, default_s, self._times.overhead_s)
            if verdict.is_clear:
                break
        return verdict.refusal

    def _default_beside(
        self, space: Space, job: KernelJob
    ) -> tuple[KernelJob | None, float | None]:
        """Return the default's job and its seconds; None each where it has not worked."""
        config = space.canonical(space.default)
        default_s = self._times.of(job.input, config)
        default = self._job(space, job.input, config, None) if default_s is not None else None
        return (None, None) if isinstance(default, Measurement) else (default, default_s)


def _lost_proof(error: ChildLost | LaunchFailed | HostModuleError) -> Refusal:
    """Return the refusal of a time whose proof did not end: what ended its process may have been
    chance, and is measured again."""
    outcome = Outcome.IMPLAUSIBLE
    if isinstance(error, ChildLost):
        outcome = Outcome.TIMEOUT if error.hung else Outcome.CRASHED
    elif isinstance(error, OutOfDeviceMemory | DataDoesNotFit):
        outcome = Outcome.OUT_OF_MEMORY
    return Refusal(outcome, f"a second run on other data failed: {error}")
