"""The stand-in for NVIDIA's driver: its clock, its checks, and what it is asked to fail with."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from harness.core.program import Program
from harness.measure.backends.cuda import device_arch, load_driver
from harness.measure.backends.cuda_api import CudaDriver
from harness.measure.backends.nvcc import Nvcc
from tests.helpers.stub_driver import StubDriver, build_stub, needs_pycuda, wanted_calls

pytestmark = pytest.mark.gpu

KERNELS = """\
extern "C" __global__ void nothing(float *z) {}
extern "C" __global__ void twice(const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = 2 * x[i];
}
extern "C" __global__ void read_clocks(unsigned long long *out) { out[0] = clock64(); }
"""
BLOCKER_NS, KERNEL_NS = 100_000_000, 1_500
Launch = Callable[..., None]


@pytest.fixture(scope="module")
def cubin(stub_of_module: StubDriver) -> bytes:
    return Nvcc(device_arch()).compile(Program(KERNELS, (), ())).data


@pytest.fixture
def driver(stub: StubDriver) -> Iterator[CudaDriver]:
    """The driver with a current context."""
    driver = load_driver()
    driver.init()
    driver.open(0)
    yield driver
    stub.reset()
    driver.close()


@pytest.fixture
def launch(driver: CudaDriver, cubin: bytes) -> Launch:
    module = driver.load(cubin)

    def run(name: str, *memories: Any) -> None:
        packed = np.array([int(memory) for memory in memories], np.uint64).tobytes()
        driver.launch(driver.function(module, name), (1, 1, 1), (32, 1, 1), packed, 0)

    return run


@pytest.fixture
def kernel_s(
    driver: CudaDriver, launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> Callable[[int], Any]:
    """Time a kernel of KERNEL_NS that the host is slow to launch."""
    lasting = f"nothing:{KERNEL_NS},twice:{BLOCKER_NS}"
    monkeypatch.setenv("CUDA_STUB_KERNEL_NS", lasting)
    memory = driver.allocate(256)

    def measure(blockers: int) -> float:
        start, stop = driver.event(), driver.event()
        for _ in range(blockers):
            launch("twice", memory, memory)
        driver.record(start)
        time.sleep(0.002)
        launch("nothing", memory)
        driver.record(stop)
        driver.synchronize()
        return driver.elapsed_s(start, stop)

    return measure


# ------------------------------------------------------------------------- time


def test_delay_of_the_host_is_in_the_time_unless_the_device_is_busy(kernel_s):
    assert kernel_s(0) > 0.002
    assert kernel_s(1) == pytest.approx(KERNEL_NS * 1e-9)


def test_coarse_events_see_whole_ticks(kernel_s, monkeypatch):
    monkeypatch.setenv("CUDA_STUB_TICK_NS", "1024")
    assert round(kernel_s(1) * 1e9) in (1024, 2048)


def test_slow_clock_makes_kernels_slower(kernel_s, monkeypatch):
    monkeypatch.setenv("CUDA_STUB_SM_MHZ", "1980,990")
    assert kernel_s(1) == pytest.approx(2 * KERNEL_NS * 1e-9)


def test_clocks_of_the_device_give_its_frequency(driver, launch, monkeypatch):
    monkeypatch.setenv("CUDA_STUB_SM_MHZ", "1980,1500,990")
    monkeypatch.setenv("CUDA_STUB_KERNEL_NS", "1000000")
    memories = [driver.allocate(16) for _ in range(3)]
    found = np.zeros((3, 2), np.uint64)
    for memory in memories:
        launch("read_clocks", memory)
    for memory, row in zip(memories, found, strict=True):
        driver.read(row, int(memory))
    cycles, nanoseconds = np.diff(found.astype(np.int64), axis=0).T
    np.testing.assert_allclose(cycles / nanoseconds, [1.98, 1.5], rtol=1e-5)


# ------------------------------------------------------------------------- checks


def test_memory_that_was_freed_or_ends_earlier_is_refused(driver):
    host = np.zeros(64, np.uint8)
    memory = driver.allocate(64)
    address = int(memory)
    driver.write(address, host)
    for begin in (address + 1, address - 1):
        with pytest.raises(driver.error, match="cuMemcpyHtoD failed: invalid argument"):
            driver.write(begin, host)
    driver.free(memory)
    with pytest.raises(driver.error, match="cuMemcpyDtoH failed: invalid argument"):
        driver.read(host, address)


def test_kernel_beyond_its_memory_spoils_the_context(driver, launch, stub):
    memory = driver.allocate(32 * 4 - 1)
    launch("twice", memory, memory)
    for _ in range(2):
        with pytest.raises(driver.error, match="illegal memory access"):
            driver.synchronize()
    stub.reset()
    driver.synchronize()


def test_call_that_is_not_modelled_is_refused_by_name(driver, capfd):
    with pytest.raises(driver.error, match="cuDeviceGetAttribute failed: operation not supported"):
        driver.device_attribute("MAX_PITCH")
    assert "does not model an attribute that" in capfd.readouterr().err


def test_one_failure_is_shared_by_all_processes(driver, monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_STUB_FAIL", "cuMemGetInfo@1+:999")
    monkeypatch.setenv("CUDA_STUB_ONCE", str(tmp_path / "failed"))
    with pytest.raises(driver.error, match="unknown error"):
        driver.memory_info()
    free, total = driver.memory_info()
    assert free <= total == 80 << 30


@pytest.mark.pycuda
@needs_pycuda
def test_driver_without_a_call_that_pycuda_needs_is_reported_with_its_cure(stub, tmp_path):
    newest = next(name for name in wanted_calls() if name.startswith("cuEventElapsedTime"))
    build_stub(tmp_path, without=(newest,))
    script = "from harness.measure.backends.cuda_pycuda import load_pycuda; load_pycuda()"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "BackendUnavailable: PyCUDA needs a newer NVIDIA driver" in done.stderr
    assert f"undefined symbol: {newest}" in done.stderr
    assert "Update the driver" in done.stderr
