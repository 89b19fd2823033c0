"""Times of kernels that are too good to be believed at once."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import pytest

from harness.core.records import Config, Measurement, Outcome, Timing
from harness.core.worst_element import WorstElement
from harness.measure.device_worker import Reply
from harness.measure.kernel_data import make_kernel_data
from harness.measure.occasions import Block
from harness.measure.plausibility import (
    GPU_FLOOR_S,
    PROVED,
    KernelTimes,
    Proofs,
    Refusal,
    failed_proof,
    why_first_is_slow,
)
from harness.stats.timing import Sampling
from tests.helpers.fake_kernels import FOUR, fake_job, fake_worker
from tests.helpers.fakes import KERNELS, Array, FakeDevice

DEFAULT, OTHER = Config({"A": 0}), Config({"A": 1})


def timed(time_s: float, config: Config = OTHER) -> Measurement:
    return Measurement(config, FOUR, Outcome.OK, timing=Timing((time_s,)))


NEW_DATA = "its first run on new data takes 1.00 s"
SLOWER = Refusal(Outcome.IMPLAUSIBLE, "the second build took 9 s")
WRONG = Refusal(Outcome.WRONG_RESULT, "the second build is wrong")


def never() -> None:
    raise AssertionError("one proof is enough")


def times(default_s: float | None) -> KernelTimes:
    """With the default measured, or not yet."""
    found = KernelTimes()
    found.note([] if default_s is None else [timed(default_s, DEFAULT)])
    return found


@pytest.mark.parametrize(
    ("time_s", "default_s", "best_s"),
    [
        (0.1, 1.0, None),  # exactly ten times as fast
        (0.01, 1.0, 0.009),  # it does not win
        (2e-6, None, None),  # the default is not known
        (5e-7, 6e-7, None),  # the default is as short
    ],
)
def test_plausible_time_needs_no_proof(
    time_s: float, default_s: float | None, best_s: float | None
) -> None:
    assert times(default_s).why_implausible(timed(time_s), DEFAULT, best_s) is None
    assert times(default_s).why_implausible(timed(time_s, DEFAULT), DEFAULT, None) is None


@pytest.mark.parametrize(
    ("time_s", "default_s", "reason"),
    [
        (0.0999, 1.0, "it is 10 times as fast as the default"),
        (0.09, 1.0, "it is 11.1 times as fast as the default"),
        (2e-7, None, "its 200 ns are less than any launch takes (300 ns)"),
    ],
)
def test_implausible_time_wins_only_when_it_is_proved(
    time_s: float, default_s: float | None, reason: str
) -> None:
    measured, proofs = timed(time_s), Proofs()
    assert times(default_s).why_implausible(measured, DEFAULT, None) == reason
    assert times(default_s).why_implausible(measured, DEFAULT, 2 * time_s) == reason
    assert proofs.settle(measured, None, never) is measured
    refused = proofs.settle(measured, reason, lambda: SLOWER)
    assert refused.outcome is Outcome.IMPLAUSIBLE
    assert refused.message.startswith(
        f"too good to be true: {reason}, and the second build took 9 s. Its results are right, but "
    )
    assert "tune again with --fresh" in refused.message
    proved = proofs.settle(measured, reason, lambda: None)
    assert proved.time_s == time_s
    assert proved.observed[PROVED] == 1
    assert reason in proved.message
    assert proofs.settle(measured, reason, never) == proved


def test_only_a_proof_with_wrong_results_makes_a_wrong_result() -> None:
    worst = WorstElement("y", (5,), 1.0, 2.0, 1e-5, 1, 4)
    wrong = Measurement(OTHER, FOUR, Outcome.WRONG_RESULT, message="y[5] is 1", worst=worst)
    refused = Proofs().settle(timed(0.01), "too fast", lambda: failed_proof(wrong))
    assert (refused.outcome, refused.worst) == (Outcome.WRONG_RESULT, worst)
    assert refused.message.endswith("ended differently: wrong_result: y[5] is 1")
    crashed = Measurement(OTHER, FOUR, Outcome.CRASHED, message="it died")
    refused = Proofs().settle(timed(0.01), "too fast", lambda: failed_proof(crashed))
    assert refused.outcome is Outcome.CRASHED, "which may have been chance"
    assert "ended differently: crashed: it died. Its results are right" in refused.message


def test_kernel_that_knows_the_data_is_found_on_other_data(tmp_path: Path) -> None:
    def cheat(x: Array, y: Array) -> None:
        y[...] = remembered

    worker = fake_worker(tmp_path, FakeDevice(kernels=KERNELS | {"cheat": cheat}))
    remembered = make_kernel_data(tmp_path / "twice.py", FOUR).expected["y"]
    job = fake_job("cheat")
    worker.prepare(FOUR)
    measured = worker.run(job).result
    assert measured.outcome is Outcome.OK
    again = worker.prove(job, None, 1).result
    assert again.kernel.outcome is Outcome.WRONG_RESULT
    assert worker.run(job) == Reply(None), "the first data must be made again"


def test_no_launch_takes_less_than_the_floor_of_its_device() -> None:
    assert KernelTimes().floor_s == 3e-7
    assert GPU_FLOOR_S == 1e-6
    found = KernelTimes(floor_s=1e-6)
    assert found.why_implausible(timed(9e-7), DEFAULT, None) is not None
    assert found.why_implausible(timed(1e-6), DEFAULT, None) is None


def test_a_default_at_the_floor_excuses_nothing_below_it() -> None:
    assert times(3e-7).why_implausible(timed(2e-7), DEFAULT, None) is not None
    assert times(2.9e-7).why_implausible(timed(2e-7), DEFAULT, None) is None
    too_fast = times(2.9e-7).why_implausible(timed(2e-8), DEFAULT, None)
    assert too_fast == "it is 14.5 times as fast as the default"


def test_only_a_time_that_wins_needs_a_proof() -> None:
    assert times(1.0).why_implausible(timed(0.01), DEFAULT, best_s=0.01) is None
    assert times(1.0).why_implausible(timed(0.01), DEFAULT, best_s=0.0101) is not None
    crashed = Measurement(OTHER, FOUR, Outcome.CRASHED, message="it died")
    assert times(1.0).why_implausible(crashed, DEFAULT, None) is None
    found = KernelTimes()
    found.note([dataclasses.replace(crashed, config=DEFAULT)])
    assert found.why_implausible(timed(0.01), DEFAULT, None) is None, "the default has no time"


def test_a_proof_of_one_configuration_is_none_of_another() -> None:
    proofs = Proofs()
    proofs.settle(timed(0.01), "too fast", lambda: None)
    other = proofs.settle(timed(0.01, DEFAULT), "too fast", lambda: WRONG)
    assert other.outcome is Outcome.WRONG_RESULT
    assert proofs.settle(timed(0.01), "too fast", never).outcome is Outcome.OK


def test_first_run_may_take_twice_as_long_and_what_it_does_with_the_default() -> None:
    assert why_first_is_slow(6.0, 1.0, cold_s=2.0) is None
    assert why_first_is_slow(2.0, 1.0, cold_s=-0.5) is None
    reason = "its first run on new data takes 6.01 s, but the others 1.00 s"
    assert why_first_is_slow(6.01, 1.0, cold_s=2.0) == reason


def started(first_s: float, time_s: float, config: Config) -> Measurement:
    return dataclasses.replace(timed(time_s, config), warmup_s=(first_s, 50.0))


@pytest.mark.parametrize(
    ("default", "is_plausible"),
    [
        (timed(1.0, DEFAULT), True),  # nothing is known of its first run
        (started(1.1, 1.0, DEFAULT), False),
        (started(1.4, 1.0, DEFAULT), True),
    ],
)
def test_first_run_that_takes_longer_than_that_of_the_default_needs_a_proof(
    default: Measurement, is_plausible: bool
) -> None:
    found, slow = KernelTimes(), started(1.0, 0.2, OTHER)
    found.note([default])
    assert found.why_implausible(slow, DEFAULT, None) is None, "nothing is known of its first run"
    found.note([slow])
    assert (found.why_implausible(slow, DEFAULT, None) is None) is is_plausible
    found.note([timed(0.2)])
    assert (found.why_implausible(timed(0.2), DEFAULT, None) is None) is is_plausible


def test_least_that_a_first_run_took_longer_counts() -> None:
    found, slow = KernelTimes(), started(1.0, 0.2, OTHER)
    found.note([started(1.1, 1.0, DEFAULT), slow])
    found.note([started(0.7, 0.2, OTHER)], seed=1)
    assert found.why_implausible(slow, DEFAULT, None) is not None
    found.note([started(0.4, 0.2, OTHER)], seed=2)
    found.note([slow], seed=3)
    assert found.why_implausible(slow, DEFAULT, None) is None
    found.note([started(1.0, 1.0, DEFAULT)], seed=1)
    assert found.why_implausible(started(0.5, 0.15, OTHER), DEFAULT, None) is not None


def test_a_first_run_on_data_that_a_kernel_has_seen_shows_nothing() -> None:
    found, slow = KernelTimes(), started(1.0, 0.2, OTHER)
    found.note([started(1.1, 1.0, DEFAULT), slow])
    found.note([started(0.2, 0.2, OTHER)])
    assert NEW_DATA in str(found.why_implausible(slow, DEFAULT, None))


def test_kernel_that_keeps_results_where_nobody_looks_is_found_by_its_first_runs(
    tmp_path: Path,
) -> None:
    kept: dict[float, Array] = {}
    missed = False

    def keeping(x: Array, y: Array) -> None:
        """Compute y, unless x begins as it did in an earlier run."""
        nonlocal missed
        missed = float(x[0]) not in kept
        y[...] = kept.setdefault(float(x[0]), 2 * x)

    times_s = (1.0 if missed else 0.2 for _ in itertools.count())
    worker = fake_worker(tmp_path, FakeDevice(times_s, KERNELS | {"twice": keeping}))
    worker.prepare(FOUR)
    measured = worker.run(fake_job(sampling=Sampling())).result
    assert measured.time_s == 0.2
    found = KernelTimes()
    found.note([started(1.1, 1.0, DEFAULT), measured])
    assert NEW_DATA in str(found.why_implausible(measured, DEFAULT, None))


def test_configuration_that_overwrites_an_input_takes_no_honest_one_down(tmp_path: Path) -> None:

    def spoils(x: Array, y: Array) -> None:
        y[...] = 2 * x
        x[0] += 1

    worker = fake_worker(tmp_path, FakeDevice(kernels=KERNELS | {"spoils": spoils}))
    worker.prepare(FOUR)
    jobs = [fake_job(kernel) for kernel in ("spoils", "twice", "twice")]
    found = worker.run_interleaved(jobs, Block(rounds=4)).result.measured
    outcomes = [each.outcome for each in found]
    assert outcomes == [Outcome.WRONG_RESULT, Outcome.OK, Outcome.OK]
    assert [each.timing.count for each in found if each.timing] == [4, 4]
    assert len(found[1].warmup_s) > 1, "the first run on new data is kept"


@dataclasses.dataclass
class WrongAt:
    """A kernel that is wrong at some of its runs."""

    runs: tuple[int, ...]
    count: int = 0

    def __call__(self, x: Array, y: Array) -> None:
        self.count += 1
        y[...] = 0 if self.count in self.runs else 2 * x


def test_kernel_that_is_wrong_at_some_runs_is_wrong_though_it_works_when_measured_again(
    tmp_path: Path,
) -> None:
    together, alone = WrongAt((2,)), WrongAt((1,))
    kernels = KERNELS | {"together": together, "alone": alone}
    worker = fake_worker(tmp_path, FakeDevice(kernels=kernels))
    worker.prepare(FOUR)
    jobs = [fake_job(kernel) for kernel in ("together", "twice")]
    found = worker.run_interleaved(jobs, Block(rounds=4)).result.measured
    assert [each.outcome for each in found] == [Outcome.WRONG_RESULT, Outcome.OK]
    assert together.count > 4, "it was measured alone, and works there"
    measured = worker.run(fake_job("alone")).result
    assert measured.outcome is Outcome.WRONG_RESULT
    assert alone.count == 1, "nobody has spoilt its inputs"


def test_configuration_that_another_takes_down_alone_is_not_measured_on_a_broken_device(
    tmp_path: Path,
) -> None:
    runs = iter(range(100))

    def breaks(x: Array, y: Array) -> None:
        device.healthy = next(runs) < 1
        y[...] = 0

    def honest(x: Array, y: Array) -> None:
        assert device.healthy
        y[...] = 2 * x

    device = FakeDevice(kernels={"breaks": breaks, "honest": honest})
    worker = fake_worker(tmp_path, device)
    worker.prepare(FOUR)
    reply = worker.run_interleaved([fake_job("breaks"), fake_job("honest")], Block(rounds=4))
    assert [each.outcome for each in reply.result.measured] == [Outcome.WRONG_RESULT, Outcome.OK]
    assert not reply.healthy
    assert not reply.result.complete


def test_first_launches_may_differ_by_what_any_launch_costs() -> None:
    """A GPU whose driver needs 4 us more for a first launch."""
    found = KernelTimes(floor_s=GPU_FLOOR_S)
    found.note([started(2e-6, 2e-6, DEFAULT), started(6e-6, 1.5e-6, OTHER)])
    assert found.why_implausible(timed(1.5e-6), DEFAULT, None) is None
    assert found.overhead_s == pytest.approx(5e-6)
    other = KernelTimes(floor_s=GPU_FLOOR_S)
    other.note([started(2e-6, 2e-6, DEFAULT), started(9e-6, 1.5e-6, OTHER)])
    assert "its first run on new data takes 9.00 us" in str(
        other.why_implausible(timed(1.5e-6), DEFAULT, None)
    )


OCCASIONS = (2, 2, 2, 3, 3, 3)


@dataclasses.dataclass
class Keeping:
    """A kernel that does half of its work for data that it has seen, or one with cold caches.

    The one takes 1 s, and 0.55 s where it has seen the data before. The other takes 1 s where the
    data were just copied to the device, and 0.55 s otherwise.
    """

    is_honest: bool
    kept: set[float] = dataclasses.field(default_factory=set)
    last: Array | None = None
    time_s: float = 1.0

    def __call__(self, x: Array, y: Array) -> None:
        is_slow = x is not self.last if self.is_honest else float(x[0]) not in self.kept
        self.time_s = 1.0 if is_slow else 0.55
        self.last = x
        self.kept.add(float(x[0]))
        y[...] = 2 * x


@pytest.mark.parametrize("is_honest", [False, True])
def test_kernel_that_saves_half_of_its_work_on_data_it_has_seen_is_found(
    tmp_path: Path, is_honest: bool
) -> None:
    keeping, found = Keeping(is_honest), KernelTimes()
    times_s = (keeping.time_s for _ in itertools.count())
    worker = fake_worker(tmp_path, FakeDevice(times_s, KERNELS | {"twice": keeping}))
    job = fake_job(config=OTHER, sampling=Sampling())
    for seed in OCCASIONS:
        if worker._holds(FOUR, seed) is None:
            worker.prepare(FOUR, seed)
        measured = worker.run_interleaved([job], Block(4, seed, is_reloaded=True)).result.measured
        found.note([*measured, started(1.2, 1.0, DEFAULT)], seed, is_renewed=True)
    reason = found.why_implausible(measured[0], DEFAULT, None)
    kept = "its first runs take 450 ms longer on new data than on data that it has seen, of 450 ms"
    assert reason is None if is_honest else kept in str(reason)


def test_a_gain_that_a_cache_explains_less_than_half_of_needs_no_proof() -> None:
    for extra_s, is_plausible in [(0.2, True), (0.3, False)]:
        found = KernelTimes()
        found.note([started(1.2, 1.0, DEFAULT)])
        for first_s in (0.5 + extra_s, 0.5, 0.5):
            found.note([started(first_s, 0.5, OTHER)], seed=2, is_renewed=True)
        assert (found.why_implausible(timed(0.5), DEFAULT, None) is None) is is_plausible
        assert found.why_implausible(timed(0.96), DEFAULT, None) is None, "it saves next to nothing"


def test_results_that_another_configuration_kept_of_the_data_are_found() -> None:
    found, filler = KernelTimes(), Config({"A": 2})
    found.note([started(1.2, 1.0, DEFAULT)])
    found.note([started(1.0, 0.5, filler), started(0.5, 0.5, OTHER)], seed=2, is_renewed=True)
    for seed, first_s in [(2, 0.5), (2, 0.5), (2, 0.5), (3, 1.0), (3, 0.5), (3, 0.5)]:
        beside = started(1.0, 1.0, DEFAULT)
        found.note([started(first_s, 0.5, OTHER), beside], seed, is_renewed=True)
    reason = found.why_implausible(timed(0.5), DEFAULT, None)
    assert "its first runs take 500 ms longer on new data" in str(reason)


def test_rival_on_data_that_an_earlier_one_has_seen_needs_a_proof() -> None:
    found, other = KernelTimes(), Config({"A": 2})
    failed = Measurement(other, FOUR, Outcome.WRONG_RESULT, message="wrong")
    found.note([started(1.2, 1.0, DEFAULT)])
    for number, seed in enumerate((2, *OCCASIONS)):
        assert found.why_implausible(timed(0.5), DEFAULT, None) is None, number
        found.note([failed], seed, is_renewed=True)
        found.note([started(0.5, 0.5, OTHER)], seed, is_renewed=True)
    reason = "other configurations ran before it on all the data that it ran on"
    assert found.why_implausible(timed(0.5), DEFAULT, None) == reason
    assert found.why_implausible(timed(0.96), DEFAULT, None) is None, "it saves next to nothing"
