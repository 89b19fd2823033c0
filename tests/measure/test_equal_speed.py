"""The reference kernels find a device that is slower than its equals, and no slow moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import BackendUnavailable, LaunchFailed
from harness.core.records import SLOW_DEVICE
from harness.measure.backends.choose import Backend
from harness.measure.backends.reference_kernel import ReferenceTimes
from harness.measure.kernels import KernelMeasurer
from harness.results.caveats import record_lines
from harness.space_file import load_spec
from harness.tuning.equal_speed import LOOKS, EqualSpeed
from tests.helpers.planted import FAULTS, GIVEN, fault, space_of
from tests.helpers.replays import make_spec
from tests.tuning.test_several_devices import SMALL, Scripted, equal, stored, tuned, verdicts

SLOW, NORMAL = 1.2, 1.0
Speeds = Callable[[int], float]


class Timed(Scripted):
    """A device on which the reference kernels take `speeds` times 1 ms at each look."""

    cpu: str | None = None

    def __init__(self, uuid: str, speeds: Speeds = lambda _: NORMAL, **options: Any) -> None:
        super().__init__(uuid, **options)
        self.speeds = speeds
        self.looks = 0
        self.asked_at_look: list[int] = []

    def time_reference(self) -> ReferenceTimes:
        """Return the time of the next look."""
        self.looks += 1
        self.asked_at_look.append(len(self.asked))
        return ReferenceTimes(1e-3 * self.speeds(self.looks), 1e-3)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.tuning.equal_speed.PAUSE_S", 0)
    monkeypatch.setattr("harness.tuning.equal_speed.PERIOD_S", 0)


def run(folder: Path, devices: Sequence[Scripted]) -> tuple[Any, Any, list[str]]:
    """All of SMALL, tuned on these devices: its verdicts, its results and the warnings."""
    spec = make_spec(folder, SMALL)
    reports, results, warnings = tuned(spec, folder / "r.db", devices, test_limit=1000)
    return verdicts(reports), results, warnings


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Counter[Any]]:
    """The verdicts of one device on all of SMALL, and what it stores."""
    found, results, _ = run(tmp_path_factory.mktemp("alone"), [Scripted()])
    return found, stored(results)


def test_a_slow_device_is_taken_out_before_anything_is_measured() -> None:
    devices = [Timed("GPU-0"), Timed("GPU-1", lambda _: SLOW), Timed("GPU-2"), Timed("GPU-3")]
    shared = equal(*devices)
    (warning,) = shared.compare()
    assert warning == (
        "device 1 (GPU-1) is not used: harness's reference kernel (arithmetic) takes 1.20 times as "
        "long on it as on 3 equal devices, 1.2 ms against 1 ms, 11 times in a row"
    )
    assert [str(device) for device in shared.left] == [
        "device 0 (GPU-0)",
        "device 2 (GPU-2)",
        "device 3 (GPU-3)",
    ]
    assert [device.looks for device in devices] == [1, 1 + LOOKS, 1, 1]


def test_a_device_that_is_slow_for_a_moment_is_kept() -> None:
    """Also where the moment lasts for all looks but one."""
    devices = [Timed("GPU-0", lambda n: SLOW if n <= LOOKS else NORMAL), Timed("GPU-1")]
    shared = equal(*devices)
    assert shared.compare() == []
    assert devices[0].looks == 1 + LOOKS
    assert len(shared.left) == 2


@pytest.mark.parametrize(("factor", "is_out"), [(1.09, False), (1.11, True), (0.85, True)])
def test_a_device_differs_above_the_threshold_in_either_direction(
    factor: float, is_out: bool
) -> None:
    devices = [Timed("a"), Timed("b"), Timed("c", lambda _: factor)]
    shared = equal(*devices)
    assert bool(shared.compare()) is is_out
    assert (shared.left[-1].name == "device 2") is not is_out


def test_of_two_devices_the_slower_one_is_out() -> None:
    shared = equal(Timed("a", lambda _: SLOW), Timed("b"))
    (warning,) = shared.compare()
    assert warning.startswith("device 0 (a) is not used")


def test_a_device_that_becomes_slow_is_taken_out_and_others_do_its_work(
    tmp_path: Path, alone: tuple[Any, Counter[Any]]
) -> None:
    """The inputs that it may have measured while it was slow are named, and noted."""
    slow = Timed("GPU-1")
    slow.speeds = lambda _: SLOW if slow.asked else NORMAL
    devices = [Timed("GPU-0"), slow, Timed("GPU-2")]
    found, results, warnings = run(tmp_path, devices)
    assert (found, stored(results)) == alone
    (warning,) = warnings
    (problem,) = {problem for problem, _ in slow.asked}
    assert warning.startswith(
        "device 1 (GPU-1) is not used any more, its inputs go to the others: harness's reference "
        "kernel (arithmetic) takes 1.20 times as long on it as on 2 equal devices"
    )
    assert warning.endswith(f"Times of ({problem}) may be wrong; measure them again with --fresh")
    noted = {
        run.problem: run.notes[SLOW_DEVICE] for run in results.runs if SLOW_DEVICE in run.notes
    }
    assert list(noted) == [problem]
    assert noted[problem].startswith("device 1 (GPU-1): harness's reference kernel")
    (line,) = (line for line in record_lines(results) if "speed differed" in line)
    assert "may have measured 1 of 5 runs" in line


def test_devices_are_looked_at_between_inputs_and_not_more_often_than_now_and_then(
    tmp_path: Path, alone: tuple[Any, Counter[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    devices = [Timed("GPU-0"), Timed("GPU-1")]
    found, results, warnings = run(tmp_path, devices)
    assert (found, stored(results)) == alone
    assert not warnings
    for device in devices:
        begins = {0, len(device.asked)}
        problems = [problem for problem, _ in device.asked]
        begins |= {n for n in range(1, len(problems)) if problems[n] != problems[n - 1]}
        assert set(device.asked_at_look) <= begins
        assert device.looks > 2
    monkeypatch.setattr("harness.tuning.equal_speed.PERIOD_S", 1e9)
    again = [Timed("GPU-0"), Timed("GPU-1")]
    (tmp_path / "again").mkdir()
    run(tmp_path / "again", again)
    assert all(device.looks == 1 for device in again)


def test_parts_of_one_cpu_are_not_compared() -> None:
    """They disturb each other; CPUs of two machines do not."""
    parts = [Timed("0", lambda _: SLOW), Timed("1")]
    for part in parts:
        part.cpu = "vm"
    shared = equal(*parts)
    assert shared.compare() == []
    assert [part.looks for part in parts] == [0, 0]
    assert shared.describe().endswith("does not compare them: they are parts of one CPU")
    parts[1].cpu = "another"
    (warning,) = shared.compare()
    assert warning.startswith("device 0 is not used")


def test_a_device_that_cannot_run_them_is_named_once_and_used(
    tmp_path: Path, alone: tuple[Any, Counter[Any]]
) -> None:
    full = Timed("GPU-1")

    def fail(_: int) -> float:
        raise LaunchFailed("no memory")

    full.speeds = fail
    found, results, warnings = run(tmp_path, [Timed("GPU-0"), full, Timed("GPU-2")])
    assert (found, stored(results)) == alone
    assert warnings == [
        "device 1 (GPU-1) cannot be compared with its equals, and is used: no memory"
    ]
    assert full.asked


def test_a_device_that_is_lost_meanwhile_counts_as_one_that_failed() -> None:
    def fail(_: int) -> float:
        raise BackendUnavailable("the worker was lost")

    shared = equal(Timed("a"), Timed("b", fail))
    (warning,) = shared.compare()
    assert warning == "device 1 (b) cannot be compared with its equals now: the worker was lost"
    assert len(shared.left) == 2


def test_an_equal_device_that_is_disturbed_half_of_the_time_is_seldom_called_different() -> None:
    """By the stated rate, 1 of 1,024 suspicions; 3,000 of them, with a fixed seed."""
    import random

    draw, wrong = random.Random(5), 0
    for _ in range(3000):
        device = Timed("x", lambda n: SLOW if n == 1 or draw.random() < 0.5 else NORMAL)
        speed = EqualSpeed(lambda _: None)
        speed.look("equal", Timed("y"))
        speed.look("x", device)
        wrong += speed.difference("x", device) is not None
    assert wrong <= 9  # more have a probability of 0.3 % at 2.9 expected


def test_the_reference_kernels_run_and_leave_the_device_as_it_was(module_opencl: Backend) -> None:
    spec = load_spec(FAULTS / "faults.yaml")
    with closing(KernelMeasurer(spec, module_opencl)) as measurer:
        space = space_of(spec, measurer)
        assert measurer.measure(space, GIVEN, fault("none"), None).timing
        times = measurer.time_reference()
        assert 0 < times.arithmetic < 10
        assert 0 < times.memory < 10
        assert measurer.measure(space, GIVEN, fault("wrong_element"), None).timing is None
        (again,) = measurer.measure_interleaved(space, GIVEN, [fault("none")], 2)
        assert again.timing
        assert measurer.cpu
