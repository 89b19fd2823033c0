"""Measure what a load of the code and an allocation of the data change, on this machine.

Where the code and the data lie in memory may make a kernel faster or slower from a load to its end.
This script keeps several loads of one configuration at once, and launches them interleaved, in
random order, so that drift of the machine in time meets all of them alike:

    nothing              one load under several names: what remains is the error of the method
    loads                several loads of the code, one allocation of the data
    loads, allocations   several devices, each with a load and an allocation of its own

All figures are of logarithms, in percent of the time, and of all cases together. `within` is the
standard deviation of a launch, without what the launches of its round share; `moments` is that of
the rounds. `between` is the standard deviation of a load (variance components of a two-way analysis
of variance, rounds by loads), with its 95 % interval (Williams, 1962; Tukey, 1951). Other work on
the machine widens it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.frame import show
from harness.core.program import Binary, Launch
from harness.core.records import Input
from harness.measure.backends.base import Compiler, Device
from harness.measure.devices import Backend
from harness.measure.kernel_data import KernelData, make_kernel_data
from harness.measure.verify import FILLS
from harness.space import ConstrainedSpace
from harness.space.launches import make_program
from harness.space_file import Spec, load_spec
from harness.stats import Estimate

Logs = npt.NDArray[np.float64]
"""Logarithms of seconds, shape (loads, rounds)."""

Run = Callable[[], float]
"""Launches one load once; returns the seconds."""

INPUTS, CONFIGS, LOADS = 4, 2, 6
KINDS = ("nothing", "loads", "loads, allocations")
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Scatter:
    """The standard deviations of a launch, of a load and of a round, in logarithms."""

    within: float
    between: Estimate
    moments: float

    @property
    def percents(self) -> tuple[float, Estimate, float]:
        """All three in percent."""
        one = self.between
        between = Estimate(100 * one.value, 100 * one.low, 100 * one.high)
        return 100 * self.within, between, 100 * self.moments


def scatter(cases: Sequence[Logs]) -> Scatter:
    """Estimate the variance components of several cases together, each with its own mean and its
    own rounds.

    The interval is that of Williams and Tukey: the ratio of the mean squares of loads and of the
    rest, over its expectation, has an F distribution. A negative variance counts as 0.
    """
    from scipy.stats import f

    loads, rounds = cases[0].shape
    of_loads = of_round = rest = 0.0
    for logs in cases:
        by_load, by_round = logs.mean(axis=1, keepdims=True), logs.mean(axis=0, keepdims=True)
        of_loads += rounds * float(np.square(by_load - logs.mean()).sum())
        of_round += loads * float(np.square(by_round - logs.mean()).sum())
        rest += float(np.square(logs - by_load - by_round + logs.mean()).sum())
    free = len(cases) * (loads - 1), len(cases) * (loads - 1) * (rounds - 1)
    noise, between = rest / free[1], of_loads / free[0]
    moments = of_round / (len(cases) * (rounds - 1))
    tail = (1 - _CONFIDENCE) / 2
    bounds = [1.0, float(f.ppf(1 - tail, *free)), float(f.ppf(tail, *free))]
    value, low, high = (_root((between / bound - noise) / rounds) for bound in bounds)
    between_loads = Estimate(value, low, high)
    of_rounds = _root((moments - noise) / loads)
    return Scatter(math.sqrt(noise), between_loads, of_rounds)


def _root(variance: float) -> float:
    return math.sqrt(max(0.0, variance))


def interleaved(runs: Sequence[Run], rounds: int, rng: random.Random) -> Logs:
    """Run each once a round, in random order; return the logarithms of the seconds."""
    times_s = np.empty((len(runs), rounds))
    for round_ in range(rounds):
        for number in rng.sample(range(len(runs)), len(runs)):
            times_s[number, round_] = runs[number]()
    return np.log(times_s)


# ------------------------------------------------------------------------------ on a device


@dataclass(frozen=True)
class Case:
    """One configuration on one input: its code, its launch, and the input's data."""

    binary: Binary
    launch: Launch
    data: KernelData

    def loaded(self, device: Device) -> Run:
        """Load the code anew on a device that holds the data, and launch it once."""
        device.unload()
        module = device.load(self.binary)

        def run() -> float:
            device.restore(self.data.fresh({}, FILLS[0]))
            return device.launch(module, (self.launch,))

        run()  # the driver may compile at the first launch
        return run


def cases(spec: Spec, backend: Backend, device: Device) -> Iterator[Case]:
    """Yield some configurations, the default first, on inputs spread over those of the space."""
    compiler: Compiler = backend.open_compiler()
    for number in np.unique(np.linspace(0, len(spec.inputs) - 1, INPUTS).round().astype(int)):
        problem: Input = spec.inputs[number]
        data = make_kernel_data(spec.host, problem)
        space = ConstrainedSpace.of(spec, problem, device.limits, backend.compiler)
        drawn = space.sample(random.Random(0), CONFIGS)
        for config in list(dict.fromkeys([space.default, *drawn]))[:CONFIGS]:
            program = make_program(spec, space, config, backend.language)
            binary = compiler.compile(program)
            launch = space.launch(config, spec.functions[0], tuple(data.arguments))
            yield Case(binary, launch, data)


def measured(case: Case, devices: Sequence[Device], rounds: int, rng: random.Random) -> list[Logs]:
    """Return the logarithms of each of KINDS."""
    for device in devices:
        device.bind(case.data.arguments)
    first, loads = devices[0], len(devices)
    one = case.loaded(first)
    kinds = [
        [one] * loads,
        [case.loaded(first) for _ in range(loads)],
        [case.loaded(device) for device in devices],
    ]
    return [interleaved(runs, rounds, rng) for runs in kinds]


def measure_loads(backend: Backend, path: Path, rounds: int) -> dict[str, dict[str, object]]:
    """Measure all cases of a space; print a row for each kind, and return the figures."""
    spec, rng = load_spec(path), random.Random(0)
    devices = [backend.open_device() for _ in range(LOADS)]
    logs = [measured(case, devices, rounds, rng) for case in cases(spec, backend, devices[0])]
    found = {kind: scatter(of) for kind, of in zip(KINDS, zip(*logs, strict=True), strict=True)}
    where = devices[0].environment(backend.open_compiler().identity)
    show(
        ("differs in", "within", "between", "moments"),
        [(kind, *one.percents) for kind, one in found.items()],
        f"{spec.name} on {where}; {len(logs)} cases, {LOADS} loads, {rounds} rounds; percent",
    )
    return {kind: asdict(one) for kind, one in found.items()}
