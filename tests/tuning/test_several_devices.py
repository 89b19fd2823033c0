"""Several equal devices share the inputs of a campaign, and find what one device finds."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harness.analysis.inputs import InputReport
from harness.core.errors import BackendUnavailable, UsageError
from harness.core.records import DEVICE_UUID, Config, Environment, Input, Measurement, Outcome
from harness.results.view import Results, read_results, the_one
from harness.space_file import Spec
from harness.tuning.devices import DevicePool
from harness.tuning.sharing import do_work
from tests.helpers.planted import until
from tests.helpers.replays import BROKEN, SPACE, FormulaMeasurer, make_spec, ran

VALUES = ", ".join(f"{{m: {64 << number}, n: {4096 >> number}}}" for number in range(5))
MANY = SPACE.replace("{m: 64, n: 4096}, {m: 4096, n: 64}", VALUES)
SMALL = (
    MANY.replace("values: [1, 2, 3, 4, 6, 8]", "values: [1, 2]")
    .replace("type: log_integer, min: 1, max: 64, default: 8", "values: [8], default: 8")
    .replace("[row, column, block]", "[row, column]")
    .replace("CACHE: {type: boolean", "CACHE: {values: [false]")
)
"""A space of 42 configurations, all of which a search may measure."""


class Scripted(FormulaMeasurer):
    """A device with a formula's times. It takes a moment, in which others go on.

    `before` is called before each measurement, with its number.
    """

    def __init__(
        self,
        uuid: str = "",
        before: Callable[[int], object] = lambda _: None,
        name: str = "formula",
        broken: Mapping[Input, int] = MappingProxyType({}),
    ) -> None:
        super().__init__(interleaves=True, broken=broken)
        notes = {DEVICE_UUID: uuid} if uuid else {}
        self.environment = Environment("replay", name, "none", "recorded", "recorded", notes=notes)
        self.before = before
        self.together: list[Input] = []
        self.recalled: list[Input] = []
        self.is_closed = False

    def measure(self, space: Any, problem: Input, config: Config, best_s: float | None) -> Any:
        """Return the formula's time a moment later."""
        time.sleep(1e-3)
        self.before(len(self.asked) + 1)
        return super().measure(space, problem, config, best_s)

    def measure_interleaved(
        self, space: Any, problem: Input, configs: Any, rounds: int, seeds: Any = ()
    ) -> Any:
        """Return the formula's times a moment later."""
        time.sleep(1e-3)
        self.together.append(problem)
        return super().measure_interleaved(space, problem, configs, rounds, seeds)

    def recall(self, problem: Input, measured: Any) -> None:
        """Note the input."""
        self.recalled.append(problem)

    def close(self) -> None:
        """Note it."""
        self.is_closed = True


def crashing(is_wrong: Callable[[Scripted, Config], bool], uuid: str = "") -> Scripted:
    """A device on which some measurements crash, after they were asked for."""

    class Crashing(Scripted):
        def measure(self, space: Any, problem: Input, config: Config, best_s: float | None) -> Any:
            found = super().measure(space, problem, config, best_s)
            if is_wrong(self, config):
                return Measurement(config, problem, Outcome.CRASHED, message="it fell off the bus")
            return found

    return Crashing(uuid)


def tuned(
    spec: Spec, database: Path, devices: Sequence[Scripted], **options: Any
) -> tuple[Sequence[InputReport], Results, list[str]]:
    """The reports, what is stored, and the warnings."""
    measurer = equal(*devices) if len(devices) > 1 else devices[0]
    found = ran(spec, database, measurer, **options)
    return found.reports, the_one(read_results([str(database)])), found.tests.warnings


def equal(*devices: Scripted) -> DevicePool:
    return DevicePool({f"device {number}": each for number, each in enumerate(devices)})


def stored(results: Results) -> Counter[tuple[object, ...]]:
    """How often each measurement is stored, without what differs from run to run."""
    return Counter(
        (row.stage, m.input, m.config, m.outcome, m.timing and m.timing.samples_s)
        for row in results.rows
        for m in [row.measurement]
    )


def verdicts(reports: Sequence[InputReport]) -> list[tuple[object, ...]]:
    configs = [(r.best and r.best.config, r.baseline and r.baseline.config) for r in reports]
    return [(r.problem, *c, r.speedup, r.measured) for r, c in zip(reports, configs, strict=True)]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """The verdicts of one device on all of SMALL, and what it stores."""
    folder = tmp_path_factory.mktemp("alone")
    reports, results, _ = tuned(
        make_spec(folder, SMALL), folder / "r.db", [Scripted()], test_limit=1000
    )
    return verdicts(reports), stored(results)


def test_devices_together_measure_all_that_one_does(tmp_path: Path, alone: tuple[Any, Any]) -> None:
    spec, devices = make_spec(tmp_path, SMALL), [Scripted(), Scripted(), Scripted()]
    reports, results, warnings = tuned(spec, tmp_path / "r.db", devices, test_limit=1000)
    assert (verdicts(reports), stored(results)) == alone
    assert all(device.asked for device in devices)
    assert not warnings


@pytest.mark.slow
@pytest.mark.parametrize("technique", ["UniformRandom", "HillClimb"])
def test_a_technique_that_learns_from_no_other_input_proposes_the_same_on_several_devices(
    tmp_path: Path, technique: str
) -> None:
    spec, options = make_spec(tmp_path, MANY), {"test_limit": 15, "technique": [technique]}
    one, one_stored, _ = tuned(spec, tmp_path / "one.db", [Scripted()], **options)
    devices = [Scripted(), Scripted(), Scripted()]
    three, three_stored, _ = tuned(spec, tmp_path / "three.db", devices, **options)
    assert stored(three_stored) == stored(one_stored)
    assert verdicts(three) == verdicts(one)


def test_what_is_compared_of_an_input_is_measured_on_one_device(tmp_path: Path) -> None:
    devices = [Scripted(f"GPU-{number}") for number in range(3)]
    spec = make_spec(tmp_path, MANY)
    _, results, _ = tuned(spec, tmp_path / "r.db", devices, test_limit=10)
    homes: dict[Input, set[int]] = {}
    for number, device in enumerate(devices):
        for problem in [*(problem for problem, _ in device.asked), *device.together]:
            homes.setdefault(problem, set()).add(number)
        assert set(device.recalled) == {problem for problem, _ in device.asked}
    assert set(homes) == set(spec.inputs)
    assert all(len(numbers) == 1 for numbers in homes.values())
    assert set(homes) == {problem for device in devices for problem in device.together}
    for run in results.runs:
        (home,) = homes[run.problem]
        assert run.notes["facts"][DEVICE_UUID] == f"GPU-{home}"


def test_a_seed_repeats_the_search_of_one_device(tmp_path: Path) -> None:
    """One device takes the way without threads, and the inputs in their order; nor does it matter
    that it could be shared."""
    spec, devices = make_spec(tmp_path, MANY), [Scripted() for _ in range(3)]
    for number, measurer in enumerate((*devices[:2], equal(devices[2]))):
        ran(spec, tmp_path / f"{number}.db", measurer, test_limit=12)
    assert devices[0].asked == devices[1].asked == devices[2].asked


def test_an_interrupted_campaign_continues_and_measures_nothing_twice(tmp_path: Path) -> None:
    """Ctrl-C arrives in the main thread, while others measure and one has just measured."""
    spec, database = make_spec(tmp_path, MANY), tmp_path / "r.db"
    options = {"test_limit": 12}

    def interrupt(number: int) -> None:
        if number == 10:
            os.kill(os.getpid(), signal.SIGINT)

    first = [Scripted("GPU-0", interrupt), Scripted("GPU-1"), Scripted("GPU-2")]
    with pytest.raises(KeyboardInterrupt):
        tuned(spec, database, first, **options)
    assert all(device.is_closed for device in first)
    assert not [t for t in threading.enumerate() if "_serve" in t.name], "no thread is left"
    results = the_one(read_results([str(database)]))
    kept = {(row.measurement.input, row.measurement.config) for row in results.rows}
    asked = [each for device in first for each in device.asked]
    assert kept <= set(asked)
    assert len(asked) - len(kept) <= len(first), "only what was being measured is lost"
    states = {run.state for run in results.runs}
    assert "interrupted" in states
    assert "running" not in states

    again = [Scripted("GPU-8"), Scripted("GPU-9")]
    reports, results, _ = tuned(spec, database, again, **options)
    assert not kept & {each for device in again for each in device.asked}
    assert {run.state for run in results.runs} == {"complete"}
    assert len(reports) == len(spec.inputs)
    devices = [run.notes["facts"][DEVICE_UUID].split() for run in results.runs]
    assert all({"GPU-8", "GPU-9"} & set(uuids) for uuids in devices)
    counts = Counter(row.measurement.input for row in results.rows if row.stage == "search")
    assert set(counts.values()) == {12}, "what was measured before counts, and is proposed again"


def test_an_error_of_one_device_ends_the_campaign_and_keeps_what_is_stored(tmp_path: Path) -> None:
    spec, database = make_spec(tmp_path, MANY), tmp_path / "r.db"

    def fail(number: int) -> None:
        if number == 6:
            raise RuntimeError("a defect")

    devices = [Scripted(), Scripted(before=fail), Scripted()]
    with pytest.raises(RuntimeError, match="a defect"):
        tuned(spec, database, devices, test_limit=12)
    rows = the_one(read_results([str(database)])).rows
    asked = {each for device in devices for each in device.asked}
    lost = asked - {(row.measurement.input, row.measurement.config) for row in rows}
    assert len(lost) <= 2, "what the two others were measuring"


def fails_after(count: int) -> Callable[[int], None]:
    """A device that cannot be opened after so many measurements."""

    def fail(number: int) -> None:
        if number > count:
            raise BackendUnavailable("the device cannot be opened")

    return fail


@pytest.mark.slow
def test_a_device_that_often_fails_is_taken_out(tmp_path: Path, alone: tuple[Any, Any]) -> None:
    devices = [Scripted("GPU-0"), Scripted("GPU-1", fails_after(20)), Scripted("GPU-2")]
    reports, several, warnings = tuned(
        make_spec(tmp_path, SMALL), tmp_path / "r.db", devices, test_limit=1000
    )
    assert (verdicts(reports), stored(several)) == alone
    (warning,) = warnings
    assert warning.startswith("device 1 (GPU-1) failed 3 times in a row and is not used any more")
    assert len(devices[1].asked) == 20


@pytest.mark.slow
def test_a_device_that_fails_now_and_then_goes_on(tmp_path: Path) -> None:
    spec, failures = make_spec(tmp_path, MANY), list[int]()

    def fail(number: int) -> None:
        if number % 7 == 0 and len(failures) < 5 and (not failures or failures[-1] != number):
            failures.append(number)
            raise BackendUnavailable("busy")

    devices = [Scripted(), Scripted(before=fail)]
    reports, _, warnings = tuned(spec, tmp_path / "r.db", devices, test_limit=30)
    assert len(failures) == 5
    assert not warnings
    assert len(reports) == len(spec.inputs)


def test_the_last_device_that_fails_ends_the_campaign(tmp_path: Path) -> None:
    devices = [Scripted(before=fails_after(4)), Scripted(before=fails_after(4))]
    with pytest.raises(BackendUnavailable, match="cannot be opened"):
        tuned(make_spec(tmp_path, MANY), tmp_path / "r.db", devices, test_limit=12)


def test_crashes_of_one_device_are_not_the_kernels(tmp_path: Path, alone: tuple[Any, Any]) -> None:
    """What crashed on a device that is taken out is measured again on others."""
    broken = crashing(lambda device, _: len(device.asked) > 15, "GPU-broken")
    devices = [broken, Scripted("GPU-1")]
    reports, results, warnings = tuned(
        make_spec(tmp_path, SMALL), tmp_path / "r.db", devices, test_limit=1000
    )
    assert verdicts(reports) == alone[0]
    last = {(m.input, m.config): m.outcome for m in (row.measurement for row in results.rows)}
    assert Outcome.CRASHED not in last.values()
    (warning,) = warnings
    assert "device 0 (GPU-broken) failed 3 times in a row" in warning
    assert "fell off the bus" in warning


@pytest.mark.slow
def test_crashes_of_kernels_take_no_device_out(tmp_path: Path) -> None:
    devices = [crashing(lambda _, config: config["LAYOUT"] != "row") for _ in range(2)]
    spec = make_spec(tmp_path, SMALL)
    reports, _, warnings = tuned(spec, tmp_path / "r.db", devices, test_limit=1000)
    assert not warnings
    assert all(r.best and r.best.config["LAYOUT"] == "row" for r in reports)


class Late:
    """Devices that join once another one has begun."""

    def __init__(self, after: Scripted, **devices: Scripted) -> None:
        self._after, self._devices, self.is_closed = after, devices, False
        self.reason = ""

    def joined(self) -> dict[str, Scripted]:
        """Return them once."""
        if not self._after.asked:
            return {}
        found, self._devices = self._devices, {}
        return found

    def unused(self) -> list[str]:
        """Return a reason when devices are returned no more."""
        return [] if self._devices else [self.reason] * bool(self.reason)

    def close(self) -> None:
        """Note it."""
        self.is_closed = True


def test_a_device_that_joins_takes_inputs_that_nobody_has_begun(
    tmp_path: Path, alone: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.tuning.sharing._LOOK_S", 0.01)
    joins, differs = Scripted("GPU-late"), Scripted("GPU-other", name="other")
    first = Scripted("GPU-0", lambda number: number == 3 and until(lambda: bool(joins.asked)))
    late = Late(first, joins=joins, differs=differs)
    spec, database = make_spec(tmp_path, SMALL), tmp_path / "r.db"
    late.reason = "a T4 has joined and is not used"
    ended = ran(spec, database, DevicePool({"first": first}, late), test_limit=1000)
    assert set(ended.tests.warnings) == {
        "differs (GPU-other) has joined and is not used: it is not equal to first (GPU-0): its "
        "device is `other`, not `formula`",
        late.reason,
    }
    results = the_one(read_results([str(database)]))
    assert (verdicts(ended.reports), stored(results)) == alone
    assert joins.asked
    assert differs.is_closed
    assert not differs.asked
    searched = {row.measurement.input for row in results.rows if row.stage == "search"}
    assert searched == set(spec.inputs)


def test_devices_that_join_end_with_the_others() -> None:
    first = Scripted("GPU-0")
    late = Late(first)
    DevicePool({"first": first}, late).close()
    assert late.is_closed
    assert first.is_closed


def test_an_input_without_data_is_left_out_on_its_device_alone(tmp_path: Path) -> None:
    spec = make_spec(tmp_path, MANY)
    lacking = spec.inputs[2]

    devices = [Scripted(broken={lacking: 0}) for _ in range(2)]
    reports, _, warnings = tuned(spec, tmp_path / "r.db", devices, test_limit=8)
    assert [r.problem for r in reports if not r.best] == [lacking]
    assert warnings == [f"({lacking}) is left out: {BROKEN}"]


@pytest.mark.slow
def test_devices_share_the_time_of_a_campaign(tmp_path: Path) -> None:
    """Five inputs on three devices, of which two search two inputs."""
    spec, devices = make_spec(tmp_path, MANY), [Scripted(), Scripted(), Scripted()]
    assert len(spec.inputs) == 5
    began_s = time.monotonic()
    limits: dict[str, Any] = {"test_limit": 2000, "stop_at": began_s + 2}
    reports = ran(spec, tmp_path / "r.db", equal(*devices), **limits).reports
    assert time.monotonic() - began_s < 30
    assert all(report.best for report in reports)


def test_no_measurement_begins_when_the_time_of_several_devices_is_up(tmp_path: Path) -> None:
    spec, devices = make_spec(tmp_path, MANY), [Scripted(), Scripted()]
    limits: dict[str, Any] = {"test_limit": 20, "stop_at": time.monotonic() - 1}
    reports = ran(spec, tmp_path / "r.db", equal(*devices), **limits).reports
    assert not [device.asked for device in devices if device.asked]
    assert {report.note for report in reports} == {"not measured: the time was up"}


def test_devices_that_differ_are_refused() -> None:
    with pytest.raises(
        UsageError, match=r"device 1 \(GPU-2\) is not equal to device 0: its device is `two`, not"
    ):
        equal(Scripted(name="one"), Scripted("GPU-2", name="two"))


def test_each_thread_finds_its_own_random_numbers() -> None:
    pool, drawn = equal(Scripted(), Scripted()), dict[Input, list[float]]()
    store = SimpleNamespace(commit=lambda: None)

    def draw(problem: Input, seed: int) -> None:
        random.seed(seed)
        np.random.seed(seed)
        for _ in range(20):
            drawn.setdefault(problem, []).append(random.random() + float(np.random.random()))
            pool.served.wait_for(lambda: time.sleep(1e-3))

    inputs = [Input({"n": n}) for n in range(2)]
    state: Any = SimpleNamespace(pool=pool, store=store, warn=print)
    assert do_work(state, [(problem, 7) for problem in inputs], draw) == 0
    random.seed(7)
    np.random.seed(7)
    alone = [random.random() + float(np.random.random()) for _ in range(20)]
    assert drawn == dict.fromkeys(inputs, alone)
