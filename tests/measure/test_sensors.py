"""Energy, temperature, memory clock and throttling: over scripted stand-ins for what reads them."""

import itertools
import math
import os
import sys
import threading
import time
from contextlib import nullcontext
from dataclasses import replace
from itertools import count
from unittest.mock import Mock

import numpy as np
import pytest

from harness.core.errors import HostTooSlow
from harness.core.records import Environment, Outcome
from harness.measure.kernels.trial import measure_alone
from harness.measure.sensors import energy as energy_module
from harness.measure.sensors.energy import SensorUnavailable, counter_updates, measure_energy
from harness.measure.sensors.nvml import Sensors, open_sensors, other_processes
from harness.stats.timing import Sampling
from tests.helpers.fake_kernels import DATA, bound_device, fake_job, interleaved
from tests.helpers.planted import assert_ok
from tests.helpers.stub_nvml import BUS

GPU = Environment("cuda", "a GPU", "CUDA", "1", "nvcc", notes={"pci_bus_id": BUS})


def gpu():
    """The sensors of a GPU."""
    return open_sensors(GPU)


# ------------------------------------------------------------------------------------- NVML


def test_state_of_a_gpu_has_units_and_whether_it_was_throttled(nvml):
    nvml()
    assert gpu().state() == {"temperature_c": 51, "memory_clock_mhz": 2619, "throttled": 0}
    nvml(nvmlDeviceGetCurrentClocksThrottleReasons=[0x04 | 0x40])
    others = {"temperature_c", "memory_clock_mhz", "throttled"}
    reasons = {"throttled_by_sw_power_cap", "throttled_by_hw_thermal"}
    assert set(gpu().state()) == others | reasons
    nvml(nvmlDeviceGetCurrentClocksThrottleReasons=[0x01 | 0x02])
    assert gpu().state()["throttled"] == 0, "it is idle, and somebody set its clocks"


def test_what_nvml_refuses_is_left_out_and_asked_for_once(nvml):
    library = nvml(nvmlDeviceGetTemperature="NotSupported", nvmlDeviceGetClockInfo="NoPermission")
    found = gpu()
    assert [set(found.state()) for _ in range(2)] == [{"throttled"}] * 2
    assert library.asked["nvmlDeviceGetTemperature"] == 1


def test_an_earlier_library_without_a_call_is_no_error(nvml):
    del nvml().nvmlDeviceGetCurrentClocksThrottleReasons
    assert "throttled" not in gpu().state()


def test_no_counter_has_a_reason(nvml):
    cases = [
        ({"nvmlInit": "LibraryNotFound"}, "LibraryNotFound"),
        ({"gpus": []}, BUS),
        ({"nvmlDeviceGetMigMode": [[1, 1]]}, "MIG"),
        ({"power_w": None, "nvmlDeviceGetTotalEnergyConsumption": "NotSupported"}, "NotSupported"),
    ]
    for changes, message in cases:
        nvml(**changes)
        sensors = gpu()
        assert sensors.counter is None
        assert message in str(sensors.no_energy)


def test_missing_library_names_what_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    sensors = gpu()
    assert "pip install nvidia-ml-py" in str(sensors.no_energy)
    assert sensors.state() == {}
    other = open_sensors(replace(GPU, notes={}))
    assert "--backend cuda" in str(other.no_energy)


# ---------------------------------------------------------------------------- energy and power


class Meter:
    """A clock of its own, and the counter of the energy that passes on it."""

    def __init__(self):
        self.now_s = 0.0
        self.spent_j = 0.0
        self.updates = []

    def spend(self, seconds, power_w):
        """Let time pass, in steps of 10 ms at most."""
        steps = math.ceil(seconds / 0.01)
        for _ in range(steps):
            self.now_s += seconds / steps
            self.spent_j += power_w * seconds / steps
            self.updates.append((self.now_s, self.spent_j))
        return seconds

    def __call__(self):
        return self.spent_j


@pytest.fixture
def meter(monkeypatch):
    """A meter by whose clock energy is measured; it adds the updates in place of a thread."""
    meter = Meter()
    monkeypatch.setattr(energy_module, "counter_updates", lambda _: nullcontext(meter.updates))
    monkeypatch.setattr(energy_module.time, "perf_counter", lambda: meter.now_s)
    return meter


def test_power_of_the_runs_is_that_of_launches_which_take_nearly_all_of_them(meter):
    def run():
        meter.spend(0.1e-3, 100)
        return meter.spend(1.9e-3, 400)

    runs, verify = Mock(side_effect=run), Mock()
    found = measure_energy(runs, verify, meter, 0.1)
    assert 0 <= found.pop("energy_spread_j") < 0.1 * found["energy_j"]
    expected = {"energy_j": 385 * 1.9e-3, "power_w": 385, "launch_share": 0.95}
    assert found == pytest.approx(expected, rel=0.02)
    assert runs.call_count == pytest.approx(62, abs=2), "0.125 s of 2 ms"
    verify.assert_called_once()


def test_short_launches_give_no_energy(meter):
    def short():
        meter.spend(2e-3, 100)
        return 1.7e-3

    found = measure_energy(short, lambda: None, meter, 0.1)
    assert found == {"launch_share": pytest.approx(0.85)}


def test_spread_of_an_energy_is_that_of_the_power_in_five_parts(meter):
    powers_w = itertools.cycle([200, 220, 180, 210, 190])

    def run():
        return meter.spend(0.02, next(powers_w))

    found = measure_energy(run, lambda: None, meter, 0.099)
    assert found["power_w"] == pytest.approx(200)
    # Student's t of four degrees of freedom, 2.776, times the standard error of the mean.
    spread_w = 2.776 * 250**0.5 / 5**0.5
    assert found["energy_spread_j"] == pytest.approx(spread_w * 0.02, rel=1e-3)


@pytest.mark.parametrize("seconds, is_known", [(0.02, False), (0.05, True)])
def test_power_needs_more_than_five_updates(meter, seconds, is_known):
    found = measure_energy(lambda: meter.spend(0.03, 300), lambda: None, meter, seconds)
    assert found["launch_share"] == pytest.approx(1)
    assert ("energy_j" in found) is is_known


def test_a_thread_sees_a_counter_move_until_it_is_left():
    values = count()
    threads = threading.active_count()
    with counter_updates(lambda: next(values) // 2) as updates:
        while len(updates) < 3:
            time.sleep(1e-3)
    assert threading.active_count() == threads
    times, energies_j = zip(*updates, strict=True)
    assert energies_j[:3] == (1, 2, 3)
    assert list(times) == sorted(times)


def test_a_counter_that_fails_gives_what_it_gave_until_then():
    failed = threading.Event()

    def values():
        yield from (0, 1, 2)
        failed.set()
        raise SensorUnavailable("gone")

    with counter_updates(values().__next__) as updates:
        failed.wait(10)
    assert [energy_j for _, energy_j in updates] == [1, 2]


# ------------------------------------------------------------------- as a kernel is measured

JOB = fake_job(energy_s=0.1, sampling=Sampling(repeats=4, min_repeats=4, precision=0.0))


def measured(sensors, meter, **changes):
    """Measure a kernel that takes 2 ms and 300 W on a fake device."""

    def works(x, y):
        meter.spend(2e-3, 300)
        np.copyto(y, 2 * x)

    device = bound_device(works, (2e-3 for _ in count()))
    found = measure_alone(device, DATA, replace(JOB, **changes), sensors)
    assert_ok(found)
    return device, dict(found.observed)


def test_measurement_observes_the_state_and_the_energy(nvml, meter):
    nvml()
    sensors = replace(gpu(), counter=meter)
    _, found = measured(sensors, meter)
    assert (found["temperature_c"], found["memory_clock_mhz"], found["throttled"]) == (64, 2619, 0)
    assert (found["power_w"], found["energy_j"]) == (pytest.approx(300), pytest.approx(0.6))


@pytest.mark.parametrize("energy_s", [0.0, 5e-4])
def test_energy_costs_launches_only_where_it_is_measured(meter, energy_s):
    device, found = measured(Sensors(counter=meter), meter, energy_s=energy_s)
    assert "energy_j" not in found
    assert len(device.launched) == 5, "one to warm up, and four samples"


def test_too_slow_a_host_costs_energy(meter, monkeypatch):
    too_slow = Mock(side_effect=HostTooSlow("the device waited in vain"))
    monkeypatch.setattr("harness.measure.kernels.trial.measure_energy", too_slow)
    _, found = measured(Sensors(counter=meter), meter)
    assert "energy_j" not in found


def test_interleaved_measurements_have_a_state_and_no_energy(nvml):
    nvml(nvmlDeviceGetCurrentClocksThrottleReasons=[0x20, 0])
    device = bound_device()
    sensors = gpu()
    (found,) = interleaved(device, [DATA], [JOB], 3, sensors=sensors)
    assert len(device.launched) == 4
    assert found.observed["throttled_by_sw_thermal"] == 1
    assert "energy_j" not in found.observed


def test_wrong_result_among_the_launches_for_energy_is_found():
    runs = count(1)

    def tires(x, y):
        np.copyto(y, 2 * x if next(runs) < 7 else x)

    sensors = Sensors(counter=Meter())
    job = replace(JOB, energy_s=0.02)
    found = measure_alone(bound_device(tires), DATA, job, sensors)
    assert found.outcome is Outcome.WRONG_RESULT


# -------------------------------------------------------------------------- who else uses a GPU


def test_processes_of_others_are_named(nvml, monkeypatch):
    monkeypatch.setattr(os, "getppid", lambda: 77)
    listed = [[4711, 3 << 29], [12, None], [os.getpid(), 1], [77, 1]]
    nvml(nvmlDeviceGetComputeRunningProcesses=[listed], names={"4711": "/usr/bin/py\x1bthon"})
    found = other_processes(BUS)
    assert found == ("/usr/bin/py\\x1bthon (process 4711, 1.5 GiB)", "unknown (process 12)")


def test_processes_are_those_of_an_instance_of_a_divided_gpu(nvml):
    nvml(nvmlDeviceGetComputeRunningProcesses=[[[7, None]]], instances=["MIG-1"], gpus=[])
    assert other_processes(BUS, "MIG-1") == ("unknown (process 7)",)
    assert other_processes(BUS, "MIG-2") == ()


def test_without_nvml_or_a_bus_id_nobody_else_is_known(nvml):
    nvml()
    assert other_processes(BUS) == ()  # this NVML does not list them
    nvml(nvmlInit="LibraryNotFound", nvmlDeviceGetComputeRunningProcesses=[[[7, None]]])
    assert other_processes(BUS) == ()
    assert other_processes("") == ()
