"""The memory of a device: seven calls of its driver."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_ALIGNMENT_BYTES = 64


class DeviceMemory(Protocol):
    """What a driver does with a device's memory.

    Objects of the driver stand for memory. Offsets count from its beginning, in bytes. Every call
    may raise an `error`.
    """

    error: type[Exception]

    def allocate(self, size_bytes: int) -> Any:
        """Return new memory."""

    def part(self, memory: Any, offset: int, size_bytes: int) -> Any:
        """Return a part of memory as kernels take it."""

    def write(self, memory: Any, array: Array, offset: int = 0) -> None:
        """Copy an array in C order to the device, and wait."""

    def read(self, array: Array, memory: Any, offset: int = 0) -> None:
        """Copy from the device into an array in C order, and wait."""

    def fill(self, memory: Any, byte: int, size_bytes: int, offset: int = 0) -> None:
        """Set bytes on the device; need not wait."""

    def copy(self, memory: Any, source: Any, size_bytes: int, offset: int = 0) -> None:
        """Copy the start of `source` within the device; need not wait."""

    def free(self, memory: Any, part: Any = None) -> None:
        """Free memory, and the part of it that `part` returned."""


class NumpyMemory:
    """Memory of this process, in arrays of numpy."""

    error: type[Exception] = MemoryError

    def allocate(self, size_bytes: int) -> Any:
        memory = np.empty(size_bytes + _ALIGNMENT_BYTES, np.uint8)
        begin = -memory.ctypes.data % _ALIGNMENT_BYTES
        return memory[begin : begin + size_bytes]

    def part(self, memory: Any, offset: int, size_bytes: int) -> Any:
        return memory[offset : offset + size_bytes]

    def write(self, memory: Any, array: Array, offset: int = 0) -> None:
        memory[offset : offset + array.nbytes] = array.reshape(-1).view(np.uint8)

    def read(self, array: Array, memory: Any, offset: int = 0) -> None:
        array.reshape(-1).view(np.uint8)[:] = memory[offset : offset + array.nbytes]

    def fill(self, memory: Any, byte: int, size_bytes: int, offset: int = 0) -> None:
        memory[offset : offset + size_bytes] = byte

    def copy(self, memory: Any, source: Any, size_bytes: int, offset: int = 0) -> None:
        memory[offset : offset + size_bytes] = source[:size_bytes]

    def free(self, memory: Any, part: Any = None) -> None:
        """Do nothing: memory goes with the last array that is in it."""
