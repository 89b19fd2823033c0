"""NVIDIA's driver through PyCUDA."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import re
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.core.errors import BackendUnavailable
from harness.measure.backends.cuda_api import Shape, SharedWords
from harness.measure.backends.cuda_probe import LIBRARY

_PAST_ERRORS = 1000  # no error of the driver has this number or a higher one


def is_pycuda_there() -> bool:
    """Whether PyCUDA is installed."""
    return importlib.util.find_spec("pycuda") is not None


def load_pycuda() -> Any:
    """Import pycuda.driver, which initialises nothing; raises BackendUnavailable."""
    try:
        return importlib.import_module("pycuda.driver")
    except ImportError as error:
        if "undefined symbol: cu" in str(error):
            raise BackendUnavailable(
                f"PyCUDA needs a newer NVIDIA driver than this machine's: {error}. Update the "
                "driver, or rebuild PyCUDA with a CUDA toolkit that is no newer than the driver"
            ) from error
        raise BackendUnavailable(
            f"PyCUDA is installed but cannot be imported: {error}. Rebuild it for this machine: "
            "pip install --force-reinstall --no-cache-dir --no-binary pycuda pycuda"
        ) from error


class PyCudaDriver:
    """A `CudaDriver`; raises BackendUnavailable where PyCUDA cannot be imported."""

    def __init__(self) -> None:
        self._pycuda = load_pycuda()
        self._device: Any = None
        self._context: Any = None

    @property
    def package(self) -> str:
        """PyCUDA, its version, and the toolkit that it was built with."""
        version = importlib.import_module("pycuda").VERSION_TEXT
        toolkit = ".".join(map(str, self._pycuda.get_version()[:2]))
        return f"PyCUDA {version}, built with CUDA {toolkit}"

    @property
    def error(self) -> type[Exception]:
        """The base class of PyCUDA's errors."""
        kind: type[Exception] = self._pycuda.Error
        return kind

    def describe(self, error: Exception) -> str:
        """Return PyCUDA's text, which has the driver's, and the driver's name of the error."""
        text = str(error).removesuffix(" - ")  # an empty log of the driver's compiler
        said = re.search(r" failed: ([^\n]*?)(?: - |\n|$)", text)
        name = _error_names().get(said[1]) if said else None
        return f"{text} ({name})" if name else text

    def is_out_of_memory(self, error: Exception) -> bool:
        """Whether the device has no memory left."""
        return isinstance(error, self._pycuda.MemoryError)

    def version(self) -> int:
        """Return the newest CUDA that the driver supports."""
        return int(self._pycuda.get_driver_version())

    def init(self) -> None:
        """Initialise the driver."""
        self._pycuda.init()

    def open(self, ordinal: int) -> None:
        """Make a device's primary context current."""
        self._device = self._pycuda.Device(ordinal)
        self._context = self._device.retain_primary_context()
        self._context.push()

    def close(self) -> None:
        """Leave the context and release it.

        With a spoiled context, PyCUDA may abort the process when the interpreter ends ("context
        stack was not empty"): end such a process with `os._exit`.
        """
        self._context.pop()
        # Otherwise PyCUDA would detach later, which fails for a primary context.
        self._context.detach()

    def synchronize(self) -> None:
        """Wait for the device."""
        self._pycuda.Context.synchronize()

    def device_name(self) -> str:
        """Return the device's name."""
        return str(self._device.name())

    def pci_bus_id(self) -> str:
        """Return the device's place on the PCI bus."""
        return str(self._device.pci_bus_id())

    def device_attribute(self, name: str) -> int:
        """Return an attribute of the device."""
        return int(self._device.get_attribute(getattr(self._pycuda.device_attribute, name)))

    def memory_info(self) -> tuple[int, int]:
        """Return the free bytes and all bytes."""
        free, total = self._pycuda.mem_get_info()
        return int(free), int(total)

    def allocate(self, size_bytes: int) -> Any:
        """Return new device memory; without any, PyCUDA collects garbage and tries again."""
        return self._pycuda.mem_alloc(size_bytes)

    def free(self, memory: Any) -> None:
        """Free device memory."""
        memory.free()

    def write(self, address: int, array: npt.NDArray[Any]) -> None:
        """Copy an array to the device."""
        self._pycuda.memcpy_htod(address, array)

    def read(self, array: npt.NDArray[Any], address: int) -> None:
        """Copy from the device into an array."""
        self._pycuda.memcpy_dtoh(array, address)

    def copy(self, address: int, source: int, size_bytes: int) -> None:
        """Queue a copy within the device."""
        self._pycuda.memcpy_dtod(address, source, size_bytes)

    def fill(self, address: int, byte: int, size_bytes: int) -> None:
        """Queue the setting of bytes; the other memset may wait for the device."""
        self._pycuda.memset_d8_async(address, byte, size_bytes, None)

    def share_words(self, count: int) -> SharedWords:
        """Return new zeros that host and device share."""
        flags = self._pycuda.host_alloc_flags.DEVICEMAP
        words = self._pycuda.pagelocked_zeros(count, np.uint64, mem_flags=flags)
        return SharedWords(words, int(words.base.get_device_pointer()))

    def load(self, image: bytes) -> Any:
        """Load a module."""
        return self._pycuda.module_from_buffer(image)

    def function(self, module: Any, symbol: str) -> Any:
        """Return a kernel."""
        return module.get_function(symbol)

    def variable(self, module: Any, symbol: str) -> tuple[int, int]:
        """Return a variable's address and bytes."""
        address, size_bytes = module.get_global(symbol)
        return int(address), int(size_bytes)

    def function_attribute(self, function: Any, name: str) -> int:
        """Return an attribute of a kernel."""
        return int(function.get_attribute(getattr(self._pycuda.function_attribute, name)))

    def allow_dynamic_bytes(self, function: Any, size_bytes: int) -> None:
        """Let launches have so much dynamic shared memory."""
        names = self._pycuda.function_attribute
        function.set_attribute(names.MAX_DYNAMIC_SHARED_SIZE_BYTES, size_bytes)

    def prefer_carveout(self, function: Any, percent: int) -> None:
        """Prefer so much shared memory."""
        names = self._pycuda.function_attribute
        function.set_attribute(names.PREFERRED_SHARED_MEMORY_CARVEOUT, percent)

    def launch(
        self, function: Any, grid: Shape, group: Shape, arguments: bytes, shared_bytes: int
    ) -> None:
        """Queue a kernel.

        PyCUDA's formats of arguments have neither bool nor half, and its prepared calls set the
        group first, by another call of the driver.
        """
        function._launch_kernel(grid, group, arguments, shared_bytes, None)

    def event(self) -> Any:
        """Return a new event."""
        return self._pycuda.Event()

    def record(self, event: Any) -> None:
        """Queue an event."""
        event.record()

    def elapsed_s(self, start: Any, stop: Any) -> float:
        """Return the seconds between two events."""
        return float(stop.time_since(start)) * 1e-3


@lru_cache(maxsize=1)
def _error_names() -> dict[str, str]:
    """Return the driver's name of each error by its text, the one thing that PyCUDA passes on."""
    library = ctypes.CDLL(LIBRARY)
    name, text = ctypes.c_char_p(), ctypes.c_char_p()
    found: dict[str, str] = {}
    for code in range(1, _PAST_ERRORS):
        named = library.cuGetErrorName(code, ctypes.byref(name))
        said = library.cuGetErrorString(code, ctypes.byref(text))
        if not named and not said and name.value and text.value:
            found[text.value.decode()] = name.value.decode()
    return found
