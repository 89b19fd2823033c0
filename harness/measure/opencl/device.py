"""Run OpenCL kernels, on a GPU or with PoCL on the CPU."""

from __future__ import annotations

import json
import math
import os
import statistics
import time
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.core.errors import BackendUnavailable, BuildFailed, LaunchFailed
from harness.core.program import Binary, Launch
from harness.core.records import (
    DEVICE_TIMER,
    DEVICE_UUID,
    HOST_TIMER,
    WARM,
    DeviceLimits,
    Environment,
)
from harness.core.text import command_line, format_time
from harness.measure.device.device import Device
from harness.measure.listed_device import ListedDevice
from harness.measure.opencl.driver import (
    POCL,
    build_program,
    cpu_parts,
    device_of,
    load_pyopencl,
)
from harness.measure.opencl.module import OpenClModule

_FLUSH_SOURCE = "kernel void flush(global ulong8 *memory) { memory[get_global_id(0)] = 0; }"
"""A kernel that writes to more memory than the caches hold, on all threads of the device: the
driver's own filling runs on one thread of PoCL, whose others keep what their own caches hold.
"""

_WORK_SOURCE = """
kernel void work() {
    int x = 1;
    for (int i = 0; i < 16384; i++) x = x * x + i;
    volatile int result = x;
}
"""
"""A kernel that gives one thread some 20 us of work, without memory. Meanwhile the host queues a
launch: that takes it some 10 us."""

_SHORT_S = 1e-3
"""PoCL wakes its threads in some 3 us: less than 0.5 % of a longer launch."""

_LINE_BYTES = 64  # of a ulong8

_GPU_CACHE_BYTES = 1 << 27
"""Some drivers state the size of a GPU's first cache. No last one is larger than twice this."""

_LAUNCHES = 20
_LONGEST_LAUNCHING_S = 1e-3
"""What launching takes is in the times of the host's clock; where it is longer than this, it would
hide what distinguishes configurations."""

_MAX_GRID = 2**31 - 1
_KEPT_PROGRAMS = 128  # each input is measured with mostly the same configurations


class OpenClDevice(Device):
    """One OpenCL device.

    Times are those of events, from start to end. A GPU's driver takes both on the device around one
    launch, so that they hold no work of the host: nothing must hold the device back, as with CUDA.
    PoCL wakes its threads within that time if it has no work: so a CPU gets some before short ones.
    """

    def __init__(self, listed: ListedDevice, cache: str = WARM) -> None:
        """`cache` is WARM or COLD, what runs find in the device's caches."""
        self._cl = cl = load_pyopencl()
        super().__init__(cl.Error, "queue", cache)
        self._listed = listed
        self._device = device_of(cl, listed)
        self._context = cl.Context([self._device])
        profiling = cl.command_queue_properties.PROFILING_ENABLE
        self._queue = cl.CommandQueue(self._context, properties=profiling)
        self._program = lru_cache(maxsize=_KEPT_PROGRAMS)(self._make_program)
        self._timer = DEVICE_TIMER

    def environment(self, compiler: str) -> Environment:
        """Return the device with its compute units, platform, driver and compiler."""
        device, units = self._device, self._device.max_compute_units
        return Environment(
            backend="opencl",
            device=f"{device.name.strip()}, {units} compute units{self._unpinned()}",
            platform=device.platform.name.strip(),
            driver=device.driver_version,
            compiler=compiler,
            cache=self._cache,
            timer=self._timer,
            notes={"global_memory_bytes": str(device.global_mem_size), **self._which()},
        )

    def _which(self) -> dict[str, str]:
        """Return the note of which of several devices of one name this is."""
        one_of_several = self._listed.bus_id or (self._listed.index if cpu_parts() > 1 else "")
        return {DEVICE_UUID: one_of_several} if one_of_several else {}

    def _unpinned(self) -> str:
        """Return a note on a CPU whose threads the user left unpinned: its times differ."""
        free = self.shares_cpu and os.environ.get("POCL_AFFINITY") != "1"
        return ", threads not pinned" if free else ""

    @cached_property
    def limits(self) -> DeviceLimits:
        """The limits that the driver reports; OpenCL limits the grid only by its index type."""
        dims = [*self._device.max_work_item_sizes, 1, 1][:3]
        return DeviceLimits(
            max_group_size=int(self._device.max_work_group_size),
            max_group_dims=(int(dims[0]), int(dims[1]), int(dims[2])),
            max_grid_dims=(_MAX_GRID, _MAX_GRID, _MAX_GRID),
            max_local_bytes=int(self._device.local_mem_size),
            compute_units=int(self._device.max_compute_units),
            warp_size=self._warp_size(),
        )

    def _warp_size(self) -> int:
        """Return the warp size, from NVIDIA's or AMD's extension; 1 for a CPU, which has none."""
        for attribute in ("warp_size_nv", "wavefront_width_amd"):
            try:
                return int(getattr(self._device, attribute))
            except (AttributeError, self._cl.Error):
                continue
        return 1

    @property
    def shares_cpu(self) -> bool:
        """Whether the device is the CPU itself, as with PoCL."""
        return bool(self._device.type & self._cl.device_type.CPU)

    def _allocated(self, size_bytes: int) -> Any:
        return self._cl.Buffer(self._context, self._cl.mem_flags.READ_WRITE, size_bytes)

    def _inside(self, memory: Any, offset: int, size_bytes: int) -> Any:
        return memory.get_sub_region(offset, size_bytes, self._cl.mem_flags.READ_WRITE)

    def _write(self, memory: Any, offset: int, array: npt.NDArray[Any]) -> None:
        self._cl.enqueue_copy(self._queue, memory, array, dst_offset=offset, is_blocking=True)

    def _read(self, array: npt.NDArray[Any], memory: Any, offset: int) -> None:
        self._cl.enqueue_copy(self._queue, array, memory, src_offset=offset, is_blocking=True)

    def _fill(self, memory: Any, offset: int, byte: int, size_bytes: int) -> None:
        self._cl.enqueue_fill_buffer(self._queue, memory, np.uint8(byte), offset, size_bytes)

    def _copy(self, memory: Any, offset: int, source: Any, size_bytes: int) -> None:
        self._cl.enqueue_copy(self._queue, memory, source, byte_count=size_bytes, dst_offset=offset)

    def _free(self, whole: Any, part: Any = None) -> None:
        if part is not None:
            part.release()
        whole.release()

    def _timed_fill(self, memory: Any, size_bytes: int) -> float:
        begin_s = time.perf_counter()
        event = self._cl.enqueue_fill_buffer(self._queue, memory, np.uint8(0), 0, size_bytes)
        return self._elapsed_s(event, begin_s)

    def _elapsed_s(self, event: Any, begin_s: float) -> float:
        """Wait for what was queued at a moment; return the seconds that it took."""
        event.wait()
        if self._timer == HOST_TIMER:
            return time.perf_counter() - begin_s
        return float(event.profile.end - event.profile.start) * 1e-9

    def _time_by_host(self, why: str) -> None:
        """Take the host's clock; raises BackendUnavailable where launching takes too long."""
        self._timer = HOST_TIMER
        memory = self._allocated(_LINE_BYTES)
        try:
            fills_s = [self._timed_fill(memory, _LINE_BYTES) for _ in range(_LAUNCHES)]
        finally:
            self._free(memory)
        launching_s = statistics.median(fills_s)
        took = format_time(launching_s)
        if launching_s > _LONGEST_LAUNCHING_S:
            raise BackendUnavailable(
                f"{why}, so that it cannot be right, and the host's clock is too coarse: to launch "
                f"takes {took}. Name another device with --device; `{command_line('devices')}` "
                "lists them"
            )
        self.notices.append(
            f"{why}, so that it cannot be right: times are those of the host's clock around "
            f"finished launches, with the {took} that launching takes"
        )

    @property
    def _stated_tick_s(self) -> float:
        return float(self._device.profiling_timer_resolution) * 1e-9

    @property
    def _cache_bytes(self) -> int:
        stated = int(self._device.global_mem_cache_size)
        return stated if self.shares_cpu and stated else max(stated, _GPU_CACHE_BYTES)

    def _empty_caches(self, memory: Any, size_bytes: int) -> None:
        self._flush.set_args(memory)
        lines = size_bytes // _LINE_BYTES
        self._cl.enqueue_nd_range_kernel(self._queue, self._flush, (lines,), None)

    @cached_property
    def _flush(self) -> Any:
        """The kernel that empties the caches."""
        program = self._cl.Program(self._context, _FLUSH_SOURCE).build(cache_dir=False)
        return self._cl.Kernel(program, "flush")

    @cached_property
    def _work(self) -> Any:
        """The kernel that a CPU runs while the host queues a launch."""
        program = self._cl.Program(self._context, _WORK_SOURCE).build(cache_dir=False)
        return self._cl.Kernel(program, "work")

    def _wait(self) -> None:
        self._queue.finish()

    def _is_out_of_memory(self, error: Exception) -> bool:
        # NVIDIA's OUT_OF_RESOURCES has other causes too, such as too many registers.
        codes, code = self._cl.status_code, getattr(error, "code", None)
        return code in (
            codes.MEM_OBJECT_ALLOCATION_FAILURE,
            codes.OUT_OF_HOST_MEMORY,
            codes.INVALID_BUFFER_SIZE,  # of one array alone
        )

    def _describe_memory(self) -> str:
        total, most = self._device.global_mem_size, self._device.max_mem_alloc_size
        return (
            f"Of the device's {total:,} bytes harness holds {self._held_bytes:,}; other programs "
            f"may hold the rest, and one array may have {most:,}"
        )

    def load(self, binary: Binary) -> OpenClModule:
        """Load a program, or return one of the last loaded ones.

        PoCL builds it again from its cache, which can take longer than all its launches.
        """
        try:
            with self._errors("loading the binary"):
                return self._program(binary.data)
        except (BuildFailed, ValueError) as error:
            raise LaunchFailed(f"the binary cannot be loaded: {error}") from None

    def unload(self) -> None:
        """Forget the programs that were loaded last; PoCL's stay.

        PoCL keeps the machine code of a program mapped where it first loaded it, so a new load
        would move nothing, and building the program again takes 20 ms or more.
        """
        if self._device.platform.name.strip() != POCL:
            self._program.cache_clear()

    def _make_program(self, content: bytes) -> OpenClModule:
        cl = self._cl
        kind, data = content[:1], content[1:]
        if kind == b"S":
            source = json.loads(data)
            program, options = cl.Program(self._context, source["text"]), source["options"]
        else:
            program, options = cl.Program(self._context, [self._device], [data]), []
        built = build_program(cl, program, options)
        return OpenClModule(cl, self._device, built, self.limits, self._errors)

    def launch(self, module: OpenClModule, launches: Sequence[Launch]) -> float:
        """Run the launches in order; return the sum of their events' times in seconds."""
        return math.fsum([self._launch(module, launch) for launch in launches])

    def _launch(self, module: OpenClModule, launch: Launch) -> float:
        kernel, values, size = module.checked(launch, self._arguments)
        shape = launch.function, launch.group
        last_s = module.last_s.get(shape)  # None at the first launch, at which PoCL compiles
        is_short = last_s is not None and last_s < _SHORT_S
        with self._errors(launch.function):
            kernel.set_args(*values)
            self._before_launch()
            if self._timer == HOST_TIMER or self._compares_clocks:
                self._wait()  # the caches are empty when the host's clock starts
            if is_short and self.shares_cpu and self._timer == DEVICE_TIMER:
                self._cl.enqueue_nd_range_kernel(self._queue, self._work, (1,), (1,))
            begin_s = time.perf_counter()
            event = self._cl.enqueue_nd_range_kernel(self._queue, kernel, size, launch.group)
            elapsed_s = self._elapsed_s(event, begin_s)
        if self._timer == DEVICE_TIMER and last_s is not None:
            self._compare_clocks(elapsed_s, begin_s, launches=1)
        module.last_s[shape] = elapsed_s
        return elapsed_s
