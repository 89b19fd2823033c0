"""Times of kernels that are too good to be believed at once."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from harness.core.program import Launch, Program
from harness.core.records import Config, Input, Measurement, Outcome, Timing
from harness.measure.backends.choose import Backend
from harness.measure.device_worker import DeviceWorker, Reply
from harness.measure.kernel_data import make_kernel_data
from harness.measure.kernel_runner import KernelJob
from harness.measure.plausibility import (
    GPU_FLOOR_S,
    PROVED,
    KernelTimes,
    Proofs,
    why_below,
    why_too_fast,
    why_unproved,
)
from harness.measure.verify import Tolerance
from harness.stats.timing import Sampling
from tests.fakes import FAKE_HOST, KERNELS, Array, FakeCompiler, FakeDevice

GIVEN = Input({"n": 4})
DEFAULT, OTHER = Config({"A": 0}), Config({"A": 1})


def timed(time_s: float, config: Config = OTHER) -> Measurement:
    return Measurement(config, GIVEN, Outcome.OK, timing=Timing((time_s,)))


def never() -> str:
    raise AssertionError("one proof is enough")


def times(default_s: float | None) -> KernelTimes:
    """With the default measured, or not yet."""
    found = KernelTimes()
    found.note([] if default_s is None else [timed(default_s, DEFAULT)])
    return found


@pytest.mark.parametrize(
    ("time_s", "default_s", "best_s"),
    [
        (0.11, 1.0, None),  # nine times as fast
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
        (0.09, 1.0, "it is 11.1 times as fast as the default"),
        (2e-7, None, "its 2e-07 s are less than any launch takes (3e-07 s)"),
    ],
)
def test_implausible_time_wins_only_when_it_is_proved(
    time_s: float, default_s: float | None, reason: str
) -> None:
    measured, proofs = timed(time_s), Proofs()
    assert times(default_s).why_implausible(measured, DEFAULT, None) == reason
    assert times(default_s).why_implausible(measured, DEFAULT, 2 * time_s) == reason
    assert proofs.settle(measured, None, never) is measured
    refused = proofs.settle(measured, reason, lambda: "the second build failed")
    assert refused.outcome is Outcome.WRONG_RESULT
    assert refused.message == f"too good to be true: {reason}, and the second build failed"
    proved = proofs.settle(measured, reason, lambda: None)
    assert proved.time_s == time_s
    assert proved.observed[PROVED] == 1
    assert reason in proved.message
    assert proofs.settle(measured, reason, never) == proved
    again = proofs.settle(measured, reason, lambda: "it is wrong", always=True)
    assert again.outcome is Outcome.WRONG_RESULT


def test_proof_must_end_well_and_be_about_as_fast() -> None:
    assert why_unproved(timed(1.9), timed(1.0)) is None
    assert why_unproved(timed(3.0), timed(1.0)) == "a second build and run took 3 s"
    crashed = Measurement(OTHER, GIVEN, Outcome.CRASHED, message="it died")
    assert "ended differently: crashed: it died" in str(why_unproved(crashed, timed(1.0)))


@dataclasses.dataclass(frozen=True)
class _Opened(Backend):
    device: FakeDevice = dataclasses.field(default_factory=FakeDevice)

    def open_device(self) -> FakeDevice:
        return self.device


def test_kernel_that_knows_the_data_is_found_on_other_data(tmp_path: Path) -> None:
    host = tmp_path / "twice.py"
    host.write_text(FAKE_HOST)
    remembered = make_kernel_data(host, GIVEN).expected["y"]

    def cheat(x: Array, y: Array) -> None:
        y[...] = remembered

    device = FakeDevice(kernels=KERNELS | {"cheat": cheat})
    worker = DeviceWorker(_Opened("fake", "fake", "a fake", device=device), host)
    job = KernelJob(
        config=OTHER,
        input=GIVEN,
        binary=FakeCompiler().compile(Program("kernel cheat", (), ())),
        launches=(Launch("cheat", (4,), (1,), ("x", "y")),),
        tolerance=Tolerance(),
        sampling=Sampling(repeats=2, min_repeats=2),
    )
    worker.prepare(GIVEN)
    measured = worker.run(job).result
    assert measured is not None
    assert measured.outcome is Outcome.OK
    again = worker.prove(job).result
    assert again is not None
    assert again.outcome is Outcome.WRONG_RESULT
    assert worker.run(job) == Reply(None), "the first data must be made again"


def test_limits_of_what_is_plausible_are_plausible_themselves() -> None:
    assert why_too_fast(0.1, 1.0) is None, "exactly ten times as fast"
    assert why_too_fast(0.0999, 1.0) is not None
    assert why_below(2.0, 2.0, "it") is None
    assert why_below(1.99, 2.0, "it") == "its 1.99 s are less than it takes (2 s)"
    assert why_unproved(timed(2.0), timed(1.0)) is None, "exactly twice the time"
    assert why_unproved(timed(2.01), timed(1.0)) is not None


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
    crashed = Measurement(OTHER, GIVEN, Outcome.CRASHED, message="it died")
    assert times(1.0).why_implausible(crashed, DEFAULT, None) is None


def test_a_default_that_failed_is_no_time_to_compare_with() -> None:
    found = KernelTimes()
    found.note([Measurement(DEFAULT, GIVEN, Outcome.CRASHED, message="it died")])
    assert found.why_implausible(timed(0.01), DEFAULT, None) is None


def test_a_proof_of_one_configuration_is_none_of_another() -> None:
    proofs = Proofs()
    proofs.settle(timed(0.01), "too fast", lambda: None)
    other = proofs.settle(timed(0.01, DEFAULT), "too fast", lambda: "it is wrong")
    assert other.outcome is Outcome.WRONG_RESULT
    assert proofs.settle(timed(0.01), "too fast", never).outcome is Outcome.OK
