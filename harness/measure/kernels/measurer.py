"""Measure kernels on this machine: one process owns the device, others compile for it.

On a GPU, builds overlap the running measurement: they keep one core free, and its times hold no
work of the host. Where kernels run on the CPU, or no core can be kept free, the device waits until
nothing compiles: it would be measured together with the compiler.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress

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
from harness.measure.equal_code import EqualCode
from harness.measure.flags import fitted_to_backend
from harness.measure.kernels.data import BitsOf, KernelJob
from harness.measure.kernels.peak import Amounts, floor_s, rates
from harness.measure.kernels.process import DeviceClient, DeviceWorker
from harness.measure.kernels.trial import Together
from harness.measure.occasions import (
    DATA_SETS,
    ONE_OCCASION,
    SEARCH_SEED,
    Block,
    new_seed,
    over_occasions,
    split_rounds,
)
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


class KernelMeasurer:
    """Measure the kernel of a space; a `harness.measure.measurer.Measurer`."""

    is_replay = False

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
        self._spec = spec
        self._backend = backend
        owned = owner._device if owner else None
        self._device: DeviceClient = DeviceClient(spec.host, backend, owned)
        spare = spare_cores(devices=devices)
        self._owns_builds = equal is None
        try:
            self._facts = self._device.describe()
            self._builds_disturb = self._facts.shares_cpu or spare == 0
            # Where the device waits for all builds, they may have its cores as well.
            at_once = usable_cores() if self._builds_disturb else spare
            compiler = self._facts.environment.compiler
            builds = equal._builds if equal else BuildQueue(backend, compiler, at_once)
        except BaseException:
            self._device.close()
            raise
        self._builds: BuildQueue[Program] = builds
        self.environment = self._facts.environment
        self.limits = self._facts.limits
        self.compiler = backend.compiler
        self.notices: tuple[str, ...] = (
            *self._facts.notices,
            *energy_notices(spec.measure.energy, self._facts.no_energy),
        )
        self.peak: Amounts = {}
        """What the device does at most; nothing where that is not known."""

        defaults = dict(_GPU_DEFAULTS) if backend.is_gpu else {}
        self._waits_s = 0.0  # for a sustained clock, in one measurement
        if backend.clock == SUSTAINED:
            defaults["warmup_time_s"] = SUSTAINED_S
            self._waits_s = LONGEST_SUSTAINING_S
        self._sampling = spec.measure.sampling(defaults)
        self._tolerance = Tolerance(spec.verify.rtol, spec.verify.atol)
        self._floor_s = FLOOR_S if self._facts.shares_cpu else GPU_FLOOR_S
        measures_energy = spec.measure.energy and self._facts.no_energy is None
        self._energy_s = ENERGY_S if measures_energy else 0.0

        self._has_measured = False
        self._programs: dict[Config, Program] = {}  # of expected configurations
        self._works = backend.is_gpu  # which has run an empty kernel when it was opened
        self._equal = EqualCode()
        self._recalled: dict[Input, list[Measurement]] = {}
        self._times_s: dict[tuple[Input, Config], float] = {}
        self._believed: set[tuple[Input, Config]] = set()  # of times that are too good, otherwise
        self._looked_s = 0.0  # how long weak tests were looked for
        self._weak: list[str] = []

    # ---------------------------------------------------------------------------- what it is asked

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

    def expect(self, space: Space, configs: Iterable[Config]) -> None:
        """Start the builds of these configurations, unless they are on disk or under way.

        Where times wait for all builds, the first configuration of a command is built alone, so
        that its time is soon known.
        """
        for config in configs:
            self._programs[config] = self._program(space, config)
            self._builds.start(self._programs[config])
            if self._builds_disturb and not self._has_measured:
                break

    def recall(self, problem: Input, measured: Iterable[Measurement]) -> None:
        """Remember earlier measurements, to which new ones are compared."""
        for each in measured:
            self._note(each)
            self._recalled.setdefault(problem, []).append(each)

    def data_sha256(self, problem: Input, stored: Collection[str]) -> str | None:
        return self._device.data_sha256(problem, stored)

    def weak_tests(self, problem: Input) -> list[str]:
        if self._looked_s > _WEAK_TESTS_S:
            return []
        began_s = time.perf_counter()
        weaknesses: list[str] = []
        with suppress(ChildLost, LaunchFailed, HostModuleError):
            weaknesses = self._device.run(
                DeviceWorker.weak_tests, problem, self._tolerance, timeout_s=_WEAK_TIMEOUT_S
            )
        self._looked_s += time.perf_counter() - began_s
        new = [text for text in weaknesses if text not in self._weak]
        self._weak += new
        return new

    def close(self) -> None:
        """End all worker processes at once, unless they are another measurer's."""
        self._device.close()
        if self._owns_builds:
            self._builds.close()

    # ------------------------------------------------------------------------ measuring one by one

    def measure(
        self, space: Space, problem: Input, config: Config, best_s: float | None
    ) -> Measurement:
        """Build a configuration; launch, verify and time it, unless one of equal code was measured.
        A time that is too good is measured again on new data.

        Every failure of the configuration is an outcome. Raises HostModuleError where nothing can
        be measured on this input, and BackendUnavailable where not even an empty kernel runs.
        """
        job = self._job(space, problem, config, best_s)
        self._has_measured = True
        if isinstance(job, Measurement):
            return self._completed(job)
        self._use_recalled(space, problem)
        measured = self._equal.find(problem, config, job.binary.build, job.launches)
        if measured is None:
            measured = self._run(DeviceWorker.run, job, self._waits_s)
            self._note(measured)
            reason = self._why_too_good(space, measured, best_s)
            if reason is not None:
                measured = self._measured_again(space, measured, reason)
            self._equal.add(measured, job.launches)
        return self._completed(measured)

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
        sampling = dataclasses.replace(job.sampling, warmup_time_s=SUSTAINED_S)
        job = dataclasses.replace(job, sampling=sampling)
        return self._run(DeviceWorker.run_sustained, job, LONGEST_SUSTAINING_S)

    def _run(
        self, method: Callable[..., Measurement], job: KernelJob, waits_s: float
    ) -> Measurement:
        """Measure one configuration with a method of the worker, which waits so long for a
        sustained clock; the loss of the process is an outcome."""
        timeout_s = self._spec.measure.timeout_s + DEADLINE * job.energy_s + waits_s
        try:
            with self._alone():
                return self._device.run(method, job.input, job, timeout_s=timeout_s)
        except (ChildLost, LaunchFailed) as error:
            return job.failed(error, timeout_s)

    def _alone(self) -> AbstractContextManager[None]:
        """Let nothing compile inside the block if builds disturb times."""
        return self._builds.undisturbed() if self._builds_disturb else nullcontext()

    def _note(self, measured: Measurement) -> None:
        if measured.timing is not None:
            self._times_s[measured.input, measured.config] = measured.time_s

    def _use_recalled(self, space: Space, problem: Input) -> None:
        """Let configurations of equal code share the measurements that were recalled."""
        for measured in self._recalled.pop(problem, []):
            with suppress(ExpressionError):  # then it was not launched either
                self._equal.add(measured, self._launches(space, problem, measured.config))

    def _completed(self, measured: Measurement) -> Measurement:
        """Add the digest of the data, and what the work of the space makes of a time.

        Raises BackendUnavailable where the first configuration fails, and an empty kernel as well.
        """
        if not self._works and measured.outcome in _BROKEN:
            self._device.require_working()
        self._works = True
        digest = self._device.digests.get(measured.input)
        observed = measured.observed
        if measured.timing is not None and self._spec.work is not None:
            made = rates(self._spec.work.of(measured.input), self.peak, measured.time_s)
            observed = {**observed, **made}
        return dataclasses.replace(measured, data_sha256=digest, observed=observed)

    # ------------------------------------------------------------------------------------ preparing

    def _job(
        self, space: Space, problem: Input, config: Config, best_s: float | None
    ) -> KernelJob | Measurement:
        """Build a configuration, and return all that its measurement needs; or the measurement of
        one that cannot be built or launched."""
        try:
            job = self._built(space, problem, config)
            same_bits_as = self._same_bits_as(space, problem, config)
            if self._spec.work is not None:
                self._spec.work.of(problem)  # raises where it cannot be computed
        except BuildFailed as error:
            return Measurement(config, problem, Outcome.BUILD_FAILED, message=str(error))
        except ExpressionError as error:
            return Measurement(config, problem, Outcome.ILLEGAL, message=str(error))
        return dataclasses.replace(
            job, best_s=best_s, same_bits_as=same_bits_as, energy_s=self._energy_s
        )

    def _built(self, space: Space, problem: Input, config: Config) -> KernelJob:
        """Build a configuration, and return what its runs need; raises BuildFailed,
        ExpressionError, HostModuleError."""
        return KernelJob(
            config=config,
            input=problem,
            binary=self._binary(space, config, problem),
            sampling=self._sampling,
            launches=self._launches(space, problem, config),
            tolerance=self._tolerance,
            arch=self._facts.arch,
            functions=self._spec.functions,
        )

    def _program(self, space: Space, config: Config) -> Program:
        return make_program(self._spec, space, config, self._backend.language)

    def _binary(self, space: Space, config: Config, problem: Input) -> Binary:
        """Return the build of a configuration; raises BuildFailed."""
        program = self._programs.pop(config, None)
        if program is None:
            program = self._program(space, config)
        return self._builds.finish(program)

    def _launches(self, space: Space, problem: Input, config: Config) -> tuple[Launch, ...]:
        """Return the one launch of the space; none where the host module yields the launches.

        Raises HostModuleError and ExpressionError.
        """
        names = self._device.argument_names(problem)
        if self._spec.launch is None:
            return ()
        return (space.launch(config, self._spec.functions[0], names),)

    def _same_bits_as(self, space: Space, problem: Input, config: Config) -> BitsOf | None:
        """Return the configuration whose outputs must be equal bit for bit: the default, or the
        same one without compiler flags; None where there is none, or it is this one.

        Raises BuildFailed, ExpressionError.
        """
        if not self._spec.is_bit_exact(self._backend.compiler):
            return None
        if self._spec.needs_default_bits:
            name = "the default"
            other = space.canonical(space.default)
        else:
            name = "the same configuration without flags"
            absent = {p.name: p.default for p in space.parameters if p.role == "flag"}
            other = space.canonical(Config({**config, **absent}))
        if other == config:
            return None
        try:
            job = self._built(space, problem, other)
        except BuildFailed as error:
            raise BuildFailed(f"{name}, to compare with, does not build: {error}") from None
        return BitsOf(name, job, self._spec.must_be_bit_exact)

    # ------------------------------------------------------------------------ measuring in rounds

    def measure_interleaved(
        self,
        space: Space,
        problem: Input,
        configs: Sequence[Config],
        rounds: int,
        seeds: Sequence[int] = ONE_OCCASION,
    ) -> list[Measurement]:
        """Measure several configurations, one sample of each per round; each of them is run. Where
        the default is among them, the gain of each must show in the same rounds.
        """
        prepared = [self._job(space, problem, config, None) for config in configs]
        jobs = [job for job in prepared if isinstance(job, KernelJob)]
        measured = iter(over_occasions(jobs, split_rounds(rounds, seeds), self._measured_in_rounds))
        ended = [next(measured) if isinstance(job, KernelJob) else job for job in prepared]
        if SEARCH_SEED not in seeds:
            ended = self._with_shown_gains(space, ended, seeds)
        return [self._completed(each) for each in ended]

    def _with_shown_gains(
        self, space: Space, measured: Sequence[Measurement], seeds: Sequence[int]
    ) -> list[Measurement]:
        """Return measurements of the rounds of the default, where the default is among them: on new
        data, the first runs must show a gain."""
        default_config = space.canonical(space.default)
        default = next((each for each in measured if each.config == default_config), None)
        if default is None:
            return list(measured)
        return [without_unshown_gain(each, default, seeds, self._floor_s) for each in measured]

    def _measured_in_rounds(self, jobs: Sequence[KernelJob], block: Block) -> list[Measurement]:
        """Measure several on one occasion. Where one may have made another's result wrong, measure
        each alone, and those that work once more together."""
        together = self._together(jobs, block)
        if together.is_complete or len(jobs) == 1:
            return together.measured
        alone = [self._together([job], block).measured[0] for job in jobs]
        if all(each.outcome is Outcome.OK for each in alone):
            # None spoils another's data: what was wrong is so at some of its runs.
            for number, each in enumerate(together.measured):
                if each.outcome is Outcome.WRONG_RESULT:
                    alone[number] = each
        working = [n for n, each in enumerate(alone) if each.outcome is Outcome.OK]
        if len(working) < 2:
            return alone
        again = self._together([jobs[number] for number in working], block).measured
        for number, measured in zip(working, again, strict=True):
            # Only the earlier first runs were on data that nothing had run on.
            first_runs_s = alone[number].warmup_s + measured.warmup_s
            alone[number] = dataclasses.replace(measured, warmup_s=first_runs_s)
        return alone

    def _together(self, jobs: Sequence[KernelJob], block: Block) -> Together:
        """Return the measurements; of a lost process, the failure of all."""
        measure = self._spec.measure
        # The timeout of a configuration covers its `repeats` launches and its verification.
        timeout_s = measure.timeout_s * len(jobs) * (1 + block.rounds / measure.repeats)
        timeout_s += self._waits_s
        try:
            with self._alone():
                return self._device.run(
                    DeviceWorker.run_interleaved,
                    jobs[0].input,
                    jobs,
                    block,
                    timeout_s=timeout_s,
                    seed=block.seed,
                )
        except (ChildLost, LaunchFailed) as error:
            return Together([job.failed(error, timeout_s) for job in jobs], is_complete=False)

    # -------------------------------------------------------------------- times that are too good

    def _why_too_good(
        self, space: Space, measured: Measurement, best_s: float | None
    ) -> str | None:
        """Return why a time that would be the best one is measured again; None where it is not."""
        problem, config = measured.input, measured.config
        default = space.canonical(space.default)
        is_best = best_s is None or measured.time_s < best_s
        if measured.timing is None or not is_best or config == default:
            return None
        if (problem, config) in self._believed:
            return None
        work_s = 0.0
        if self._spec.work is not None:
            work_s = floor_s(self._spec.work.of(problem), self.peak)
        default_s = self._times_s.get((problem, default))
        return why_too_good(measured.time_s, default_s, self._floor_s, work_s)

    def _measured_again(self, space: Space, measured: Measurement, reason: str) -> Measurement:
        """Measure on new data, with the default where that works. Where first runs do not show the
        gain, they are the samples."""
        problem = measured.input
        configs = [measured.config]
        default = space.canonical(space.default)
        if (problem, default) in self._times_s:
            configs.append(default)
        seeds = (new_seed(),) * _AGAIN_OCCASIONS
        again, *_ = self.measure_interleaved(space, problem, configs, _AGAIN_ROUNDS, seeds)
        observed = dict(again.observed)
        if OUTPUT_BITS in measured.observed:  # those of the search's data
            observed[OUTPUT_BITS] = measured.observed[OUTPUT_BITS]
        timing = again.timing
        if timing is None:
            message = f"{reason}, but on new data: {again.message}"
        elif UNCLAIMED in observed:
            message = f"{reason}, but {again.message}"
            timing = dataclasses.replace(timing, samples_s=again.warmup_s[:DATA_SETS], occasions=())
        else:
            self._believed.add((problem, measured.config))
            message = f"{reason}; measured again on new data"
        return dataclasses.replace(again, timing=timing, observed=observed, message=message)
