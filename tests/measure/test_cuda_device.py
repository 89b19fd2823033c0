"""The CUDA device: on a GPU where there is one, else over a stand-in for its driver."""

import re
import time
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

from harness.core.errors import (
    BackendUnavailable,
    BuildFailed,
    HostTooSlow,
    LaunchFailed,
    OutOfDeviceMemory,
)
from harness.core.program import Binary, Launch
from harness.core.records import DEVICE_UUID, Build
from harness.measure.cuda.device import CudaDevice
from harness.measure.cuda.gpus import BINDINGS, PACKAGE, PYCUDA, list_gpus
from harness.measure.cuda.module import LIMIT_NS, QUEUED_AT_ONCE
from harness.measure.device.arguments import ZONE_BYTES
from harness.measure.device.verify import NAN
from harness.measure.devices import Backend, choose_one
from tests.helpers.cubins import cubin
from tests.helpers.stub_driver import needs_pycuda

pytestmark = pytest.mark.gpu

KERNELS = """\
#line 1 "kernels.cu"
extern "C" __global__ void add(float *z, const float *x, const float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) z[i] = x[i] + y[i];
}
extern "C" __global__ void __launch_bounds__(64) narrow(float *z) { z[threadIdx.x] = 1.0f; }
extern "C" __global__ void twice(const float *x, float *y) {
    extern __shared__ float tile[];
    __shared__ float fixed[256];
    fixed[threadIdx.x] = tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = tile[threadIdx.x] + fixed[threadIdx.x];
}
"""
ONES, COUNTED = np.ones(64, np.float32), np.arange(64, dtype=np.float32)
ARGUMENTS = {"x": ONES, "y": ONES, "z": np.zeros(64, np.float32), "n": np.int32(64)}
ADD = Launch("add", (8, 4), (2, 1), ("z", "x", "y", "n"))
TWICE = Launch("twice", (64,), (1,), ("x", "y"))
OF_CUDA = Backend("cuda", "nvcc", "")


def build(**resources):
    return Build(key="k", options="", compiler="nvcc", compile_s=0.1, **resources)


@pytest.fixture(scope="module")
def kernels(nvidia):
    return cubin(KERNELS, list_gpus()[0].arch)


# ------------------------------------------------------------------------- on any device


@pytest.fixture(scope="module")
def gpu(nvidia):
    return CudaDevice()


def test_dynamic_shared_memory_may_exceed_what_kernels_have_without_asking(gpu, kernels):
    most = gpu.limits.max_shared_bytes
    assert most > gpu.limits.max_local_bytes
    gpu.bind({"x": ONES, "y": ONES})

    def launch(shared_bytes):
        gpu.launch(gpu.load(kernels), [replace(TWICE, shared_bytes=shared_bytes)])

    for shared_bytes in (most - 1024, 256, most - 2048):
        gpu.arguments.restore({"y": NAN})
        launch(shared_bytes)
        np.testing.assert_array_equal(gpu.arguments.read("y"), 2 * ONES)
    with pytest.raises(LaunchFailed, match=f"{most + 4:,} .*{most:,}"):
        launch(most - 1020)
    assert not gpu.is_lost


def test_arguments_that_do_not_fit_a_kernel_are_refused(gpu, kernels):
    cases = [
        (("z", "x", "y"), "4 arguments.* 3: z, x, y"),
        (("z", "x", "y", "y"), "argument 4 .*, y, has 4 bytes"),
        (("z", np.int32(1), "y", "n"), "argument 2 .*, 1, has 8 .* int32"),
        (("z", "x", "y", np.int64(64)), "argument 4 .* int64"),
    ]
    for arguments, reason in cases:
        gpu.bind(ARGUMENTS)
        with pytest.raises(LaunchFailed, match=reason):
            gpu.launch(gpu.load(kernels), [Launch("add", (32,), (2,), arguments)])
        assert not gpu.is_lost


# ------------------------------------------------------------------------- over the stand-in


@pytest.fixture
def device(stub):
    """A device of the stand-in, with the arguments of `add` bound."""
    device = CudaDevice()
    device.bind(ARGUMENTS)
    stub.calls()
    return device


@pytest.fixture
def module(device, kernels, stub):
    module = device.load(kernels)
    stub.calls()
    return module


@pytest.fixture
def fail(monkeypatch):
    """Make a call fail: cuMemAlloc@2:700! is the second one, with an error that stays."""
    return lambda rule: monkeypatch.setenv("CUDA_STUB_FAIL", rule)


def test_binding_frees_what_was_bound_before(device, stub):
    device.arguments.restore({"x": ONES})
    bound_bytes = stub.allocated_bytes
    device.bind(ARGUMENTS)
    device.arguments.restore({"x": ONES})
    assert stub.allocated_bytes == bound_bytes
    device.bind({})
    assert stub.allocated_bytes < bound_bytes


def test_driver_is_asked_for_shared_memory_only_where_needed(package, device, module, stub):
    device.bind({"x": ONES, "y": ONES})
    for shared_bytes, is_asked in ((0, False), (48 << 10, True), (47 << 10, False)):
        device.launch(module, [replace(TWICE, shared_bytes=shared_bytes)])
        calls = stub.calls()
        assert ("cuFuncSetAttribute" in calls) is is_asked
        passed = f" shared {shared_bytes}" * (shared_bytes > 0)
        assert f"cuLaunchKernel twice grid 1 1 1 group 64 1 1{passed}" in calls


def test_each_launch_prefers_its_own_share_of_shared_memory(device, module, stub):
    device.bind({"x": ONES, "y": ONES})
    device.launch(module, (TWICE,))
    assert "cuFuncSetAttribute" not in stub.calls()
    launches = tuple(replace(TWICE, carveout=percent) for percent in (75, 75, 0, -1))
    for _ in range(2):
        device.launch(module, launches)
        calls = stub.calls()
        assert calls.count("cuFuncSetAttribute") == 3
        passed = [call.partition("group 64 1 1")[2] for call in calls if " twice " in call]
        assert passed == [" carveout 75", " carveout 75", " carveout 0", ""]


@pytest.mark.parametrize("tick_ns", [1024, 32])
def test_tick_is_that_of_the_events(device, stub, monkeypatch, tick_ns):
    monkeypatch.setenv("CUDA_STUB_TICK_NS", str(tick_ns))
    assert device.tick_s == pytest.approx(tick_ns * 1e-9, rel=1e-3)
    stub.calls()
    assert device.tick_s > 0
    assert stub.calls() == []  # found once


CONSTANT = """
__constant__ float mask[64];
__constant__ float unused[64];
__global__ void nothing(float *z) { z[threadIdx.x] = mask[threadIdx.x]; }
"""


OF_CONSTANT = Launch("nothing", (64,), (1,), ("z",), constants=("mask",))


def test_variables_of_a_module_are_filled_before_each_run(package, device, stub):
    module = device.load(cubin(CONSTANT))
    device.bind({"z": ONES, "mask": ONES})
    content = np.zeros(64, np.float32)
    for value in (5, 3):  # a kernel may have changed it, or the array may be another one
        device.arguments.write("mask", np.float32(value) * ONES)
        stub.calls()
        device.launch(module, (OF_CONSTANT,))
        copied, *later = [call for call in stub.calls() if "DtoD" in call or "nothing" in call]
        assert copied == "cuMemcpyDtoD"
        assert "_Z7nothingPf" in later[0]
        device.driver.read(content, module.variable("mask", 256))
        np.testing.assert_array_equal(content, value * ONES)


def test_array_that_fits_no_variable_is_a_failed_launch(device):
    module = device.load(cubin(CONSTANT))
    for name, size, reason in (("mask", 65, "260 .* 256"), ("z", 64, " z.*: mask, unused")):
        device.bind({"z": ONES, name: np.zeros(size, np.float32)})
        with pytest.raises(LaunchFailed, match=reason):
            device.launch(module, (replace(OF_CONSTANT, constants=(name,)),))


@pytest.mark.parametrize("count", [1, 2])
def test_sample_calls_the_driver_for_its_work_alone(device, module, stub, count, monkeypatch):
    # On a busy machine a launch that seems late would be followed by a fill.
    monkeypatch.setattr("harness.measure.device.launcher.COMPARED_LAUNCHES", 0)
    launches = (ADD,) * count
    for _ in range(2):
        device.launch(module, launches)
    stub.calls()
    device.launch(module, launches)
    assert [call.partition(" grid")[0] for call in stub.calls()] == [
        "cuLaunchKernel wait_for_host",
        "cuLaunchKernel start_clock",
        *["cuEventRecord", "cuLaunchKernel add", "cuEventRecord"] * count,
        "cuLaunchKernel stop_clock",
        "cuCtxSynchronize",
        *["cuEventElapsedTime"] * count,
    ]


def test_binary_is_loaded_once_until_what_was_loaded_is_forgotten(device, kernels, stub):
    other = Binary(kernels.build, kernels.data + b"\0")
    modules = [device.load(binary) for binary in (kernels, other, kernels, other)]
    assert stub.calls().count("cuModuleLoadData") == 2
    assert modules[2:] == modules[:2]
    device.unload()
    assert device.load(kernels) is not modules[0]


def test_array_that_is_restored_again_is_copied_on_the_device_without_a_wait(device, stub):
    stub.calls()
    for calls in (["cuMemAlloc", "cuMemcpyHtoD", "cuMemcpyDtoD"], ["cuMemcpyDtoD"]):
        device.arguments.restore({"x": COUNTED})
        assert stub.calls() == calls
        np.testing.assert_array_equal(device.arguments.read("x"), COUNTED)
        device.arguments.write("x", ONES)
        stub.calls()


def test_array_is_restored_from_the_host_where_the_device_has_no_room(device, stub, fail):
    stub.calls()
    fail("cuMemAlloc@1+:2")  # PyCUDA collects garbage and tries again
    for _ in range(2):
        device.arguments.restore({"x": COUNTED})
        np.testing.assert_array_equal(device.arguments.read("x"), COUNTED)
        device.arguments.write("x", ONES)
    assert "cuMemcpyDtoD" not in stub.calls()
    assert not device.is_lost


def test_lack_of_memory_is_described_by_who_holds_it(device, module, stub, fail, monkeypatch):
    device.arguments.restore({"x": ONES})
    total = stub.allocated_bytes + 700  # other tests of this process may hold some
    monkeypatch.setenv("CUDA_STUB_MEMORY", str(total))
    fail("cuLaunchKernel@1:2")
    harness_holds = 4 * ONES.nbytes + 3 * 2 * ZONE_BYTES
    numbers = rf"add.* 700 of .*{80 << 30:,} .*{harness_holds:,}"
    with pytest.raises(OutOfDeviceMemory, match=numbers):
        device.launch(module, [ADD])


def test_limits_and_environment_are_those_of_the_driver(device, monkeypatch):
    monkeypatch.setenv("CUDA_STUB_DRIVER", "13020")
    environment = device.environment("nvcc 13.0 sm_90")
    assert (environment.device, environment.platform) == ("Stand-in GPU", "CUDA 13.2")
    notes = {
        "compute_capability": "9.0",
        "memory_bytes": str(80 << 30),
        "clock_khz": "1980000",
        "pci_bus_id": "0000:1B:00.0",
        DEVICE_UUID: "GPU-abababab-abab-abab-abab-ababababab00",
    }
    assert notes.items() <= environment.notes.items()
    assert device.limits.max_grid_dims == (2**31 - 1, 65535, 65535)
    assert device.limits.compute_units == 132


@pytest.mark.pycuda
@needs_pycuda
def test_package_that_calls_the_driver_is_noted_and_separates_no_measurements(stub, monkeypatch):
    pytest.importorskip("cuda.bindings")
    fingerprints = set()
    for package, name in ((PYCUDA, "PyCUDA"), (BINDINGS, "cuda-bindings")):
        monkeypatch.setenv(PACKAGE, package)
        environment = CudaDevice().environment("nvcc")
        assert environment.notes["driver_package"].startswith(name)
        fingerprints.add(environment.fingerprint)
    assert len(fingerprints) == 1


@pytest.mark.parametrize("driver, is_older", [("12040", True), ("13000", False)])
def test_binary_of_a_later_toolkit_names_the_cure(driver, is_older, device, stub, monkeypatch):
    monkeypatch.setenv("CUDA_STUB_DRIVER", driver)
    later = replace(build(), compiler="nvcc 13.0.88 sm_90")
    with pytest.raises(LaunchFailed, match="image is invalid") as failure:
        device.load(Binary(later, b"a binary in another format"))
    assert bool(re.search("12.4.*13.0.88.*CUDACXX", str(failure.value))) == is_older


# ------------------------------------------------------------------------- the host's work

KERNEL_NS = 1_500


@pytest.mark.parametrize("count", [1, 300])
def test_hosts_work_is_in_no_time_once_each_function_has_run(count, device, module, monkeypatch):
    launch = type(device.driver).launch

    def launched_late(*arguments):
        time.sleep(20e-6)
        launch(*arguments)

    monkeypatch.setenv("CUDA_STUB_KERNEL_NS", str(KERNEL_NS))
    monkeypatch.setattr(type(device.driver), "launch", launched_late)
    first_s, *others_s = [device.launch(module, [ADD] * count) for _ in range(3)]
    assert first_s > count * 20e-6
    assert others_s == pytest.approx([count * KERNEL_NS * 1e-9] * 2)


def test_device_waits_for_part_of_many_launches_since_its_queue_is_finite(device, module, stub):
    device.launch(module, [ADD])
    stub.calls()
    device.launch(module, [ADD] * (QUEUED_AT_ONCE + 1))
    calls = [call.split()[:2] for call in stub.calls() if call.startswith("cuLaunchKernel")]
    waits = [i for i, (_, kernel) in enumerate(calls) if kernel == "wait_for_host"]
    assert waits == [0, QUEUED_AT_ONCE + 2], "start_clock is held as well"


def test_device_that_does_not_wait_long_enough_gives_no_time(device, module, monkeypatch):
    device.launch(module, [ADD])
    monkeypatch.setattr("harness.measure.cuda.module.LIMIT_NS", 1)
    with pytest.raises(HostTooSlow, match="1e-09 s"):
        device.launch(module, [ADD])
    monkeypatch.undo()
    assert not device.is_lost
    assert device.launch(module, [ADD]) > 0


def test_device_does_not_wait_for_a_launch_that_was_refused(device, module, fail):
    device.launch(module, [ADD])
    fail("cuLaunchKernel@2:1")  # the first is the kernel that waits
    began_s = time.monotonic()
    with pytest.raises(LaunchFailed, match="invalid argument"):
        device.launch(module, [ADD])
    assert not device.is_lost
    assert time.monotonic() - began_s < 0.5e-9 * LIMIT_NS


def test_blocking_launches_are_refused(stub, monkeypatch):
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    with pytest.raises(BackendUnavailable, match="CUDA_LAUNCH_BLOCKING"):
        CudaDevice()


def test_device_that_cannot_be_opened_is_unavailable(stub, fail):
    cases = [
        ("cuModuleLoadData@1:221", "PTX"),
        ("cuModuleLoadData@1:2", "no memory left"),
        ("cuDevicePrimaryCtxRetain@1:101", "device 0 .* ordinal"),
    ]
    for rule, message in cases:
        fail(rule)
        with pytest.raises(BackendUnavailable, match=message):
            CudaDevice()


# ------------------------------------------------------------------------- the empty kernel


def compiler_that_makes(result):
    """A compiler that returns or raises what it is given."""
    compiler = mock.Mock(arch="sm_90")
    compiler.identity = f"nvcc of {id(compiler)}"

    def compiled(program):
        if isinstance(result, BuildFailed):
            raise result
        return replace(result, build=replace(result.build, key=program.key(compiler.identity)))

    compiler.compile.side_effect = compiled
    return compiler


EMPTY = 'extern "C" __global__ void harness_empty() {}'


@pytest.fixture(scope="module")
def empty(nvidia):
    return cubin(EMPTY, list_gpus()[0].arch)


def test_empty_kernel_is_compiled_once_a_host_compiler(device, empty, stub, monkeypatch, tmp_path):
    compiler = compiler_that_makes(empty)
    for _ in range(2):
        OF_CUDA.run_empty_kernel(device, compiler)
    compiler.compile.assert_called_once()
    assert stub.calls().count("cuLaunchKernel harness_empty grid 1 1 1 group 1 1 1") == 2
    (tmp_path / "gcc").write_text("another")
    (tmp_path / "gcc").chmod(0o755)
    monkeypatch.setenv("NVCC_CCBIN", str(tmp_path / "gcc"))
    OF_CUDA.run_empty_kernel(device, compiler)
    assert compiler.compile.call_count == 2


@pytest.mark.parametrize(
    "result, rule, message",
    [
        (BuildFailed("unsupported GNU version!"), "", r"NVCC_CCBIN .*\nunsupported GNU version"),
        (Binary(build(), b"x" * 64), "", r"image is invalid.* NVCC_APPEND_FLAGS"),
        (None, "kernel@1:719", "dmesg"),
        (None, "cuLaunchKernel@1:2", "bytes are free"),
    ],
)
def test_broken_empty_kernel_names_a_cure(result, rule, message, device, empty, fail, monkeypatch):
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-arch=sm_75")
    fail(rule)
    with pytest.raises(BackendUnavailable, match=f"(?s){message}"):
        OF_CUDA.run_empty_kernel(device, compiler_that_makes(result or empty))


# ------------------------------------------------------------------------- its failures


def launches(device, module):
    device.launch(module, [ADD])


CALLS = {
    "cuMemAlloc": lambda device, _: device.bind(ARGUMENTS),
    "cuMemcpyHtoD": lambda device, _: device.arguments.write("x", ONES),
    "cuMemcpyDtoH": lambda device, _: device.arguments.read("x"),
    "cuMemsetD8Async": lambda device, _: device.arguments.restore({"x": NAN}),
    "cuMemcpyDtoD": lambda device, _: device.arguments.restore({"x": ONES}),
    "cuModuleLoadData": lambda device, _: device.load(Binary(build(), b"")),
    "cuDeviceGetAttribute": lambda device, _: device.limits,
    "cuModuleGetFunction": launches,
    "cuFuncGetAttribute": launches,
    "cuEventCreate": launches,
    "cuEventRecord": launches,
    "cuLaunchKernel": launches,
    "cuCtxSynchronize": launches,
    "cuEventElapsedTime": launches,
}


@pytest.mark.parametrize("call", CALLS)
def test_failure_of_a_call_becomes_launch_failed(call, kernels, stub, package, monkeypatch, fail):
    device = CudaDevice()
    device.bind(ARGUMENTS)
    # Limits are asked for once, before the first launch.
    module = device.load(kernels) if call != "cuDeviceGetAttribute" else None
    fail(f"{call}@1:999")
    with pytest.raises(LaunchFailed) as failure:
        CALLS[call](device, module)
    monkeypatch.delenv("CUDA_STUB_FAIL")
    assert f"{call} failed" in str(failure.value).replace("DataEx", "Data")
    assert not isinstance(failure.value, OutOfDeviceMemory)
    assert not device.is_lost


@pytest.mark.parametrize("call", ["cuMemAlloc", "cuLaunchKernel"])
def test_lack_of_memory_is_a_failure_of_its_own(call, package, device, module, fail):
    fail(f"{call}@1+:2")  # PyCUDA collects garbage and tries again
    with pytest.raises(OutOfDeviceMemory, match="are free"):
        CALLS[call](device, module)
    assert not device.is_lost


@pytest.mark.parametrize("code", [700, 719])
def test_kernel_that_fails_makes_the_device_unhealthy(code, device, module, fail):
    fail(f"kernel@2:{code}")
    device.launch(module, [ADD])
    with pytest.raises(LaunchFailed, match=r"running add: .*lost"):
        device.launch(module, [ADD])
    assert device.is_lost
    with pytest.raises(LaunchFailed, match="reading x"):
        device.arguments.read("x")
    assert device.is_lost


def test_launch_that_cannot_be_is_refused_before_any_runs(device, module, stub):
    cases = [
        (Launch("add", (32, 33), (1, 1), ()), "1,056 .* 1,024"),
        (Launch("narrow", (65,), (1,), ("z",)), "launch bounds.* 64"),
        (Launch("add", (32,), (1,), ("q",)), "q.* x, y, z, n"),
    ]
    for launch, reason in cases:
        with pytest.raises(LaunchFailed, match=reason):
            device.launch(module, [ADD, launch])
        assert not [call for call in stub.calls() if call.startswith("cuLaunchKernel")]


def test_binary_with_too_much_shared_memory_is_refused_before_the_driver_is_called(device, stub):
    with pytest.raises(LaunchFailed, match=r"49,156 .* 49,152"):
        device.load(Binary(build(shared_bytes=49_156), b"\x7fELF"))
    assert "cuModuleLoadData" not in stub.calls()
    with pytest.raises(LaunchFailed, match="loading the binary"):
        device.load(Binary(build(shared_bytes=49_152), b"\x7fELF"))


# ------------------------------------------------------------------------- one of several GPUs


def test_gpu_that_has_another_number_now_is_refused(stub, monkeypatch):
    monkeypatch.setenv("CUDA_STUB_DEVICES", "2")
    backend = choose_one("cuda", ["1"])
    monkeypatch.setenv("CUDA_STUB_UUIDS", "cd")
    with pytest.raises(BackendUnavailable, match="now is GPU-cd"):
        backend.open_device()


def test_instance_of_a_divided_gpu_has_its_own_uuid(stub, monkeypatch):
    monkeypatch.setenv("CUDA_STUB_MIG", "1")
    (instance,) = list_gpus()
    assert instance.uuid == instance.instance == "MIG-abababab-abab-abab-abab-ababababab00"
