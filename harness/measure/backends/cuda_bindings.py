"""NVIDIA's driver through NVIDIA's own Python package, cuda-bindings, which needs no toolkit."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.util
import weakref
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.core.errors import BackendUnavailable
from harness.measure.backends.cuda_api import Shape, SharedWords

_DEFAULT_STREAM = 0
_DEVICE_MAP = 2  # CU_MEMHOSTALLOC_DEVICEMAP
_LONGEST_TEXT = 256
_BUFFER, _BUFFER_BYTES, _END = 1, 2, 0  # CU_LAUNCH_PARAM_...


class BindingsError(Exception):
    """A call of the driver that failed; `name` is the driver's name of the error."""

    def __init__(self, call: str, meaning: str, name: str = "") -> None:
        super().__init__(f"{call} failed: {meaning}{f' ({name})' if name else ''}")
        self.name = name


class _Owned:
    """What the driver must free: when it is no longer used, or before, by `free`."""

    def __init__(self, handle: Any, release: Callable[[Any], object]) -> None:
        self.handle = handle
        self._release = release
        self._finalizer = weakref.finalize(self, _released, release, handle)
        self._finalizer.atexit = False  # the driver frees all that a process had

    def __int__(self) -> int:
        return int(self.handle)

    def free(self) -> None:
        """Free it now; a second call does nothing."""
        if self._finalizer.detach():
            self._release(self.handle)


def _released(release: Callable[[Any], object], handle: Any) -> None:
    with contextlib.suppress(BindingsError):  # a lost context has nothing that could be freed
        release(handle)


def are_bindings_there() -> bool:
    """Whether cuda-bindings is installed."""
    try:
        return importlib.util.find_spec("cuda.bindings.driver") is not None
    except ModuleNotFoundError:  # of cuda or of cuda.bindings
        return False


class BindingsDriver:
    """A `CudaDriver`; raises BackendUnavailable where cuda-bindings cannot be imported."""

    def __init__(self) -> None:
        try:
            self._api = importlib.import_module("cuda.bindings.driver")
        except ImportError as error:
            raise BackendUnavailable(
                f"cuda-bindings is installed but cannot be imported: {error}. Install it again: "
                "pip install --force-reinstall cuda-bindings"
            ) from error
        self._device: Any = None
        self._is_open = False

    @property
    def package(self) -> str:
        """cuda-bindings and its version."""
        return f"cuda-bindings {importlib.import_module('cuda.bindings').__version__}"

    @property
    def error(self) -> type[Exception]:
        """The one error."""
        return BindingsError

    def describe(self, error: Exception) -> str:
        """Return its text, which has all that the driver says."""
        return str(error)

    def is_out_of_memory(self, error: Exception) -> bool:
        """Whether the device has no memory left."""
        return isinstance(error, BindingsError) and error.name == "CUDA_ERROR_OUT_OF_MEMORY"

    def _call(self, call: str, *arguments: Any) -> Any:
        """Call the driver; return its answer, or a list where it has several."""
        try:
            status, *answers = getattr(self._api, call)(*arguments)
        except RuntimeError as error:  # the package's own: the driver has no such function
            raise BindingsError(
                call,
                f"{error}. {self.package} needs a newer NVIDIA driver than this machine's: update "
                "the driver, or install a cuda-bindings of its CUDA version, such as "
                "'cuda-bindings < 13' for CUDA 12",
            ) from None
        except ValueError as error:  # of a driver that is newer than the package
            raise BindingsError(call, f"{error}, as {self.package} knows them") from None
        if int(status) != 0:
            _, meaning = self._api.cuGetErrorString(status)
            raise BindingsError(call, (meaning or b"unknown error").decode(), status.name)
        return answers[0] if len(answers) == 1 else answers

    def _release(self, call: str) -> Callable[[Any], None]:
        """Return what frees a handle; after `close`, which has freed all, it does nothing."""

        def release(handle: Any) -> None:
            if self._is_open:
                self._call(call, handle)

        return release

    def version(self) -> int:
        """Return the newest CUDA that the driver supports."""
        return int(self._call("cuDriverGetVersion"))

    def init(self) -> None:
        """Initialise the driver."""
        self._call("cuInit", 0)

    def open(self, ordinal: int) -> None:
        """Make a device's primary context current."""
        self._device = self._call("cuDeviceGet", ordinal)
        self._call("cuCtxPushCurrent", self._call("cuDevicePrimaryCtxRetain", self._device))
        self._is_open = True

    def close(self) -> None:
        """Leave the context and release it."""
        self._is_open = False
        self._call("cuCtxPopCurrent")
        self._call("cuDevicePrimaryCtxRelease", self._device)

    def synchronize(self) -> None:
        """Wait for the device."""
        self._call("cuCtxSynchronize")

    def device_name(self) -> str:
        """Return the device's name."""
        return _text(self._call("cuDeviceGetName", _LONGEST_TEXT, self._device))

    def pci_bus_id(self) -> str:
        """Return the device's place on the PCI bus."""
        return _text(self._call("cuDeviceGetPCIBusId", _LONGEST_TEXT, self._device))

    def device_attribute(self, name: str) -> int:
        """Return an attribute of the device."""
        attribute = getattr(self._api.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self._call("cuDeviceGetAttribute", attribute, self._device))

    def memory_info(self) -> tuple[int, int]:
        """Return the free bytes and all bytes."""
        free, total = self._call("cuMemGetInfo")
        return int(free), int(total)

    def allocate(self, size_bytes: int) -> Any:
        """Return new device memory."""
        return _Owned(self._call("cuMemAlloc", size_bytes), self._release("cuMemFree"))

    def free(self, memory: Any) -> None:
        """Free device memory."""
        memory.free()

    def write(self, address: int, array: npt.NDArray[Any]) -> None:
        """Copy an array to the device."""
        self._call("cuMemcpyHtoD", address, array.ctypes.data, array.nbytes)

    def read(self, array: npt.NDArray[Any], address: int) -> None:
        """Copy from the device into an array."""
        self._call("cuMemcpyDtoH", array.ctypes.data, address, array.nbytes)

    def copy(self, address: int, source: int, size_bytes: int) -> None:
        """Queue a copy within the device."""
        self._call("cuMemcpyDtoD", address, source, size_bytes)

    def fill(self, address: int, byte: int, size_bytes: int) -> None:
        """Queue the setting of bytes; the other memset may wait for the device."""
        self._call("cuMemsetD8Async", address, byte, size_bytes, _DEFAULT_STREAM)

    def share_words(self, count: int) -> SharedWords:
        """Return new zeros that host and device share."""
        size_bytes = count * np.dtype(np.uint64).itemsize
        host = int(self._call("cuMemHostAlloc", size_bytes, _DEVICE_MAP))
        memory = (ctypes.c_uint64 * count).from_address(host)
        # The array keeps `memory` alive, and that frees what it lies in.
        weakref.finalize(memory, _released, self._release("cuMemFreeHost"), host).atexit = False
        words = np.ctypeslib.as_array(memory)
        words.fill(0)
        return SharedWords(words, int(self._call("cuMemHostGetDevicePointer", host, 0)))

    def load(self, image: bytes) -> Any:
        """Load a module."""
        return _Owned(self._call("cuModuleLoadData", image), self._release("cuModuleUnload"))

    def function(self, module: Any, symbol: str) -> Any:
        """Return a kernel, which keeps its module."""
        return module, self._call("cuModuleGetFunction", module.handle, symbol.encode())

    def variable(self, module: Any, symbol: str) -> tuple[int, int]:
        """Return a variable's address and bytes."""
        address, size_bytes = self._call("cuModuleGetGlobal", module.handle, symbol.encode())
        return int(address), int(size_bytes)

    def function_attribute(self, function: Any, name: str) -> int:
        """Return an attribute of a kernel."""
        attribute = getattr(self._api.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
        return int(self._call("cuFuncGetAttribute", attribute, function[1]))

    def allow_dynamic_bytes(self, function: Any, size_bytes: int) -> None:
        """Let launches have so much dynamic shared memory."""
        names = self._api.CUfunction_attribute
        attribute = names.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self._call("cuFuncSetAttribute", function[1], attribute, size_bytes)

    def prefer_carveout(self, function: Any, percent: int) -> None:
        """Prefer so much shared memory."""
        names = self._api.CUfunction_attribute
        attribute = names.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
        self._call("cuFuncSetAttribute", function[1], attribute, percent)

    def launch(
        self, function: Any, grid: Shape, group: Shape, arguments: bytes, shared_bytes: int
    ) -> None:
        """Queue a kernel; the driver copies the arguments meanwhile."""
        shape = (*grid, *group, shared_bytes, _DEFAULT_STREAM)
        self._call("cuLaunchKernel", function[1], *shape, 0, _packed(arguments).address)

    def launch_cooperative(
        self, function: Any, grid: Shape, group: Shape, arguments: bytes, shared_bytes: int
    ) -> None:
        """Queue a kernel whose groups may wait for each other."""
        attribute = self._api.CUlaunchAttribute()
        attribute.id = self._api.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
        attribute.value.cooperative = 1
        config = self._api.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = grid
        config.blockDimX, config.blockDimY, config.blockDimZ = group
        config.sharedMemBytes, config.hStream = shared_bytes, _DEFAULT_STREAM
        config.attrs, config.numAttrs = [attribute], 1
        self._call("cuLaunchKernelEx", config, function[1], 0, _packed(arguments).address)

    def groups_at_once(self, function: Any, group_size: int, shared_bytes: int) -> int:
        """Return how many groups of a kernel a multiprocessor holds at once."""
        call = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
        return int(self._call(call, function[1], group_size, shared_bytes))

    def event(self) -> Any:
        """Return a new event."""
        return _Owned(self._call("cuEventCreate", 0), self._release("cuEventDestroy"))

    def record(self, event: Any) -> None:
        """Queue an event."""
        self._call("cuEventRecord", event.handle, _DEFAULT_STREAM)

    def elapsed_s(self, start: Any, stop: Any) -> float:
        """Return the seconds between two events."""
        return float(self._call("cuEventElapsedTime", start.handle, stop.handle)) * 1e-3


class _PackedArguments:
    """The list by which a launch finds its arguments in one piece of memory."""

    def __init__(self, arguments: bytes) -> None:
        self._bytes = ctypes.create_string_buffer(arguments, max(1, len(arguments)))
        self._size = ctypes.c_size_t(len(arguments))
        buffer, size = ctypes.addressof(self._bytes), ctypes.addressof(self._size)
        self._list = (ctypes.c_void_p * 5)(_BUFFER, buffer, _BUFFER_BYTES, size, _END)
        self.address = ctypes.addressof(self._list)


@lru_cache(maxsize=64)
def _packed(arguments: bytes) -> _PackedArguments:
    """Return the list of these arguments, which launches repeat: to make one takes longer than to
    launch."""
    return _PackedArguments(arguments)


def _text(written: bytes) -> str:
    """Return the text that the driver wrote, up to its zero byte."""
    return written.partition(b"\0")[0].decode()
