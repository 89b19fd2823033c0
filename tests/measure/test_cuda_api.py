"""The calls of NVIDIA's driver, by each Python package that makes them."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

from harness.core.program import Program
from harness.measure.cuda.bindings import BindingsDriver, CudaDriver, LaunchShape, SharedWords
from harness.measure.cuda.gpus import PACKAGE, PYCUDA, list_gpus, load_driver
from harness.measure.cuda.nvcc import Nvcc, find_nvcc
from harness.measure.cuda.stream import PTX, WAIT_FOR_HOST, CudaKernels
from tests.helpers.stub_driver import StubDriver, build_stub, needs_pycuda, wanted_calls

pytestmark = pytest.mark.gpu

NOTHING = 'extern "C" __global__ void nothing(float *z) { z[threadIdx.x] = 1.0f; }'


@pytest.fixture(scope="module")
def cubin(nvidia: None) -> bytes:
    return Nvcc(list_gpus()[0].arch).compile(Program(NOTHING, (), ())).data


@pytest.fixture
def driver(nvidia: None, package: str) -> CudaDriver:
    driver = load_driver()
    assert driver.package.lower().startswith(package)
    driver.open(0)
    return driver


def test_function_keeps_its_module_which_is_unloaded_after_it(
    stub: StubDriver, driver: CudaDriver, cubin: bytes
) -> None:
    function = driver.function(driver.load(cubin), "nothing")
    gc.collect()
    stub.calls()
    driver.launch(function, LaunchShape((1, 1, 1), (1, 1, 1)), bytes(8))
    assert stub.calls() == ["cuLaunchKernel nothing grid 1 1 1 group 1 1 1"]
    del function
    gc.collect()
    assert "cuModuleUnload" in stub.calls()


def test_shared_words_are_zeros_that_outlive_their_tuple(driver: CudaDriver) -> None:
    words = driver.share_words(3).words.reshape(3, 1)[1:]
    gc.collect()
    assert words.tolist() == [[0], [0]]
    words[:] = 7
    assert words.sum() == 14


def test_error_that_the_bindings_do_not_know_is_still_an_error(
    stub: StubDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("cuda.bindings")
    driver = BindingsDriver()
    monkeypatch.setenv("CUDA_STUB_FAIL", "cuInit@1:12345")
    with pytest.raises(driver.error, match=r"cuInit failed: 12345 .*, as cuda-bindings \d\S+ kn"):
        driver.open(0)


def test_bindings_of_a_later_cuda_name_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cuda.bindings")
    driver = BindingsDriver()

    def missing(flags: int) -> None:
        raise RuntimeError("function cuInit is not found")

    monkeypatch.setattr(driver, "_api", SimpleNamespace(cuInit=missing))
    with pytest.raises(driver.error, match=r"cuInit is not found\. .* newer .*cuda-bindings < 13"):
        driver.open(0)


# ---------------------------------------------------------------------------- harness's own kernels

MINUTE_NS = 60_000_000_000


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
def test_assembler_takes_the_kernels(arch, tmp_path):
    command = [find_nvcc().with_name("ptxas"), "-arch", arch, PTX, "-o", tmp_path / "cubin"]
    subprocess.run(command, check=True)


@pytest.mark.gpu
class TestOnADevice:
    @pytest.fixture
    def kernels(self, driver: CudaDriver) -> CudaKernels:
        """The kernels, kept for a whole test: to unload them waits for the device."""
        return CudaKernels(driver)

    @pytest.fixture
    def shared(self, driver: CudaDriver) -> SharedWords:
        """Two numbers in the host's memory that the device shares."""
        return driver.share_words(2)

    def test_wait_ends_when_the_host_says_so(self, driver, kernels, shared):
        kernels.queue(WAIT_FOR_HOST, shared.address, 7, MINUTE_NS)
        shared.words[0] = 7
        began_s = time.monotonic()
        driver.synchronize()
        assert time.monotonic() - began_s < 30
        assert shared.words.tolist() == [7, 0]

    def test_wait_for_a_number_that_has_passed_ends_at_once(self, driver, kernels, shared):
        shared.words[0] = 7
        kernels.queue(WAIT_FOR_HOST, shared.address, 6, MINUTE_NS)
        driver.synchronize()
        assert shared.words.tolist() == [7, 0]

    def test_wait_ends_after_its_limit_and_says_so(self, driver, kernels, shared):
        limit_ns = 20_000_000
        began_s = time.monotonic()
        kernels.queue(WAIT_FOR_HOST, shared.address, 1, limit_ns)
        driver.synchronize()
        assert time.monotonic() - began_s > 0.9e-9 * limit_ns
        assert shared.words.tolist() == [0, 1]


# ------------------------------------------------------------------------- the stand-in


def test_memory_that_was_freed_or_ends_earlier_is_refused_by_the_stand_in(stub, driver):
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
    assert "BackendUnavailable: PyCUDA needs a newer NVIDIA driver" in done.stderr
    assert f"undefined symbol: {newest}" in done.stderr
    assert "Update the driver" in done.stderr
