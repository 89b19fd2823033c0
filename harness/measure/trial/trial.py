"""One configuration on one input while it is measured: verify, warm up, sample, verify again.

A trial runs in the worker process that owns the device. It knows when to run, to verify and to
stop; a `Runner` knows how: `harness.measure.kernels.runner` for kernels,
`harness.measure.programs.runner` for programs. A failure of the configuration is an outcome,
never an exception.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from harness.core.errors import LaunchFailed
from harness.core.observations import CLOCK_ERROR, RUNS_PER_SAMPLE, WorstElement
from harness.core.program import Binary
from harness.core.records import Config, Input, Measurement, Outcome, StopReason, Timing
from harness.measure.device.clocks import clock_error, run_sample
from harness.measure.failures import RunFailed, outcome_of
from harness.stats.timing import Sampling

_LONGEST_WARMUP = 20
"""A device that never becomes warm is sampled after so many times the time of its warm-up."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """What one measurement needs besides the device and the input's data."""

    config: Config
    input: Input
    binary: Binary
    sampling: Sampling
    best_s: float | None = None


class Runner(Protocol):
    """Run one configuration on one input. All but `observed` raise RunFailed or LaunchFailed."""

    @property
    def job(self) -> Job:
        """What is run."""

    @property
    def wall_s(self) -> float:
        """The seconds that the measurement has taken so far."""

    @property
    def tick_s(self) -> float:
        """The step in which the seconds of a run grow; 0 where it is far below any run."""

    @property
    def host_read(self) -> tuple[str, ...]:
        """The parameters that the host module has read, sorted."""

    def prepare(self) -> Iterator[float]:
        """Load, then yield the seconds of each verified run that comes before any sample."""

    def run(self) -> float:
        """Run once, for a sample or to warm up; return the seconds. All runs begin alike."""

    def is_warm(self) -> bool:
        """Say whether the device is ready for a sample."""

    def keeps_sample(self) -> bool:
        """Say, once for each timed run, whether it counts; it does not where the clock was low."""

    def verify(self) -> None:
        """Verify the outputs of the last run, unless `run` has done so."""

    def finish(self) -> None:
        """Gather what was observed, after the last sample and its verification."""

    def check_writes(self) -> None:
        """Check, after all runners have finished, that no run wrote what it may not write."""

    def observed(self) -> dict[str, float]:
        """Return what is known of the configuration besides its times, by name."""


def measure(runner: Runner) -> Measurement:
    """Verify a run, warm up, sample until enough, verify again."""
    trial = _Trial(runner)
    try:
        trial.prepare()
        trial.warm_up()
        reason = trial.sample_until_enough()
        runner.verify()
        runner.finish()
        runner.check_writes()
    except (LaunchFailed, RunFailed) as error:
        return trial.failed(error)
    return trial.succeeded(reason)


def measure_interleaved(
    runners: Sequence[Runner], rounds: int, order: int = 0
) -> list[Measurement]:
    """Take one sample of each configuration per round, so that drift affects all alike.

    The order in each round is random, with the seed `order`: no configuration always follows the
    same other one, or meets the same phase of a disturbance. A configuration that fails drops out
    with its outcome; the others go on.
    """
    trials = [_Trial(runner, _least_s(runner)) for runner in runners]
    _each(trials, _Trial.prepare)
    rng = random.Random(order)
    for left in reversed(range(rounds)):
        _each(rng.sample(trials, len(trials)), _Trial.sample if left else _Trial.last_sample)
    _each(trials, lambda trial: trial.runner.finish())
    _each(trials, lambda trial: trial.runner.check_writes())
    return [trial.failure or trial.succeeded(StopReason.INTERLEAVED) for trial in trials]


def _least_s(runner: Runner) -> float:
    """Return the least time of a sample, so that a full number of rounds takes the least time."""
    sampling = runner.job.sampling
    return sampling.least_time_s / sampling.repeats


def _each(trials: Sequence[_Trial], step: Callable[[_Trial], None]) -> None:
    """Take a step with every trial that has not failed."""
    for trial in trials:
        if trial.failure is None:
            try:
                step(trial)
            except (LaunchFailed, RunFailed) as error:
                trial.failure = trial.failed(error)


@dataclass
class _Trial:
    """The times of one configuration so far; its samples are of `least_s` where that is known."""

    runner: Runner
    least_s: float = 0.0
    warmup_s: list[float] = field(default_factory=list)
    samples_s: list[float] = field(default_factory=list)
    runs: int = 0  # of each sample; 0 before the first
    failure: Measurement | None = None

    def prepare(self) -> None:
        """Load and verify; what the driver compiles at the first run is in no sample."""
        for elapsed_s in self.runner.prepare():
            self.warmup_s.append(elapsed_s)

    def warm_up(self) -> None:
        """Make the warm-up runs that `prepare` has not made."""
        while len(self.warmup_s) < self.runner.job.sampling.warmup:
            self.warmup_s.append(self.runner.run())

    def sample(self) -> None:
        """Take one sample, as soon as the device is warm: the mean of as many runs as the clock's
        tick and the least time need. The first sample finds out how many these are.
        """
        until_s = time.perf_counter() + _LONGEST_WARMUP * self.runner.job.sampling.warmup_time_s
        while not self.runner.is_warm() and time.perf_counter() < until_s:
            self.runner.run()
        # A program is not warmed up again on later occasions: then nothing is known of its time.
        if (self.samples_s or self.warmup_s or [math.inf])[-1] < self.least_s:
            self.runner.run()  # another configuration ran before: the code is in no cache
        if self.runs:
            runs_s = [self._run() for _ in range(self.runs)]
        else:
            count = self.runner.job.sampling.repeats
            runs_s = run_sample(self._run, self.runner.tick_s, self.least_s, count)
            self.runs = len(runs_s)
        self.samples_s.append(statistics.fmean(runs_s))

    def _run(self) -> float:
        """Run, again if the clock was low, and return the seconds."""
        elapsed_s = self.runner.run()
        while not self.runner.keeps_sample():
            elapsed_s = self.runner.run()
        return elapsed_s

    def last_sample(self) -> None:
        """Take one sample, and verify it before another configuration overwrites its outputs."""
        self.sample()
        self.runner.verify()

    def sample_until_enough(self) -> StopReason:
        """Take samples until there is a reason to stop."""
        job = self.runner.job
        while True:
            self.sample()
            reason = job.sampling.stop(self.samples_s, job.best_s)
            if reason is not None:
                return reason

    def succeeded(self, reason: StopReason) -> Measurement:
        """Return the measurement of a configuration that was verified and timed."""
        statistic = self.runner.job.sampling.statistic
        error_s = clock_error(self.runner.tick_s, self.runs, self.samples_s)
        timing = Timing(tuple(self.samples_s), reason, statistic=statistic, clock_error_s=error_s)
        return self._ended(Outcome.OK, timing, "", None)

    def failed(self, error: LaunchFailed | RunFailed) -> Measurement:
        """Return the measurement of a configuration that failed."""
        worst = error.worst if isinstance(error, RunFailed) else None
        message = str(error) or "the device refused the launch without a reason"
        return self._ended(outcome_of(error), None, message, worst)

    def _ended(
        self, outcome: Outcome, timing: Timing | None, message: str, worst: WorstElement | None
    ) -> Measurement:
        job = self.runner.job
        return Measurement(
            job.config,
            job.input,
            outcome,
            timing,
            job.binary.build,
            worst_element=worst,
            message=message,
            warmup_s=tuple(self.warmup_s),
            wall_s=self.runner.wall_s,
            observed=self.runner.observed() | self._observed(timing),
            host_read=self.runner.host_read,
        )

    def _observed(self, timing: Timing | None) -> dict[str, float]:
        """Return what says how samples were taken, where that is not one run each."""
        runs = {RUNS_PER_SAMPLE: float(self.runs)} if self.runs > 1 else {}
        error_s = timing.clock_error_s if timing else 0.0
        return runs | ({CLOCK_ERROR: error_s} if error_s else {})
