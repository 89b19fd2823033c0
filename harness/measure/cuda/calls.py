"""The calls of NVIDIA's driver that harness makes, whichever Python package makes them."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

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


class CudaDriver(Protocol):
    """NVIDIA's driver with one device open, in the driver's own terms.

    Modules, functions, memory and events are the package's own objects. A module is unloaded when
    neither it nor a function of it is used any more. `package` is the Python package and its
    version, `error` the base class of its errors, which every call may raise: the call that failed,
    and what the driver says. Where
    `is_cooperative`, the package can launch kernels whose groups wait for each other.
    """

    package: str
    error: type[Exception]
    is_cooperative: bool

    def open(self, ordinal: int) -> None:
        """Initialise the driver, and make a device's primary context current in this thread.

        It stays current until the process ends.
        """

    def synchronize(self) -> None:
        """Wait for the device; raises the error of what ran before."""

    def device_attribute(self, name: str) -> int:
        """Return an attribute by its name without CU_DEVICE_ATTRIBUTE_."""

    def free_bytes(self) -> int:
        """Return the bytes of the device's memory that are free."""

    def allocate(self, size_bytes: int) -> Any:
        """Return new device memory, of which int() is the address; `free` frees it."""

    def free(self, memory: Any) -> None:
        """Free device memory."""

    def write(self, address: int, array: npt.NDArray[Any]) -> None:
        """Copy a C-contiguous array to the device, and wait."""

    def read(self, array: npt.NDArray[Any], address: int) -> None:
        """Copy from the device into a C-contiguous array, and wait."""

    def copy(self, address: int, source: int, size_bytes: int) -> None:
        """Queue a copy within the device."""

    def fill(self, address: int, byte: int, size_bytes: int) -> None:
        """Queue the setting of bytes, by the call that never waits for the device."""

    def share_words(self, count: int) -> SharedWords:
        """Return new zeros that host and device share until the process ends."""

    def load(self, image: bytes) -> Any:
        """Load a module: a cubin, or PTX text with a zero byte at its end."""

    def function(self, module: Any, symbol: str) -> Any:
        """Return a kernel of a module."""

    def variable(self, module: Any, symbol: str) -> tuple[int, int]:
        """Return the address of a module's variable, and its bytes."""

    def function_attribute(self, function: Any, name: str) -> int:
        """Return an attribute by its name without CU_FUNC_ATTRIBUTE_."""

    def allow_dynamic_bytes(self, function: Any, size_bytes: int) -> None:
        """Let launches of a function have so much dynamic shared memory."""

    def prefer_carveout(self, function: Any, percent: int) -> None:
        """Prefer so much shared memory, in percent of the most, in a function's next launches."""

    def launch(self, function: Any, shape: LaunchShape, arguments: bytes) -> None:
        """Queue a kernel with its packed arguments, by one call of the driver."""

    def event(self) -> Any:
        """Return a new event, which lasts until the process ends."""

    def record(self, event: Any) -> None:
        """Queue an event."""

    def elapsed_s(self, start: Any, stop: Any) -> float:
        """Return the seconds between two events that have ended."""
