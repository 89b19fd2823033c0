"""Measure kernels on this machine: one process owns the device, others compile for it.

On a GPU, builds overlap the running measurement: they keep one core free, and its times hold no
work of the host. Where kernels run on the CPU, or no core can be kept free, the device waits until
nothing compiles: it would be measured together with the compiler.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import partial

from harness.core.errors import BuildFailed, ExpressionError, HostModuleError, LaunchFailed
from harness.core.machine import spare_cores, usable_cores
from harness.core.observations import OUTPUT_BITS, UNCLAIMED
from harness.core.program import Binary, Launch, Program
from harness.core.records import BOOST, SUSTAINED, Config, Input, Measurement, Outcome
from harness.measure.builds.queue import BuildQueue
from harness.measure.claims import FLOOR_S, GPU_FLOOR_S, why_too_good, without_unshown_gain
from harness.measure.device.clocks import (
    GPU_LEAST_TIME_S,
    GPU_WARMUP_S,
    LONGEST_SUSTAINING_S,
    SUSTAINED_S,
)
from harness.measure.device.verify import Tolerance
from harness.measure.devices import Backend
from harness.measure.flags import fitted_to_backend
from harness.measure.kernels.data import KernelJob, Twin
from harness.measure.kernels.peak import Amounts, floor_s, rates
from harness.measure.kernels.process import DeviceClient, DeviceWorker, Together
from harness.measure.measurer import LocalMeasurer
from harness.measure.occasions import DATA_SETS, SEARCH_SEED, Block, new_seed
from harness.measure.process.child import ChildLost
from harness.measure.sensors.energy import DEADLINE, ENERGY_S
from harness.measure.sensors.nvml import energy_notices
from harness.space import Space
from harness.space.constrained import make_program
from harness.space_file import Spec

_WEAK_TESTS_S = 1.0
"""Weak tests are looked for on the first inputs, for about so long in all."""

_WEAK_TIMEOUT_S = 10.0  # a reference may hang on data that do not fit together

_BROKEN = (Outcome.BUILD_FAILED, Outcome.LAUNCH_FAILED, Outcome.CRASHED, Outcome.TIMEOUT)
"""The outcomes of every kernel where an installation is broken."""

_AGAIN_ROUNDS, _AGAIN_OCCASIONS = 4, 2  # how a time that is too good is measured again

_GPU_DEFAULTS = {"warmup_time_s": GPU_WARMUP_S, "least_time_s": GPU_LEAST_TIME_S}

_BOOST_S = 0.1
"""A launch that takes longer is at the sustained clock for most of its time."""


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
    ) -> None:
        """Open the device, in the process of `owner` if there is one.

        `equal` is the measurer of an equal device, whose builds this one uses; it must be closed
        later. `devices` is how many measure at once. Raises BackendUnavailable, DeviceBusy where
        another process measures on the device.
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
            at_once = usable_cores() if disturb else spare
            compiler = self._facts.environment.compiler
            builds = equal._builds if equal else BuildQueue(backend, compiler, at_once)
        except BaseException:
            self._device.close()
            raise
        defaults = dict(_GPU_DEFAULTS) if backend.is_gpu else {}
        self._waits_s = 0.0  # for a sustained clock, in one measurement
        if backend.clock == SUSTAINED:
            defaults["warmup_time_s"] = SUSTAINED_S
            self._waits_s = LONGEST_SUSTAINING_S
        super().__init__(
            spec,
            builds,
            environment=self._facts.environment,
            limits=self._facts.limits,
            compiler=backend.compiler,
            builds_disturb=disturb,
            defaults=defaults,
        )
        self.peak: Amounts = {}
        """What the device does at most; nothing where that is not known."""
        self._is_tried = False
        self._tolerance = Tolerance(spec.verify.rtol, spec.verify.atol)
        self._looked_s = 0.0  # how long weak tests were looked for
        self._weak: list[str] = []
        self._floor_s = FLOOR_S if self._facts.shares_cpu else GPU_FLOOR_S
        self._times: dict[tuple[Input, Config], float] = {}
        self._believed: set[tuple[Input, Config]] = set()  # of times that are too good, otherwise
        no_energy = self._facts.no_energy
        self.notices: tuple[str, ...] = (
            *self._facts.notices,
            *energy_notices(spec.measure.energy, no_energy),
        )
        self._energy_s = ENERGY_S * (spec.measure.energy and no_energy is None)

    @property
    def framework(self) -> str | None:
        """The framework whose arrays a Python callable takes; None for other kernels."""
        return self._spec.framework

    @property
    def cuda_compiler(self) -> str:
        """What compiles CUDA kernels: nvcc or nvrtc."""
        return self._backend.cuda_compiler

    def fitted(self, spec: Spec) -> Spec:
        compiler, identity = self._backend.compiler, self.environment.compiler
        return fitted_to_backend(spec, compiler, self._facts.arch, identity, self._builds.finish)

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
        return measured

    def _completed(self, measured: Measurement) -> Measurement:
        """Add the digest of the data, and what the work of the space makes of a time."""
        measured = replace(measured, data_sha256=self._device.digests.get(measured.input))
        if measured.timing is None or self._spec.work is None:
            return measured
        made = rates(self._spec.work.of(measured.input), self.peak, measured.time_s)
        return replace(measured, observed={**measured.observed, **made})

    def weak_tests(self, problem: Input) -> list[str]:
        if self._looked_s > _WEAK_TESTS_S:
            return []
        began_s = time.perf_counter()
        weaknesses: list[str] = []
        with suppress(ChildLost, LaunchFailed, HostModuleError):
            weaknesses = self._device.run(
                problem,
                DeviceWorker.weak_tests,
                problem,
                self._tolerance,
                timeout_s=_WEAK_TIMEOUT_S,
            )
        self._looked_s += time.perf_counter() - began_s
        new = [text for text in weaknesses if text not in self._weak]
        self._weak += new
        return new

    def expect(self, space: Space, configs: Iterable[Config]) -> None:
        """Start the builds of these configurations, unless they are on disk or under way."""
        for config in self._due(configs):
            self._builds.start(self._program(space, config))

    def recall(self, problem: Input, measured: Iterable[Measurement]) -> None:
        """Keep earlier measurements, also to compare new times with the default's."""
        measured = list(measured)
        self._note_times(measured)
        super().recall(problem, measured)

    def data_sha256(self, problem: Input, stored: Collection[str]) -> str | None:
        return self._device.data_sha256(problem, stored)

    def close(self) -> None:
        self._device.close()
        if self._owns_builds:
            super().close()

    # ------------------------------------------------------------------------------ preparing

    def _program(self, space: Space, config: Config, problem: Input | None = None) -> Program:
        """Return the program of a configuration, which is the same for all inputs."""
        return make_program(self._spec, space, config, self._backend.language)

    def _binary(self, space: Space, config: Config, problem: Input) -> Binary:
        """Return the build of a configuration; raises BuildFailed."""
        return self._builds.finish(self._program(space, config))

    def _job(
        self, space: Space, problem: Input, config: Config, best_s: float | None
    ) -> KernelJob | Measurement:
        try:
            binary = self._binary(space, config, problem)
            launches = self._launched(space, problem, config)
            twin = self._twin(space, problem, config)
            if self._spec.work is not None:
                self._spec.work.of(problem)  # raises where it cannot be computed
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
        """Return the configuration whose outputs must be equal bit for bit, where one must."""
        if not self._spec.is_bit_exact(self._backend.compiler):
            return None
        name = "the default" if self._spec.needs_default_bits else Twin.name
        absent = {p.name: p.default for p in space.parameters if p.role == "flag"}
        without_flags = Config({**config, **absent})
        other = space.canonical(space.default if name != Twin.name else without_flags)
        if other == config:
            return None
        try:
            binary = self._binary(space, other, problem)
        except BuildFailed as error:
            raise BuildFailed(f"{name}, to compare with, does not build: {error}") from None
        launches = self._launched(space, problem, other)
        return Twin(other, binary, launches, self._spec.must_be_bit_exact, name)

    # ------------------------------------------------------------------------------ measuring

    def _alone(self) -> AbstractContextManager[None]:
        """Let nothing compile inside the block if builds disturb times."""
        return self._builds.undisturbed() if self._builds_disturb else nullcontext()

    def _measured(self, space: Space, job: KernelJob) -> Measurement:
        measured = self._run(job, DeviceWorker.run, self._waits_s)
        self._note_times([measured])
        reason = self._why_too_good(space, job, measured)
        if reason is None:
            return measured
        again = self._measured_again(space, job, reason)
        bits = {name: value for name, value in measured.observed.items() if name == OUTPUT_BITS}
        return replace(again, observed={**again.observed, **bits})  # those of the search's data

    def measure_sustained(
        self, space: Space, problem: Input, boost: Measurement
    ) -> Measurement | None:
        """Measure a configuration at the clock that a GPU sustains, in two seconds at most, where
        the space measures at boost; None where the clock of its time is sustained already."""
        is_boost = self._backend.is_gpu and self._backend.clock == BOOST
        if not is_boost or boost.time_s > _BOOST_S:
            return None
        job = self._job(space, problem, boost.config, None)
        if isinstance(job, Measurement):
            return job
        job = replace(job, sampling=replace(job.sampling, warmup_time_s=SUSTAINED_S))
        return self._run(job, DeviceWorker.run_sustained, LONGEST_SUSTAINING_S)

    def _run(
        self,
        job: KernelJob,
        method: Callable[[DeviceWorker, KernelJob], Measurement],
        waits_s: float,
    ) -> Measurement:
        """Measure one configuration with a method of the worker, which waits so long for a
        sustained clock; the loss of the process is an outcome."""
        timeout_s = self._spec.measure.timeout_s + DEADLINE * job.energy_s + waits_s
        try:
            with self._alone():
                return self._device.run(job.input, method, job, timeout_s=timeout_s)
        except (ChildLost, LaunchFailed) as error:
            return job.failed(error, timeout_s)

    def _note_times(self, measured: Iterable[Measurement]) -> None:
        self._times |= {(m.input, m.config): m.time_s for m in measured if m.timing}

    def _measured_interleaved(
        self, space: Space, jobs: Sequence[KernelJob], block: Block
    ) -> list[Measurement]:
        # After a fault of the process or of the device, or a result that another may have made
        # wrong, each alone and the survivors once more.
        together = self._together(jobs, block)
        if together.complete or len(jobs) == 1:
            return together.measured
        alone = [self._together([job], block).measured[0] for job in jobs]
        if all(each.outcome is Outcome.OK for each in alone):
            # None spoils another's data: what was wrong is so at some of its runs.
            pairs = zip(together.measured, alone, strict=True)
            alone = [m if m.outcome is Outcome.WRONG_RESULT else each for m, each in pairs]
        survivors = [job for job, m in zip(jobs, alone, strict=True) if m.outcome is Outcome.OK]
        if len(survivors) < 2:
            return alone
        again = iter(self._together(survivors, block).measured)
        return [_after(m, next(again)) if m.outcome is Outcome.OK else m for m in alone]

    def _together(self, jobs: Sequence[KernelJob], block: Block) -> Together:
        """Return the measurements; of a lost process, the failure of all."""
        measure = self._spec.measure
        # The timeout of a configuration covers its `repeats` launches and its verification.
        timeout_s = measure.timeout_s * len(jobs) * (1 + block.rounds / measure.repeats)
        timeout_s += self._waits_s
        run = partial(self._device.run, jobs[0].input, DeviceWorker.run_interleaved, jobs, block)
        try:
            with self._alone():
                return run(timeout_s=timeout_s, seed=block.seed)
        except (ChildLost, LaunchFailed) as error:
            return Together([job.failed(error, timeout_s) for job in jobs], complete=False)

    # ---------------------------------------------------------------------------- plausibility

    def _shown(
        self, measured: Measurement, default: Measurement, seeds: Sequence[int]
    ) -> Measurement:
        """On new data, the first runs must show the gain."""
        if SEARCH_SEED in seeds:
            return measured
        return without_unshown_gain(measured, default, seeds, self._floor_s)

    def _why_too_good(self, space: Space, job: KernelJob, measured: Measurement) -> str | None:
        """Return why a time that would be the best one is measured again; None where it is not."""
        default = space.canonical(space.default)
        is_best = job.best_s is None or measured.time_s < job.best_s
        if measured.timing is None or not is_best or job.config == default:
            return None
        if (job.input, job.config) in self._believed:
            return None
        default_s, work = self._times.get((job.input, default)), self._spec.work
        work_s = 0.0 if work is None else floor_s(work.of(job.input), self.peak)
        return why_too_good(measured.time_s, default_s, self._floor_s, work_s)

    def _measured_again(self, space: Space, job: KernelJob, reason: str) -> Measurement:
        """Measure on new data, beside the default where that works. Where first runs do not show
        the gain, they are the samples."""
        default, seeds = space.canonical(space.default), (new_seed(),) * _AGAIN_OCCASIONS
        configs = [job.config, *([default] if (job.input, default) in self._times else [])]
        again, *_ = self.measure_interleaved(space, job.input, configs, _AGAIN_ROUNDS, seeds)
        if again.timing is None:
            return replace(again, message=f"{reason}, but on new data: {again.message}")
        if UNCLAIMED in again.observed:
            timing = replace(again.timing, samples_s=again.warmup_s[:DATA_SETS], occasions=())
            return replace(again, timing=timing, message=f"{reason}, but {again.message}")
        self._believed.add((job.input, job.config))
        return replace(again, message=f"{reason}; measured again on new data")


def _after(first: Measurement, again: Measurement) -> Measurement:
    """Return a later measurement, with the first runs of the earlier one before its own: only they
    were on data that nothing had run on."""
    return replace(again, warmup_s=(*first.warmup_s, *again.warmup_s))
