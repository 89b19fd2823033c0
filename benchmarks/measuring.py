"""Measure what a load of the code and an allocation of the data change, on this machine.

Where the code and the data lie in memory may make a kernel faster or slower from a load to its end.
This script keeps several loads of one configuration at once, and launches them interleaved, in
random order, so that drift of the machine in time meets all of them alike:

    nothing              one load under several names: what remains is the error of the method
    loads                several loads of the code, one allocation of the data
    loads, allocations   several devices, each with a load and an allocation of its own

    python -m benchmarks.measuring spaces/mvmul.yaml
    python -m benchmarks.measuring spaces/mvmul.yaml --backend cuda
    python -m benchmarks.measuring spaces/mvmul.yaml --backend cuda --host

With --host, it also measures the host's share of a CUDA sample (benchmarks/measuring_host.py), with
--ticks how often kernels of a few ticks of a coarse clock are called different
(benchmarks/small_kernels.py), with --caches how much slower cold caches are
(benchmarks/measuring_cache.py). `tick_ns` is the tick of this device's clock, in nanoseconds.
All figures are of logarithms, in percent of the time, and of all cases together. `within` is the
standard deviation of a launch, without what the launches of its round share; `moments` is that of
the rounds. `between` is the standard deviation of a load (variance components of a two-way analysis
of variance, rounds by loads), with its 95 % interval (Williams, 1962; Tukey, 1951). Other work on
the machine widens it, so `between, undisturbed` compares the fastest tenth of each load's launches:
the standard deviation of the loads' first deciles, without what sampling explains (a bootstrap over
rounds), with a 95 % interval from a bootstrap over cases. It takes some minutes. The
last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.console import Console

from benchmarks.arguments import count, make_parser
from benchmarks.measuring_cache import print_cache_times
from benchmarks.measuring_host import print_host_share
from benchmarks.small_kernels import COARSE_TICK_NS, print_rates
from harness.commands.run import run_command
from harness.core.program import Binary, Launch
from harness.core.records import Input
from harness.display.text import make_table
from harness.measure.backends.base import Compiler, Device
from harness.measure.backends.choose import Backend, choose
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

KINDS = ("nothing", "loads", "loads, allocations")
_CONFIDENCE = 0.95
_FAST = 0.1
_RESAMPLES = 500


@dataclass(frozen=True)
class Scatter:
    """The standard deviations of a launch, of a load and of a round, in logarithms.

    `undisturbed` is that of a load from the fastest launches alone.
    """

    within: float
    between: Estimate
    undisturbed: Estimate
    moments: float


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
    return Scatter(math.sqrt(noise), between_loads, undisturbed(cases), of_rounds)


def undisturbed(cases: Sequence[Logs], seed: int = 0) -> Estimate:
    """Estimate the standard deviation of a load from the first deciles of the loads' launches."""
    rng = np.random.default_rng(seed)
    excess = np.array([_excess_variance(logs, rng) for logs in cases])
    means = excess[rng.integers(0, len(excess), (_RESAMPLES, len(excess)))].mean(axis=1)
    low, high = np.quantile(means, [(1 - _CONFIDENCE) / 2, (1 + _CONFIDENCE) / 2])
    return Estimate(_root(float(excess.mean())), _root(float(low)), _root(float(high)))


def _excess_variance(logs: Logs, rng: np.random.Generator) -> float:
    """Return the variance of the loads' first deciles, less what sampling explains of it."""
    rounds = logs.shape[1]
    drawn = logs[:, rng.integers(0, rounds, (_RESAMPLES, rounds))]
    again = np.quantile(drawn, _FAST, axis=2)
    errors = again - again.mean(axis=0)  # all loads are resampled in the same rounds
    found = np.quantile(logs, _FAST, axis=1)
    sampling = errors.var(axis=1).mean() * len(logs) / (len(logs) - 1)
    return float(found.var(ddof=1) - sampling)


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


def cases(
    spec: Spec, backend: Backend, device: Device, inputs: int, configs: int
) -> Iterator[Case]:
    """Yield some configurations, the default first, on inputs spread over those of the space."""
    compiler: Compiler = backend.open_compiler()
    for number in np.unique(np.linspace(0, len(spec.inputs) - 1, inputs).round().astype(int)):
        problem: Input = spec.inputs[number]
        data = make_kernel_data(spec.host, problem)
        space = ConstrainedSpace.of(spec, problem, device.limits, backend.compiler)
        drawn = space.sample(random.Random(0), configs)
        for config in list(dict.fromkeys([space.default, *drawn]))[:configs]:
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


# ------------------------------------------------------------------------------- the command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = make_parser("measuring", __doc__)
    parser.add_argument("space", type=Path, metavar="SPACE", help="a kernel's space file")
    parser.add_argument("--backend", default="auto", help="auto, cuda or opencl")
    parser.add_argument(
        "--host", action="store_true", help="also measure the host's share of a CUDA sample"
    )
    parser.add_argument(
        "--ticks", action="store_true", help="simulate kernels of a few ticks of a clock as well"
    )
    parser.add_argument("--caches", action="store_true", help="also measure cold over warm caches")
    numbers = {
        "--inputs": (4, "inputs"),
        "--configurations": (2, "configurations of each"),
        "--loads": (6, "loads of each"),
        "--rounds": (100, "launches of each load"),
    }
    for option, (default, what) in numbers.items():
        parser.add_argument(
            option, type=count, default=default, metavar="N", help=f"{what} ({default})"
        )
    return run_command(parser, arguments, _run)


def _run(args: argparse.Namespace) -> int:
    """Measure all cases; print a row for each and kind, those of all cases, and the JSON line."""
    spec, backend = load_spec(args.space), choose(args.backend)
    devices = [backend.open_device() for _ in range(args.loads)]
    rng = random.Random(0)
    chosen = cases(spec, backend, devices[0], args.inputs, args.configurations)
    found = [measured(case, devices, args.rounds, rng) for case in chosen]
    cases_of = zip(KINDS, zip(*found, strict=True), strict=True)
    whole = {kind: scatter(logs) for kind, logs in cases_of}
    tick_ns = round(devices[0].tick_s * 1e9, 3)
    where = devices[0].environment(backend.open_compiler().identity)
    title = f"{spec.name} on {where}; {len(found)} cases, {args.loads} loads, {args.rounds} rounds"
    head = ("differs in", "within", "between", "between, undisturbed", "moments")
    rows = [(kind, *_cells(one)) for kind, one in whole.items()]
    console = Console(width=140, highlight=False)
    console.print(make_table(head, rows, title=f"{title}; percent"))
    for device in reversed(devices):  # CUDA's contexts are a stack
        device.close()
    host = {"host_us": print_host_share(console, args.rounds)} if args.host else {}
    rates = print_rates(console, COARSE_TICK_NS, args.rounds) if args.ticks else None
    caches = print_cache_times(console, backend, args.rounds) if args.caches else None
    ticks = {"tick_ns": tick_ns} | ({"small_kernels": rates} if rates else {})
    cold = {"cold_over_warm": caches} if caches else {}
    by_kind = {kind: _figures(one) for kind, one in whole.items()}
    print(json.dumps(by_kind | host | ticks | cold))
    return 0


def _cells(one: Scatter) -> tuple[str, ...]:
    percents = [_percent(estimate) for estimate in (one.between, one.undisturbed)]
    return f"{100 * one.within:.2f}", *percents, f"{100 * one.moments:.2f}"


def _percent(one: Estimate) -> str:
    return Estimate(100 * one.value, 100 * one.low, 100 * one.high).text(".2f")


def _figures(one: Scatter) -> dict[str, float | list[float]]:
    estimates = {"between": one.between, "undisturbed": one.undisturbed}
    return {
        "within": round(one.within, 5),
        "moments": round(one.moments, 5),
        **{n: [round(x, 5) for x in (e.value, e.low, e.high)] for n, e in estimates.items()},
    }


if __name__ == "__main__":
    sys.exit(main())
