"""Device memory of OpenCL: the driver's own, or memory of this process that PoCL's kernels use.

PoCL runs kernels on threads of this process, in the memory of its buffers. A copy through the
queue wakes these threads and then waits for them, which takes longer than most copies. So the
memory of PoCL's buffers is allocated here, as PoCL would allocate it, and read and written in
place. Caches are emptied between runs, so that a timed run finds none of its data there.
"""

from __future__ import annotations

import ctypes
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from harness.core.errors import LaunchFailed
from harness.core.machine import libc

_SOURCE = "kernel void flush(global ulong8 *memory) { memory[get_global_id(0)] = 0; }"
_LINE_BYTES = 64  # of a ulong8

_GPU_CACHE_BYTES = 1 << 27
"""Some drivers state the size of a GPU's first cache. No last one is larger than twice this."""

_ALIGNMENT = 128
"""PoCL aligns its own buffers so: where data lie can make a kernel faster or slower."""


class DeviceMemory(Protocol):
    """The memory of buffers. No kernel that uses a buffer may run meanwhile."""

    def allocate(self, size_bytes: int) -> Any:
        """Return a new buffer."""

    def free(self, buffer: Any) -> None:
        """Free a buffer, of which no part is left."""

    def write(self, buffer: Any, offset: int, array: npt.NDArray[Any]) -> None:
        """Copy a C-contiguous array into a buffer, and wait."""

    def read(self, array: npt.NDArray[Any], buffer: Any, offset: int) -> None:
        """Copy a part of a buffer into a C-contiguous array, and wait."""

    def fill(self, buffer: Any, offset: int, byte: int, size_bytes: int) -> None:
        """Set bytes of a buffer; need not wait."""

    def copy(self, buffer: Any, offset: int, source: Any, size_bytes: int) -> None:
        """Copy the start of another buffer; need not wait."""


class DriverMemory:
    """Memory of the driver, which is copied to and from through a queue; a `DeviceMemory`."""

    def __init__(self, cl: Any, context: Any, queue: Any) -> None:
        self._cl, self._context, self._queue = cl, context, queue

    def allocate(self, size_bytes: int) -> Any:
        return self._cl.Buffer(self._context, self._cl.mem_flags.READ_WRITE, size_bytes)

    def free(self, buffer: Any) -> None:
        buffer.release()

    def write(self, buffer: Any, offset: int, array: npt.NDArray[Any]) -> None:
        self._cl.enqueue_copy(self._queue, buffer, array, dst_offset=offset, is_blocking=True)

    def read(self, array: npt.NDArray[Any], buffer: Any, offset: int) -> None:
        self._cl.enqueue_copy(self._queue, array, buffer, src_offset=offset, is_blocking=True)

    def fill(self, buffer: Any, offset: int, byte: int, size_bytes: int) -> None:
        self._cl.enqueue_fill_buffer(self._queue, buffer, np.uint8(byte), offset, size_bytes)

    def copy(self, buffer: Any, offset: int, source: Any, size_bytes: int) -> None:
        self._cl.enqueue_copy(self._queue, buffer, source, byte_count=size_bytes, dst_offset=offset)


class ProcessMemory:
    """Memory of this process, which the kernels of its device use in place; a `DeviceMemory`."""

    def __init__(self, cl: Any, context: Any, queue: Any) -> None:
        self._cl, self._context, self._queue = cl, context, queue
        self._addresses: dict[Any, int] = {}

    def allocate(self, size_bytes: int) -> Any:
        flags, address = self._cl.mem_flags, _allocated(size_bytes)
        if address is None:  # the driver has an error for that
            self._cl.Buffer(self._context, flags.READ_WRITE, size_bytes).release()
            raise LaunchFailed("the memory was used up, and free again at once")
        memory = (ctypes.c_ubyte * size_bytes).from_address(address)
        try:
            buffer = self._cl.Buffer(
                self._context, flags.READ_WRITE | flags.USE_HOST_PTR, hostbuf=memory
            )
        except self._cl.Error:
            libc().free(address)
            raise
        self._addresses[buffer] = address
        return buffer

    def free(self, buffer: Any) -> None:
        self._queue.finish()  # what empties the caches may run, if the launch behind it was refused
        address = self._addresses.pop(buffer)
        buffer.release()
        libc().free(address)

    def write(self, buffer: Any, offset: int, array: npt.NDArray[Any]) -> None:
        ctypes.memmove(self._addresses[buffer] + offset, array.ctypes.data, array.nbytes)

    def read(self, array: npt.NDArray[Any], buffer: Any, offset: int) -> None:
        ctypes.memmove(array.ctypes.data, self._addresses[buffer] + offset, array.nbytes)

    def fill(self, buffer: Any, offset: int, byte: int, size_bytes: int) -> None:
        ctypes.memset(self._addresses[buffer] + offset, byte, size_bytes)

    def copy(self, buffer: Any, offset: int, source: Any, size_bytes: int) -> None:
        ctypes.memmove(self._addresses[buffer] + offset, self._addresses[source], size_bytes)


def _allocated(size_bytes: int) -> int | None:
    """Return the address of new memory; None where there is no room."""
    address = ctypes.c_void_p()
    sizes = ctypes.c_size_t(_ALIGNMENT), ctypes.c_size_t(size_bytes)
    failed = libc().posix_memalign(ctypes.byref(address), *sizes)
    return None if failed else address.value


def last_cache_bytes(device: Any, is_cpu: bool) -> int:
    """Return the size of a device's last cache; of a GPU, 128 MiB or more."""
    stated = int(device.global_mem_cache_size)
    return stated if is_cpu and stated else max(stated, _GPU_CACHE_BYTES)


class CacheFlush:
    """A kernel that writes to more memory than the caches hold, on all threads of the device.

    The driver's own filling of memory runs on one thread of PoCL, whose other threads keep what
    their own caches hold.
    """

    def __init__(self, cl: Any, context: Any, queue: Any) -> None:
        self._cl, self._queue = cl, queue
        program = cl.Program(context, _SOURCE).build(cache_dir=False)
        self._kernel = cl.Kernel(program, "flush")

    def queue(self, memory: Any, size_bytes: int) -> None:
        """Queue the kernel: what is queued next finds empty caches."""
        self._kernel.set_args(memory)
        lines = size_bytes // _LINE_BYTES
        self._cl.enqueue_nd_range_kernel(self._queue, self._kernel, (lines,), None)
