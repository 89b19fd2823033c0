"""Coarse clocks: their tick is found, short runs are averaged, and intervals hold what is left."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest

from harness.core.observations import CLOCK_ERROR, RUNS_PER_SAMPLE
from harness.core.program import Binary
from harness.core.records import Build, Config, Input
from harness.measure import clocks as clock_tick
from harness.measure.clocks import delay_randomly, find_tick, run_sample
from harness.measure.trial.occasions import join
from harness.measure.trial.trial import Job, measure, measure_interleaved
from harness.stats.timing import Sampling, time_ratio

TICK_S = 1.024e-6
ROUNDS = 20
JOB = Job(
    config=Config({}),
    input=Input({}),
    binary=Binary(Build(key="", options="", compiler="", compile_s=0.0), b""),
    sampling=Sampling(),
)


@dataclass
class TickingRunner:
    """A `Runner` whose launches take a time, 0.5 % more or less, on a clock that counts in ticks.

    `phase` is where in a tick its launches begin, from 0 to 1; anywhere where it is None. Where
    the tick is known (`tick_s`), each waits for a random part of it, as a kernel's do.
    """

    true_s: float
    clock_tick_s: float
    tick_s: float
    phase: float | None
    rng: random.Random
    job: Job = JOB
    wall_s: float = 0.0
    host_read: tuple[str, ...] = ()
    runs: int = 0

    def prepare(self) -> Iterator[float]:
        yield self.run()

    def run(self) -> float:
        """Return what the clock says of one launch, and at least one tick."""
        self.runs += 1
        begin = self.rng.random() if self.phase is None else self.phase
        begin = (begin + self.rng.random() * self.tick_s / self.clock_tick_s) % 1
        took = self.true_s * self.rng.gauss(1, 0.005) / self.clock_tick_s
        return max(1, int(begin + took)) * self.clock_tick_s

    def is_warm(self) -> bool:
        return True

    def keeps_sample(self) -> bool:
        return True

    def verify(self) -> None: ...

    def finish(self) -> None: ...

    def check_writes(self) -> None: ...

    def observed(self) -> dict[str, float]:
        return {}


def runner(true_s: float, tick_s: float = TICK_S, seed: int = 0) -> TickingRunner:
    return TickingRunner(true_s, tick_s, tick_s, None, random.Random(seed))


@pytest.mark.parametrize("tick_s", [1.024e-6, 0.5e-6, 32e-9])
def test_tick_is_the_least_step_between_times(tick_s: float) -> None:
    rng = random.Random(0)

    def work(length: int) -> float:
        return math.floor((1.5e-6 + length * 20e-9) / tick_s + rng.random()) * tick_s

    assert find_tick(work) == pytest.approx(tick_s)


def test_tick_is_at_least_what_the_driver_states_and_that_of_a_clock_that_stands() -> None:
    assert find_tick(lambda length: length * 1e-9, stated_s=1e-6) == 1e-6
    assert find_tick(lambda length: TICK_S) == TICK_S


def test_sample_has_a_hundred_ticks_or_one_long_run() -> None:
    assert len(run_sample(lambda: 1.0, 0.25)) == 25
    assert run_sample(lambda: 1e-3, TICK_S) == [1e-3]
    assert run_sample(lambda: 1e-3, 0.0) == [1e-3]


def test_sample_ends_at_its_most_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_tick, "MOST_RUNS", 7)
    assert len(run_sample(lambda: TICK_S, TICK_S)) == 7


@pytest.mark.parametrize(
    ("moments_s", "run_s", "samples", "runs"),
    [
        (itertools.count(0.0, 0.02), TICK_S, {}, 3),  # its runs take long
        (itertools.count(0.0, 0.001), TICK_S, {"samples": 1000}, 5),  # many samples are shorter
        (itertools.chain([0.0, 9.0], itertools.count(9.01, 0.001)), 5 * TICK_S, {}, 20),
    ],
    ids=["long runs", "many samples", "the host was stopped"],
)
def test_sample_ends_by_the_time_that_its_runs_take(
    monkeypatch: pytest.MonkeyPatch,
    moments_s: Iterator[float],
    run_s: float,
    samples: dict[str, int],
    runs: int,
) -> None:
    monkeypatch.setattr(clock_tick.time, "perf_counter", lambda: next(moments_s))
    assert len(run_sample(lambda: run_s, TICK_S, **samples)) == runs


def test_delays_are_spread_over_the_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    now, waited = 0.0, []

    def counter() -> float:
        nonlocal now
        now += 0.01
        return now

    monkeypatch.setattr(clock_tick.time, "perf_counter", counter)
    for _ in range(200):
        before = now
        delay_randomly(1.0)
        waited.append(now - before)
    assert 0.4 < np.mean(waited) < 0.6
    assert min(waited) < 0.1 < 0.9 < max(waited)


def test_short_kernel_is_measured_as_means_of_many_runs_each() -> None:
    one = runner(2.5 * TICK_S)
    found = measure(one)
    assert one.runs == 1 + found.timing.count * found.observed[RUNS_PER_SAMPLE]
    assert found.observed[RUNS_PER_SAMPLE] == pytest.approx(40, abs=3)
    assert found.time_s == pytest.approx(2.5 * TICK_S, rel=0.01)
    assert found.timing.clock_error_s == pytest.approx(TICK_S / 80, rel=0.1)
    assert found.observed[CLOCK_ERROR] == found.timing.clock_error_s
    assert found.timing.clock_error_s <= 0.0055 * found.time_s


def test_long_kernel_says_nothing_of_its_clock() -> None:
    found = measure(runner(1.0))
    assert found.timing.clock_error_s == 0
    assert found.observed == {}


def test_configurations_in_one_round_have_samples_of_their_own_sizes() -> None:
    slow, fast = measure_interleaved([runner(30 * TICK_S), runner(3 * TICK_S)], 4)
    assert slow.observed[RUNS_PER_SAMPLE] == 4
    assert fast.observed[RUNS_PER_SAMPLE] == pytest.approx(33, abs=2)


def test_interleaved_samples_are_long_enough_for_the_least_time_after_an_untimed_run() -> None:
    job = runner(1.0).job
    sampling = dataclasses.replace(job.sampling, least_time_s=0.2, repeats=20)
    job = dataclasses.replace(job, sampling=sampling)
    runners = [dataclasses.replace(runner(s, tick_s=1e-9), job=job) for s in (1e-3, 0.05)]
    short, long = measure_interleaved(runners, 3)
    assert short.observed[RUNS_PER_SAMPLE] == pytest.approx(10, abs=1)
    assert runners[0].runs == 1 + 3 * (1 + short.observed[RUNS_PER_SAMPLE])
    assert RUNS_PER_SAMPLE not in long.observed
    assert runners[1].runs == 1 + 3
    alone = dataclasses.replace(runner(1e-3, tick_s=1e-9), job=job)
    assert RUNS_PER_SAMPLE not in measure(alone).observed, "a search has no least time"


def test_occasions_together_have_the_largest_error() -> None:
    parts = [measure_interleaved([runner(3 * TICK_S, seed=n)], 3)[0] for n in range(4)]
    errors_s = [part.observed[CLOCK_ERROR] for part in parts]
    joined = join(parts)
    assert joined.timing.clock_error_s == joined.observed[CLOCK_ERROR] == max(errors_s)


# ------------------------------------------------------------------------- the whole claim


@dataclass
class Counts:
    """How many pairs of kernels ended in which claim, and the errors of the times."""

    equal: int = 0
    right: int = 0
    wrong: int = 0
    errors: list[float] = field(default_factory=list)


def simulated(pairs: int, *, known: bool) -> Counts:
    """Measure kernels of 2 to 8 ticks, which begin in step with the clock, beside equal ones and
    beside ones that are 2 % slower; the tick is `known` or not."""
    rng, counts = random.Random(1), Counts()
    for _ in range(pairs):
        true_s = rng.uniform(2.0, 8.0) * TICK_S
        for gap in (0.0, 0.02):
            slower, faster = measure_interleaved(
                [
                    TickingRunner(time_s, TICK_S, TICK_S if known else 0.0, rng.random(), rng)
                    for time_s in (true_s * (1 + gap), true_s)
                ],
                ROUNDS,
                rng.randrange(1 << 30),
            )
            counts.errors.append(abs(faster.time_s / true_s - 1))
            ratio = time_ratio(slower.timing, faster.timing)
            if not gap:
                counts.equal += ratio.is_significant
            elif ratio.is_significant:
                counts.right += ratio.value > 1
                counts.wrong += ratio.value < 1
    return counts


@pytest.fixture(scope="module")
def counts() -> dict[bool, Counts]:
    return {known: simulated(60, known=known) for known in (False, True)}


def test_equal_kernels_are_not_called_different_once_the_tick_is_known(counts) -> None:
    assert counts[False].equal >= 12
    assert counts[True].equal == 0


def test_the_slower_of_two_kernels_is_not_called_faster_once_the_tick_is_known(counts) -> None:
    assert counts[False].wrong >= 3
    assert counts[True].wrong == 0
    assert counts[True].right > counts[False].right / 2


def test_times_are_ten_times_nearer_once_the_tick_is_known(counts) -> None:
    assert np.median(counts[True].errors) < np.median(counts[False].errors) / 8
