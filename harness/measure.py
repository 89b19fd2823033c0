"""One configuration on one input, end to end: load, launch, verify, time.

Runs in the device's process; what can go wrong with a configuration becomes an outcome.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from harness.backends.base import Binary, Device, Launch
from harness.errors import LaunchFailed
from harness.host import Case
from harness.records import (
    Config,
    Input,
    Measurement,
    Outcome,
    StopReason,
    Timing,
    Verdict,
    WorstElement,
)
from harness.timing import Sampling
from harness.verify import Tolerance, verify


@dataclass(frozen=True)
class Job:
    """Everything that one measurement needs beside the device and the input's data."""

    config: Config
    input: Input
    binary: Binary
    launches: tuple[Launch, ...]
    tolerance: Tolerance
    sampling: Sampling
    best_s: float | None = None


class _WrongResult(Exception):
    def __init__(self, worst: WorstElement, when: str) -> None:
        super().__init__(f"wrong result {when}: {worst}")
        self.worst = worst


def measure(device: Device, case: Case, job: Job) -> Measurement:
    """Verify one launch, warm up, sample, verify again; never raises for the configuration's
    own failure, which is the measurement's outcome."""
    started = time.perf_counter()
    warmup_s: list[float] = []
    try:
        module = device.load(job.binary)
        warmup_s.append(_verified_launch(device, module, case, job))
        warmup_s += [_timed(device, module, case, job) for _ in range(job.sampling.warmup - 1)]
        timing = _sample(device, module, case, job)
        _check(device, case, job, "after the timed launches")
    except (LaunchFailed, _WrongResult) as error:
        return _failed(job, error, warmup_s, time.perf_counter() - started)
    return Measurement(
        job.config,
        job.input,
        Outcome.OK,
        timing=timing,
        build=job.binary.build,
        warmup_s=tuple(warmup_s),
        wall_s=time.perf_counter() - started,
    )


def measure_interleaved(
    device: Device, case: Case, jobs: Sequence[Job], rounds: int
) -> list[Measurement]:
    """Time several configurations in turn, one sample of each a round, so that drift hits all
    alike. A configuration that fails drops out with its outcome; the others go on."""
    found: dict[int, Measurement] = {}
    samples: dict[int, list[float]] = {}
    modules: dict[int, object] = {}
    started = time.perf_counter()
    for round_ in range(rounds + 1):
        for index, job in enumerate(jobs):
            if index in found:
                continue
            try:
                if round_ == 0:
                    modules[index] = device.load(job.binary)
                    _verified_launch(device, modules[index], case, job)
                    samples[index] = []
                else:
                    samples[index].append(_timed(device, modules[index], case, job))
            except (LaunchFailed, _WrongResult) as error:
                found[index] = _failed(job, error, (), time.perf_counter() - started)
    for index, job in enumerate(jobs):
        found.setdefault(index, _final(job, samples.get(index, []), started))
    return [found[index] for index in range(len(jobs))]


def _final(job: Job, samples_s: list[float], started: float) -> Measurement:
    return Measurement(
        job.config,
        job.input,
        Outcome.OK,
        timing=Timing(tuple(samples_s), StopReason.INTERLEAVED),
        build=job.binary.build,
        wall_s=time.perf_counter() - started,
    )


def _failed(
    job: Job, error: LaunchFailed | _WrongResult, warmup_s: Sequence[float], wall_s: float
) -> Measurement:
    wrong = error.worst if isinstance(error, _WrongResult) else None
    return Measurement(
        job.config,
        job.input,
        Outcome.WRONG_RESULT if wrong else Outcome.LAUNCH_FAILED,
        build=job.binary.build,
        worst=wrong,
        message=str(error) or "the device refused the launch",
        warmup_s=tuple(warmup_s),
        wall_s=wall_s,
    )


def _verified_launch(device: Device, module: object, case: Case, job: Job) -> float:
    for name, array in case.before_first().items():
        device.write(name, array)
    elapsed_s = device.launch(module, job.launches)
    _check(device, case, job, "at the first launch")
    return elapsed_s


def _check(device: Device, case: Case, job: Job, when: str) -> None:
    found = {name: device.read(name) for name in case.expected}
    verdict: Verdict = verify(found, case.expected, job.tolerance)
    if verdict.worst is not None:
        raise _WrongResult(verdict.worst, when)


def _timed(device: Device, module: object, case: Case, job: Job) -> float:
    for name, array in case.restored().items():
        device.write(name, array)
    elapsed_s = device.launch(module, job.launches)
    if elapsed_s <= 0:
        raise LaunchFailed(f"the device's clock told {elapsed_s} s for a launch")
    return elapsed_s


def _sample(device: Device, module: object, case: Case, job: Job) -> Timing:
    samples_s: list[float] = []
    while True:
        samples_s.append(_timed(device, module, case, job))
        reason = job.sampling.stop(samples_s, job.best_s)
        if reason is not None:
            return Timing(tuple(samples_s), reason)
