"""Measure how often kernels of a few clock ticks are called different, and how far off times are.

A simulated clock counts in ticks, and a kernel takes 2 to 8 of them, and 0.5 % more or less in each
launch. Each trial measures two kernels interleaved, as the finals do, and compares their times:

    free       launches begin at any moment
    in step    launches begin a fixed moment after a tick, another one for each kernel

Each is measured `with the tick` known, as harness does on a device, and `without`, as it did before
it asked for the tick. `equal` has the share of trials that call equal kernels different. `2 %
apart` has the shares that call the faster one of two faster, and that call it slower, which is
wrong. `error` is the median of how far the time of a kernel is from the true one, and `launches`
the median number in a sample.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field

from benchmarks.frame import show
from benchmarks.noise import SimulatedRunner
from harness.core.program import Binary
from harness.core.records import Build, Config, Input, Measurement
from harness.measure.trial import Job, measure_interleaved
from harness.stats.proportions import clopper_pearson
from harness.stats.timing import Sampling, time_ratio

TICK_NS = 1024
"""Of the events of some GPUs."""

ROUNDS = 20
APART = 0.02
_FEWEST, _MOST = 2.0, 8.0  # ticks of a kernel
_SPREAD = 0.005
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


def _figures(counts: Counts, trials: int) -> dict[str, object]:
    rates = {"equal": counts.equal, "2 % apart": counts.right, "wrong way": counts.wrong}
    return {
        **{name: clopper_pearson(n / trials, trials, 0.05) for name, n in rates.items()},
        "error": statistics.median(counts.errors),
        "launches": statistics.median(counts.launches),
    }


def measure_ticks(trials: int) -> dict[str, dict[str, object]]:
    """Print a row for each way of measuring; return the figures."""
    found = figures(TICK_NS * 1e-9, trials)
    head = ("launches begin", "equal", "2 % apart", "wrong way", "error", "launches")
    rows = [(name, *one.values()) for name, one in found.items()]
    show(head, rows, f"a tick of {TICK_NS} ns, {trials} trials")
    return found
