"""Several equal devices share the inputs of a campaign, and find what one device finds."""

from __future__ import annotations

import dataclasses
import os
import random
import signal
import threading
import time
from collections import Counter
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harness.core.errors import BackendUnavailable, UsageError
from harness.core.records import DEVICE_UUID, Environment, Input, Measurement, Outcome
from harness.results.view import read_results, the_one
from harness.tuning.devices import DevicePool
from harness.tuning.sharing import do_work
from tests.helpers.planted import until
from tests.helpers.replays import BROKEN, SPACE, FormulaMeasurer, make_spec, ran


def inputs(count):
    return ", ".join(f"{{m: {64 << number}, n: {4096 >> number}}}" for number in range(count))


MANY = SPACE.replace("{m: 64, n: 4096}, {m: 4096, n: 64}", inputs(5))
SMALL = f"""\
name: formula
kernel: {{function: kernel, source: kernel.cl, host: kernel.py}}
parameters:
  BLOCK: {{values: [64, 128, 256, 512], role: launch, default: 256}}
  TILE: {{type: integer, min: 1, max: 4, default: 1}}
  LAYOUT: {{values: [row, column], role: choice, default: row}}
launch: {{group: [BLOCK], grid: [n]}}
inputs: {{features: [m, n], values: [{inputs(3)}]}}
"""
"""A space of 32 configurations, all of which a search may measure."""


class Scripted(FormulaMeasurer):
    """A device with a formula's times. It takes a moment, in which others go on.

    `before` is called before each measurement, with its number.
    """

    def __init__(
        self,
        uuid="",
        before=lambda _: None,
        name="formula",
        broken=MappingProxyType({}),
    ):
        super().__init__(interleaves=True, broken=broken)
        notes = {DEVICE_UUID: uuid} if uuid else {}
        self.environment = Environment("replay", name, "none", "recorded", "recorded", notes=notes)
        self.before = before
        self.together: list[Input] = []
        self.recalled: list[Input] = []
        self.is_closed = False

    def measure(self, space, problem, config, best_s):
        """Return the formula's time a moment later."""
        time.sleep(1e-3)
        self.before(len(self.asked) + 1)
        return super().measure(space, problem, config, best_s)

    def measure_interleaved(self, space, problem, configs, rounds, seeds=()):
        """Return the formula's times a moment later."""
        time.sleep(1e-3)
        self.together.append(problem)
        return super().measure_interleaved(space, problem, configs, rounds, seeds)

    def recall(self, problem, measured):
        """Note the input."""
        self.recalled.append(problem)

    def close(self):
        """Note it."""
        self.is_closed = True


class Crashing(Scripted):
    """A device on which measurements crash, after they were asked for."""

    def is_wrong(self, config):
        """After 15, all crash."""
        return len(self.asked) > 15

    def measure(self, space, problem, config, best_s):
        measured = super().measure(space, problem, config, best_s)
        if self.is_wrong(config):
            return Measurement(config, problem, Outcome.CRASHED, message="it fell off the bus")
        return measured


class CrashingOffRows(Crashing):
    """A kernel that crashes on every device."""

    def is_wrong(self, config):
        return config["LAYOUT"] != "row"


def equal(*devices):
    return DevicePool({f"device {number}": device for number, device in enumerate(devices)})


def tuned(folder, devices, text=MANY, limit=8):
    """A campaign on several devices, or on one without a pool; its results as they are stored."""
    measurer = equal(*devices) if len(devices) > 1 else devices[0]
    done = ran(make_spec(folder, text), folder / "r.db", measurer, test_limit=limit)
    return dataclasses.replace(done, results=read(folder))


def read(folder):
    return the_one(read_results([str(folder / "r.db")]))


def stored(results):
    """How often each measurement is stored, without what differs from run to run."""
    measured = [(row.stage, row.measurement) for row in results.rows]
    return Counter(
        (stage, m.input, m.config, m.outcome, m.timing and m.timing.samples_s)
        for stage, m in measured
    )


def verdicts(done):
    return [
        (r.problem, r.best and r.best.config, r.baseline and r.baseline.config, r.speedup)
        for r in done.reports
    ]


ALL = 1000
"""A limit beyond the configurations of SMALL."""


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """What one device makes of all of SMALL."""
    return tuned(tmp_path_factory.mktemp("alone"), [Scripted()], SMALL, ALL)


def test_devices_together_measure_all_that_one_does(tmp_path, alone):
    devices = [Scripted(), Scripted(), Scripted()]
    together = tuned(tmp_path, devices, SMALL, ALL)
    assert verdicts(together) == verdicts(alone)
    assert stored(together.results) == stored(alone.results)
    assert all(device.asked for device in devices)
    assert not together.tests.warnings


@pytest.mark.slow
@pytest.mark.parametrize("technique", ["UniformRandom", "HillClimb"])
def test_a_technique_that_learns_from_no_other_input_proposes_the_same_on_several_devices(
    tmp_path, technique
):
    spec, options = make_spec(tmp_path, MANY), {"test_limit": 15, "technique": [technique]}
    single = ran(spec, tmp_path / "one.db", Scripted(), **options)
    pool = equal(Scripted(), Scripted(), Scripted())
    several = ran(spec, tmp_path / "three.db", pool, **options)
    assert stored(several.results) == stored(single.results)
    assert verdicts(several) == verdicts(single)


def test_what_is_compared_of_an_input_is_measured_on_one_device(tmp_path):
    devices = [Scripted(f"GPU-{number}") for number in range(3)]
    done = tuned(tmp_path, devices)
    homes: dict[Input, str] = {}
    for device in devices:
        searched = {problem for problem, _ in device.asked}
        assert set(device.recalled) == searched
        for problem in searched | set(device.together):
            assert problem not in homes
            homes[problem] = device.environment.notes[DEVICE_UUID]
    assert homes == {run.problem: run.notes["facts"][DEVICE_UUID] for run in done.results.runs}
    assert set(homes) == {problem for device in devices for problem in device.together}
    assert set(homes) == set(done.campaign.spec.inputs)


def test_a_seed_repeats_the_search_of_one_device(tmp_path):
    """One device takes the way without threads, and the inputs in their order; nor does it matter
    that it could be shared."""
    spec, devices = make_spec(tmp_path, MANY), [Scripted(), Scripted()]
    for number, measurer in enumerate((devices[0], equal(devices[1]))):
        ran(spec, tmp_path / f"{number}.db", measurer, test_limit=8)
    assert devices[0].asked == devices[1].asked


def test_an_interrupted_campaign_continues_and_measures_nothing_twice(tmp_path):
    """Ctrl-C arrives in the main thread, while others measure and one has just measured."""

    def interrupt(number):
        if number == 6:
            os.kill(os.getpid(), signal.SIGINT)

    first = [Scripted("GPU-0", interrupt), Scripted("GPU-1"), Scripted("GPU-2")]
    with pytest.raises(KeyboardInterrupt):
        tuned(tmp_path, first)
    assert all(device.is_closed for device in first)
    assert not [t for t in threading.enumerate() if "_serve" in t.name], "no thread is left"
    before = pairs(tmp_path)
    asked = [pair for device in first for pair in device.asked]
    assert before <= set(asked)
    assert len(asked) - len(before) <= len(first), "only what was being measured is lost"
    states = {run.state for run in read(tmp_path).runs}
    assert "interrupted" in states
    assert "running" not in states

    again = [Scripted("GPU-8"), Scripted("GPU-9")]
    results = tuned(tmp_path, again).results
    assert not before & {pair for device in again for pair in device.asked}
    assert {run.state for run in results.runs} == {"complete"}
    for run in results.runs:
        assert {"GPU-8", "GPU-9"} & set(run.notes["facts"][DEVICE_UUID].split())
    counts = Counter(row.measurement.input for row in results.rows if row.stage == "search")
    assert list(counts.values()) == [8] * 5, "what was measured before counts"


def pairs(folder):
    """What is stored as measured, in any stage."""
    return {(m.input, m.config) for m in read(folder).rows.measurements()}


def test_an_error_of_one_device_ends_the_campaign_and_keeps_what_is_stored(tmp_path):
    def fail(number):
        if number == 6:
            raise RuntimeError("a defect")

    devices = [Scripted(), Scripted(before=fail), Scripted()]
    with pytest.raises(RuntimeError, match="a defect"):
        tuned(tmp_path, devices)
    asked = {pair for device in devices for pair in device.asked}
    assert len(asked - pairs(tmp_path)) <= 2, "what the two others were measuring"


def fails_after(count):
    """A device that cannot be opened after so many measurements."""

    def fail(number):
        if number > count:
            raise BackendUnavailable("the device cannot be opened")

    return fail


@pytest.mark.slow
def test_a_device_that_often_fails_is_taken_out(tmp_path, alone):
    devices = [Scripted("GPU-0"), Scripted("GPU-1", fails_after(20)), Scripted("GPU-2")]
    several = tuned(tmp_path, devices, SMALL, ALL)
    assert verdicts(several) == verdicts(alone)
    assert stored(several.results) == stored(alone.results)
    (warning,) = several.tests.warnings
    assert warning.startswith("device 1 (GPU-1) failed 3 times in a row")
    assert len(devices[1].asked) == 20


@pytest.mark.slow
def test_a_device_that_fails_now_and_then_goes_on(tmp_path):
    failures: list[int] = []

    def fail(number):
        if number % 7 == 0 and len(failures) < 5 and number not in failures[-1:]:
            failures.append(number)
            raise BackendUnavailable("busy")

    done = tuned(tmp_path, [Scripted(), Scripted(before=fail)], limit=30)
    assert len(failures) == 5
    assert not done.tests.warnings


def test_the_last_device_that_fails_ends_the_campaign(tmp_path):
    devices = [Scripted(before=fails_after(4)), Scripted(before=fails_after(4))]
    with pytest.raises(BackendUnavailable, match="cannot be opened"):
        tuned(tmp_path, devices)


def test_crashes_of_one_device_are_not_the_kernels(tmp_path, alone):
    """What crashed on a device that is taken out is measured again on others."""
    done = tuned(tmp_path, [Crashing("GPU-broken"), Scripted("GPU-1")], SMALL, ALL)
    assert verdicts(done) == verdicts(alone)
    last = {(m.input, m.config): m.outcome for m in done.results.rows.measurements()}
    assert Outcome.CRASHED not in last.values()
    (warning,) = done.tests.warnings
    assert "device 0 (GPU-broken) failed 3 times in a row" in warning
    assert "fell off the bus" in warning


@pytest.mark.slow
def test_crashes_of_kernels_take_no_device_out(tmp_path):
    done = tuned(tmp_path, [CrashingOffRows(), CrashingOffRows()], SMALL, ALL)
    assert not done.tests.warnings
    assert all(r.best and r.best.config["LAYOUT"] == "row" for r in done.reports)


class Late:
    """Devices that join once another one has begun."""

    def __init__(self, after, **devices):
        self._after, self._devices, self.is_closed = after, devices, False
        self.reason = ""

    def joined(self):
        """Return them once."""
        if not self._after.asked:
            return {}
        devices, self._devices = self._devices, {}
        return devices

    def unused(self):
        """Return a reason when devices are returned no more."""
        return [] if self._devices else [self.reason] * bool(self.reason)

    def close(self):
        """Note it."""
        self.is_closed = True


def test_a_device_that_joins_takes_inputs_that_nobody_has_begun(tmp_path, alone, monkeypatch):
    monkeypatch.setattr("harness.tuning.sharing._LOOK_S", 0.01)
    joins, differs = Scripted("GPU-late"), Scripted("GPU-other", name="other")
    first = Scripted("GPU-0", lambda number: number == 3 and until(lambda: bool(joins.asked)))
    late = Late(first, joins=joins, differs=differs)
    late.reason = "a T4 has joined and is not used"
    pool = DevicePool({"first": first}, late)
    done = ran(make_spec(tmp_path, SMALL), tmp_path / "r.db", pool, test_limit=ALL)
    reason, warning = sorted(set(done.tests.warnings))
    assert reason == late.reason
    assert warning.startswith("differs (GPU-other) has joined and is not used")
    assert "`other`" in warning
    assert verdicts(done) == verdicts(alone)
    assert stored(read(tmp_path)) == stored(alone.results)
    assert joins.asked
    assert differs.is_closed
    assert not differs.asked


def test_devices_that_join_end_with_the_others():
    first = Scripted("GPU-0")
    late = Late(first)
    DevicePool({"first": first}, late).close()
    assert late.is_closed
    assert first.is_closed


def test_an_input_without_data_is_left_out_on_its_device_alone(tmp_path):
    lacking = make_spec(tmp_path, MANY).inputs[2]
    done = tuned(tmp_path, [Scripted(broken={lacking: 0}), Scripted(broken={lacking: 0})])
    assert [r.problem for r in done.reports if not r.best] == [lacking]
    assert done.tests.warnings == [f"({lacking}) is left out: {BROKEN}"]


@pytest.mark.slow
def test_devices_share_the_time_of_a_campaign(tmp_path):
    """Five inputs on three devices, of which two search two inputs."""
    spec, devices = make_spec(tmp_path, MANY), [Scripted(), Scripted(), Scripted()]
    assert len(spec.inputs) == 5
    began_s = time.monotonic()
    limits: dict[str, Any] = {"test_limit": 2000, "stop_at": began_s + 2}
    reports = ran(spec, tmp_path / "r.db", equal(*devices), **limits).reports
    assert time.monotonic() - began_s < 30
    assert all(report.best for report in reports)


def test_no_measurement_begins_when_the_time_of_several_devices_is_up(tmp_path):
    spec, devices = make_spec(tmp_path, MANY), [Scripted(), Scripted()]
    limits: dict[str, Any] = {"test_limit": 20, "stop_at": time.monotonic() - 1}
    reports = ran(spec, tmp_path / "r.db", equal(*devices), **limits).reports
    assert not [device.asked for device in devices if device.asked]
    assert {report.note for report in reports} == {"not measured: the time was up"}


def test_devices_that_differ_are_refused():
    with pytest.raises(UsageError, match=r"device 1 \(GPU-2\) .*device 0: .*`two`"):
        equal(Scripted(name="one"), Scripted("GPU-2", name="two"))


def test_each_thread_finds_its_own_random_numbers():
    pool, drawn = equal(Scripted(), Scripted()), dict[Input, list[float]]()
    store = SimpleNamespace(commit=lambda: None)

    def draw(problem, seed):
        random.seed(seed)
        np.random.seed(seed)
        for _ in range(20):
            drawn.setdefault(problem, []).append(random.random() + float(np.random.random()))
            pool.served.wait_for(lambda: time.sleep(1e-3))

    problems = [Input({"n": n}) for n in range(2)]
    state: Any = SimpleNamespace(pool=pool, store=store, warn=print)
    assert do_work(state, [(problem, 7) for problem in problems], draw) == 0
    random.seed(7)
    np.random.seed(7)
    alone = [random.random() + float(np.random.random()) for _ in range(20)]
    assert drawn == dict.fromkeys(problems, alone)
