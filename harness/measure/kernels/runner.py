"""Run one configuration of a kernel on one input, on a device that holds the input's data."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from harness.core.errors import HostTooSlow, LaunchFailed, OutOfDeviceMemory
from harness.core.observations import HOST_RETRIES, OUTPUT_BITS, VARYING_BITS, WorstElement
from harness.core.program import Fill, Launch
from harness.core.records import Measurement, Outcome
from harness.measure.device.clocks import SampleClocks, delay_randomly
from harness.measure.device.host_module import TrackedConfig
from harness.measure.device.launcher import Device
from harness.measure.device.verify import FILLS, Array, Tolerance, describe_wrong, verify
from harness.measure.failures import RunFailed
from harness.measure.kernels.checks import CheckTime, bits_of, same_bytes, why_added, why_astray
from harness.measure.kernels.data import KernelData, KernelJob, Twin
from harness.measure.sensors.energy import LONGEST_LAUNCH, measure_energy
from harness.measure.sensors.nvml import NO_SENSORS, Sensors, of_both
from harness.measure.trial import trial

BIT_EXACT = "bit_exact"
"""The observation of a configuration with a twin: 1 where its output equals the twin's, 0 where
the twin's own output differs from run to run, so that nothing can be compared."""

_EXACT = Tolerance(0.0, 0.0)
_MOST_TRIES = 5  # the host may be too slow by chance for so many runs, one after the other
_KEPT_BYTES = 1 << 26
"""Interleaved configurations keep right outputs up to this size: they all do so at once."""


def measure_kernel(
    device: Device, data: KernelData, job: KernelJob, sensors: Sensors = NO_SENSORS
) -> Measurement:
    """Measure one configuration by itself."""
    device.watch.measurement_begins()
    return trial.measure(_KernelRunner(device, [data], job, sensors=sensors))


def measure_interleaved(
    device: Device,
    sets: Sequence[KernelData],
    jobs: Sequence[KernelJob],
    rounds: int,
    order: int = 0,
    sensors: Sensors = NO_SENSORS,
) -> list[Measurement]:
    """Measure several configurations, one sample of each per round; `order` seeds their order.

    The device is bound to all `sets` of data; each run draws one of them. What several have
    written, `why_any_astray` finds afterwards.
    """
    device.watch.measurement_begins()
    runners = [
        _KernelRunner(device, sets, job, interleaved=len(jobs), sensors=sensors) for job in jobs
    ]
    return trial.measure_interleaved(runners, rounds, order)


def why_any_astray(
    device: Device, sets: Sequence[KernelData], allowed_s: float = math.inf
) -> str | None:
    """Return what was written that no run may write, on any of a device's sets of data."""
    reasons = []
    for number, data in enumerate(sets):
        if len(sets) > 1:  # a twin runs on one of the device's sets
            device.arguments.turn_to(number)
        reasons.append(why_astray(device, data.read_only(), allowed_s))
    return next(filter(None, reasons), None)


@dataclass
class _KernelRunner:
    """A `Runner` that launches one configuration of a kernel, on a set of data that each run draws.

    Its first runs are on each set once. It is one of several that are `interleaved`, or alone (0).
    """

    device: Device
    sets: Sequence[KernelData]
    job: KernelJob
    interleaved: int = 0
    sensors: Sensors = NO_SENSORS
    _module: object = None
    _number: int = 0  # of the set of data that the last run had
    _arranged: list[Mapping[str, Array]] = field(default_factory=list)  # by set
    _blocks: set[tuple[int, int]] = field(default_factory=set)  # that were launched
    _host_observed: Mapping[str, float] = field(default_factory=dict)
    _twin_outputs: list[Mapping[str, Array] | None] = field(default_factory=list)  # by set
    _time: CheckTime = field(default_factory=CheckTime)
    _run_mhz: float | None = None  # the lowest clock of the last run's launches
    _sensed: dict[str, float] = field(default_factory=dict)
    _retries: int = 0  # of runs for which the host was too slow
    _runs: int = 0
    _launches: int = 0  # of the last run
    _last_s: float = 0.0  # of these launches
    _verified_run: int = 0  # the last one
    _right: dict[int, Mapping[str, Array]] = field(default_factory=dict)  # verified, by set
    _bits: Mapping[str, float] = field(default_factory=dict)  # of the outputs, measured alone
    _fill: Fill = FILLS[0]  # of the outputs before the last run
    _untried: list[Fill] = field(default_factory=lambda: [*FILLS])  # no run on them was verified
    _rng: random.Random = field(default_factory=random.Random)
    _began_s: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        self._config = TrackedConfig(self.job.config)
        self._constants = self.data.constants if self.job.arch is not None else ()
        self._own_launches = tuple(launch.filling(self._constants) for launch in self.job.launches)
        self._clocks = SampleClocks(self.device.watch)

    @property
    def data(self) -> KernelData:
        """The set of data that the last run had."""
        return self.sets[self._number]

    @property
    def wall_s(self) -> float:
        return time.perf_counter() - self._began_s

    @property
    def tick_s(self) -> float:
        """The device's tick for each launch of a run, since each is timed by itself."""
        return self.device.tick_s * self._launches

    @property
    def host_read(self) -> tuple[str, ...]:
        return tuple(sorted(self._config.read))

    def prepare(self) -> Iterator[float]:
        """Load, and verify a first run on each set of data."""
        for number in range(len(self.sets)):
            self._turn_to(number)
            self._twin_outputs.append(self._outputs_of_twin())
        with self._time.working():
            self._module = self.device.load(self.job.binary)
            self._arranged = [data.arranged(self._config) for data in self.sets]
            self._host_observed = self.data.observed(self.job.config)
        for number in range(len(self.sets)):
            elapsed_s = self._run(number)
            with self._time.working():
                self.verify()
            yield elapsed_s
        self._sensed = self.sensors.state()

    def _turn_to(self, number: int) -> None:
        if len(self.sets) > 1:  # a twin runs on one of the device's sets
            self.device.arguments.turn_to(number)
        self._number = number

    def run(self) -> float:
        """Run, and verify as often as that takes a small share of the time.

        All runs begin alike, and which of them are verified is decided after they have run: so
        no kernel can do other work in a verified run than in a timed one. Returns the seconds that
        the device spent in the launches.
        """
        elapsed_s = self._run()
        if self._time.affords():
            with self._time.checking():
                self.verify()
        return elapsed_s

    def is_warm(self) -> bool:
        """Say whether the device has worked long enough, at a steady clock, for a sample."""
        return self.device.watch.is_warm(self.job.sampling.warmup_time_s)

    def keeps_sample(self) -> bool:
        """Say whether the last run is a sample; throw it away where the clock was low."""
        return self._clocks.keeps(self._run_mhz)

    def verify(self) -> None:
        """Compare the outputs of the last run with the reference and with the twin's."""
        if self._verified_run == self._runs:
            return
        outputs = self._outputs()
        # Nearly all kernels repeat their bits, which are compared far faster than numbers.
        right = self._right.get(self._number)
        if right is None or not same_bytes(outputs, right):
            self._compare(outputs)
            if not self.interleaved:
                bits = bits_of(outputs) if right is None else VARYING_BITS
                self._bits = {OUTPUT_BITS: bits}
            size_bytes = sum(array.nbytes for array in outputs.values())
            if not (self.interleaved and size_bytes > _KEPT_BYTES):
                self._right[self._number] = outputs
        self._untried = [fill for fill in self._untried if fill != self._fill]
        self._verified_run = self._runs

    def finish(self) -> None:
        """Read the sensors again, and measure the energy of what is measured alone."""
        self._sensed = of_both(self._sensed, self.sensors.state())
        seconds, counter = self.job.energy_s, self.sensors.counter
        if counter and self._last_s < LONGEST_LAUNCH * seconds and not self.interleaved:
            with contextlib.suppress(HostTooSlow):  # the samples stay
                self._sensed |= measure_energy(self._run_once, self.verify, counter, seconds)

    def check_writes(self) -> None:
        """Check that no run has written what it may not write; several are checked together."""
        if self.interleaved <= 1:
            allowed_s = math.inf if self.interleaved else self._time.allowed_s
            astray = why_any_astray(self.device, self.sets, allowed_s)
            if astray:
                raise RunFailed(Outcome.WRONG_RESULT, f"wrong result: {astray}")
        self._note_clean(is_clean=True)

    def _note_clean(self, is_clean: bool) -> None:
        for data in self.sets:
            data.is_clean = is_clean

    def observed(self) -> dict[str, float]:
        """Return the occupancy, the comparison with the twin, what the host module observes, the
        device's clock, and what the sensors say."""
        is_exact = bool(self._twin_outputs) and None not in self._twin_outputs
        exact = {} if self.job.twin is None else {BIT_EXACT: float(is_exact)}
        of_build = self.job.observed(self._blocks) | self.device.observed(self._module)
        retries = {HOST_RETRIES: float(self._retries)} if self._retries else {}
        of_outputs = {**exact, **self._bits, **self._host_observed}
        return of_build | of_outputs | self._clocks.observed() | self._sensed | retries

    # ---------------------------------------------------------------------------- verifying

    def _compare(self, outputs: Mapping[str, Array]) -> None:
        """Compare outputs with the reference, and with the twin's; raise RunFailed."""
        when = "at the first run" if self._runs == 1 else f"at run {self._runs:,}"
        checks = [(self.data.expected, self.job.tolerance, when)]
        twin_outputs = self._twin_outputs[self._number]
        if twin_outputs is not None:
            assert self.job.twin is not None
            with_twin = f"{when}, compared with {self.job.twin.name}"
            checks.append((twin_outputs, _EXACT, with_twin))
        for expected, tolerance, how in checks:
            worst = verify(outputs, expected, tolerance, self.data.sizes)
            if worst is not None:
                why = f"wrong result {how}: {self._describe(worst, outputs, tolerance)}"
                raise RunFailed(Outcome.WRONG_RESULT, why, worst)

    def _describe(
        self, worst: WorstElement, outputs: Mapping[str, Array], tolerance: Tolerance
    ) -> str:
        """Describe wrong elements, and what the kernel may have done with the fill."""
        name = worst.argument.partition(".")[0]
        if name in self.data.inout:
            return str(worst)
        output, expected = outputs[name], self.data.expected[name]
        rtol, _ = tolerance.of(output.dtype, self.data.sizes[name])
        added = why_added(name, output, expected, self._fill, rtol)
        return f"{describe_wrong(worst, output, expected, self._fill)}{added}"

    def _outputs(self) -> dict[str, Array]:
        return {name: self.device.arguments.read(name) for name in self.data.expected}

    def _outputs_of_twin(self) -> Mapping[str, Array] | None:
        """Return what the outputs must equal; None without a twin, or if it does not repeat."""
        twin, outputs = self.job.twin, self.data.twin_outputs
        if twin is None:
            return None
        key = (twin.binary.build.key, twin.config)
        if key not in outputs:
            outputs.clear()  # outputs may be large
            outputs[key] = self._run_twin(twin)
        if outputs[key] is None and twin.must_repeat:
            raise LaunchFailed(
                f"two runs of {twin.name} differ in their bits, so that no output can be compared "
                "with them; remove `bits` and `against` from `verify`"
            )
        return outputs[key]

    def _run_twin(self, twin: Twin) -> Mapping[str, Array] | None:
        """Run the twin twice; return its outputs, or None where they differ."""
        job = dataclasses.replace(
            self.job, config=twin.config, binary=twin.binary, launches=twin.launches, twin=None
        )
        runner = _KernelRunner(self.device, [self.data], job, self.interleaved)
        try:
            list(runner.prepare())
            first = runner._outputs()
            runner._run()
            runner.verify()
        except (LaunchFailed, RunFailed) as error:
            kind = OutOfDeviceMemory if isinstance(error, OutOfDeviceMemory) else LaunchFailed
            raise kind(f"{twin.name}, to compare with, fails: {error}") from None
        return first if verify(runner._outputs(), first, _EXACT) is None else None

    # ---------------------------------------------------------------------------- launching

    def _run(self, number: int | None = None) -> float:
        """Run on this set of data, or on one that is drawn, until the host is fast enough.

        Raises RunFailed where it was too slow several times in a row.
        """
        for _ in range(_MOST_TRIES):
            try:
                return self._run_once(number)
            except HostTooSlow as error:
                self._retries += 1
                reason = error
        raise RunFailed(
            Outcome.TIMEOUT,
            f"{reason}, {_MOST_TRIES} times in a row. Close other programs; no profiler or "
            "debugger may run, since these make the host wait for each launch",
        )

    def _run_once(self, number: int | None = None) -> float:
        """Give the arguments what they hold before every run; run; return the launches' seconds."""
        with self._time.working():
            self.device.watch.run_begins()
            self._turn_to(self._rng.randrange(len(self.sets)) if number is None else number)
            self._restore()
            self._runs += 1
            self._run_mhz = None
            self._launches = 0
            if self.job.launches:
                elapsed_s = self._launch(self._own_launches)
            else:
                elapsed_s = math.fsum(self._host_launches())
        if not 0 < elapsed_s < math.inf:
            raise LaunchFailed(
                f"the device's clock measured {elapsed_s} s for a launch, expected more than 0 s. "
                "Is the launch empty, or shorter than the clock's step?"
            )
        self.device.watch.run_ended(self._run_mhz, elapsed_s)
        self._last_s = elapsed_s
        return elapsed_s

    def _restore(self) -> None:
        delay_randomly(self.device.tick_s)  # all that follows moves with it
        # Each fill once, then at random: no kernel can work out what its next run finds.
        self._fill = self._untried[0] if self._untried else self._rng.choice(FILLS)
        arranged = self._arranged[self._number]
        fresh = self.data.fresh(arranged, self._fill)
        for name, array in self.data.to_write(arranged, self.interleaved > 0).items():
            if name not in fresh:
                self.device.arguments.write(name, array)
        self.device.arguments.restore(fresh)

    def _host_launches(self) -> Iterator[float]:
        """Launch what the host module yields, all between two reads at once; yield the seconds."""
        steps = self.data.launches(self._config, self.job.functions)
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
            yield self._launch(waiting)
            waiting = []
            answer = self.device.arguments.read(step.name)
        yield self._launch(waiting)

    def _launch(self, launches: Sequence[Launch]) -> float:
        """Launch; what ran is clean again when its writes were checked."""
        if not launches:
            return 0.0
        self._blocks |= {launch.block for launch in launches}
        if len(launches) > 1:
            self._note_clean(is_clean=False)
        try:
            elapsed_s = self.device.launch(self._module, launches)
        except HostTooSlow:
            self._note_clean(is_clean=False)
            raise
        self._launches += len(launches)
        # Not before: a single launch that is refused has not run.
        self._note_clean(is_clean=False)
        mhz = self.device.sm_clock_mhz()
        self._run_mhz = min((each for each in (self._run_mhz, mhz) if each), default=None)
        return elapsed_s
