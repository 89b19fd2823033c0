"""Warm devices and low clocks, on a clock of the tests' own and on a device in memory."""

import dataclasses
import itertools
import math
import random

import numpy as np
import pytest

from harness.core.observations import CLOCK_ERROR, RUNS_PER_SAMPLE, SM_CLOCK_MHZ, THROTTLED_SAMPLES
from harness.core.records import Outcome
from harness.measure.device import clocks as clock_watch
from harness.measure.device.clocks import (
    GPU_WARMUP_S,
    PAUSE_S,
    ClockWatch,
    SampleClocks,
    delay_randomly,
    find_tick,
    run_sample,
)
from harness.measure.kernels.trial import measure_alone
from harness.measure.occasions import join
from harness.space_file import load_spec
from harness.stats.timing import Sampling
from tests import ROOT
from tests.helpers.fake_kernels import DATA, bound_device, fake_job, interleaved
from tests.helpers.fakes import KERNELS, FakeDevice
from tests.helpers.results_examples import SPEC

FULL_MHZ = 1000.0
JOB = fake_job()


class Work:
    """A watched device, which runs when the test says so."""

    def __init__(self, full_mhz=FULL_MHZ):
        self.now_s = 100.0
        self.watch = ClockWatch(full_mhz, lambda: self.now_s)

    def run(self, seconds, *clocks_mhz):
        """Run once at each clock."""
        for mhz in clocks_mhz:
            self.watch.run_begins()
            self.now_s += seconds
            self.watch.run_ended(mhz, seconds)

    def is_warm(self, warmup_s=0.025):
        return self.watch.is_warm(warmup_s)

    def warm_up(self):
        """Run at 600 MHz until it is warm; return the seconds that this takes."""
        began_s = self.now_s
        while not self.is_warm():
            self.run(0.01, 600)
        return self.now_s - began_s


# ------------------------------------------------------------------------- warm devices


@pytest.mark.parametrize(
    "full_mhz, steps",
    [
        (None, [(0.0, [], False), (0.01, [None, None], False), (0.01, [None], True)]),
        (FULL_MHZ, [(0.03, [800, 900, 1000], False), (0.03, [995], False), (0.03, [1005], True)]),
        (FULL_MHZ, [(0.01, [300] * 4, False), (0.01, [1000] * 3, True)]),  # steady, but low
        (FULL_MHZ, [(0.1, [1000, 1000], False)]),  # three runs are needed
        (FULL_MHZ, [(0.01, [1000] * 3, True), (0.01, [900], True)]),  # it stays warm
    ],
)
def test_device_is_warm_after_the_time_and_where_its_clock_is_steady(full_mhz, steps):
    work = Work(full_mhz)
    assert work.is_warm(0), "no time asks for nothing"
    for seconds, clocks_mhz, is_warm in steps:
        work.run(seconds, *clocks_mhz)
        assert work.is_warm() is is_warm


def test_pause_makes_the_device_cold_again():
    work = Work()
    work.run(0.01, 1000, 1000, 1000)
    work.now_s += 0.9 * PAUSE_S
    assert work.is_warm(), "the next configuration needs no warm-up"
    work.now_s += 0.2 * PAUSE_S
    assert not work.is_warm()
    work.run(0.01, 1000)
    assert not work.is_warm(), "the work from before the pause does not count"
    work.run(0.02, 1000)
    assert not work.is_warm(), "neither do the clocks"
    work.run(0.01, 1000)
    assert work.is_warm()


def test_work_between_launches_is_no_pause():
    """To copy large arrays to the device takes longer than a pause."""
    work = Work()
    for _ in range(3):
        work.watch.run_begins()
        work.now_s += 2 * PAUSE_S
        work.watch.run_ended(1000, 1e-3)
    assert work.is_warm()


def test_clock_that_never_becomes_steady_is_waited_for_in_vain_only_once():
    work = Work()
    for mhz in (900, 800) * 15:
        work.run(0.01, mhz)
        if work.is_warm():
            break
    assert work.now_s == pytest.approx(100.25, abs=0.011)


def test_locked_clock_is_the_expected_one_after_the_first_warm_up():
    work = Work()
    assert work.warm_up() == pytest.approx(0.25, abs=0.011)
    assert not work.watch.is_low(590)
    work.now_s += 1
    assert work.warm_up() == pytest.approx(0.03, abs=1e-6)


def test_space_says_how_long_to_warm_up():
    usual = {"warmup_time_s": GPU_WARMUP_S}
    assert SPEC.measure.sampling(usual).warmup_time_s == 0.025
    assert SPEC.with_measure({"warmup_time_s": 0}).measure.sampling(usual).warmup_time_s == 0
    assert load_spec(ROOT / "spaces/blur_gcc.yaml").measure.sampling().warmup_time_s == 0, (
        "a program"
    )


# ------------------------------------------------------------------------- low clocks


def test_low_is_under_three_quarters_of_the_stated_clock():
    work = Work()
    assert [work.watch.is_low(mhz) for mhz in (749, 751, None)] == [True, False, False]
    work.run(0.01, 1200)
    assert not work.watch.is_low(760), "a higher clock does not raise the limit"


def test_highest_clock_counts_where_the_device_states_none():
    work = Work(None)
    assert not work.watch.is_low(100)
    work.run(0.01, 2000, 1900)
    assert [work.watch.is_low(mhz) for mhz in (1490, 1510)] == [True, False]


def test_clock_that_recovers_is_expected_again():
    work = Work()
    work.run(0.01, 500, 500, 500)
    work.watch.expect_no_more()
    assert not work.watch.is_low(500)
    work.run(0.01, 990)
    assert work.watch.is_low(500)


class Sampled(SampleClocks):
    """The samples of a device that runs, and what was waited for after each low clock."""

    def __init__(self, work):
        self.work, self.waits_s = work, []
        super().__init__(work.watch, self.waits_s.append)

    def take(self, *clocks_mhz):
        """Run once at each clock; return which samples are kept."""
        are_kept = []
        for mhz in clocks_mhz:
            self.work.run(0.01, mhz)
            are_kept.append(self.keeps(mhz))
        return are_kept


def test_clock_that_is_low_every_other_time_does_not_use_up_the_deadline():
    samples = Sampled(Work())
    assert samples.take(*(500, 1000) * 100) == [False, True] * 40 + [True] * 120
    assert len(samples.waits_s) == 40


def test_low_samples_are_thrown_away_and_counted_after_a_pause_each():
    samples = Sampled(Work())
    assert samples.take(1000, 500, 700, 980, 990) == [True, False, False, True, True]
    assert samples.observed() == {SM_CLOCK_MHZ: 990, THROTTLED_SAMPLES: 2}
    assert len(samples.waits_s) == 2
    assert max(samples.waits_s) < PAUSE_S, "otherwise the device would count as cold"


def test_samples_are_kept_after_five_low_clocks_in_a_row():
    work = Work()
    samples = Sampled(work)
    assert samples.take(*[500] * 8) == [False] * 5 + [True] * 3
    assert samples.observed() == {SM_CLOCK_MHZ: 500, THROTTLED_SAMPLES: 5}
    assert Sampled(work).take(500, 510) == [True] * 2, "the next measurement waits no more"


def test_hot_kernel_does_not_wait_again_in_each_round_beside_a_cool_one():
    work = Work()
    hot, cool = Sampled(work), Sampled(work)
    hot.take(*[500] * 6)
    for _ in range(3):
        assert cool.take(1000) == hot.take(500) == [True]


# ------------------------------------------------------------------------- measurements


@pytest.fixture(autouse=True)
def no_recovery(monkeypatch):
    monkeypatch.setattr(clock_watch, "_RECOVERY_S", 0.0)


def sampled(**changes):
    """A job that is sampled otherwise."""
    return fake_job(sampling=dataclasses.replace(JOB.sampling, **changes))


def test_thrown_away_sample_is_taken_again():
    device = bound_device(None, [9, 1, 2, 7, 3, 4], [1000, 1000, 1000, 600, 1000, 980])
    measured = measure_alone(device, DATA, JOB)
    assert (measured.timing.samples_s, measured.warmup_s) == ((1, 2, 3, 4), (9,))
    clocks = measured.observed[SM_CLOCK_MHZ], measured.observed[THROTTLED_SAMPLES]
    assert clocks == (1000, 1)


def test_runs_that_warm_the_device_are_in_no_sample():
    device = bound_device()
    moments_s = itertools.count(0.0, 1e-4)
    device.watch = ClockWatch(None, lambda: next(moments_s))
    measured = measure_alone(device, DATA, sampled(warmup_time_s=0.025))
    assert len(measured.warmup_s) == 1
    assert 50 < len(device.launched) < 300


def test_device_that_never_becomes_warm_is_sampled_in_the_end():
    device = bound_device()
    device.watch = ClockWatch(None, lambda: 1.0)
    measured = measure_alone(device, DATA, sampled(warmup_time_s=0.001, repeats=2))
    assert measured.outcome is Outcome.OK


# ---------------------------------------------------------------------- coarse clocks


TICK_S = 1.024e-6


class TickingDevice(FakeDevice):
    """A device whose kernels have these true times, 0.5 % more or less, on a clock that counts in
    ticks; they begin anywhere in one."""

    def __init__(self, tick_s=TICK_S, seed=0, **true_s):
        super().__init__(kernels=dict.fromkeys(true_s, KERNELS["twice"]))
        self.tick_s = tick_s
        self._true_s = true_s
        self._rng = random.Random(seed)
        self.bind(DATA.arguments)

    def launch(self, module, launches):
        """Launch one kernel; return what the clock says, and at least one tick."""
        super().launch(module, launches)
        took = self._true_s[launches[0].function] * self._rng.gauss(1, 0.005) / self.tick_s
        return max(1, int(self._rng.random() + took)) * self.tick_s

    def runs(self, kernel):
        """How often it was launched."""
        return [launch.function for launch in self.launches].count(kernel)


def ticked(kernel, **sampling):
    return fake_job(kernel, sampling=Sampling(**sampling))


@pytest.mark.parametrize("tick_s", [1.024e-6, 0.5e-6, 32e-9])
def test_tick_is_the_least_step_between_times(tick_s):
    rng = random.Random(0)

    def work(length):
        return math.floor((1.5e-6 + length * 20e-9) / tick_s + rng.random()) * tick_s

    assert find_tick(map(work, range(1, 65))) == pytest.approx(tick_s)


def test_tick_is_at_least_what_the_driver_states_and_that_of_a_clock_that_stands():
    assert find_tick([1e-9, 2e-9], stated_s=1e-6) == 1e-6
    assert find_tick([TICK_S, TICK_S]) == TICK_S


def test_sample_has_a_hundred_ticks_or_one_long_run():
    assert len(run_sample(lambda: 1.0, 0.25)) == 25
    assert run_sample(lambda: 1e-3, TICK_S) == [1e-3]
    assert run_sample(lambda: 1e-3, 0.0) == [1e-3]


def test_sample_ends_at_its_most_runs(monkeypatch):
    monkeypatch.setattr(clock_watch, "MOST_RUNS", 7)
    assert len(run_sample(lambda: TICK_S, TICK_S)) == 7


@pytest.mark.parametrize(
    "moments_s, run_s, samples, runs",
    [
        (itertools.count(0.0, 0.02), TICK_S, {}, 3),  # its runs take long
        (itertools.count(0.0, 0.001), TICK_S, {"samples": 1000}, 5),  # many samples are shorter
        (itertools.chain([0.0, 9.0], itertools.count(9.01, 0.001)), 5 * TICK_S, {}, 20),
    ],
    ids=["long runs", "many samples", "the host was stopped"],
)
def test_sample_ends_by_the_time_that_its_runs_take(
    monkeypatch,
    moments_s,
    run_s,
    samples,
    runs,
):
    monkeypatch.setattr(clock_watch.time, "perf_counter", lambda: next(moments_s))
    assert len(run_sample(lambda: run_s, TICK_S, **samples)) == runs


def test_delays_are_spread_over_the_tick(monkeypatch):
    moments_s, waited = itertools.count(0.0, 0.01), []
    monkeypatch.setattr(clock_watch.time, "perf_counter", lambda: next(moments_s))
    for _ in range(200):
        before_s = next(moments_s)
        delay_randomly(1.0)
        waited.append(next(moments_s) - before_s)
    assert 0.4 < np.mean(waited) < 0.6
    assert min(waited) < 0.1 < 0.9 < max(waited)


def test_short_kernel_is_measured_as_means_of_many_runs_each():
    device = TickingDevice(short=2.5 * TICK_S)
    measured = measure_alone(device, DATA, ticked("short"))
    runs = measured.observed[RUNS_PER_SAMPLE]
    assert device.runs("short") == 1 + measured.timing.count * runs
    assert runs == pytest.approx(40, abs=3)
    assert measured.time_s == pytest.approx(2.5 * TICK_S, rel=0.01)
    assert measured.timing.clock_error_s == pytest.approx(TICK_S / 80, rel=0.1)
    assert measured.observed[CLOCK_ERROR] == measured.timing.clock_error_s
    assert measured.timing.clock_error_s <= 0.0055 * measured.time_s


def test_interleaved_samples_are_long_enough_for_the_least_time_after_an_untimed_run():
    device = TickingDevice(tick_s=1e-9, short=1e-3, long=0.05)
    jobs = [ticked(kernel, least_time_s=0.2, repeats=20) for kernel in ("short", "long")]
    short, long = interleaved(device, [DATA], jobs, 3)
    assert short.observed[RUNS_PER_SAMPLE] == pytest.approx(10, abs=1)
    assert device.runs("short") == 1 + 3 * (1 + short.observed[RUNS_PER_SAMPLE])
    assert RUNS_PER_SAMPLE not in long.observed
    assert device.runs("long") == 1 + 3
    alone = measure_alone(device, DATA, jobs[0])
    assert RUNS_PER_SAMPLE not in alone.observed, "a search has no least time"


def test_occasions_together_have_the_largest_error():
    devices = [TickingDevice(seed=number, short=3 * TICK_S) for number in range(4)]
    parts = [interleaved(device, [DATA], [ticked("short")], 3)[0] for device in devices]
    errors_s = [part.observed[CLOCK_ERROR] for part in parts]
    joined = join(parts)
    assert joined.timing.clock_error_s == joined.observed[CLOCK_ERROR] == max(errors_s)
