"""Times of kernels that are too good to be believed at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.program import Launch, Program
from harness.core.records import Config, Input, Measurement, Outcome, Timing
from harness.measure import device_worker
from harness.measure.backends.choose import Backend
from harness.measure.kernel_data import make_kernel_data
from harness.measure.kernel_runner import KernelJob
from harness.measure.plausibility import PROVED, Doubts
from harness.measure.verify import Tolerance
from harness.stats.timing import Sampling
from tests.fakes import FAKE_HOST, KERNELS, Array, FakeCompiler, FakeDevice

GIVEN = Input({"n": 4})
DEFAULT, OTHER = Config({"A": 0}), Config({"A": 1})


def timed(time_s: float, config: Config = OTHER) -> Measurement:
    return Measurement(config, GIVEN, Outcome.OK, timing=Timing((time_s,)))


def never() -> Measurement:
    raise AssertionError("nothing is doubted")


def doubts(default_s: float | None) -> Doubts:
    """With the default measured, or not yet."""
    found = Doubts()
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
def test_what_is_believed(time_s: float, default_s: float | None, best_s: float | None) -> None:
    measured = timed(time_s)
    assert doubts(default_s).settled(measured, DEFAULT, best_s, never) is measured


@pytest.mark.parametrize(
    ("time_s", "default_s", "told"),
    [
        (0.09, 1.0, "it is 11.1 times as fast as the default"),
        (2e-7, None, "its 2e-07 s are less than any launch takes (3e-07 s)"),
    ],
)
def test_what_is_doubted_wins_only_when_it_is_proved(
    time_s: float, default_s: float | None, told: str
) -> None:
    known, measured = doubts(default_s), timed(time_s)
    refused = known.settled(measured, DEFAULT, None, lambda: "the second build failed")
    assert refused.outcome is Outcome.WRONG_RESULT
    assert refused.message == f"too good to be true: {told}, and the second build failed"
    slow = known.settled(measured, DEFAULT, None, lambda: timed(3 * time_s))
    assert "a second build and run took" in slow.message
    proved = known.settled(measured, DEFAULT, None, lambda: timed(time_s))
    assert proved.time_s == time_s
    assert proved.observed[PROVED] == 1
    assert told in proved.message
    assert known.settled(measured, DEFAULT, None, never) == proved, "one proof is enough"


def test_kernel_that_knows_the_data_is_found_on_other_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = tmp_path / "twice.py"
    host.write_text(FAKE_HOST)
    remembered = make_kernel_data(host, GIVEN).expected["y"]

    def cheat(x: Array, y: Array) -> None:
        y[...] = remembered

    device = FakeDevice(kernels=KERNELS | {"cheat": cheat})
    monkeypatch.setattr(device_worker, "_device", device)
    backend = Backend("fake", "fake", "a fake")
    job = KernelJob(
        config=OTHER,
        input=GIVEN,
        binary=FakeCompiler().compile(Program("kernel cheat", (), ())),
        launches=(Launch("cheat", (4,), (1,), ("x", "y")),),
        tolerance=Tolerance(),
        sampling=Sampling(repeats=2, min_repeats=2),
    )
    device_worker.prepare(backend, host, GIVEN)
    measured, _ = device_worker.run(backend, job)
    assert measured is not None
    assert measured.outcome is Outcome.OK
    again, _ = device_worker.prove(backend, host, job)
    assert again.outcome is Outcome.WRONG_RESULT
    assert device_worker.run(backend, job) == (None, True), "the first data must be made again"
