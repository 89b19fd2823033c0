"""One configuration on one input, end to end: load, launch, verify, time.

Runs in the device's process; what can go wrong with a configuration becomes an outcome.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from harness.core.errors import LaunchFailed
from harness.core.program import Binary, Launch
from harness.core.records import (
    Config,
    Input,
    Measurement,
    Outcome,
    StopReason,
    Timing,
    WorstElement,
)
from harness.measure.backends.base import Device
from harness.measure.host_module import Array
from harness.measure.kernel_data import Case
from harness.measure.occupancy import observe_occupancy
from harness.measure.verify import Tolerance, verify
from harness.stats.timing import Sampling

BIT_EXACT = "bit_exact"
"""The observation of what has a twin: 1 where its output equals the twin's, 0 where the twin's
own output differs from run to run and so says nothing."""

_EXACT = Tolerance(0.0, 0.0)


@dataclass(frozen=True)
class Twin:
    """The same configuration without compiler flags, whose output a configuration must give bit
    for bit. One that `must_repeat` fails where it does not give its own output twice."""

    config: Config
    binary: Binary
    launches: tuple[Launch, ...]
    must_repeat: bool

    def is_run_by(self, binary: Binary, launches: tuple[Launch, ...]) -> bool:
        """Whether these launches are the twin's own: of the same machine code, and alike."""
        code = binary.build.binary_sha256
        return code is not None and (code, launches) == (
            self.binary.build.binary_sha256,
            self.launches,
        )


@dataclass(frozen=True)
class Job:
    """Everything that one measurement needs beside the device and the input's data.

    Without `launches`, the host module tells those of a run, which are of these `functions`.
    """

    config: Config
    input: Input
    binary: Binary
    launches: tuple[Launch, ...]
    tolerance: Tolerance
    sampling: Sampling
    best_s: float | None = None
    arch: str | None = None  # of NVIDIA's, for the occupancy
    functions: tuple[str, ...] = ()
    twin: Twin | None = None

    def observed(self, groups: Iterable[tuple[int, ...]] = ()) -> dict[str, float]:
        """What is known of the build beside its time, with its launches' groups and these."""
        sizes = map(math.prod, (*(launch.group for launch in self.launches), *groups))
        return observe_occupancy(self.arch, self.binary.build, sizes)


def measure(device: Device, case: Case, job: Job) -> Measurement:
    """Verify one launch, warm up, sample, verify what the samples left and one more launch;
    never raises for the configuration's own failure, which is the measurement's outcome."""
    trial = _Trial(device, case, job)
    try:
        trial.begin()
        trial.warm_up()
        reason = trial.sample_until_enough()
        trial.check("after the timed launches")
        # A launch that does nothing leaves what an earlier one left right: only new outputs tell.
        trial.end()
    except (LaunchFailed, _WrongResult) as error:
        return trial.failed(error)
    return trial.succeeded(reason)


def measure_interleaved(
    device: Device, case: Case, jobs: Sequence[Job], rounds: int
) -> list[Measurement]:
    """Time several configurations in turn, one sample of each a round, so that drift hits all
    alike. A configuration that fails drops out with its outcome; the others go on."""
    trials = [_Trial(device, case, job, in_turn=True) for job in jobs]
    _each(trials, _Trial.begin)
    for round_ in range(rounds):
        # Every second round backwards: no configuration always follows the same other one.
        _each(trials if round_ % 2 == 0 else trials[::-1], _Trial.sample)
    _each(trials, _Trial.end)
    return [trial.failure or trial.succeeded(StopReason.INTERLEAVED) for trial in trials]


def _each(trials: Sequence[_Trial], step: Callable[[_Trial], None]) -> None:
    """Take a step with every trial that has not failed."""
    for trial in trials:
        if trial.failure is None:
            try:
                step(trial)
            except (LaunchFailed, _WrongResult) as error:
                trial.failure = trial.failed(error)


class _WrongResult(Exception):
    def __init__(self, worst: WorstElement, when: str) -> None:
        super().__init__(f"wrong result {when}: {worst}")
        self.worst = worst


@dataclass
class _Trial:
    """One configuration while it is measured."""

    device: Device
    case: Case
    job: Job
    in_turn: bool = False
    module: object = None
    arranged: Mapping[str, Array] = field(default_factory=dict)
    groups: set[tuple[int, ...]] = field(default_factory=set)  # that the host module launched
    told: Mapping[str, float] = field(default_factory=dict)  # by the host module's observe()
    asked: set[str] = field(default_factory=set)  # of the configuration, by the host module
    bits: Mapping[str, Array] | None = None  # the twin's output
    warmup_s: list[float] = field(default_factory=list)
    samples_s: list[float] = field(default_factory=list)
    failure: Measurement | None = None
    started: float = field(default_factory=time.perf_counter)

    def begin(self) -> None:
        """Load, and verify a first launch; what the driver still compiles then is not timed."""
        self.bits = self._bits_of_twin()
        self.module = self.device.load(self.job.binary)
        self.arranged = self.case.arranged(self.job.config, self.asked)
        self.told = self.case.observed(self.job.config)
        self.warmup_s.append(self._verified_launch("at the first launch"))

    def end(self) -> None:
        """Verify one more launch: what the outputs hold may be of an earlier launch, or, of
        configurations that take turns, another one's."""
        self._verified_launch("after the timed launches")

    def _verified_launch(self, when: str) -> float:
        """One launch into outputs that are right nowhere, and its verification."""
        elapsed_s = self._run(self.case.before_first(self.arranged))
        self.check(when)
        return elapsed_s

    def check(self, when: str) -> None:
        """Verify what the last launch left; raises _WrongResult."""
        found = self._outputs()
        verdict = verify(found, self.case.expected, self.job.tolerance)
        if verdict.worst is not None:
            raise _WrongResult(verdict.worst, when)
        if self.bits is not None:
            verdict = verify(found, self.bits, _EXACT)
            if verdict.worst is not None:
                raise _WrongResult(verdict.worst, f"{when}, beside the same without flags")

    def _outputs(self) -> dict[str, Array]:
        return {name: self.device.read(name) for name in self.case.expected}

    def _bits_of_twin(self) -> Mapping[str, Array] | None:
        """What the outputs must equal; None without a twin, and for one that does not repeat."""
        twin, kept = self.job.twin, self.case.of_twin
        if twin is None:
            return None
        key = (twin.binary.build.key, twin.config)
        if key not in kept:
            kept.clear()  # outputs may be large
            kept[key] = self._run_twin(twin)
        if kept[key] is None and twin.must_repeat:
            raise LaunchFailed(
                "without flags the kernel does not give the same bits twice, so that nothing can "
                "be held against them; write `verify: {against: reference}`"
            )
        return kept[key]

    def _run_twin(self, twin: Twin) -> Mapping[str, Array] | None:
        job = dataclasses.replace(
            self.job, config=twin.config, binary=twin.binary, launches=twin.launches, twin=None
        )
        trial = _Trial(self.device, self.case, job, self.in_turn)
        try:
            trial.begin()
            first = trial._outputs()
            trial.end()
        except (LaunchFailed, _WrongResult) as error:
            raise LaunchFailed(f"it fails without flags, to be held against: {error}") from None
        return first if verify(trial._outputs(), first, _EXACT).worst is None else None

    def _observed(self) -> dict[str, float]:
        exact = {} if self.job.twin is None else {BIT_EXACT: float(self.bits is not None)}
        return self.job.observed(self.groups) | exact | dict(self.told)

    def warm_up(self) -> None:
        """The warm-up launches that are left after the verified one."""
        for _ in range(self.job.sampling.warmup - 1):
            self.warmup_s.append(self._restored_launch())

    def sample(self) -> None:
        """Take one sample."""
        self.samples_s.append(self._restored_launch())

    def sample_until_enough(self) -> StopReason:
        """Take samples until there is a reason to stop."""
        while True:
            self.sample()
            reason = self.job.sampling.stop(self.samples_s, self.job.best_s)
            if reason is not None:
                return reason

    def _restored_launch(self) -> float:
        return self._run(self.case.restored(self.arranged))

    def _run(self, restored: Mapping[str, Array]) -> float:
        """One run on restored data; the seconds that the device spent in its launches."""
        placed = self.case.to_place(self.arranged, self.in_turn)
        for name, array in (placed | dict(restored)).items():
            self.device.write(name, array)
        if self.job.launches:
            elapsed_s = self.device.launch(self.module, self.job.launches)
        else:
            elapsed_s = math.fsum(self._host_told())
        if not 0 < elapsed_s < math.inf:
            raise LaunchFailed(
                f"the device's clock told {elapsed_s} s for a launch; it must be above 0 s. "
                "Is the launch empty, or shorter than the clock's step?"
            )
        return elapsed_s

    def _host_told(self) -> Iterator[float]:
        """The times of the launches that the host module tells, those between two reads at once."""
        steps = self.case.launches(self.job.config, self.job.functions, self.asked)
        answer: Array | None = None
        waiting: list[Launch] = []
        while True:
            try:
                step = steps.send(answer)
            except StopIteration:
                break
            answer = None
            if isinstance(step, Launch):
                waiting.append(step)
                continue
            yield self._launch_all(waiting)
            waiting = []
            answer = self.device.read(step.name)
        yield self._launch_all(waiting)

    def _launch_all(self, launches: Sequence[Launch]) -> float:
        if not launches:
            return 0.0
        elapsed_s = self.device.launch(self.module, launches)
        self.groups |= {launch.group for launch in launches}
        return elapsed_s

    def succeeded(self, reason: StopReason) -> Measurement:
        """The measurement of a configuration that went through."""
        return Measurement(
            self.job.config,
            self.job.input,
            Outcome.OK,
            timing=Timing(tuple(self.samples_s), reason),
            build=self.job.binary.build,
            warmup_s=tuple(self.warmup_s),
            wall_s=time.perf_counter() - self.started,
            observed=self._observed(),
            host_read=tuple(sorted(self.asked)),
        )

    def failed(self, error: LaunchFailed | _WrongResult) -> Measurement:
        """The measurement of a configuration that did not."""
        worst = error.worst if isinstance(error, _WrongResult) else None
        return Measurement(
            self.job.config,
            self.job.input,
            Outcome.WRONG_RESULT if worst else Outcome.LAUNCH_FAILED,
            build=self.job.binary.build,
            worst=worst,
            message=str(error) or "the device refused the launch and said nothing",
            warmup_s=tuple(self.warmup_s),
            wall_s=time.perf_counter() - self.started,
            observed=self._observed(),
            host_read=tuple(sorted(self.asked)),
        )
