"""harness's own CUDA kernels: the driver compiles them, and they do what their docstrings say."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator

import pytest

from harness.measure.backends.cuda import load_driver
from harness.measure.backends.cuda_api import CudaDriver, SharedWords
from harness.measure.backends.cuda_kernels import PTX, WAIT_FOR_HOST, CudaKernels
from harness.measure.backends.nvcc import find_nvcc

MINUTE_NS = 60_000_000_000


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
def test_assembler_takes_the_kernels(arch, tmp_path):
    source = tmp_path / "kernels.ptx"
    source.write_text(PTX)
    command = [find_nvcc().with_name("ptxas"), "-arch", arch, source, "-o", tmp_path / "cubin"]
    subprocess.run(command, check=True)


@pytest.mark.gpu
class TestOnADevice:
    @pytest.fixture
    def driver(self, nvidia: None) -> Iterator[CudaDriver]:
        driver = load_driver()
        driver.init()
        driver.open(0)
        yield driver
        driver.close()

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
