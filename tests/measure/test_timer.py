"""A device's clock is compared with the host's before its times are believed."""

import time

import numpy as np
import pytest

from harness.core.errors import BackendUnavailable
from harness.core.program import Launch
from harness.core.records import DEVICE_TIMER, HOST_TIMER
from harness.measure.device.clocks import COMPARED, why_wrong
from harness.measure.device.launcher import COMPARED_LAUNCHES
from harness.measure.opencl import device as opencl_device
from harness.measure.opencl.device import OpenClDevice
from tests.helpers.compilers import open_opencl, opencl_binary
from tests.helpers.fakes import FakeDevice

pytest.importorskip("pyopencl")

SOURCE = """
kernel void spin(global int *x) {
    int sum = x[0];
    for (int i = 0; i < 3000000; i++) sum = sum * 3 + i;
    x[0] = sum;
}
"""


FUNCTIONS = range(COMPARED_LAUNCHES)


class LyingDevice(OpenClDevice):
    """PoCL, with a clock that says 1 ns of everything, as rusticl's did."""

    def _elapsed_s(self, event, begin_s):
        elapsed_s = super()._elapsed_s(event, begin_s)
        return elapsed_s if self._timer == HOST_TIMER else 1e-9


class StoppedClock(FakeDevice):
    """A device whose driver can only time by the device's clock, which stands still."""

    def _timed_fill(self, memory, size_bytes):
        time.sleep(2e-3)
        return 0.0


def test_a_clock_is_wrong_that_differs_too_far_from_the_hosts():
    cases = [
        (1e-9, 4e-3, "at most 1.00 ns for work that takes 4.00 ms or more"),
        (0.0, 4e-3, "at most"),
        (-1.0, 4e-3, "at most"),
        (5e-3, 4e-3, "at least 5.00 ms for work that takes at most 4.00 ms"),
        (3.9e-3, 4e-3, ""),
        (1e-6, 200e-6, ""),  # launching takes longer than the work
        (1e-3, 9e-3, ""),  # the host has other work
    ]
    for device_s, host_s, why in cases:
        said = why_wrong([(device_s, host_s)] * COMPARED)
        assert why in said
        assert bool(said) == bool(why)
        assert why_wrong([(3.9e-3, 4e-3), (device_s, host_s)]) == "", "one of several may be chance"


def test_a_right_clock_is_believed():
    device = open_opencl()
    device.check_clock()
    assert device.environment("").timer == DEVICE_TIMER
    assert not device.notices


def test_the_hosts_clock_takes_the_place_of_a_wrong_one():
    device = open_opencl(LyingDevice)
    assert spun_s(device, launches=1) == 1e-9
    device.check_clock()
    environment = device.environment("")
    assert environment.timer == HOST_TIMER
    assert environment.fingerprint != open_opencl().environment("").fingerprint
    assert "1.00 ns" in device.notices[0]
    assert spun_s(device, launches=COMPARED) > 1e-4


def test_a_device_is_refused_where_the_hosts_clock_is_too_coarse(monkeypatch):
    monkeypatch.setattr(opencl_device, "_LONGEST_LAUNCHING_S", 0.0)
    with pytest.raises(BackendUnavailable, match="too coarse"):
        open_opencl(LyingDevice).check_clock()
    with pytest.raises(BackendUnavailable, match="driver"):
        StoppedClock().check_clock()


def test_a_clock_that_is_wrong_of_kernels_alone_is_noticed_at_the_first_input():
    with pytest.raises(BackendUnavailable, match=r"1\.00 ns"):
        spun_s(open_opencl(LyingDevice), 200)


def test_a_clock_that_seems_wrong_at_most_launches_is_believed():
    """As where the machine has other work, which holds the host back."""

    class Disturbed(LyingDevice):
        launches = 0

        def _elapsed_s(self, event, begin_s):
            elapsed_s = super()._elapsed_s(event, begin_s)
            self.launches += 1
            return elapsed_s if self.launches % 9 else time.perf_counter() - begin_s

    spun_s(open_opencl(Disturbed), launches=40)


def test_first_launches_of_functions_are_no_evidence():
    device = open_opencl(LyingDevice)
    source = "".join(SOURCE.replace("spin", f"spin{number}") for number in FUNCTIONS)
    binary = opencl_binary(source)
    device.bind({"x": np.zeros(1, np.int32)})
    module = device.load(binary)
    for number in FUNCTIONS:
        device.launch(module, [Launch(f"spin{number}", (1,), (1,), ("x",))])


def spun_s(device, launches):
    """Launch a kernel of milliseconds so often; return its last time."""
    binary = opencl_binary(SOURCE)
    device.bind({"x": np.zeros(1, np.int32)})
    module = device.load(binary)
    for _ in range(launches):
        elapsed_s = device.launch(module, [Launch("spin", (1,), (1,), ("x",))])
    return elapsed_s
