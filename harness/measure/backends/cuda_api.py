"""The calls of NVIDIA's driver that harness makes, whichever Python package makes them."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

Shape = tuple[int, int, int]

PACKAGE = "HARNESS_CUDA_PACKAGE"
"""The variable that names the package which calls the driver."""

PACKAGES = ("pycuda", "cuda-bindings")


class SharedWords(NamedTuple):
    """Numbers in the host's memory, and the address by which the device reads and writes them."""

    words: npt.NDArray[np.uint64]
    address: int


class CudaDriver(Protocol):
    """NVIDIA's driver with one device open, in the driver's own terms.

    Modules, functions, memory and events are the package's own objects. The driver frees what
    they stand for when nothing uses them any more. Every call may raise `error`.
    """

    @property
    def package(self) -> str:
        """The Python package and its version."""

    @property
    def error(self) -> type[Exception]:
        """The base class of the errors."""

    def describe(self, error: Exception) -> str:
        """Return the call that failed, what the driver says, and its name of the error."""

    def is_out_of_memory(self, error: Exception) -> bool:
        """Whether the device has no memory left."""

    def version(self) -> int:
        """Return the newest CUDA that the driver supports; 13020 is CUDA 13.2."""

    def init(self) -> None:
        """Initialise the driver in this process; a second call does nothing."""

    def open(self, ordinal: int) -> None:
        """Make a device's primary context current in this thread."""

    def close(self) -> None:
        """Leave the context and release it."""

    def synchronize(self) -> None:
        """Wait for the device; raises the error of what ran before."""

    def device_name(self) -> str:
        """Return the device's name."""

    def pci_bus_id(self) -> str:
        """Return the device's place on the PCI bus."""

    def device_attribute(self, name: str) -> int:
        """Return an attribute by its name without CU_DEVICE_ATTRIBUTE_."""

    def memory_info(self) -> tuple[int, int]:
        """Return the bytes of the device's memory that are free, and all of them."""

    def allocate(self, size_bytes: int) -> Any:
        """Return new device memory, of which int() is the address."""

    def free(self, memory: Any) -> None:
        """Free device memory now."""

    def write(self, address: int, array: npt.NDArray[Any]) -> None:
        """Copy a C-contiguous array to the device, and wait."""

    def read(self, array: npt.NDArray[Any], address: int) -> None:
        """Copy from the device into a C-contiguous array, and wait."""

    def copy(self, address: int, source: int, size_bytes: int) -> None:
        """Queue a copy within the device."""

    def fill(self, address: int, byte: int, size_bytes: int) -> None:
        """Queue the setting of bytes; never waits for the device."""

    def share_words(self, count: int) -> SharedWords:
        """Return new zeros that host and device share."""

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
        """Prefer so much of the L1 cache as shared memory in a function's next launches."""

    def launch(
        self, function: Any, grid: Shape, group: Shape, arguments: bytes, shared_bytes: int
    ) -> None:
        """Queue a kernel with its packed arguments, by one call of the driver."""

    def event(self) -> Any:
        """Return a new event."""

    def record(self, event: Any) -> None:
        """Queue an event."""

    def elapsed_s(self, start: Any, stop: Any) -> float:
        """Return the seconds between two events that have ended."""


@runtime_checkable
class CooperativeDriver(Protocol):
    """What a driver adds whose package has a call for cooperative launches."""

    def launch_cooperative(
        self, function: Any, grid: Shape, group: Shape, arguments: bytes, shared_bytes: int
    ) -> None:
        """Queue a kernel whose groups may wait for each other."""

    def groups_at_once(self, function: Any, group_size: int, shared_bytes: int) -> int:
        """Return how many groups of a kernel a multiprocessor holds at once."""


def no_cooperative(driver: CudaDriver) -> str:
    """Return why a driver makes no cooperative launches, and what to do."""
    return (
        f"{driver.package} has no call for that; set {PACKAGE}={PACKAGES[1]}, which "
        f"`pip install {PACKAGES[1]}` installs"
    )
