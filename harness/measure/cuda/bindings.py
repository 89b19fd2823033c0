"""The calls of NVIDIA's driver that harness makes, and NVIDIA's own Python package that makes them,
cuda-bindings, which needs no toolkit.
"""

from __future__ import annotations

import ctypes
import importlib
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from harness.measure.device.memory import Array

Extents = tuple[int, int, int]


class LaunchShape(NamedTuple):
    """The groups of a launch, their threads, and the dynamic shared memory of each; the groups of a
    `cooperative` launch may wait for each other."""

    grid: Extents
    group: Extents
    shared_bytes: int = 0
    cooperative: bool = False


class SharedWords(NamedTuple):
    """Numbers in the host's memory, and the address by which the device reads and writes them."""

    words: npt.NDArray[np.uint64]
    address: int


_DEFAULT_STREAM = 0
_DEVICE_MAP = 2  # CU_MEMHOSTALLOC_DEVICEMAP
_BUFFER, _BUFFER_BYTES, _END = 1, 2, 0  # CU_LAUNCH_PARAM_...


class _BindingsError(Exception):
    """A call of the driver that failed: what the driver says, and its name of the error."""


class _Module:
    """A loaded module, unloaded with the last reference to it."""

    def __init__(self, api: Any, handle: Any) -> None:
        self.handle = handle
        self._api = api

    def __del__(self) -> None:
        self._api.cuModuleUnload(self.handle)  # fails in a lost context, which has none


class BindingsDriver:
    """NVIDIA's driver by cuda-bindings, with one device open: its memory, and what launches.

    An address stands for memory. Modules, functions and events are objects of the package. A module
    is unloaded when neither it nor a function of it is used any more: a function is a pair of its
    module and its handle. `package` is the Python package and its version, `error` the base class
    of its errors, which every call may raise: the call that failed, and what the driver says. Where
    `is_cooperative`, the package can launch kernels whose groups wait for each other. Raises
    ImportError where the package is missing.
    """

    is_cooperative = True
    error: type[Exception] = _BindingsError

    def __init__(self) -> None:
        self._api = importlib.import_module("cuda.bindings.driver")
        self.package = f"cuda-bindings {importlib.import_module('cuda.bindings').__version__}"
        self._device: Any = None

    def _call(self, call: str, *arguments: Any) -> Any:
        """Call the driver; return its answer, or a list where it has several."""
        try:
            status, *answers = getattr(self._api, call)(*arguments)
        except RuntimeError as error:  # the package's own: the driver has no such function
            raise _BindingsError(
                f"{call} failed: {error}. {self.package} needs a newer NVIDIA driver than this "
                "machine's: update the driver, or install a cuda-bindings of its CUDA version, "
                "such as 'cuda-bindings < 13' for CUDA 12"
            ) from None
        except ValueError as error:  # of a driver that is newer than the package
            raise _BindingsError(f"{call} failed: {error}, as {self.package} knows them") from None
        if int(status) != 0:
            _, meaning = self._api.cuGetErrorString(status)
            text = (meaning or b"unknown error").decode()
            raise _BindingsError(f"{call} failed: {text} ({status.name})")
        return answers[0] if len(answers) == 1 else answers

    def open(self, ordinal: int) -> None:
        """Initialise the driver, and make a device's primary context current in this thread.

        It stays current until the process ends.
        """
        self._call("cuInit", 0)
        self._device = self._call("cuDeviceGet", ordinal)
        self._call("cuCtxPushCurrent", self._call("cuDevicePrimaryCtxRetain", self._device))

    def synchronize(self) -> None:
        """Wait for the device; raises the error of what ran before."""
        self._call("cuCtxSynchronize")

    def device_attribute(self, name: str) -> int:
        """Return an attribute by its name without CU_DEVICE_ATTRIBUTE_."""
        attribute = getattr(self._api.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self._call("cuDeviceGetAttribute", attribute, self._device))

    def free_bytes(self) -> int:
        """Return the bytes of the device's memory that are free."""
        return int(self._call("cuMemGetInfo")[0])

    def allocate(self, size_bytes: int) -> Any:
        return int(self._call("cuMemAlloc", size_bytes))

    def part(self, memory: Any, offset: int, size_bytes: int) -> Any:
        return memory + offset

    def write(self, memory: Any, array: Array, offset: int = 0) -> None:
        self._call("cuMemcpyHtoD", memory + offset, array.ctypes.data, array.nbytes)

    def read(self, array: Array, memory: Any, offset: int = 0) -> None:
        self._call("cuMemcpyDtoH", array.ctypes.data, memory + offset, array.nbytes)

    def fill(self, memory: Any, byte: int, size_bytes: int, offset: int = 0) -> None:
        # The call that never waits for the device.
        self._call("cuMemsetD8Async", memory + offset, byte, size_bytes, _DEFAULT_STREAM)

    def copy(self, memory: Any, source: Any, size_bytes: int, offset: int = 0) -> None:
        self._call("cuMemcpyDtoD", memory + offset, source, size_bytes)

    def free(self, memory: Any, part: Any = None) -> None:
        self._call("cuMemFree", memory)

    def share_words(self, count: int) -> SharedWords:
        """Return new zeros that host and device share until the process ends."""
        size_bytes = count * np.dtype(np.uint64).itemsize
        host = int(self._call("cuMemHostAlloc", size_bytes, _DEVICE_MAP))
        words = np.ctypeslib.as_array((ctypes.c_uint64 * count).from_address(host))
        words.fill(0)
        return SharedWords(words, int(self._call("cuMemHostGetDevicePointer", host, 0)))

    def load(self, image: bytes) -> Any:
        """Load a module: a cubin, or PTX text with a zero byte at its end."""
        return _Module(self._api, self._call("cuModuleLoadData", image))

    def function(self, module: Any, symbol: str) -> Any:
        """Return a kernel of a module."""
        return module, self._call("cuModuleGetFunction", module.handle, symbol.encode())

    def variable(self, module: Any, symbol: str) -> tuple[int, int]:
        """Return the address of a module's variable, and its bytes."""
        address, size_bytes = self._call("cuModuleGetGlobal", module.handle, symbol.encode())
        return int(address), int(size_bytes)

    def function_attribute(self, function: Any, name: str) -> int:
        """Return an attribute by its name without CU_FUNC_ATTRIBUTE_."""
        return int(self._call("cuFuncGetAttribute", self._attribute(name), function[1]))

    def set_function_attribute(self, function: Any, name: str, value: int) -> None:
        """Set an attribute by its name without CU_FUNC_ATTRIBUTE_."""
        self._call("cuFuncSetAttribute", function[1], self._attribute(name), value)

    def _attribute(self, name: str) -> Any:
        return getattr(self._api.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")

    def launch(self, function: Any, shape: LaunchShape, arguments: bytes) -> None:
        """Queue a kernel with its packed arguments, by one call of the driver."""
        packed, _ = _packed(arguments)
        handle = function[1]
        if not shape.cooperative:
            self._call(
                "cuLaunchKernel",
                handle,
                *shape.grid,
                *shape.group,
                shape.shared_bytes,
                _DEFAULT_STREAM,
                0,
                packed,
            )
            return
        attribute = self._api.CUlaunchAttribute()
        attribute.id = self._api.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
        attribute.value.cooperative = 1
        config = self._api.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = shape.grid
        config.blockDimX, config.blockDimY, config.blockDimZ = shape.group
        config.sharedMemBytes = shape.shared_bytes
        config.hStream = _DEFAULT_STREAM
        config.attrs = [attribute]
        config.numAttrs = 1
        self._call("cuLaunchKernelEx", config, handle, 0, packed)

    def event(self) -> Any:
        """Return a new event, which lasts until the process ends."""
        return self._call("cuEventCreate", 0)

    def record(self, event: Any) -> None:
        """Queue an event."""
        self._call("cuEventRecord", event, _DEFAULT_STREAM)

    def elapsed_s(self, start: Any, stop: Any) -> float:
        """Return the seconds between two events that have ended."""
        return float(self._call("cuEventElapsedTime", start, stop)) * 1e-3


@lru_cache(maxsize=64)
def _packed(arguments: bytes) -> tuple[int, object]:
    """Return the address of the list by which a launch finds its arguments, and what must stay.

    Launches repeat their arguments: to make the list takes longer than to launch. The driver copies
    the arguments while it queues a launch.
    """
    content = ctypes.create_string_buffer(arguments, max(1, len(arguments)))
    size = ctypes.c_size_t(len(arguments))
    parts = (ctypes.c_void_p * 5)(
        _BUFFER, ctypes.addressof(content), _BUFFER_BYTES, ctypes.addressof(size), _END
    )
    return ctypes.addressof(parts), (content, size, parts)
