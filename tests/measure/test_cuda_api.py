"""The calls of NVIDIA's driver, by each Python package that makes them, and the clock around
launches; on a GPU where there is one, else over its stand-in."""

import gc
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from harness.core.program import Launch
from harness.measure.cuda.bindings import BindingsDriver, LaunchShape
from harness.measure.cuda.device import CudaDevice
from harness.measure.cuda.gpus import PACKAGE, PYCUDA, list_gpus, load_driver
from harness.measure.cuda.module import PTX
from harness.measure.cuda.nvcc import find_nvcc
from harness.measure.kernels.data import KernelData
from tests.helpers.compilers import CUDA_TWICE
from tests.helpers.cubins import cubin
from tests.helpers.stub_driver import build_stub, needs_pycuda, wanted_calls

pytestmark = pytest.mark.gpu

NOTHING = 'extern "C" __global__ void nothing(float *z) { z[threadIdx.x] = 1.0f; }'


@pytest.fixture
def driver(nvidia, package):
    driver = load_driver()
    assert driver.package.lower().startswith(package)
    driver.open(0)
    return driver


def test_function_keeps_its_module(stub, driver):
    binary = cubin(NOTHING, list_gpus()[0].arch)
    function = driver.function(driver.load(binary.data), "nothing")
    gc.collect()
    stub.calls()
    driver.launch(function, LaunchShape((1, 1, 1), (1, 1, 1)), bytes(8))
    assert stub.calls() == ["cuLaunchKernel nothing grid 1 1 1 group 1 1 1"]
    del function
    gc.collect()
    assert "cuModuleUnload" in stub.calls()


def test_shared_words_are_zeros_that_outlive_their_tuple(driver):
    words = driver.share_words(3).words.reshape(3, 1)[1:]
    gc.collect()
    assert words.tolist() == [[0], [0]]
    words[:] = 7
    assert words.sum() == 14


def test_error_unknown_to_the_bindings(stub, monkeypatch):
    pytest.importorskip("cuda.bindings")
    driver = BindingsDriver()
    monkeypatch.setenv("CUDA_STUB_FAIL", "cuInit@1:12345")
    with pytest.raises(driver.error, match=r"cuInit failed: 12345 .*, as cuda-bindings \d\S+ kn"):
        driver.open(0)


def test_bindings_of_a_later_cuda_name_the_cure(monkeypatch):
    pytest.importorskip("cuda.bindings")
    driver = BindingsDriver()

    def missing(flags):
        raise RuntimeError("function cuInit is not found")

    monkeypatch.setattr(driver, "_api", SimpleNamespace(cuInit=missing))
    with pytest.raises(driver.error, match=r"cuInit is not found\. .* newer .*cuda-bindings < 13"):
        driver.open(0)


# ---------------------------------------------------------------------------- harness's own kernels


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
def test_assembler_takes_the_kernels(arch, tmp_path):
    command = [find_nvcc().with_name("ptxas"), "-arch", arch, PTX, "-o", tmp_path / "cubin"]
    subprocess.run(command, check=True)


# ------------------------------------------------------------------------- the stand-in


@pytest.mark.pycuda
@needs_pycuda
def test_driver_without_a_call_that_pycuda_needs_is_reported_with_its_cure(stub, tmp_path):
    newest = next(name for name in wanted_calls() if name.startswith("cuEventElapsedTime"))
    build_stub(tmp_path, without=(newest,))
    script = "from harness.measure.cuda.gpus import load_driver; load_driver()"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path), PACKAGE: PYCUDA},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "BackendUnavailable: pycuda is installed but cannot be imported: " in done.stderr
    assert f"undefined symbol: {newest}" in done.stderr
    assert "Install it again for this machine's NVIDIA driver" in done.stderr


# ------------- The clock around CUDA launches, on a GPU where there is one, else over its stand-in


KERNEL_NS = 1500
X = np.ones(1 << 16, np.float32)
DATA = KernelData({"x": X, "y": np.zeros_like(X)}, {"y": 2 * X}, ())
TWICE = Launch("twice", (256,), (X.size // 256,), ("x", "y"))


# ------------------------------------------------------------------------- on a device


@pytest.fixture(scope="module")
def binary(nvidia):
    return cubin(CUDA_TWICE, list_gpus()[0].arch)


def test_clock_of_a_device_is_plausible(binary):
    device = CudaDevice()
    device.bind(DATA.arguments)
    device.launch(device.load(binary), [TWICE])
    mhz = device.sm_clock_mhz()
    assert 100 < mhz < 5000


@pytest.fixture
def clocks(stub, binary, monkeypatch):
    """Launches at the clocks of the stand-in, whose kernels take KERNEL_NS at its full clock of
    1980 MHz, and returns what is measured of so many launches."""
    monkeypatch.setenv("CUDA_STUB_KERNEL_NS", str(KERNEL_NS))

    def measured(tick_ns, count):
        monkeypatch.setenv("CUDA_STUB_TICK_NS", str(tick_ns))
        device = CudaDevice()
        device.bind(DATA.arguments)
        module = device.load(binary)
        times = []
        stub.calls()
        for _ in range(count):
            times.append((device.launch(module, (TWICE,)), device.sm_clock_mhz()))
        return times

    return measured


@pytest.mark.parametrize("tick_ns", [1, 32, 1024, 1_000_000])
def test_clock_of_each_launch_is_known_whatever_the_steps_of_the_time(tick_ns, clocks, monkeypatch):
    monkeypatch.setenv("CUDA_STUB_SM_MHZ", "1980,1980,1500,990")
    _, (_, first), (_, second), (_, third) = clocks(tick_ns, 4)
    # Up to one step before the launch, the clock is still that of the launch before.
    slack = 1.02 if tick_ns < 10_000 else 2
    assert first == pytest.approx(1980, rel=0.001)
    assert 0.98 * 1500 <= second <= min(slack * 1500, 1.02 * 1980)
    assert 0.98 * 990 <= third <= min(slack * 990, 1.02 * 1500)


def test_clock_is_unknown_and_not_read_where_the_time_stands_still(stub, clocks):
    assert [mhz for _, mhz in clocks(100_000_000_000, 2)] == [None, None]
    assert not [call for call in stub.calls() if "_clock" in call]


def test_launches_begin_out_of_step(clocks):
    """In step, all of them would take one tick, or all two."""
    times_s = [time_s for time_s, _ in clocks(1024, 101)[1:]]
    # Four standard errors of a mean of 1.46 ticks.
    assert np.mean(times_s) == pytest.approx(KERNEL_NS * 1e-9, abs=0.21e-6)
