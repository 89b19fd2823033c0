"""Measure how often kernels of a few clock ticks are called different, and how far off times are.

    python -m benchmarks.small_kernels
    python -m benchmarks.small_kernels --tick-ns 32 --trials 1000
    python -m benchmarks.small_kernels --cuda --trials 30

The last command also measures on the CUDA device, the others only simulate. Where there is no GPU,
it runs over the stand-in for its driver that the tests use, with kernels 2 % apart:

    python -m tests.helpers.stub_driver FOLDER
    export LD_LIBRARY_PATH=FOLDER CUDA_STUB_TICK_NS=1024 CUDA_STUB_KERNEL_NS=add:5100,twice:5000

A simulated clock counts in ticks, and a kernel takes 2 to 8 of them, and 0.5 % more or less in each
launch. Each trial measures two kernels interleaved, as the finals do, and compares their times:

    free       launches begin at any moment
    in step    launches begin a fixed moment after a tick, another one for each kernel

Each is measured `with the tick` known, as harness does on a device, and `without`, as it did before
it asked for the tick. `equal` has the share of trials that call equal kernels different. `2 %
apart` has the shares that call the faster one of two faster, and that call it slower, which is
wrong. `error` is the median of how far the time of a kernel is from the true one, and `launches`
the median number in a sample. On a device launches begin when the host is ready, and the times of
two kernels are unknown but for the stand-in: there the error is that of `twice`, and `2 % apart`
are `add` and `twice`. It takes a minute, and with --cuda some more. The last line is one JSON
object.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import re
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from rich.console import Console

from benchmarks.arguments import count, make_parser
from benchmarks.simulated_runner import SimulatedRunner
from harness.core.observations import RUNS_PER_SAMPLE
from harness.core.program import Binary, Launch, Program
from harness.core.records import Build, Config, Input, Measurement
from harness.display.text import make_table
from harness.measure.backends.cuda import device_arch
from harness.measure.backends.cuda_device import CudaDevice
from harness.measure.backends.nvcc import Nvcc
from harness.measure.kernel_data import KernelData
from harness.measure.kernel_job import KernelJob
from harness.measure.kernel_runner import measure_interleaved as measure_kernels
from harness.measure.trial import Job, measure_interleaved
from harness.measure.verify import Tolerance
from harness.stats.proportions import clopper_pearson
from harness.stats.timing import Sampling, time_ratio

COARSE_TICK_NS = 1024
"""Of the events of some GPUs."""

ROUNDS = 20
APART = 0.02
_FEWEST, _MOST = 2.0, 8.0  # ticks of a kernel
_SPREAD = 0.005
_SIZE = 64
_SOURCE = """\
extern "C" __global__ void twice(const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = 2 * x[i];
}
extern "C" __global__ void add(float *z, const float *x, const float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) z[i] = x[i] + y[i];
}
"""
_JOB = Job(
    config=Config({}),
    input=Input({}),
    binary=Binary(Build(key="", options="", compiler="", compile_s=0.0), b""),
    sampling=Sampling(),
)


@dataclass
class TickingRunner(SimulatedRunner):
    """A `Runner` whose launches take a time on a clock that counts in ticks.

    `phase` is where in a tick its launches begin, from 0 to 1; anywhere where it is None. Where
    the tick is known, each waits for a random part of it, as a kernel's do.
    """

    true_s: float
    clock_tick_s: float
    tick_s: float
    phase: float | None
    rng: random.Random
    job: Job = _JOB
    wall_s: float = 0.0
    host_read: tuple[str, ...] = ()
    runs: int = field(default=0)

    def prepare(self) -> Iterator[float]:
        """Run once."""
        yield self.run()

    def run(self) -> float:
        """Return what the clock says of one launch, and at least one tick."""
        self.runs += 1
        begin = self.rng.random() if self.phase is None else self.phase
        begin = (begin + self.rng.random() * self.tick_s / self.clock_tick_s) % 1
        took = self.true_s * self.rng.gauss(1, _SPREAD) / self.clock_tick_s
        return max(1, int(begin + took)) * self.clock_tick_s


@dataclass
class Counts:
    """How many trials ended in which claim, and the errors of the times."""

    equal: int = 0
    right: int = 0
    wrong: int = 0
    errors: list[float] = field(default_factory=list)
    launches: list[float] = field(default_factory=list)


def simulated(tick_s: float, trials: int, *, known: bool, in_step: bool, seed: int = 0) -> Counts:
    """Measure pairs of kernels on a clock with this tick, which is `known` or not."""
    rng, counts = random.Random(seed), Counts()
    for _ in range(trials):
        true_s = rng.uniform(_FEWEST, _MOST) * tick_s
        for gap in (0.0, APART):
            runners = [
                TickingRunner(
                    seconds,
                    tick_s,
                    tick_s if known else 0.0,
                    rng.random() if in_step else None,
                    rng,
                )
                for seconds in (true_s * (1 + gap), true_s)
            ]
            slower, faster = measure_interleaved(runners, ROUNDS, rng.randrange(1 << 30))
            _count(counts, gap, slower, faster)
            counts.errors.append(abs(faster.time_s / true_s - 1))
            counts.launches.append((runners[1].runs - 1) / ROUNDS)
    return counts


# ------------------------------------------------------------------------------ on a device


class TicklessDevice(CudaDevice):
    """A device whose tick is not asked for."""

    tick_s = 0.0


def on_device(trials: int, *, known: bool) -> Counts:
    """Measure two kernels of the device's own, whose tick is `known` or not."""
    binary = Nvcc(device_arch()).compile(Program(_SOURCE, (), ()))
    x = np.arange(_SIZE, dtype=np.float32)
    data = KernelData({"x": x, "y": np.zeros_like(x), "n": np.int32(_SIZE)}, {"y": 2 * x}, ())
    twice = KernelJob(
        config=Config({"kernel": "twice"}),
        input=Input({}),
        binary=binary,
        sampling=Sampling(),
        launches=(Launch("twice", (_SIZE,), (1,), ("x", "y")),),
        tolerance=Tolerance(),
    )
    add = replace(
        twice,
        config=Config({"kernel": "add"}),
        launches=(Launch("add", (_SIZE,), (1,), ("y", "x", "x", "n")),),
    )
    device, counts = CudaDevice() if known else TicklessDevice(), Counts()
    device.bind(data.arguments)
    true_s = _true_s()
    for trial in range(trials):
        for gap, other in ((0.0, twice), (APART, add)):
            slower, faster = measure_kernels(device, data, [other, twice], ROUNDS, trial)
            _count(counts, gap, slower, faster)
            counts.errors.append(abs(faster.time_s / true_s - 1))
            counts.launches.append(faster.observed.get(RUNS_PER_SAMPLE, 1.0))
    device.close()
    return counts


def _true_s() -> float:
    """Return how long `twice` takes, which only the stand-in says; NaN on a GPU."""
    named = re.search(r"twice:(\d+)", os.environ.get("CUDA_STUB_KERNEL_NS", ""))
    return int(named[1]) * 1e-9 if named else math.nan


# --------------------------------------------------------------------------------- the rates


def _count(counts: Counts, gap: float, slower: Measurement, faster: Measurement) -> None:
    assert slower.timing is not None
    assert faster.timing is not None
    ratio = time_ratio(slower.timing, faster.timing)
    if not gap:
        counts.equal += ratio.is_significant
    elif ratio.is_significant:
        counts.right += ratio.value > 1
        counts.wrong += ratio.value < 1


def figures(tick_s: float, trials: int) -> dict[str, dict[str, object]]:
    """Return the rates of each way of measuring, by name."""
    return {
        f"{phase}, {tick} the tick": _figures(
            simulated(tick_s, trials, known=tick == "with", in_step=phase == "in step"), trials
        )
        for phase in ("free", "in step")
        for tick in ("without", "with")
    }


def device_figures(trials: int) -> dict[str, dict[str, object]]:
    """Return the rates on the CUDA device, without its tick and with it."""
    return {
        f"on the device, {'with' if known else 'without'} the tick": _figures(
            on_device(trials, known=known), trials
        )
        for known in (False, True)
    }


def _figures(counts: Counts, trials: int) -> dict[str, object]:
    rates = {"equal": counts.equal, "2 % apart": counts.right, "wrong way": counts.wrong}
    found: dict[str, object] = {}
    for name, claims in rates.items():
        rate = clopper_pearson(claims / trials, trials, 0.05)
        found[name] = [round(value, 4) for value in (rate.value, rate.low, rate.high)]
    error = statistics.median(counts.errors)
    found["error"] = None if math.isnan(error) else round(error, 4)
    found["launches"] = statistics.median(counts.launches)
    return found


def print_rates(
    console: Console, tick_ns: int, trials: int, *, cuda: bool = False
) -> dict[str, dict[str, object]]:
    """Print a row for each way of measuring; return the figures."""
    found = figures(tick_ns * 1e-9, trials) | (device_figures(trials) if cuda else {})
    head = ("launches begin", "equal", "2 % apart", "wrong way", "error", "launches")
    rows = [(name, *map(_cell, one.values())) for name, one in found.items()]
    title = f"a tick of {tick_ns} ns, {trials} trials"
    console.print(make_table(head, rows, title=title))
    return found


def _cell(value: object) -> str:
    if isinstance(value, list):
        rate, low, high = (100 * each for each in value)
        return f"{rate:.1f} % [{low:.1f}, {high:.1f}]"
    return "unknown" if value is None else f"{value:g}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures and the JSON line."""
    args = _parser().parse_args(arguments)
    console = Console(width=140, highlight=False)
    found = print_rates(console, args.tick_ns, args.trials, cuda=args.cuda)
    print(json.dumps({"tick_ns": args.tick_ns, "trials": args.trials, **found}))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = make_parser("small_kernels", __doc__)
    parser.add_argument(
        "--tick-ns", type=count, default=COARSE_TICK_NS, metavar="NS", help="(1024)"
    )
    parser.add_argument("--trials", type=count, default=400, metavar="N", help="of each (400)")
    parser.add_argument("--cuda", action="store_true", help="measure on the CUDA device as well")
    return parser


if __name__ == "__main__":
    sys.exit(main())
