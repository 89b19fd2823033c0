"""One configuration on one input, on a device in memory with a clock of its own."""

import itertools
import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from harness.core.errors import HostTooSlow, OutOfDeviceMemory
from harness.core.observations import HOST_RETRIES, OUTPUT_BITS, RUNS_PER_SAMPLE, VARYING_BITS
from harness.core.records import Config, Outcome, StopReason
from harness.measure.device.verify import FILLS
from harness.measure.kernels import checks as kernel_checks
from harness.measure.kernels.checks import CheckTime, why_added
from harness.measure.kernels.data import BitsOf, KernelData
from harness.measure.kernels.trial import BIT_EXACT, measure_alone
from tests.helpers.fake_kernels import DATA, X, bound_device, fake_job, interleaved
from tests.helpers.fakes import KERNELS, FakeDevice
from tests.helpers.planted import assert_failed, assert_ok

JOB = fake_job()
(LAUNCH,) = JOB.launches


def sampled(**changes):
    """A job that is sampled otherwise."""
    return fake_job(sampling=replace(JOB.sampling, **changes))


def test_good_configuration_is_verified_warmed_up_and_timed():
    device = bound_device(times_s=(9.0, 8.0, 1.0, 2.0, 3.0, 4.0))
    given = sampled(warmup=2)
    measured = measure_alone(device, DATA, given)
    assert_ok(measured)
    assert measured.timing.samples_s == (1.0, 2.0, 3.0, 4.0)
    assert measured.timing.stopped is StopReason.REPEATS
    assert measured.warmup_s == (9.0, 8.0)
    assert measured.build is given.binary.build
    assert measured.wall_s > 0


@pytest.mark.parametrize("too_slow", [4, 5])
def test_sample_with_the_hosts_work_in_it_is_taken_again_a_few_times(too_slow):
    late = iter([*[False] * 2, *[True] * too_slow])

    class Device(FakeDevice):
        def launch(self, module, launches):
            elapsed_s = super().launch(module, launches)
            if next(late, False):
                raise HostTooSlow("the host is late")
            return elapsed_s

    device = bound_device(kind=Device)
    measured = measure_alone(device, DATA, JOB)
    assert measured.observed[HOST_RETRIES] == too_slow
    if too_slow == 4:
        assert len(device.launched) == 1 + measured.timing.count + too_slow
    else:
        assert_failed(measured, Outcome.TIMEOUT, "the host is late, 5 times")


def fills_of(device):
    """What y held before each launch: one of the fills everywhere."""
    fills = {fill.array((4,), np.dtype("f4")).tobytes(): fill for fill in FILLS}
    return [fills[launch["y"].tobytes()] for launch in device.launched]


def test_outputs_hold_each_fill_before_a_run_that_is_verified_and_then_any_of_them():
    device = bound_device()
    job = sampled(repeats=60, min_repeats=60)
    assert_ok(measure_alone(device, DATA, job))
    fills = fills_of(device)
    assert len(fills) == len(device.launched) == 61
    assert fills[:3] == list(FILLS)
    assert set(fills[3:]) == set(FILLS)
    assert fills[3:6] * 19 != fills[3:60], "they take no turns"


def test_configuration_that_is_far_worse_is_run_once_on_each_fill():
    device = bound_device(times_s=(1.0,) * 9)
    job = replace(sampled(min_repeats=5), best_s=0.1)
    timing = measure_alone(device, DATA, job).timing
    assert (timing.count, timing.stopped) == (len(FILLS) - 1, StopReason.WORSE)
    assert fills_of(device) == list(FILLS)


def test_every_run_of_a_sample_and_of_a_round_begins_with_a_fill():
    device = bound_device()
    device.tick_s = 1e-4
    alone = measure_alone(device, DATA, JOB)
    interleaved(device, [DATA], [JOB], rounds=2)
    assert alone.observed[RUNS_PER_SAMPLE] == 10
    assert len(device.launched) == 1 + 2 * 10 + 1 + 2 * 10  # equal samples: two are precise
    assert len(fills_of(device)) == len(device.launched)


@pytest.mark.parametrize("expected", [np.zeros(4), np.full(4, np.nan), np.arange(4) - 1.0])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8, np.bool_])
@pytest.mark.parametrize("repeats", [1, 4])
def test_unwritten_output_is_never_right(expected, dtype, repeats):
    if dtype is not np.float32:
        expected = np.nan_to_num(expected, nan=7)
    right = expected.astype(dtype)

    def leaves_one(x, y):
        y[:3] = right[:3]

    case = KernelData({"x": X, "y": np.zeros(4, dtype)}, {"y": right}, ())
    device = FakeDevice(kernels={"twice": leaves_one})
    device.bind(case.arguments)
    measured = measure_alone(device, case, sampled(repeats=repeats, min_repeats=1))
    assert_failed(measured, Outcome.WRONG_RESULT, "y[3] was never written (1 of 4 elements)")


def test_kernel_that_writes_only_where_something_holds_is_shown_inout():
    def sparse(x, y):
        y[:2] = x[:2]

    right = np.where(np.arange(4) < 2, X, 0)
    case = replace(DATA, expected={"y": right})
    measured = measure_alone(bound_device(sparse), case, JOB)
    assert_failed(measured, Outcome.WRONG_RESULT, "y[2] was never", "-97.3", 'INOUT = ("y",)')
    declared = replace(case, inout=("y",))
    assert_ok(measure_alone(bound_device(sparse), declared, JOB))


def test_run_of_several_launches_has_a_tick_for_each():
    device = bound_device()
    device.tick_s = 1e-4
    measured = measure_alone(device, DATA, fake_job(launches=(LAUNCH,) * 3))
    runs = measured.observed[RUNS_PER_SAMPLE]
    assert runs == pytest.approx(10, abs=1)
    assert measured.timing.clock_error_s == pytest.approx(3 * 1e-4 / (2 * runs))


@pytest.mark.parametrize("wrong", range(1, 6))
def test_result_that_is_wrong_once_is_found(monkeypatch, wrong):
    monkeypatch.setattr(kernel_checks, "CHECK_SHARE", math.inf)
    launches = iter(range(100))

    def slips(x, y):
        y[...] = 2 * x + (next(launches) == wrong)

    times_s = (1.0, *range(1, 99))
    measured = measure_alone(bound_device(slips, times_s), DATA, sampled(repeats=5))
    assert_failed(measured, Outcome.WRONG_RESULT, f"run {wrong + 1}: ")


def test_verifications_take_their_share_of_the_time_and_two_are_free():
    time = CheckTime(work_s=100, draw=lambda: 0.5)
    for seconds in (1, 3):
        assert time.affords()
        time.count, time.checks_s = time.count + 1, time.checks_s + seconds
    assert not time.affords()
    time.work_s = 140
    assert time.affords(), "one more takes 2 s, and a half more by the draw"
    assert time.allowed_s == 7


def test_time_that_is_no_time_is_a_failed_launch():
    for elapsed_s in [0.0, -1e-9, math.nan, math.inf]:
        for index in [0, 1, 2]:
            device = bound_device(times_s=(*(1.0,) * index, elapsed_s))
            measured = measure_alone(device, DATA, JOB)
            assert_failed(measured, Outcome.LAUNCH_FAILED, f"{elapsed_s} s")


def fills_memory(x, y):
    raise OutOfDeviceMemory("4 bytes are free")


def test_launch_without_memory_is_nobodys_failure():
    measured = measure_alone(bound_device(fills_memory), DATA, JOB)
    assert_failed(measured, Outcome.OUT_OF_MEMORY, "4 bytes are free")
    assert not measured.outcome.settles


# -------------------------------------------------------------------------------- interleaved


def test_interleaved_configuration_without_memory_leaves_the_others():
    lacking = [1, 2, 3, 4, 5]

    def sometimes(x, y):
        lacking.pop()
        if len(lacking) == 1:
            fills_memory(x, y)
        y[...] = 2 * x

    measured = interleaved(bound_device(sometimes), [DATA], jobs(2), rounds=2)
    assert sorted(m.outcome for m in measured) == [Outcome.OK, Outcome.OUT_OF_MEMORY]


def jobs(count):
    return [fake_job(config=Config({"A": number})) for number in range(count)]


def counting_device():
    """A device whose n-th launch takes n seconds."""
    return bound_device(times_s=map(float, range(1, 1000)))


def samples_of(measured):
    return [m.timing.samples_s for m in measured if m.timing]


def test_interleaved_configurations_have_one_sample_in_every_round():
    measured = interleaved(counting_device(), [DATA], jobs(2), rounds=3)
    rounds = list(zip(*samples_of(measured), strict=True))
    assert len(rounds) == 3
    assert all(max(a) < min(b) for a, b in pairwise(rounds))
    assert [m.warmup_s for m in measured] == [(1.0,), (2.0,)]
    assert {m.timing.stopped for m in measured if m.timing} == {StopReason.INTERLEAVED}


def test_order_in_a_round_is_random_and_repeats_with_its_seed():
    def samples(seed):
        return samples_of(interleaved(counting_device(), [DATA], jobs(2), 100, seed))

    rounds = samples(1)
    assert rounds == samples(1) != samples(2)
    first = [a < b for a, b in zip(*rounds, strict=True)]
    assert 30 < sum(first) < 70
    assert 30 < sum(a != b for a, b in pairwise(first)) < 70, "it does not alternate"


def test_interleaved_configuration_that_turns_wrong_is_found_though_another_ran_last():
    launches = iter(range(100))

    def tires(x, y):
        y[...] = 2 * x if next(launches) < 3 else 0

    device = FakeDevice(kernels=KERNELS | {"tires": tires})
    device.bind(DATA.arguments)
    measured = interleaved(device, [DATA], [fake_job("tires"), JOB], rounds=4)
    assert [m.outcome for m in measured] == [Outcome.WRONG_RESULT, Outcome.OK]


# ------------------------------------------------------------------------- bit for bit


def off_by_one_place(x, y):
    """y = 2 x within every tolerance, but not in every bit."""
    y[...] = np.nextafter(2 * x, np.float32(np.inf))


LAUNCHES = itertools.count()


def unsteady(x, y):
    """One of the two, in turns."""
    (off_by_one_place if next(LAUNCHES) % 2 else KERNELS["twice"])(x, y)


def bits(kernel):
    return measure_alone(bound_device(kernel), DATA, JOB).observed[OUTPUT_BITS]


def with_bits_of(kernel, other, must_repeat=False):
    """Measure a kernel whose outputs must have the bits of another one's."""
    kernels = {"near": off_by_one_place, "unsteady": unsteady, "full": fills_memory}
    device = FakeDevice(kernels=KERNELS | kernels)
    device.bind(DATA.arguments)
    same = BitsOf("the default", fake_job(other), must_repeat)
    return measure_alone(device, replace(DATA, bits={}), fake_job(kernel, same_bits_as=same))


def test_output_within_the_tolerance_must_still_have_the_bits_of_the_default():
    assert with_bits_of("near", "near").observed[BIT_EXACT] == 1
    for kernel, other in (("near", "twice"), ("unsteady", "near")):
        measured = with_bits_of(kernel, other)
        assert_failed(measured, Outcome.WRONG_RESULT, "the default bit for bit")


def test_interleaved_outputs_must_have_the_bits_on_every_set_of_data():
    device = FakeDevice(kernels=KERNELS | {"near": off_by_one_place})
    sets = [replace(DATA, bits={}), replace(DATA, bits={})]
    device.bind(DATA.arguments, DATA.arguments)
    same = BitsOf("the default", JOB, False)
    both = [fake_job(kernel, same_bits_as=same) for kernel in ("near", "twice")]
    other, right = interleaved(device, sets, both, rounds=2)
    assert (other.outcome, right.outcome) == (Outcome.WRONG_RESULT, Outcome.OK)
    assert right.observed[BIT_EXACT] == 1


def test_default_whose_bits_vary_demands_none_or_fails_where_it_must_not():
    assert with_bits_of("near", "unsteady").observed[BIT_EXACT] == 0
    measured = with_bits_of("near", "unsteady", must_repeat=True)
    assert_failed(measured, Outcome.LAUNCH_FAILED, "two runs", "differ in")


def test_default_that_fails_is_reported():
    wrong = with_bits_of("twice", "nothing")
    assert_failed(wrong, Outcome.LAUNCH_FAILED, "the default", "wrong result")
    full = with_bits_of("twice", "full")
    assert_failed(full, Outcome.OUT_OF_MEMORY, "4 bytes are free")


def test_equal_bits_have_one_digest_and_outputs_that_vary_have_none():
    assert 0 < bits(KERNELS["twice"]) == bits(KERNELS["twice"]) != bits(off_by_one_place) > 0
    assert bits(unsteady) == VARYING_BITS


# ------------------------------------------------------------------------ what a wrong output holds

WANT = np.arange(1, 201)


def test_output_that_is_added_to_is_told_from_other_wrong_ones():
    for dtype in ["int8", "uint32", "int64", "float16", "float32", "complex64"]:
        before, want = FILLS[0], WANT.astype(dtype)
        fill = before.array(want.shape, want.dtype)
        unwritten, some = fill, np.where(WANT < 100, fill + want, want + 1)
        cases = [(fill + want, True), (fill - want, False), (unwritten, False), (some, False)]
        for output, is_added in cases:
            why = why_added("y", output, want, before, 1e-3)
            assert ("plus the expected value" in why) is is_added
