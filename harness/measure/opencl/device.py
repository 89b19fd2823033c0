"""Run OpenCL kernels, on a GPU or with PoCL on the CPU."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from harness.core.errors import BackendUnavailable, BuildFailed, LaunchFailed
from harness.core.program import Argument, Binary, Launch
from harness.core.records import (
    DEVICE_TIMER,
    DEVICE_UUID,
    HOST_TIMER,
    WARM,
    DeviceLimits,
    Environment,
)
from harness.core.text import command_line, format_time
from harness.measure.device.launch_checks import three
from harness.measure.device.launcher import Device
from harness.measure.device.memory import Array
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
_MOST_PROGRAMS = 128  # each input is measured with mostly the same configurations


class QueueMemory:
    """Buffers of an OpenCL context, through a queue."""

    def __init__(self, cl: Any, context: Any, queue: Any) -> None:
        self.error: type[Exception] = cl.Error
        self._cl = cl
        self._context = context
        self._queue = queue

    def allocate(self, size_bytes: int) -> Any:
        return self._cl.Buffer(self._context, self._cl.mem_flags.READ_WRITE, size_bytes)

    def part(self, memory: Any, offset: int, size_bytes: int) -> Any:
        return memory.get_sub_region(offset, size_bytes, self._cl.mem_flags.READ_WRITE)

    def write(self, memory: Any, array: Array, offset: int = 0) -> None:
        self._cl.enqueue_copy(self._queue, memory, array, dst_offset=offset, is_blocking=True)

    def read(self, array: Array, memory: Any, offset: int = 0) -> None:
        self._cl.enqueue_copy(self._queue, array, memory, src_offset=offset, is_blocking=True)

    def fill(self, memory: Any, byte: int, size_bytes: int, offset: int = 0) -> None:
        self._cl.enqueue_fill_buffer(self._queue, memory, np.uint8(byte), offset, size_bytes)

    def copy(self, memory: Any, source: Any, size_bytes: int, offset: int = 0) -> None:
        self._cl.enqueue_copy(self._queue, memory, source, byte_count=size_bytes, dst_offset=offset)

    def free(self, memory: Any, part: Any = None) -> None:
        if part is not None:
            part.release()
        memory.release()


class OpenClDevice(Device):
    """One OpenCL device.

    Times are those of events, from start to end. A GPU's driver takes both on the device around one
    launch, so that they include no work of the host: the device need not wait, as with CUDA. PoCL
    wakes its threads within that time if it has no work: so a CPU gets some before short launches.
    """

    def __init__(self, listed: ListedDevice, cache: str = WARM) -> None:
        """`cache` is WARM or COLD, what runs find in the device's caches."""
        self._cl = cl = load_pyopencl()
        self._listed = listed
        self._device = device_of(cl, listed)
        self._context = cl.Context([self._device])
        profiling = cl.command_queue_properties.PROFILING_ENABLE
        self._queue = cl.CommandQueue(self._context, properties=profiling)
        self._program = lru_cache(maxsize=_MOST_PROGRAMS)(self._make_program)
        self._timer = DEVICE_TIMER
        super().__init__(QueueMemory(cl, self._context, self._queue), "queue", cache)
        self.shares_cpu = bool(self._device.type & cl.device_type.CPU)  # as with PoCL
        self._stated_tick_s = self._device.profiling_timer_resolution * 1e-9

    def environment(self, compiler: str) -> Environment:
        """Return the device with its compute units, platform, driver and compiler."""
        device = self._device
        name = f"{device.name.strip()}, {device.max_compute_units} compute units"
        if self.shares_cpu and os.environ.get("POCL_AFFINITY") != "1":
            name += ", threads not pinned"  # times differ from those of pinned threads
        notes = {"global_memory_bytes": str(device.global_mem_size)}
        which = self._listed.bus_id
        if not which and cpu_parts() > 1:
            which = self._listed.index
        if which:
            notes[DEVICE_UUID] = which  # of several devices of one name
        return Environment(
            backend="opencl",
            device=name,
            platform=device.platform.name.strip(),
            driver=device.driver_version,
            compiler=compiler,
            cache=self._cache,
            timer=self._timer,
            notes=notes,
        )

    @cached_property
    def limits(self) -> DeviceLimits:
        """The limits that the driver reports; OpenCL limits the grid only by its index type."""
        device = self._device
        return DeviceLimits(
            max_group_size=device.max_work_group_size,
            max_group_dims=three(device.max_work_item_sizes),
            max_grid_dims=(_MAX_GRID, _MAX_GRID, _MAX_GRID),
            max_local_bytes=device.local_mem_size,
            compute_units=device.max_compute_units,
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

    # ---------------------------------------------------------------------------- programs

    def load(self, binary: Binary) -> OpenClModule:
        """Load a program, or return one of the last loaded ones.

        PoCL builds it again from its cache, which can take longer than all its launches.
        """
        try:
            with self.errors("loading the binary"):
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
        data = content[1:]
        options: list[str] = []
        if content.startswith(b"S"):
            source = json.loads(data)
            program = cl.Program(self._context, source["text"])
            options = source["options"]
        else:
            program = cl.Program(self._context, [self._device], [data])
        built = build_program(cl, program, options)
        return OpenClModule(cl, self._device, built, self.limits, self.errors)

    # ---------------------------------------------------------------------------- launches

    def bind(self, *sets: Mapping[str, Argument]) -> None:
        super().bind(*sets)
        if self._gives_work:
            _ = self._work  # compiled here, its time is no configuration's

    @property
    def _gives_work(self) -> bool:
        """Whether short launches wait behind work."""
        return self.shares_cpu and self._timer == DEVICE_TIMER

    def launch(self, module: OpenClModule, launches: Sequence[Launch]) -> float:
        """Run the launches in order; return the sum of their events' times in seconds."""
        total_s = 0.0
        for launch in launches:
            kernel, values, size = module.checked(launch, self.arguments.bound)
            shape = launch.function, launch.group
            last_s = module.last_s.get(shape)  # None at the first launch, at which PoCL compiles
            is_short = last_s is not None and last_s < _SHORT_S
            with self.errors(launch.function):
                kernel.set_args(*values)
                self._before_launch()
                if self._timer == HOST_TIMER or self._compares_clocks:
                    self._wait()  # the caches are empty when the host's clock starts
                if is_short and self._gives_work:
                    self._cl.enqueue_nd_range_kernel(self._queue, self._work, (1,), (1,))
                began_s = time.perf_counter()
                event = self._cl.enqueue_nd_range_kernel(self._queue, kernel, size, launch.group)
                elapsed_s = self._elapsed_s(event, began_s)
            if self._timer == DEVICE_TIMER and last_s is not None:
                self._compare_clocks(elapsed_s, began_s, launches=1)
            module.last_s[shape] = elapsed_s
            total_s += elapsed_s
        return total_s

    def _elapsed_s(self, event: Any, began_s: float) -> float:
        """Wait for what was queued at a moment; return the seconds that it took."""
        event.wait()
        if self._timer == HOST_TIMER:
            return time.perf_counter() - began_s
        return float(event.profile.end - event.profile.start) * 1e-9

    def _wait(self) -> None:
        self._queue.finish()

    # ---------------------------------------------------------------------------- clock, caches

    def _timed_fill(self, memory: Any, size_bytes: int) -> float:
        began_s = time.perf_counter()
        event = self._cl.enqueue_fill_buffer(self._queue, memory, np.uint8(0), 0, size_bytes)
        return self._elapsed_s(event, began_s)

    def _time_by_host(self, why: str) -> None:
        """Take the host's clock; raises BackendUnavailable where launching takes too long."""
        self._timer = HOST_TIMER
        fills_s = self._timed_fills([_LINE_BYTES] * _LAUNCHES)
        launching_s = statistics.median(fill_s for fill_s, _ in fills_s)
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
    def _cache_bytes(self) -> int:
        stated_bytes: int = self._device.global_mem_cache_size
        if self.shares_cpu and stated_bytes:
            return stated_bytes
        return max(stated_bytes, _GPU_CACHE_BYTES)

    def _empty_caches(self) -> None:
        self._flush.set_args(self._flush_memory)
        lines = self._flush_bytes // _LINE_BYTES
        self._cl.enqueue_nd_range_kernel(self._queue, self._flush, (lines,), None)

    @cached_property
    def _flush(self) -> Any:
        """The kernel that empties the caches."""
        program = self._cl.Program(self._context, _FLUSH_SOURCE).build(cache_dir=False)
        return self._cl.Kernel(program, "flush")

    @cached_property
    def _work(self) -> Any:
        """The kernel that a CPU runs while the host queues a launch. PoCL compiles it at its first
        launch, which takes a second where PoCL's cache is empty."""
        program = self._cl.Program(self._context, _WORK_SOURCE).build(cache_dir=False)
        kernel = self._cl.Kernel(program, "work")
        self._cl.enqueue_nd_range_kernel(self._queue, kernel, (1,), (1,))
        self._wait()
        return kernel

    def _why_full(self, error: Exception, allocated_bytes: int) -> str:
        codes = self._cl.status_code
        # NVIDIA's OUT_OF_RESOURCES has other causes too, such as too many registers.
        if getattr(error, "code", None) not in (
            codes.MEM_OBJECT_ALLOCATION_FAILURE,
            codes.OUT_OF_HOST_MEMORY,
            codes.INVALID_BUFFER_SIZE,  # of one array alone
        ):
            return ""
        device = self._device
        return (
            f"Of the device's {device.global_mem_size:,} bytes harness holds {allocated_bytes:,}; "
            "other programs may hold the rest, and one array may have "
            f"{device.max_mem_alloc_size:,}"
        )
