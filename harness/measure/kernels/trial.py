"""Measure configurations of a kernel on one input, on a device that holds the input's data.

Everything here runs in the process that owns the device. A failure of a configuration is its
outcome, never an exception.
"""

from __future__ import annotations

import contextlib
import math
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from harness.core.errors import HostTooSlow, LaunchFailed, OutOfDeviceMemory
from harness.core.observations import (
    CLOCK_ERROR,
    HOST_RETRIES,
    OUTPUT_BITS,
    RUNS_PER_SAMPLE,
    VARYING_BITS,
    WorstElement,
)
from harness.core.program import Fill, Launch
from harness.core.records import Measurement, Outcome, StopReason, Timing
from harness.measure.device.clocks import SampleClocks, clock_error, delay_randomly, run_sample
from harness.measure.device.host_module import TrackedConfig
from harness.measure.device.launcher import Device
from harness.measure.device.verify import FILLS, Array, describe_wrong, verify
from harness.measure.failures import RunFailed, outcome_of
from harness.measure.kernels.checks import CheckTime, bits_of, same_bytes, why_added, wrong_writes
from harness.measure.kernels.data import KernelData, KernelJob
from harness.measure.sensors.energy import LONGEST_LAUNCH, measure_energy
from harness.measure.sensors.nvml import NO_SENSORS, Sensors, of_both

BIT_EXACT = "bit_exact"
"""The observation of a configuration whose outputs must have the bits of another one's: 1 where
they have, 0 where that one's outputs differ from run to run, so that nothing can be compared."""

_MOST_TRIES = 5  # the host may be too slow by chance for so many runs, one after the other
_LONGEST_WARMUP = 20
"""A device that never becomes warm is sampled after so many times the time of its warm-up."""

_REMEMBERED_BYTES = 1 << 26
"""Interleaved configurations remember right outputs up to this size: they all do so at once."""


def measure_alone(
    device: Device, data: KernelData, job: KernelJob, sensors: Sensors = NO_SENSORS
) -> Measurement:
    """Measure one configuration by itself: verify a run, warm up, sample until enough, verify."""
    device.watch.measurement_begins()
    trial = KernelTrial(device, [data], job, sensors)
    try:
        trial.find_required_bits()
        trial.load()
        trial.make_first_runs()
        trial.warm_up()
        stopped = None
        while stopped is None:
            trial.sample()
            stopped = job.sampling.stop(trial.samples_s, job.best_s)
        trial.verify()
        trial.read_sensors()
        trial.measure_energy()
        trial.check_writes()
    except (LaunchFailed, RunFailed) as error:
        return trial.failed(error)
    return trial.succeeded(stopped)


class Together(NamedTuple):
    """What was measured in interleaved rounds. Where the device broke meanwhile, a result was
    wrong, or something was written elsewhere, they are not `is_complete`: failures may be due to
    another configuration's fault.
    """

    measured: list[Measurement]
    is_complete: bool


def measure_interleaved(
    device: Device,
    sets: Sequence[KernelData],
    jobs: Sequence[KernelJob],
    rounds: int,
    order: int = 0,
    sensors: Sensors = NO_SENSORS,
) -> Together:
    """Take one sample of each configuration per round, so that drift affects all alike.

    The device is bound to all `sets` of data; each run draws one of them. The order in each round
    is random, with the seed `order`: no configuration always follows the same other one, or meets
    the same phase of a disturbance. A configuration that fails drops out with its outcome; the
    others go on.
    """
    device.watch.measurement_begins()
    trials = [KernelTrial(device, sets, job, sensors, is_interleaved=True) for job in jobs]
    _for_each(trials, KernelTrial.find_required_bits)
    _for_each(trials, KernelTrial.load)
    _for_each(trials, KernelTrial.make_first_runs)
    rng = random.Random(order)
    for number in range(rounds):
        is_last = number == rounds - 1
        shuffled = rng.sample(trials, len(trials))
        _for_each(shuffled, KernelTrial.sample_and_verify if is_last else KernelTrial.sample)
    _for_each(trials, KernelTrial.read_sensors)
    if len(trials) == 1:
        _for_each(trials, KernelTrial.check_writes)
    measured = [trial.failure or trial.succeeded(StopReason.INTERLEAVED) for trial in trials]
    return Together(measured, _is_complete(device, sets, measured))


def _for_each(trials: Sequence[KernelTrial], step: Callable[[KernelTrial], object]) -> None:
    """Take a step with every trial that has not failed."""
    for trial in trials:
        if trial.failure is not None:
            continue
        try:
            step(trial)
        except (LaunchFailed, RunFailed) as error:
            trial.failure = trial.failed(error)


def _is_complete(
    device: Device, sets: Sequence[KernelData], measured: Sequence[Measurement]
) -> bool:
    if device.is_lost:
        return False
    if len(measured) == 1:
        return True
    if any(each.outcome is Outcome.WRONG_RESULT for each in measured):
        return False
    return _wrong_writes(device, sets, math.inf) is None


def _wrong_writes(device: Device, sets: Sequence[KernelData], allowed_s: float) -> str | None:
    """Return what was written that no run may write, on any of a device's sets of data."""
    reasons = []
    for number, data in enumerate(sets):
        device.arguments.turn_to(number)
        reasons.append(wrong_writes(device, data.read_only(), allowed_s))
    return next(filter(None, reasons), None)


@dataclass
class KernelTrial:
    """One configuration while it is measured: its times so far, and what its runs have shown.

    Each run draws one of the sets of data; the first runs are on each set once. Others that are
    interleaved with it may run between its runs.
    """

    device: Device
    sets: Sequence[KernelData]
    job: KernelJob
    sensors: Sensors = NO_SENSORS
    is_interleaved: bool = False
    failure: Measurement | None = None
    warmup_s: list[float] = field(default_factory=list)
    samples_s: list[float] = field(default_factory=list)

    _began_s: float = field(default_factory=time.perf_counter)
    _time: CheckTime = field(default_factory=CheckTime)
    _rng: random.Random = field(default_factory=random.Random)
    # What is loaded.
    _module: object = None
    _arranged: list[Mapping[str, Array]] = field(default_factory=list)  # by set
    _required: list[float] = field(default_factory=list)  # bits, by set, where some are
    # The last run.
    _number: int = 0  # of its set of data
    _runs: int = 0  # so many, with it
    _fill: Fill = FILLS[0]  # of the outputs before it
    _launches: int = 0
    _run_s: float = 0.0  # of the launches
    _run_mhz: float | None = None  # their lowest clock
    # What was verified.
    _verified_run: int = 0  # the last one
    _right: dict[int, Mapping[str, Array]] = field(default_factory=dict)  # outputs, by set
    _untried: list[Fill] = field(default_factory=lambda: [*FILLS])  # no run on them was verified
    # What was observed.
    _bits: dict[int, float] = field(default_factory=dict)  # of the outputs, by set
    _blocks: set[tuple[int, int]] = field(default_factory=set)  # that were launched
    _host_observed: Mapping[str, float] = field(default_factory=dict)
    _sensed: dict[str, float] = field(default_factory=dict)
    _runs_per_sample: int = 0  # 0 before the first sample
    _retries: int = 0  # of runs for which the host was too slow

    def __post_init__(self) -> None:
        self._config = TrackedConfig(self.job.config)
        self._constants = self.sets[0].constants if self.job.arch is not None else ()
        self._job_launches = [launch.filling(self._constants) for launch in self.job.launches]
        self._clocks = SampleClocks(self.device.watch)

    @property
    def _data(self) -> KernelData:
        """The set of data of the last run."""
        return self.sets[self._number]

    @property
    def _tick_s(self) -> float:
        """The device's tick for each launch of a run, since each is timed by itself."""
        return self.device.tick_s * self._launches

    # ------------------------------------------------------------------------ from load to sample

    def find_required_bits(self) -> None:
        """Find out the bits that the outputs must have on each set of data: run the configuration
        whose bits they are twice, unless that was done.

        Raises LaunchFailed where it does not work.
        """
        other = self.job.same_bits_as
        if other is None:
            return
        key = other.job.binary.build.key, other.job.config
        if any(key not in data.bits for data in self.sets):
            trial = KernelTrial(self.device, self.sets, other.job)
            try:
                trial.load()
                trial.make_first_runs()
                trial.make_first_runs()
            except (LaunchFailed, RunFailed) as error:
                kind = OutOfDeviceMemory if isinstance(error, OutOfDeviceMemory) else LaunchFailed
                raise kind(f"{other.name}, to compare with, fails: {error}") from None
            for number, data in enumerate(self.sets):
                data.bits[key] = trial._bits[number]
        self._required = [data.bits[key] for data in self.sets]
        if other.must_repeat and VARYING_BITS in self._required:
            raise LaunchFailed(
                f"two runs of {other.name} differ in their bits, so that no output can be compared "
                "with them; remove `bits` and `against` from `verify`"
            )

    def load(self) -> None:
        """Load the binary, and have the data arranged as the configuration wants them."""
        with self._time.working():
            self._module = self.device.load(self.job.binary)
            self._arranged = [data.arranged(self._config) for data in self.sets]
            self._host_observed = self._data.observed(self.job.config)

    def make_first_runs(self) -> None:
        """Verify a first run on each set of data; what the driver compiles then is in no sample."""
        for number in range(len(self.sets)):
            self.warmup_s.append(self._run(number))
            with self._time.working():
                self.verify()
        self._sensed = self.sensors.state()

    def warm_up(self) -> None:
        """Make the warm-up runs that were not among the first runs."""
        while len(self.warmup_s) < self.job.sampling.warmup:
            self.warmup_s.append(self._run())

    def sample(self) -> None:
        """Take one sample, as soon as the device is warm: the mean of as many runs as the clock's
        tick and the least time need. The first sample finds out how many these are.
        """
        sampling = self.job.sampling
        until_s = time.perf_counter() + _LONGEST_WARMUP * sampling.warmup_time_s
        while not self.device.watch.is_warm(sampling.warmup_time_s):
            if time.perf_counter() >= until_s:
                break
            self._run()
        least_s = 0.0
        if self.is_interleaved:  # so that a full number of rounds takes the least time
            least_s = sampling.least_time_s / sampling.repeats
        last_s = (self.samples_s or self.warmup_s)[-1]
        if last_s < least_s:
            self._run()  # another configuration ran before: the code is in no cache
        if self._runs_per_sample:
            runs_s = [self._timed_run() for _ in range(self._runs_per_sample)]
        else:
            runs_s = run_sample(self._timed_run, self._tick_s, least_s, sampling.repeats)
            self._runs_per_sample = len(runs_s)
        self.samples_s.append(statistics.fmean(runs_s))

    def sample_and_verify(self) -> None:
        """Take one sample, and verify it before another configuration overwrites its outputs."""
        self.sample()
        self.verify()

    def read_sensors(self) -> None:
        """Read the sensors again, after the last sample."""
        self._sensed = of_both(self._sensed, self.sensors.state())

    def measure_energy(self) -> None:
        """Measure the energy of a launch, where the job says so and the device has a counter."""
        energy_s = self.job.energy_s
        counter = self.sensors.counter
        if counter and self._run_s < LONGEST_LAUNCH * energy_s:
            with contextlib.suppress(HostTooSlow):  # the samples stay
                self._sensed |= measure_energy(self._run_once, self.verify, counter, energy_s)

    def check_writes(self) -> None:
        """Raise RunFailed where a run has written what it may not write."""
        allowed_s = math.inf if self.is_interleaved else self._time.allowed_s
        writes = _wrong_writes(self.device, self.sets, allowed_s)
        if writes:
            raise RunFailed(Outcome.WRONG_RESULT, f"wrong result: {writes}")

    # ------------------------------------------------------------------------------------ one run

    def _timed_run(self) -> float:
        """Run, again if the clock was low, and return the seconds."""
        elapsed_s = self._run()
        while not self._clocks.keeps(self._run_mhz):
            elapsed_s = self._run()
        return elapsed_s

    def _run(self, number: int | None = None) -> float:
        """Run on a set of data that is drawn, and verify as often as that takes a small share of
        the time; or run on this set, which the caller verifies. Return the seconds that the device
        spent in the launches.

        All runs begin alike, and which of them are verified is decided after they have run: so
        no kernel can do other work in a verified run than in a timed one. Raises RunFailed where
        the host was too slow several times in a row.
        """
        for _ in range(_MOST_TRIES):
            try:
                elapsed_s = self._run_once(number)
                break
            except HostTooSlow as error:
                self._retries += 1
                reason = error
        else:
            raise RunFailed(
                Outcome.TIMEOUT,
                f"{reason}, {_MOST_TRIES} times in a row. Close other programs; no profiler or "
                "debugger may run, since these make the host wait for each launch",
            )
        if number is None and self._time.affords():
            with self._time.checking():
                self.verify()
        return elapsed_s

    def _run_once(self, number: int | None = None) -> float:
        """Give the arguments what they hold before every run; run; return the launches' seconds."""
        with self._time.working():
            self.device.watch.run_begins()
            self._number = self._rng.randrange(len(self.sets)) if number is None else number
            self.device.arguments.turn_to(self._number)
            self._restore()
            self._runs += 1
            self._launches = 0
            self._run_mhz = None
            if self._job_launches:
                elapsed_s = self._launch(self._job_launches)
            else:
                elapsed_s = self._launch_steps()
        if not 0 < elapsed_s < math.inf:
            raise LaunchFailed(
                f"the device's clock measured {elapsed_s} s for a launch, expected more than 0 s. "
                "Is the launch empty, or shorter than the clock's step?"
            )
        self.device.watch.run_ended(self._run_mhz, elapsed_s)
        self._run_s = elapsed_s
        return elapsed_s

    def _restore(self) -> None:
        delay_randomly(self.device.tick_s)  # all that follows moves with it
        # Each fill once, then at random: no kernel can work out what its next run finds.
        self._fill = self._untried[0] if self._untried else self._rng.choice(FILLS)
        arranged = self._arranged[self._number]
        fresh = self._data.fresh(arranged, self._fill)
        for name, array in self._data.to_write(arranged, self.is_interleaved).items():
            if name not in fresh:
                self.device.arguments.write(name, array)
        self.device.arguments.restore(fresh)

    def _launch_steps(self) -> float:
        """Launch what the host module yields, all between two reads at once; return the seconds."""
        steps = self._data.launches(self._config, self.job.functions)
        elapsed_s: list[float] = []
        answer: Array | None = None
        waiting: list[Launch] = []
        while True:
            try:
                step = steps.send(answer)
            except StopIteration:
                break
            answer = None
            if isinstance(step, Launch):
                waiting.append(step.filling(self._constants))
                continue
            elapsed_s.append(self._launch(waiting))
            waiting = []
            answer = self.device.arguments.read(step.name)
        elapsed_s.append(self._launch(waiting))
        return math.fsum(elapsed_s)

    def _launch(self, launches: Sequence[Launch]) -> float:
        if not launches:
            return 0.0
        self._blocks |= {launch.block for launch in launches}
        elapsed_s = self.device.launch(self._module, launches)
        self._launches += len(launches)
        mhz = self.device.sm_clock_mhz()
        if mhz and (self._run_mhz is None or mhz < self._run_mhz):
            self._run_mhz = mhz
        return elapsed_s

    # ---------------------------------------------------------------------------------- verifying

    def verify(self) -> None:
        """Compare the outputs of the last run with the reference; raise RunFailed where they are
        wrong."""
        if self._verified_run == self._runs:
            return
        outputs = {name: self.device.arguments.read(name) for name in self._data.expected}
        right = self._right.get(self._number)
        # Nearly all kernels repeat their bits, which are compared far faster than numbers.
        if right is None or not same_bytes(outputs, right):
            self._compare(outputs)
            if self._required or not self.is_interleaved:
                self._compare_bits(outputs)
            size_bytes = sum(array.nbytes for array in outputs.values())
            if not self.is_interleaved or size_bytes <= _REMEMBERED_BYTES:
                self._right[self._number] = outputs
        if self._fill in self._untried:
            self._untried.remove(self._fill)
        self._verified_run = self._runs

    @property
    def _when(self) -> str:
        return "at the first run" if self._runs == 1 else f"at run {self._runs:,}"

    def _compare(self, outputs: Mapping[str, Array]) -> None:
        worst = verify(outputs, self._data.expected, self.job.tolerance, self._data.sizes)
        if worst is not None:
            message = f"wrong result {self._when}: {self._describe(worst, outputs)}"
            raise RunFailed(Outcome.WRONG_RESULT, message, worst)

    def _describe(self, worst: WorstElement, outputs: Mapping[str, Array]) -> str:
        """Describe wrong elements, and what the kernel may have done with the fill."""
        name = worst.argument.partition(".")[0]
        if name in self._data.inout:
            return str(worst)
        output = outputs[name]
        expected = self._data.expected[name]
        rtol, _ = self.job.tolerance.of(output.dtype, self._data.sizes[name])
        added = why_added(name, output, expected, self._fill, rtol)
        return f"{describe_wrong(worst, output, expected, self._fill)}{added}"

    def _compare_bits(self, outputs: Mapping[str, Array]) -> None:
        """Note the bits of the outputs; raise RunFailed where others are demanded."""
        bits = bits_of(outputs)
        other = self.job.same_bits_as
        if other is not None and self._required[self._number] not in (bits, VARYING_BITS):
            raise RunFailed(
                Outcome.WRONG_RESULT,
                f"wrong result {self._when}: its outputs lie within the tolerance, but are not "
                f"those of {other.name} bit for bit",
            )
        is_first = self._number not in self._bits
        self._bits[self._number] = bits if is_first else VARYING_BITS

    # ------------------------------------------------------------------------------------- ending

    def succeeded(self, stopped: StopReason) -> Measurement:
        """Return the measurement of a configuration that was verified and timed."""
        error_s = clock_error(self._tick_s, self._runs_per_sample, self.samples_s)
        statistic = self.job.sampling.statistic
        timing = Timing(tuple(self.samples_s), stopped, statistic=statistic, clock_error_s=error_s)
        return self._ended(Outcome.OK, timing)

    def failed(self, error: LaunchFailed | RunFailed) -> Measurement:
        """Return the measurement of a configuration that failed."""
        worst = error.worst if isinstance(error, RunFailed) else None
        message = str(error) or "the device refused the launch without a reason"
        return self._ended(outcome_of(error), None, message, worst)

    def _ended(
        self,
        outcome: Outcome,
        timing: Timing | None,
        message: str = "",
        worst: WorstElement | None = None,
    ) -> Measurement:
        observed = dict(self._observed())
        if timing is not None and timing.clock_error_s:
            observed[CLOCK_ERROR] = timing.clock_error_s
        return Measurement(
            self.job.config,
            self.job.input,
            outcome,
            timing,
            self.job.binary.build,
            worst_element=worst,
            message=message,
            warmup_s=tuple(self.warmup_s),
            wall_s=time.perf_counter() - self._began_s,
            observed=observed,
            host_read=tuple(sorted(self._config.read)),
        )

    def _observed(self) -> Iterator[tuple[str, float]]:
        """Yield what is known of the configuration besides its times."""
        yield from self.job.observed(self._blocks).items()
        yield from self.device.observed(self._module).items()
        if self._required:
            yield BIT_EXACT, float(VARYING_BITS not in self._required)
        if self._bits and not self.is_interleaved:
            yield OUTPUT_BITS, self._bits[0]
        yield from self._host_observed.items()
        yield from self._clocks.observed().items()
        yield from self._sensed.items()
        if self._retries:
            yield HOST_RETRIES, float(self._retries)
        if self._runs_per_sample > 1:
            yield RUNS_PER_SAMPLE, float(self._runs_per_sample)
