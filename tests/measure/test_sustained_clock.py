"""Times at the clock that a device sustains, over scripted clocks: nothing here waits."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import pytest

from harness.analysis.sensors import clock_lines
from harness.checking import default_run
from harness.core.errors import LaunchFailed
from harness.core.observations import SM_CLOCK_MHZ, THROTTLED_SAMPLES
from harness.core.records import BOOST, SUSTAINED
from harness.measure.choose import measuring_as
from harness.measure.device.clocks import (
    GPU_WARMUP_S,
    LONGEST_SUSTAINING_S,
    PAUSE_S,
    SUSTAINED_S,
    ClockWatch,
    SampleClocks,
    SustainedWatch,
)
from harness.measure.kernels import process as kernel_process
from harness.measure.kernels.measurer import KernelMeasurer
from harness.measure.kernels.process import DeviceWorker
from harness.measure.kernels.trial import measure_alone
from harness.report.page import facts_of
from harness.results import Store, writing
from harness.results.view import read_results, the_one
from tests.helpers.fake_kernels import (
    DATA,
    DeviceBackend,
    bound_device,
    fake_job,
    interleaved,
    write_fake,
)
from tests.helpers.fakes import FAKE_SPACE, FakeDevice
from tests.helpers.listed_devices import AMD, CPU, backend_of
from tests.helpers.results_examples import ENVIRONMENT, begin_search, make_ok, make_plan

BOOST_MHZ, LOW_MHZ = 1000.0, 630.0
RUN_S = 0.01  # at boost


def plateau(boost_s):
    """Return the clock of a GPU that is at boost for some seconds, then keeps 63 % of it."""
    return lambda worked_s: BOOST_MHZ if worked_s < boost_s else LOW_MHZ


def slope(until_s):
    """Return a clock that falls by 10 % a second until a moment."""
    return lambda worked_s: BOOST_MHZ * (1 - 0.1 * min(worked_s, until_s))


@dataclass
class Gpu:
    """A watched GPU whose clock depends on how long it has worked since a pause."""

    clock: Callable[[float], float]
    is_readable: bool = True
    now_s: float = 100.0
    began_s: float = 100.0
    watch: SustainedWatch = field(init=False)

    def __post_init__(self):
        self.watch = SustainedWatch(BOOST_MHZ, lambda: self.now_s)
        self.watch.measurement_begins()

    def pause(self, seconds):
        self.now_s += seconds
        self.began_s = self.now_s

    def run(self, at_boost_s=RUN_S):
        self.watch.run_begins()
        mhz = self.clock(self.now_s - self.began_s)
        elapsed_s = at_boost_s * BOOST_MHZ / mhz
        self.now_s += elapsed_s
        self.watch.run_ended(mhz if self.is_readable else None, elapsed_s)

    def warm_up(self, at_boost_s=RUN_S):
        """Run until it is warm; return the seconds that this took."""
        since_s = self.now_s
        while not self.watch.is_warm(SUSTAINED_S):
            self.run(at_boost_s)
        return self.now_s - since_s


@pytest.mark.parametrize("is_readable", [True, False])
@pytest.mark.parametrize(
    "clock, least_s, most_s",
    [
        (plateau(0.0), 1.0, 1.1),
        (plateau(0.1), 1.0, 1.4),
        (plateau(0.6), 1.6, 2.0),
        (slope(2.5), 2.5, 3.8),
    ],
)
def test_no_sample_before_the_clock_is_flat_for_a_second(clock, is_readable, least_s, most_s):
    gpu = Gpu(clock, is_readable)
    assert least_s <= gpu.warm_up() <= most_s
    assert clock(gpu.now_s - gpu.began_s) == clock(100.0), "no boost is left"


@pytest.mark.parametrize("run_s", [0.3, 0.7, 1.5])
def test_two_long_runs_are_enough(run_s):
    gpu = Gpu(plateau(0.0))
    assert gpu.warm_up(run_s * LOW_MHZ / BOOST_MHZ) <= max(2 * run_s + 1e-6, 1.3)


def test_a_clock_that_never_rests_is_waited_for_only_once_in_a_measurement():
    gpu = Gpu(lambda worked_s: BOOST_MHZ if int(worked_s / 0.4) % 2 else LOW_MHZ)
    assert gpu.warm_up() == pytest.approx(LONGEST_SUSTAINING_S, abs=0.3)
    gpu.pause(1.0)
    assert gpu.warm_up() == 0.0
    gpu.watch.measurement_begins()
    assert gpu.warm_up() > 1.0


def test_another_configuration_and_a_pause_need_a_clock_that_is_flat_again():
    gpu = Gpu(plateau(0.1))
    gpu.warm_up()
    gpu.run()
    gpu.pause(0.9 * PAUSE_S)
    assert gpu.warm_up() == 0.0
    gpu.pause(1.1 * PAUSE_S)
    assert gpu.warm_up() > 1.0
    gpu.watch.measurement_begins()
    assert gpu.warm_up() > 1.0, "kernels differ in power"


def test_low_clocks_are_data():
    waits = []
    of_samples = SampleClocks(Gpu(plateau(0.0)).watch, waits.append)
    assert all(of_samples.keeps(mhz) for mhz in (1000, 500, 630))
    assert not waits
    assert of_samples.observed() == {SM_CLOCK_MHZ: 630}


# ------------------------------------------------------------------------- measurements


class SlowingDevice(FakeDevice):
    """A GPU in memory: some time at boost, then 63 % of it. `clock_s` is its time."""

    is_readable = True
    boost_s = 0.1

    def _launch(self, module, launch):
        super()._launch(module, launch)
        self.clock_s -= 1e-3
        elapsed_s = RUN_S * BOOST_MHZ / self._mhz
        self.clock_s += elapsed_s
        return elapsed_s

    def sm_clock_mhz(self):
        return self._mhz if self.is_readable else None

    @property
    def _mhz(self):
        return BOOST_MHZ if self.clock_s < self.boost_s else LOW_MHZ


class UnreadableDevice(SlowingDevice):
    """The same, of which OpenCL does not say the clock."""

    is_readable = False


def slowing(clock, kind=SlowingDevice):
    device = bound_device(kind=kind)
    assert isinstance(device, SlowingDevice)
    watch = ClockWatch if clock == BOOST else SustainedWatch
    device.watch = watch(BOOST_MHZ, lambda: device.clock_s)
    return device


JOB = fake_job()
AT_BOOST = replace(JOB, sampling=replace(JOB.sampling, warmup_time_s=GPU_WARMUP_S))
AT_SUSTAINED = replace(JOB, sampling=replace(JOB.sampling, warmup_time_s=SUSTAINED_S))


@pytest.mark.parametrize("kind", [SlowingDevice, UnreadableDevice])
def test_a_time_belongs_to_the_clock_that_the_space_names(kind):
    at_boost = measure_alone(slowing(BOOST, kind), DATA, AT_BOOST)
    sustained = measure_alone(slowing(SUSTAINED, kind), DATA, AT_SUSTAINED)
    assert at_boost.time_s == pytest.approx(RUN_S)
    assert sustained.time_s == pytest.approx(RUN_S * BOOST_MHZ / LOW_MHZ)
    assert THROTTLED_SAMPLES not in sustained.observed
    if kind is SlowingDevice:
        assert sustained.observed[SM_CLOCK_MHZ] == LOW_MHZ


def test_interleaved_configurations_warm_the_device_once():
    device = slowing(SUSTAINED)
    measured = interleaved(device, [DATA], [AT_SUSTAINED] * 3, rounds=4)
    assert all(m.time_s == pytest.approx(RUN_S * BOOST_MHZ / LOW_MHZ) for m in measured)
    assert device.clock_s < 1.5 + 3 * 4 * 2 * RUN_S


# ------------------------------------------------------------------------- spaces


def spec_of(folder, measure):
    return write_fake(folder, space=FAKE_SPACE.replace("{repeats: 4, min_repeats: 3}", measure))


@pytest.mark.parametrize("device", [AMD, CPU, None])
@pytest.mark.parametrize(
    "measure, clock",
    [("{}", BOOST), ("{clock: boost}", BOOST), ("{clock: sustained}", SUSTAINED)],
)
def test_the_space_names_the_clock(tmp_path, measure, clock, device):
    spec = spec_of(tmp_path, measure)
    assert measuring_as(spec, backend_of(device)).clock == clock
    assert spec.measure.sampling({"warmup_time_s": SUSTAINED_S}).warmup_time_s == SUSTAINED_S


def test_times_of_two_clocks_are_of_two_environments(fake_here):
    of_boost, _ = fake_here()
    sustained, _ = fake_here(clock=SUSTAINED)
    assert of_boost.environment != sustained.environment
    assert of_boost.environment.fingerprint != sustained.environment.fingerprint
    assert "sustained clock" in str(sustained.environment)
    assert "clock" not in str(of_boost.environment)
    assert isinstance(sustained._device._child._worker._device.watch, SustainedWatch)


def test_the_report_says_what_share_of_boost_is_sustained(tmp_path):
    notes = {"facts": {"clock_khz": "1980000"}}
    database = str(tmp_path / "r.db")
    plan = make_plan(environment=replace(ENVIRONMENT, clock=SUSTAINED))
    with writing(database) as engine, Store(engine) as store:
        search = begin_search(store, plan, notes)
        for number, mhz in enumerate([1250.0, 1410.0], start=1):
            search.test(replace(make_ok(number), observed={SM_CLOCK_MHZ: mhz}))
    stored = the_one(read_results([database]))
    assert list(clock_lines(stored)) == [
        "The GPU sustained 63 to 71 % of its boost clock, 1,980 MHz."
    ]
    assert "sustained clock" in dict(facts_of(stored))["conditions"]


# ------------------------------------------------------------------------- check --run


@dataclass(frozen=True)
class GpuBackend(DeviceBackend):
    """A backend whose device is a GPU."""

    @property
    def is_gpu(self):
        """Say yes."""
        return True


@pytest.mark.usefixtures("kernels_here")
@pytest.mark.parametrize(
    "clock, boost_s, line",
    [
        (BOOST, 0.5, "times depend on the clock: 1.59x as long when sustained, on (n=5). If"),
        (BOOST, 0.0, "times do not depend on the clock: 1.00x as long when sustained, on (n=5)"),
        (SUSTAINED, 0.5, ""),
    ],
)
def test_check_says_whether_the_default_depends_on_the_clock(
    tmp_path, monkeypatch, clock, boost_s, line
):
    device = slowing(clock)
    device.boost_s = boost_s
    monkeypatch.setattr(
        kernel_process, "SustainedWatch", partial(SustainedWatch, now_s=lambda: device.clock_s)
    )
    spec = spec_of(tmp_path, f"{{clock: {clock}}}")
    journal = tmp_path / "journal"
    backend = GpuBackend("opencl", "opencl", "", journal=journal, opened=device, clock=clock)
    opened = KernelMeasurer(spec, backend), "a test"
    monkeypatch.setattr(default_run, "open_measurer", lambda *_, **named: opened)
    printed = "\n".join(default_run.run_default(spec, "auto", (), spec.inputs).lines())
    assert line in printed
    assert ("depend on the clock" in printed) == bool(line)


@pytest.mark.usefixtures("kernels_here")
def test_check_warns_where_the_default_fails_at_the_sustained_clock(tmp_path, monkeypatch):
    device = slowing(BOOST)
    spec = spec_of(tmp_path, "{}")
    journal = tmp_path / "journal"
    measurer = KernelMeasurer(
        spec, GpuBackend("opencl", "opencl", "", journal=journal, opened=device)
    )
    monkeypatch.setattr(default_run, "open_measurer", lambda *_, **named: (measurer, "a test"))

    def lost(worker, key, job):
        raise LaunchFailed("the device is lost")

    monkeypatch.setattr(DeviceWorker, "run_sustained", lost)
    ended = default_run.run_default(spec, "auto", (), spec.inputs)
    assert (
        "warning: no time at the sustained clock: launch_failed, the device is lost"
        in "\n".join(ended.lines())
    )
    assert not ended.failures
