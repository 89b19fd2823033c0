"""Empty the caches of an OpenCL device between runs, so that a timed run finds none of its data."""

from __future__ import annotations

from typing import Any

_SOURCE = "kernel void flush(global ulong8 *memory) { memory[get_global_id(0)] = 0; }"
_LINE_BYTES = 64  # of a ulong8

_GPU_CACHE_BYTES = 1 << 27
"""Some drivers state the size of a GPU's first cache. No last one is larger than twice this."""


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
