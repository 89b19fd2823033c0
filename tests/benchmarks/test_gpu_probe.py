"""What the benchmarks of a GPU find over its stand-in."""

from __future__ import annotations

import pytest

from benchmarks import gpu_probe
from harness.core.program import Binary, Program
from harness.measure.clocks import ClockWatch
from harness.measure.cuda.device import CudaDevice
from harness.measure.cuda.gpus import list_gpus
from harness.measure.cuda.nvcc import Nvcc
from tests.helpers.stub_driver import StubDriver


@pytest.fixture(scope="module")
def binary(nvidia: None) -> Binary:
    return Nvcc(list_gpus()[0].arch).compile(Program(gpu_probe.SOURCE, (), ()))


@pytest.fixture
def device(stub: StubDriver, monkeypatch: pytest.MonkeyPatch) -> CudaDevice:
    """A device of the stand-in, whose kernels take 1.5 us at its full clock of 1980 MHz."""
    monkeypatch.setenv("CUDA_STUB_KERNEL_NS", "1500")
    device = CudaDevice()
    device.bind(gpu_probe.DATA.arguments)
    return device


@pytest.mark.gpu
def test_benchmark_finds_when_the_clock_has_risen(
    device: CudaDevice, binary: Binary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_probe, "RUN_S", 0.05)
    monkeypatch.setenv("CUDA_STUB_SM_MHZ", "990,990,1500,1980")
    device.launch(device.load(binary), gpu_probe.LAUNCHES)  # the device is held from now on
    found = gpu_probe.rise(device, binary, 0.0)
    assert found["first_mhz"] == pytest.approx(990, rel=0.01)
    assert found["settled_mhz"] == pytest.approx(1980, rel=0.001)
    assert 0 < found["settled_after_ms"] < 50


@pytest.mark.gpu
def test_benchmark_finds_what_low_clocks_do_to_times(
    device: CudaDevice, binary: Binary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_STUB_SM_MHZ", ",".join(["1980", "1980", "990", "1980", "1980"] * 4000))
    device.__dict__["tick_s"] = 1e-9  # it would be found on a busy machine, and widen intervals
    monkeypatch.setattr("harness.measure.clocks._RECOVERY_S", 0.0)
    watches = gpu_probe.IndulgentWatch(1980), ClockWatch(1980)
    kept, thrown = (gpu_probe.equal_times(device, binary, watch, 2) for watch in watches)
    assert kept["low_percent"] == 0
    assert thrown["low_percent"] > 15
    assert thrown["interval_percent"] < 1 < 10 < kept["interval_percent"]


@pytest.mark.gpu
def test_benchmark_finds_the_hosts_share_of_a_sample(
    stub: StubDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_STUB_KERNEL_NS", "2000")
    monkeypatch.setattr(gpu_probe, "usable_cores", lambda: 1)
    for way, times_us in gpu_probe.host_times_us(samples=5).items():
        if way.endswith("held"):
            assert times_us == pytest.approx([2.0] * 5)
        else:
            assert min(times_us) > 2.0
