"""The CUDA device: against a fake of PyCUDA's driver here, on the real one where a GPU is."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from enum import IntEnum
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from harness.core.errors import BackendUnavailable, BuildFailed, LaunchFailed
from harness.core.program import Binary, Launch, Program
from harness.core.records import Build, DeviceLimits
from harness.measure.backends import cuda, cuda_device, cuda_driver
from harness.measure.backends.cuda import cuda_status, device_arch, load_pycuda
from harness.measure.backends.cuda_device import CudaDevice, pack_arguments
from harness.measure.backends.cuda_driver import device_archs, driver_version
from harness.measure.backends.guard_zones import ZONE_BYTES
from harness.measure.backends.launch_checks import why_unlaunchable, why_unloadable
from harness.measure.backends.nvcc import Nvcc
from harness.measure.verify import NAN

LIMITS = DeviceLimits(
    max_group_size=1024,
    max_group_dims=(1024, 1024, 64),
    max_grid_dims=(2**31 - 1, 65535, 65535),
    max_local_bytes=48 * 1024,
    compute_units=132,
    warp_size=32,
)

# ------------------------------------------------------------------------- checks and packing


@pytest.mark.parametrize(
    ("group", "grid", "reason"),
    [
        ((32, 33), (1, 1), r"group \(32, 33, 1\) of f has 1,056 threads.*takes 1,024 at most"),
        ((1, 1, 65), (1, 1, 1), r"group \(1, 1, 65\) of f must lie between.*\(1024, 1024, 64\)"),
        ((32, 1), (1, 65536), r"grid \(1, 65536, 1\) of f must lie between.*65535"),
        ((32,), (0,), r"grid \(0, 1, 1\) of f must lie between \(1, 1, 1\)"),
    ],
)
def test_launch_beyond_the_device_says_which_figure(group, grid, reason):
    found = why_unlaunchable(Launch("f", group, grid, ()), LIMITS)
    assert found is not None
    assert re.search(reason, found)


def test_launch_at_the_limits_is_allowed():
    assert why_unlaunchable(Launch("f", (16, 1, 64), (2**31 - 1, 65535, 1), ()), LIMITS) is None


def test_binary_beyond_the_devices_shared_memory_says_both_figures():
    assert why_unloadable(build(shared_bytes=48 * 1024), LIMITS) is None
    assert why_unloadable(build(shared_bytes=None), LIMITS) is None
    reason = why_unloadable(build(shared_bytes=48 * 1024 + 4), LIMITS)
    assert reason is not None
    assert "49,156 bytes" in reason
    assert "49,152" in reason


def build(**resources: int | None) -> Build:
    return Build(key="k", options="", compiler="nvcc", compile_s=0.1, **resources)


def test_each_argument_lies_at_a_multiple_of_its_own_size():
    packed = pack_arguments([np.int32(1), np.uintp(2), np.bool_(True), np.float16(1.5)])
    assert packed == bytes.fromhex("01000000 00000000 0200000000000000 01 00 003e")


def test_complex_argument_is_aligned_as_cudas_float2():
    assert len(pack_arguments([np.int32(1), np.complex64(1j)])) == 16


def test_no_arguments_pack_to_nothing():
    assert pack_arguments([]) == b""


# ------------------------------------------------------------------------- a fake of PyCUDA


class DeviceAttribute(IntEnum):
    MAX_THREADS_PER_BLOCK = 1024
    MAX_BLOCK_DIM_X = 1023
    MAX_BLOCK_DIM_Y = 1022
    MAX_BLOCK_DIM_Z = 64
    MAX_GRID_DIM_X = 2**31 - 1
    MAX_GRID_DIM_Y = 65535
    MAX_GRID_DIM_Z = 65534
    MAX_SHARED_MEMORY_PER_BLOCK = 49152
    MULTIPROCESSOR_COUNT = 132
    WARP_SIZE = 32
    CLOCK_RATE = 1980000
    MEMORY_CLOCK_RATE = 3201000


class FunctionAttribute(IntEnum):
    MAX_THREADS_PER_BLOCK = 512
    NUM_REGS = 96


class FakeDriver:
    """What CudaDevice uses of pycuda.driver, with its exception types.

    `fail(call, type)` makes one call fail once; with `sticky` all later ones fail too, which is
    what an illegal address does. Every launch takes 2 ms and adds 1 to its first float array.
    """

    def __init__(self) -> None:
        self.Error = type("Error", (Exception,), {})
        for name in ("MemoryError", "LogicError", "LaunchError", "RuntimeError", "CompileError"):
            setattr(self, name, type(name, (self.Error,), {}))
        self.device_attribute, self.function_attribute = DeviceAttribute, FunctionAttribute
        self.memory: dict[int, bytearray] = {}
        self.launched: list[tuple] = []
        self.calls: list[str] = []
        self._failures: dict[str, Exception] = {}
        self._sticky: Exception | None = None
        self.Context = SimpleNamespace(synchronize=lambda: self._called("synchronize"))
        self.Device = FakeDeviceType(self)

    def fail(self, call: str, kind: str, sticky: bool = False) -> None:
        self._failures[call] = getattr(self, kind)(f"{call} failed: on purpose")
        self._failures[call].sticky = sticky

    def _called(self, call: str) -> None:
        self.calls.append(call)
        if self._sticky:
            raise self._sticky
        if call in self._failures:
            error = self._failures.pop(call)
            self._sticky = error if error.sticky else None
            raise error

    def init(self) -> None:
        self._called("init")

    def get_driver_version(self) -> int:
        return 13020

    def get_version(self) -> tuple[int, int, int]:
        return (13, 0, 0)

    def mem_alloc(self, size_bytes: int) -> FakeMemory:
        self._called("mem_alloc")
        if size_bytes == 0:
            raise self.LogicError("cuMemAlloc failed: invalid argument")
        return FakeMemory(self, size_bytes)

    def memcpy_htod(self, address: int, array: np.ndarray) -> None:
        self._called("memcpy_htod")
        assert array.flags.c_contiguous
        self.bytes_at(address, array.nbytes)[:] = array.tobytes()

    def memcpy_dtoh(self, array: np.ndarray, address: int) -> None:
        self._called("memcpy_dtoh")
        stored = np.frombuffer(self.bytes_at(address, array.nbytes), array.dtype)
        array[...] = stored.reshape(array.shape)

    def memcpy_dtod(self, to: int, source: int, size_bytes: int) -> None:
        self._called("memcpy_dtod")
        self.bytes_at(to, size_bytes)[:] = self.bytes_at(source, size_bytes)

    def memset_d8(self, address: int, byte: int, count: int) -> None:
        self._called("memset_d8")
        self.bytes_at(address, count)[:] = bytes([byte]) * count

    def bytes_at(self, address: int, size_bytes: int) -> memoryview:
        """Device memory, which must be within one allocation."""
        begin = max(start for start in self.memory if start <= address)
        assert address - begin + size_bytes <= len(self.memory[begin])
        return memoryview(self.memory[begin])[address - begin : address - begin + size_bytes]

    def module_from_buffer(self, data: bytes) -> SimpleNamespace:
        self._called("module_from_buffer")
        return SimpleNamespace(get_function=self._function)

    def _function(self, name: str) -> FakeFunction:
        self._called("get_function")
        return FakeFunction(self, name)

    def Event(self) -> FakeEvent:
        self._called("Event")
        return FakeEvent(self)


class FakeDeviceType:
    """pycuda.driver.Device: a class with a static `count`."""

    def __init__(self, driver: FakeDriver) -> None:
        self._driver = driver

    def count(self) -> int:
        return 1

    def __call__(self, ordinal: int) -> SimpleNamespace:
        called = self._driver._called
        context = SimpleNamespace(
            push=lambda: called("push"), pop=lambda: called("pop"), detach=lambda: called("detach")
        )
        return SimpleNamespace(
            retain_primary_context=lambda: context,
            compute_capability=lambda: (9, 0),
            name=lambda: "Fake H200",
            total_memory=lambda: 2**37,
            get_attribute=int,
        )


class FakeMemory:
    def __init__(self, driver: FakeDriver, size_bytes: int) -> None:
        self._driver, self._at = driver, (1 << 20) * (1 + len(driver.memory))
        driver.memory[self._at] = bytearray(size_bytes)

    def __int__(self) -> int:
        return self._at

    def free(self) -> None:
        self._driver._called("free")
        del self._driver.memory[self._at]


class FakeEvent:
    def __init__(self, driver: FakeDriver) -> None:
        self._driver, self._at_ms = driver, 0.0

    def record(self) -> None:
        self._driver._called("record")
        self._at_ms = 2.0 * len(self._driver.launched)

    def time_since(self, start: FakeEvent) -> float:
        return self._at_ms - start._at_ms


class FakeFunction:
    def __init__(self, driver: FakeDriver, name: str) -> None:
        self._driver, self._name = driver, name

    def get_attribute(self, attribute: FunctionAttribute) -> int:
        return int(attribute)

    def prepare(self, formats: list[str]) -> None:
        self._formats = formats

    def prepared_async_call(self, grid: tuple, block: tuple, stream: None, packed: bytes) -> None:
        self._driver._called("prepared_async_call")
        assert self._formats == [f"{len(packed)}s"]
        self._driver.launched.append((self._name, grid, block, packed))
        address = int.from_bytes(packed[:8], "little")
        if address:
            values = np.frombuffer(self._driver.bytes_at(address, 16), np.float32)
            values += 1


@pytest.fixture
def driver(monkeypatch) -> FakeDriver:
    fake = FakeDriver()
    monkeypatch.setattr(cuda_device, "require_driver", lambda: None)
    monkeypatch.setattr(cuda_device, "load_pycuda", lambda: fake)
    return fake


@pytest.fixture
def device(driver) -> CudaDevice:
    return CudaDevice()


@pytest.fixture
def module(device) -> object:
    return device.load(Binary(build(), b"\x7fELF"))


ADD = Launch("add", (32, 4), (10,) * 2, ("x", "n"))
ARGUMENTS = {"x": np.zeros(4, np.float32), "n": np.int32(4)}

# ------------------------------------------------------------------------- the device's verbs


def test_bound_array_reads_back_as_it_was(device):
    device.bind({"x": np.arange(6.0).reshape(2, 3).T, "n": np.int32(6)})
    assert device.read("x").tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]


def test_binding_frees_what_was_bound_before(device, driver):
    device.bind({"x": np.zeros(4)})
    device.bind({"y": np.zeros(4)})
    assert len(driver.memory) == 1
    with pytest.raises(ValueError, match="x is not a bound array; arrays are y"):
        device.read("x")


@pytest.mark.parametrize("wrong", [np.zeros(5, np.float32), np.zeros(4, np.float64)])
def test_writing_another_shape_or_dtype_is_refused(device, wrong):
    device.bind(ARGUMENTS)
    with pytest.raises(ValueError, match=r"x is bound as float32\[4\], but written as"):
        device.write("x", wrong)


def test_launch_passes_shapes_and_arguments_and_returns_seconds(device, module, driver):
    device.bind(ARGUMENTS)
    assert device.launch(module, [ADD]) == pytest.approx(0.002)
    ((name, grid, block, packed),) = driver.launched
    assert (name, grid, block) == ("add", (10, 10, 1), (32, 4, 1))
    address = (1 << 20) + ZONE_BYTES
    assert packed == np.uintp(address).tobytes() + np.int32(4).tobytes()
    assert device.read("x").tolist() == [1.0] * 4


def test_time_of_several_launches_is_their_sum(device, module):
    device.bind(ARGUMENTS)
    assert device.launch(module, [ADD, ADD, ADD]) == pytest.approx(0.006)


def test_device_waits_after_the_last_launch_and_not_between(device, module, driver):
    device.bind(ARGUMENTS)
    driver.calls.clear()
    device.launch(module, [ADD, ADD])
    assert driver.calls.count("synchronize") == 1
    assert driver.calls[-1] == "synchronize"


def test_binary_is_loaded_once_until_what_was_loaded_is_forgotten(device, driver):
    binaries = [Binary(build(), data) for data in (b"one", b"two")]
    modules = [device.load(binary) for binary in (*binaries, *binaries)]
    assert driver.calls.count("module_from_buffer") == 2
    assert modules[2:] == modules[:2]
    device.unload()
    assert device.load(binaries[0]) is not modules[0]


def test_array_that_is_restored_again_is_copied_on_the_device(device, driver):
    device.bind(ARGUMENTS)
    content = np.arange(4, dtype=np.float32)
    for calls in (["mem_alloc", "memcpy_htod", "memcpy_dtod"], ["memcpy_dtod"]):
        driver.calls.clear()
        device.restore({"x": content})
        assert driver.calls == calls  # the next launch comes after it, without a wait
        assert device.read("x").tolist() == [0, 1, 2, 3]
        device.write("x", ARGUMENTS["x"])


def test_array_is_restored_from_the_host_where_the_device_has_no_room_for_a_copy(device, driver):
    device.bind(ARGUMENTS)
    driver.fail("mem_alloc", "MemoryError")
    content = np.arange(4, dtype=np.float32)
    for _ in range(2):
        device.restore({"x": content})
        assert device.read("x").tolist() == [0, 1, 2, 3]
        device.write("x", ARGUMENTS["x"])
    assert "memcpy_dtod" not in driver.calls
    assert device.healthy


def test_limits_and_environment_describe_the_device(device):
    assert device.limits.max_group_dims == (1023, 1022, 64)
    assert device.limits.max_grid_dims == (2**31 - 1, 65535, 65534)
    assert device.limits.names()["compute_units"] == 132
    environment = device.environment("nvcc 13.0 sm_90")
    assert (environment.backend, environment.device) == ("cuda", "Fake H200")
    assert (environment.platform, environment.compiler) == ("CUDA 13.2", "nvcc 13.0 sm_90")
    assert environment.notes["compute_capability"] == "9.0"
    assert not device.shares_cpu


def test_close_gives_memory_and_context_back_once(device, driver):
    device.bind(ARGUMENTS)
    device.close()
    device.close()
    assert not driver.memory
    assert driver.calls[-2:] == ["pop", "detach"]


def test_device_that_cannot_be_opened_is_unavailable(driver):
    driver.fail("push", "LogicError")
    with pytest.raises(BackendUnavailable, match="CUDA device 0 cannot be opened: push failed"):
        CudaDevice()


# ------------------------------------------------------------------------- its failures


def exception_names(module: object) -> set[str]:
    """The exception classes among a module's public names."""
    found = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    return {name for name, v in found.items() if isinstance(v, type) and issubclass(v, Exception)}


def test_list_of_driver_errors_is_complete(driver):
    assert exception_names(driver) == set(cuda.ERROR_MEANINGS)


CALLS = {
    "mem_alloc": lambda device, module: device.bind(ARGUMENTS),
    "memcpy_htod": lambda device, module: device.write("x", ARGUMENTS["x"]),
    "memcpy_dtoh": lambda device, module: device.read("x"),
    "memset_d8": lambda device, module: device.restore({"x": NAN}),
    "memcpy_dtod": lambda device, module: device.restore({"x": ARGUMENTS["x"]}),
    "free": lambda device, module: device.bind({}),
    "module_from_buffer": lambda device, module: device.load(Binary(build(), b"")),
    "get_function": lambda device, module: device.launch(module, [ADD]),
    "Event": lambda device, module: device.launch(module, [ADD]),
    "prepared_async_call": lambda device, module: device.launch(module, [ADD]),
    "synchronize": lambda device, module: device.launch(module, [ADD]),
    "pop": lambda device, module: device.close(),
}


@pytest.mark.parametrize("kind", cuda.ERROR_MEANINGS)
@pytest.mark.parametrize("call", CALLS)
def test_every_driver_error_of_every_call_becomes_launch_failed(call, kind, device, module, driver):
    device.bind(ARGUMENTS)
    driver.fail(call, kind)
    with pytest.raises(LaunchFailed) as failure:
        CALLS[call](device, module)
    assert cuda.ERROR_MEANINGS[kind] in str(failure.value)
    assert f"{call} failed: on purpose" in str(failure.value)
    assert device.healthy


def test_unknown_kind_of_driver_error_is_described_as_its_nearest_base(driver):
    newer = type("GraphError", (driver.LaunchError,), {})
    assert cuda.meaning_of(newer("text")) == cuda.ERROR_MEANINGS["LaunchError"]
    with pytest.raises(TypeError, match="KeyError is no exception of PyCUDA"):
        cuda.meaning_of(KeyError())


def test_error_that_stays_makes_the_device_unhealthy(device, module, driver):
    device.bind(ARGUMENTS)
    driver.fail("synchronize", "LogicError", sticky=True)
    with pytest.raises(LaunchFailed, match="the context is lost and its process must end"):
        device.launch(module, [ADD])
    assert not device.healthy
    with pytest.raises(LaunchFailed):
        device.read("x")
    assert not device.healthy


def test_unhealthy_device_closes_in_silence(device, module, driver):
    driver.fail("synchronize", "LaunchError", sticky=True)
    with pytest.raises(LaunchFailed):
        device.launch(module, [])
    device.close()


def test_allocation_that_fails_names_the_argument_and_its_size(device, driver):
    driver.fail("mem_alloc", "MemoryError")
    with pytest.raises(LaunchFailed, match=r"allocating 1,600 bytes for x: .* out of memory"):
        device.bind({"x": np.zeros(200)})


@pytest.mark.parametrize(
    ("launch", "reason"),
    [
        (Launch("add", (32, 33), (1, 1), ()), "1,056 threads, but the device takes 1,024"),
        (Launch("add", (513,), (1,), ()), "with its 96 registers and its launch bounds.* 512"),
        (Launch("add", (32,), (1,), ("y",)), "takes an argument y, but bound are x, n"),
    ],
)
def test_launch_that_cannot_be_is_refused_before_the_driver_is_called(
    launch, reason, device, module, driver
):
    device.bind(ARGUMENTS)
    with pytest.raises(LaunchFailed, match=reason):
        device.launch(module, [ADD, launch])
    assert not driver.launched


def test_binary_with_too_much_shared_memory_is_refused_before_the_driver_is_called(device, driver):
    with pytest.raises(LaunchFailed, match=r"50,000 bytes of static shared memory.* 49,152"):
        device.load(Binary(build(shared_bytes=50_000), b"\x7fELF"))
    assert "module_from_buffer" not in driver.calls


def test_launching_what_was_not_loaded_is_a_programming_error(device):
    with pytest.raises(TypeError, match="what load"):
        device.launch("module", [ADD])


# ------------------------------------------------------------------------- what is missing here


@pytest.fixture
def all_there(monkeypatch):
    """A machine where CUDA can run; tests take one thing away."""
    monkeypatch.setattr(cuda, "require_driver", lambda: None)
    monkeypatch.setattr(cuda, "load_pycuda", lambda: None)
    monkeypatch.setattr(cuda, "device_archs", lambda: ("sm_90",))
    monkeypatch.setattr(cuda, "find_nvcc", lambda: Path("nvcc"))


def test_nothing_missing_is_no_reason(all_there):
    assert cuda_status() is None


@pytest.mark.parametrize("part", ["require_driver", "load_pycuda", "device_archs", "find_nvcc"])
def test_each_missing_part_is_the_reason(part, all_there, monkeypatch):
    def missing() -> None:
        raise BackendUnavailable(f"no {part}")

    monkeypatch.setattr(cuda, part, missing)
    assert cuda_status() == f"no {part}"


def test_missing_driver_is_reported_with_its_next_step(monkeypatch):
    monkeypatch.setattr(cuda_driver.cuda_probe, "LIBRARY", "libcuda-not-here.so.1")
    with pytest.raises(BackendUnavailable, match=r"no NVIDIA driver: libcuda-not-here.*--gpus all"):
        cuda_driver.require_driver()


def test_missing_pycuda_is_reported_with_its_next_step(monkeypatch):
    monkeypatch.setattr(cuda.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(BackendUnavailable, match=r"pip install -e '\.\[cuda\]'.*headers"):
        load_pycuda()


def test_broken_pycuda_is_reported_with_its_error(monkeypatch):
    def broken(name: str) -> None:
        raise ImportError("libcurand.so.10: cannot open shared object file")

    monkeypatch.setattr(cuda.importlib.util, "find_spec", lambda _: "here")
    monkeypatch.setattr(cuda.importlib, "import_module", broken)
    with pytest.raises(BackendUnavailable, match=r"cannot be imported: libcurand.*Rebuild"):
        load_pycuda()


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19", "535.104.05"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Rel", "580.65.06"),
        ("GCC version:  gcc version 12.2.0", None),
    ],
)
def test_driver_version_is_read_from_the_kernel(text, version, tmp_path):
    (tmp_path / "version").write_text(text)
    assert driver_version(tmp_path / "version") == version
    assert driver_version(tmp_path / "nowhere") is None


STUB = """
#include <string.h>
int cuInit(unsigned flags) { return INIT; }
int cuGetErrorName(int e, const char **s) { *s = "CUDA_ERROR_NO_DEVICE"; return 0; }
int cuDeviceGetCount(int *n) { *n = COUNT; return 0; }
int cuDeviceGet(int *d, int i) { *d = i; return 0; }
int cuDeviceGetName(char *s, int n, int d) { strcpy(s, "Stub"); return 0; }
int cuDeviceGetAttribute(int *v, int a, int d) { *v = a == 75 ? 12 : a == 76 ? d : -1; return 0; }
"""


@pytest.fixture
def stub_driver(tmp_path, monkeypatch):
    """Compiles a libcuda.so.1 for the probe's process."""
    if not shutil.which("gcc"):
        pytest.skip("needs gcc, to compile a stub of libcuda.so.1")

    def make(**figures: int) -> None:
        (tmp_path / "stub.c").write_text(STUB)
        defines = [f"-D{name}={value}" for name, value in figures.items()]
        command = ["gcc", "-shared", "-fPIC", *defines, "stub.c", "-o", "libcuda.so.1"]
        subprocess.run(command, cwd=tmp_path, check=True)
        monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))

    return make


def test_devices_are_listed_without_initialising_this_process(stub_driver):
    stub_driver(INIT=0, COUNT=2)
    assert device_archs() == ("sm_120", "sm_121")
    assert device_arch() == "sm_120"


def test_driver_without_devices_offers_no_gpu(stub_driver):
    stub_driver(INIT=0, COUNT=0)
    with pytest.raises(BackendUnavailable, match=r"offers no GPU: it lists no device.*nvidia-smi"):
        device_archs()


def test_refusing_driver_is_reported_with_its_error(stub_driver):
    stub_driver(INIT=100, COUNT=0)
    with pytest.raises(
        BackendUnavailable, match=r"cuInit failed: CUDA_ERROR_NO_DEVICE \(100\).*CUDA_VISIBLE"
    ):
        device_archs()


# ------------------------------------------------------------------------- on a real GPU

STATUS = cuda_status()
needs_gpu = [pytest.mark.gpu, pytest.mark.skipif(STATUS is not None, reason=str(STATUS))]

KERNELS = """\
#line 1 "kernels.cu"
extern "C" __global__ void add(float *z, const float *x, const float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) z[i] = x[i] + y[i];
}
extern "C" __global__ void stray(float *z) { z[(1ull << 40) + threadIdx.x] = 1.0f; }
extern "C" __global__ void __launch_bounds__(64) narrow(float *z) { z[threadIdx.x] = 1.0f; }
"""
N = 1 << 20

# Runs in a process of its own, which ends as such a process should: by os._exit.
STRAY = """
import json, os, sys
import numpy as np
from harness.measure.backends.base import Launch, Program
from harness.measure.backends.cuda import device_arch
from harness.measure.backends.cuda_device import CudaDevice, pack_arguments
from harness.measure.backends.nvcc import Nvcc
from harness.core.errors import LaunchFailed

def failure(device, module):
    try:
        device.launch(module, [Launch("stray", (32,), (1,), ("z",))])
    except LaunchFailed as error:
        return str(error)

device = CudaDevice()
module = device.load(Nvcc(device_arch()).compile(Program(sys.argv[1], (), ())))
device.bind({"z": np.zeros(32, np.float32)})
answer = {"first": failure(device, module), "again": failure(device, module)}
answer["healthy"] = device.healthy
device.close()
print(json.dumps(answer), flush=True)
os._exit(0)
"""


@pytest.fixture(scope="module")
def gpu():
    device = CudaDevice()
    yield device
    device.close()


@pytest.fixture(scope="module")
def kernels(gpu) -> Binary:
    return Nvcc(device_arch()).compile(Program(KERNELS, (), ()))


class TestOnTheGpu:
    pytestmark = needs_gpu

    def test_vector_addition_is_right_and_takes_time(self, gpu, kernels):
        x, y = np.random.default_rng(0).random((2, N), dtype=np.float32)
        gpu.bind({"z": np.zeros(N, np.float32), "x": x, "y": y, "n": np.int32(N)})
        launch = Launch("add", (256,), (N // 256,), ("z", "x", "y", "n"))
        time_s = gpu.launch(gpu.load(kernels), [launch])
        np.testing.assert_array_equal(gpu.read("z"), x + y)
        assert 1e-7 < time_s < 1.0

    def test_limits_are_plausible(self, gpu):
        assert gpu.limits.max_group_size == 1024
        assert gpu.limits.warp_size == 32
        assert gpu.limits.max_local_bytes >= 48 * 1024
        assert gpu.limits.compute_units >= 1
        assert gpu.limits.max_grid_dims[0] >= 2**31 - 1

    def test_environment_names_device_driver_and_compiler(self, gpu):
        assert gpu.environment("nvcc").device
        assert gpu.environment("nvcc").platform.startswith("CUDA ")
        assert gpu.environment("nvcc").driver
        assert gpu.environment("nvcc").compiler == "nvcc"

    def test_list_of_driver_errors_is_complete(self):
        assert exception_names(load_pycuda()) == set(cuda.ERROR_MEANINGS)

    def test_too_much_shared_memory_never_reaches_the_device(self, gpu):
        count = gpu.limits.max_local_bytes // 4 + 1
        source = (
            f'extern "C" __global__ void f(float *z) {{ __shared__ float s[{count}];'
            " s[threadIdx.x] = z[0]; __syncthreads(); z[threadIdx.x] = s[threadIdx.x ^ 1]; }"
        )
        with pytest.raises((BuildFailed, LaunchFailed), match="shared"):
            gpu.load(Nvcc(device_arch()).compile(Program(source, (), ())))
        with pytest.raises(LaunchFailed, match="static shared memory"):
            gpu.load(Binary(build(shared_bytes=4 * count), b""))

    def test_group_beyond_the_kernels_launch_bounds_is_refused(self, gpu, kernels):
        gpu.bind({"z": np.zeros(128, np.float32)})
        with pytest.raises(LaunchFailed, match="launch bounds the kernel takes 64"):
            gpu.launch(gpu.load(kernels), [Launch("narrow", (128,), (1,), ("z",))])
        assert gpu.healthy

    def test_binary_of_garbage_is_refused_and_the_device_survives(self, gpu):
        with pytest.raises(LaunchFailed, match="loading the binary"):
            gpu.load(Binary(build(), b"garbage" * 100))
        assert gpu.healthy

    def test_function_that_is_not_there_is_refused(self, gpu, kernels):
        with pytest.raises(LaunchFailed, match="looking up nowhere"):
            gpu.launch(gpu.load(kernels), [Launch("nowhere", (1,), (1,), ())])
        assert gpu.healthy

    def test_more_memory_than_the_device_has_is_refused_and_the_device_survives(self, gpu):
        zero = np.zeros(1, np.float32)
        too_large = np.lib.stride_tricks.as_strided(zero, (2**41,), (0,))
        with pytest.raises(LaunchFailed, match="out of memory"):
            gpu.bind({"z": too_large})
        assert gpu.healthy

    def test_illegal_address_fails_the_launch_and_spoils_the_process(self):
        done = subprocess.run(
            [sys.executable, "-c", STRAY, KERNELS], capture_output=True, text=True, check=True
        )
        answer = json.loads(done.stdout)
        assert "illegal memory access" in answer["first"]
        assert "its process must end" in answer["first"]
        assert answer["again"]
        assert answer["healthy"] is False
