"""Measure programs on this machine: other processes build them, one runs them, one at a time,
while nothing is built.

A program that prints its own time may print any. So in interleaved rounds, where the default runs
as well, its process must end sooner by at least half of the seconds that it claims to save.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterable, Sequence
from contextlib import ExitStack

from harness.core.errors import BackendUnavailable, BuildFailed, HostModuleError
from harness.core.observations import UNTIMED
from harness.core.records import Config, Input, Measurement, Outcome
from harness.core.text import format_time
from harness.measure.builds.queue import BuildQueue
from harness.measure.claims import unclaimed
from harness.measure.equal_code import EqualCode
from harness.measure.flags import fitted_to_program
from harness.measure.occasions import ONE_OCCASION, Block, over_occasions, split_rounds
from harness.measure.process.child import Child, ChildLost
from harness.measure.programs.building import CommandBuild, backend_of, command_build
from harness.measure.programs.trial import Launched, ProgramJob, ProgramWorker
from harness.measure.sensors.nvml import energy_notices
from harness.space import Space
from harness.space_file import Spec
from harness.stats.timing import time_ratio

_DESCRIBE_TIMEOUT_S = 300.0
_GRACE_S = 60.0
"""For verification and cleaning up, beyond the deadline at which programs are killed."""

_NO_ENERGY = "harness reads it around kernels that it launches itself, on NVIDIA GPUs"


class ProgramMeasurer:
    """Measure the program of a space; a `harness.measure.measurer.Measurer`."""

    is_replay = False

    def __init__(self, spec: Spec, owner: ProgramMeasurer | None = None) -> None:
        """Ask the compiler for its identity, in the process of `owner` if there is one.

        Raises BackendUnavailable where the compiler is missing, UsageError for a space of kernels.
        """
        backend = backend_of(spec)
        self.limits = backend.limits
        self.compiler = backend.compiler
        self.notices = energy_notices(spec.measure.energy, _NO_ENERGY)
        self._spec = spec
        self._plan = backend.plan
        self._references: dict[Input, bytes | None] = {}
        self._equal = EqualCode()
        self._has_measured = False
        self._child: Child = owner._child if owner else Child(ProgramWorker)
        with ExitStack() as opened:
            if owner is None:
                opened.callback(self._child.close)
            try:
                self.environment = self._child.call_again(
                    ProgramWorker.describe, backend, timeout_s=_DESCRIBE_TIMEOUT_S
                )
            except ChildLost as lost:
                raise BackendUnavailable(f"the process that asks the compiler {lost}") from None
            self._builds = BuildQueue(backend, self.environment.compiler)
            opened.callback(self._builds.close)
            self._opened = opened.pop_all()

    def close(self) -> None:
        """End all worker processes at once, unless they are another measurer's."""
        self._opened.close()

    def fitted(self, spec: Spec) -> Spec:
        """Return the space without the flags that the compiler does not know."""
        return fitted_to_program(spec)

    def data_sha256(self, problem: Input, stored: Collection[str]) -> str | None:
        """Return None: a program makes its own data."""
        return None

    def weak_tests(self, problem: Input) -> list[str]:
        """Return nothing: harness does not look for weak tests of programs."""
        return []

    def recall(self, problem: Input, measured: Iterable[Measurement]) -> None:
        """Let configurations of equal code share earlier measurements."""
        for earlier in measured:
            self._equal.add(earlier, self._launched(problem, earlier.config))

    def expect(self, space: Space, configs: Iterable[Config]) -> None:
        """Start the builds of these configurations, unless builds differ from input to input.

        No run begins before all builds have ended. So the first configuration of a command is built
        alone, and is soon measured.
        """
        if self._plan.why_not_built_once(self._spec.features):
            return
        if not self._has_measured:
            configs = itertools.islice(configs, 1)
        for config in configs:
            self._builds.start(self._program(space, Input({}), config))

    def measure(
        self, space: Space, problem: Input, config: Config, best_s: float | None
    ) -> Measurement:
        """Build, run, verify and time a configuration, unless an equal one was measured.

        Every failure of the configuration is an outcome. Raises HostModuleError where the default
        does not work on this input.
        """
        self._take_reference(space, problem)
        job = self._built(space, problem, config)
        self._has_measured = True
        if isinstance(job, Measurement):
            return job
        measured = self._equal.find(problem, config, job.binary.build, job.launched)
        if measured is not None:
            return measured
        timeout_s = job.timeout_s + _GRACE_S
        try:
            with self._builds.undisturbed():
                measured = self._child.call_again(
                    ProgramWorker.measure, job, best_s, timeout_s=timeout_s
                )
        except ChildLost as lost:
            measured = _lost(job, lost)
        self._equal.add(measured, job.launched)
        return measured

    def measure_interleaved(
        self,
        space: Space,
        problem: Input,
        configs: Sequence[Config],
        rounds: int,
        seeds: Sequence[int] = ONE_OCCASION,
    ) -> list[Measurement]:
        """Measure several configurations, one sample of each per round; each of them is run.

        Where the default is among them, a gain that its process does not show is not claimed.
        """
        self._take_reference(space, problem)
        built = [self._built(space, problem, config) for config in configs]
        jobs = [job for job in built if isinstance(job, ProgramJob)]
        of_jobs = iter(over_occasions(jobs, split_rounds(rounds, seeds), self._measure_block))
        measured = [next(of_jobs) if isinstance(job, ProgramJob) else job for job in built]
        default = space.canonical(space.default)
        for of_default in measured:
            if of_default.config == default:
                return [without_unshown_gain(other, of_default) for other in measured]
        return measured

    def _measure_block(self, jobs: Sequence[ProgramJob], block: Block) -> list[Measurement]:
        """Measure several configurations interleaved on one occasion."""
        measure = self._spec.measure
        # The timeout of a configuration covers its `repeats` runs.
        timeout_s = measure.timeout_s * (1 + block.rounds / measure.repeats)
        jobs = [dataclasses.replace(job, timeout_s=timeout_s) for job in jobs]
        timeout_s = timeout_s * len(jobs) + _GRACE_S
        try:
            with self._builds.undisturbed():
                return self._child.call_again(
                    ProgramWorker.measure_interleaved, jobs, block, timeout_s=timeout_s
                )
        except ChildLost as lost:
            return [_lost(job, lost) for job in jobs]

    def _take_reference(self, space: Space, problem: Input) -> None:
        """Run the default on an input, once, for its output; raises HostModuleError."""
        if problem in self._references:
            return
        default = space.canonical(space.default)
        job = self._built(space, problem, default)
        if isinstance(job, Measurement):
            raise HostModuleError(
                f"the default configuration ({default}) does not build, so that no other can be "
                f"compared with it: {job.message}"
            )
        timeout_s = job.timeout_s + _GRACE_S
        try:
            with self._builds.undisturbed():
                self._references[problem] = self._child.call_again(
                    ProgramWorker.take_reference, job, timeout_s=timeout_s
                )
        except ChildLost as lost:
            raise HostModuleError(
                f"the process that runs the default on ({problem}) {lost}"
            ) from None

    def _built(self, space: Space, problem: Input, config: Config) -> ProgramJob | Measurement:
        """Build, and return what the runs need, or the measurement of a failed build."""
        try:
            binary = self._builds.finish(self._program(space, problem, config))
        except BuildFailed as error:
            return Measurement(config, problem, Outcome.BUILD_FAILED, message=str(error))
        return ProgramJob(
            config=config,
            input=problem,
            binary=binary,
            plan=self._plan,
            launched=self._launched(problem, config),
            sampling=self._spec.measure.sampling(),
            timeout_s=self._spec.measure.timeout_s,
            reference=self._references.get(problem),
        )

    def _program(self, space: Space, problem: Input, config: Config) -> CommandBuild:
        """Return what is built for a configuration."""
        device = self.environment.device if self._plan.model.device is not None else ""
        return command_build(self._spec, space, config, problem, device)

    def _launched(self, problem: Input, config: Config) -> Launched:
        """Return the words and the variables of the runs of a configuration."""
        values = {**config, **problem}
        return self._plan.run_words(values), self._plan.variables(values)


def _lost(job: ProgramJob, lost: ChildLost) -> Measurement:
    """Return the end of the process that runs and verifies, as check() may cause it."""
    outcome = Outcome.TIMEOUT if lost.hung else Outcome.CRASHED
    message = f"the process that runs and verifies it {lost}"
    return Measurement(job.config, job.input, outcome, None, job.binary.build, message=message)


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
