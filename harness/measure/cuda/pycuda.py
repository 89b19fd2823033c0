"""NVIDIA's driver through PyCUDA: the calls of harness.measure.cuda.bindings."""

from __future__ import annotations

import atexit
import contextlib
import importlib
from typing import Any

import numpy as np

from harness.measure.cuda.bindings import LaunchShape, SharedWords
from harness.measure.device.memory import Array


class PyCudaDriver:
    """PyCUDA, which makes no cooperative launches; raises ImportError where it is missing."""

    is_cooperative = False

    def __init__(self) -> None:
        self._pycuda = importlib.import_module("pycuda.driver")
        version = importlib.import_module("pycuda").VERSION_TEXT
        toolkit = ".".join(map(str, self._pycuda.get_version()[:2]))
        self.package = f"PyCUDA {version}, built with CUDA {toolkit}"
        self.error: type[Exception] = self._pycuda.Error
        self._device: Any = None

    def open(self, ordinal: int) -> None:
        self._pycuda.init()
        self._device = self._pycuda.Device(ordinal)
        context = self._device.retain_primary_context()
        context.push()
        # Otherwise PyCUDA aborts the process at its end ("context stack was not empty"), and would
        # detach later, which fails for a primary context.
        atexit.register(_leave, context, self.error)

    def synchronize(self) -> None:
        self._pycuda.Context.synchronize()

    def device_attribute(self, name: str) -> int:
        return int(self._device.get_attribute(getattr(self._pycuda.device_attribute, name)))

    def free_bytes(self) -> int:
        return int(self._pycuda.mem_get_info()[0])

    def allocate(self, size_bytes: int) -> Any:
        return self._pycuda.mem_alloc(size_bytes)  # collects garbage and tries again

    def part(self, memory: Any, offset: int, size_bytes: int) -> Any:
        return int(memory) + offset

    def write(self, memory: Any, array: Array, offset: int = 0) -> None:
        self._pycuda.memcpy_htod(int(memory) + offset, array)

    def read(self, array: Array, memory: Any, offset: int = 0) -> None:
        self._pycuda.memcpy_dtoh(array, int(memory) + offset)

    def fill(self, memory: Any, byte: int, size_bytes: int, offset: int = 0) -> None:
        self._pycuda.memset_d8_async(int(memory) + offset, byte, size_bytes, None)

    def copy(self, memory: Any, source: Any, size_bytes: int, offset: int = 0) -> None:
        self._pycuda.memcpy_dtod(int(memory) + offset, int(source), size_bytes)

    def free(self, memory: Any, part: Any = None) -> None:
        memory.free()

    def share_words(self, count: int) -> SharedWords:
        flags = self._pycuda.host_alloc_flags.DEVICEMAP
        words = self._pycuda.pagelocked_zeros(count, np.uint64, mem_flags=flags)
        return SharedWords(words, int(words.base.get_device_pointer()))

    def load(self, image: bytes) -> Any:
        return self._pycuda.module_from_buffer(image)

    def function(self, module: Any, symbol: str) -> Any:
        return module.get_function(symbol)

    def variable(self, module: Any, symbol: str) -> tuple[int, int]:
        address, size_bytes = module.get_global(symbol)
        return int(address), int(size_bytes)

    def function_attribute(self, function: Any, name: str) -> int:
        return int(function.get_attribute(getattr(self._pycuda.function_attribute, name)))

    def set_function_attribute(self, function: Any, name: str, value: int) -> None:
        function.set_attribute(getattr(self._pycuda.function_attribute, name), value)

    def launch(self, function: Any, shape: LaunchShape, arguments: bytes) -> None:
        if shape.cooperative:
            raise NotImplementedError(f"{self.package} makes no cooperative launches")
        # PyCUDA's formats of arguments have neither bool nor half, and its prepared calls set the
        # group first, by another call of the driver.
        function._launch_kernel(shape.grid, shape.group, arguments, shape.shared_bytes, None)

    def event(self) -> Any:
        return self._pycuda.Event()

    def record(self, event: Any) -> None:
        event.record()

    def elapsed_s(self, start: Any, stop: Any) -> float:
        return float(stop.time_since(start)) * 1e-3


def _leave(context: Any, error: type[Exception]) -> None:
    with contextlib.suppress(error):  # the context may be lost
        context.pop()
        context.detach()
