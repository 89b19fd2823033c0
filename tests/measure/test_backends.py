"""Every backend keeps the contract of harness.testing."""

import pytest

from harness.measure.cuda.device import CudaDevice
from harness.measure.cuda.gpus import BINDINGS, PACKAGE, PYCUDA, list_gpus
from harness.measure.cuda.nvcc import Nvcc
from harness.measure.cuda.nvrtc import Nvrtc
from harness.measure.opencl.device import OpenClDevice
from harness.measure.opencl.driver import OpenClCompiler, usable_devices
from harness.testing import CompilerContract, DeviceContract, ExampleBackend
from tests.helpers.compilers import BOTH, CUDA_TWICE
from tests.helpers.cubins import open_nvrtc
from tests.helpers.fakes import FakeCompiler, FakeDevice
from tests.helpers.stub_driver import needs_pycuda

OPENCL_TWICE = """\
#define FACTOR 2.0f
#line 1 "kernel"
kernel void twice(global const float *x, global float *y) {
    y[get_global_id(0)] = FACTOR * x[get_global_id(0)];
}
"""


class TestOpenCl(CompilerContract, DeviceContract):
    @pytest.fixture(scope="class")
    @classmethod
    def backend(cls):
        name = usable_devices()[0]
        return ExampleBackend(OpenClCompiler(name), lambda: OpenClDevice(name), OPENCL_TWICE)


@pytest.mark.gpu
class TestCuda(DeviceContract):
    @pytest.fixture(
        scope="class",
        params=[BINDINGS, pytest.param(PYCUDA, marks=[pytest.mark.pycuda, needs_pycuda])],
    )
    @classmethod
    def backend(cls, request):
        with pytest.MonkeyPatch.context() as patch:
            request.getfixturevalue("nvidia")
            patch.setenv(PACKAGE, request.param)
            yield ExampleBackend(open_nvrtc(list_gpus()[0].arch), CudaDevice, CUDA_TWICE)


class TestCudaCompilers(CompilerContract):
    @pytest.fixture(scope="class", params=BOTH)
    @classmethod
    def backend(cls, request):
        compiler = open_nvrtc() if request.param is Nvrtc else Nvcc("sm_90")
        return ExampleBackend(compiler, FakeDevice, CUDA_TWICE)


class TestFake(CompilerContract, DeviceContract):
    # The arrays of a fake device have no memory around them.
    test_writes_around_an_array_are_found_and_mended = None
    test_reads_around_an_array_spoil_the_result = None

    @pytest.fixture(scope="class")
    @classmethod
    def backend(cls):
        return ExampleBackend(FakeCompiler(), FakeDevice, "kernel twice")
