"""Run OpenCL kernels, on a GPU or with PoCL on the CPU."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from harness.core.errors import BuildFailed, LaunchFailed
from harness.core.kernel_name import plain_name
from harness.core.program import ANY_CARVEOUT, Binary, Launch
from harness.core.records import DEVICE_UUID, WARM, DeviceLimits, Environment
from harness.measure.device.base import three, why_unlaunchable
from harness.measure.device.driver_device import KEPT_LAUNCHES, DriverDevice
from harness.measure.device.guard_zones import BoundArray, StrayWrite
from harness.measure.opencl.arguments import KernelParameter, local_position, why_unfit
from harness.measure.opencl.driver import (
    DeviceName,
    build_program,
    cpu_parts,
    device_of,
    load_pyopencl,
)

POCL = "Portable Computing Language"
"""PoCL's name of its platform."""

_FLUSH_SOURCE = "kernel void flush(global ulong8 *memory) { memory[get_global_id(0)] = 0; }"
"""A kernel that writes to more memory than the caches hold, on all threads of the device: the
driver's own filling runs on one thread of PoCL, whose others keep what their own caches hold.
"""

_LINE_BYTES = 64  # of a ulong8

_GPU_CACHE_BYTES = 1 << 27
"""Some drivers state the size of a GPU's first cache. No last one is larger than twice this."""

_MAX_GRID = 2**31 - 1
_KEPT_PROGRAMS = 128  # each input is measured with mostly the same configurations


class _OpenClKernel(NamedTuple):
    """A kernel and its parameters; `group` is the only legal group size, (0, 0, 0) for any."""

    kernel: Any
    parameters: list[KernelParameter]
    group: tuple[int, ...]
    static_bytes: int  # of local memory


@dataclass
class _LoadedProgram:
    """A program on the device; each of its kernels is looked up once."""

    program: Any
    kernels: dict[str, _OpenClKernel] = field(default_factory=dict)


class _CheckedLaunch(NamedTuple):
    """A launch that fits its kernel and the arguments on the device, ready to be queued again.

    The ids of the arguments and of the launch stay while it is kept. So do the values until a
    launch has ended; PoCL crashes otherwise.
    """

    module: _LoadedProgram
    arguments: Mapping[str, object]
    launch: Launch
    kernel: Any
    values: list[Any]
    size: tuple[int, ...]


def last_cache_bytes(device: Any, is_cpu: bool) -> int:
    """Return the size of a device's last cache; of a GPU, 128 MiB or more."""
    stated = int(device.global_mem_cache_size)
    return stated if is_cpu and stated else max(stated, _GPU_CACHE_BYTES)


class OpenClDevice(DriverDevice):
    """One OpenCL device; a `Device`.

    Times are those of events, from start to end. The driver takes both on the device around one
    launch, so that they hold no work of the host: nothing must hold the device back, as with CUDA.
    """

    def __init__(self, name: DeviceName, cache: str = WARM) -> None:
        """`cache` is WARM or COLD, what runs find in the device's caches."""
        self._cl = cl = load_pyopencl()
        super().__init__(cl.Error, "queue", cache)
        self._name = name
        self._device = device_of(cl, name)
        self._context = cl.Context([self._device])
        profiling = cl.command_queue_properties.PROFILING_ENABLE
        self._queue = cl.CommandQueue(self._context, properties=profiling)
        self._program = lru_cache(maxsize=_KEPT_PROGRAMS)(self._make_program)
        self._checked: dict[tuple[int, int], _CheckedLaunch] = {}
        self._flush: Any = None  # the kernel that empties the caches

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
            notes={"global_memory_bytes": str(device.global_mem_size), **self._which()},
        )

    def _which(self) -> dict[str, str]:
        """Return the note of which of several devices of one name this is."""
        one_of_several = self._name.bus_id or (self._name.index if cpu_parts() > 1 else "")
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
        event = self._cl.enqueue_fill_buffer(self._queue, memory, np.uint8(0), 0, size_bytes)
        event.wait()
        return float(event.profile.end - event.profile.start) * 1e-9

    @property
    def _stated_tick_s(self) -> float:
        return float(self._device.profiling_timer_resolution) * 1e-9

    @property
    def _cache_bytes(self) -> int:
        return last_cache_bytes(self._device, self.shares_cpu)

    def _empty_caches(self, memory: Any, size_bytes: int) -> None:
        if self._flush is None:
            program = self._cl.Program(self._context, _FLUSH_SOURCE).build(cache_dir=False)
            self._flush = self._cl.Kernel(program, "flush")
        self._flush.set_args(memory)
        lines = size_bytes // _LINE_BYTES
        self._cl.enqueue_nd_range_kernel(self._queue, self._flush, (lines,), None)

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

    def stray_writes(self) -> list[StrayWrite]:
        """Return the stray writes, repair them, and note one that may have left its zone."""
        found = super().stray_writes()
        left = any(stray.leaves_zone for stray in found)
        self.overran = self.overran or (self.shares_cpu and left)
        return found

    @property
    def _is_pocl(self) -> bool:
        return bool(self._device.platform.name.strip() == POCL)

    def load(self, binary: Binary) -> object:
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
        if not self._is_pocl:
            self._program.cache_clear()

    def _make_program(self, content: bytes) -> _LoadedProgram:
        cl = self._cl
        kind, data = content[:1], content[1:]
        if kind == b"S":
            source = json.loads(data)
            program = cl.Program(self._context, source["text"])
            return _LoadedProgram(build_program(cl, program, source["options"]))
        program = cl.Program(self._context, [self._device], [data])
        return _LoadedProgram(build_program(cl, program, []))

    def launch(self, module: object, launches: Sequence[Launch]) -> float:
        """Run the launches in order; return the sum of their events' times in seconds."""
        if not isinstance(module, _LoadedProgram):
            raise TypeError(f"launch() takes what load() returned, but got {module!r}")
        return math.fsum([self._launch(module, launch) for launch in launches])

    def _launch(self, module: _LoadedProgram, launch: Launch) -> float:
        key = id(self._arguments), id(launch)
        checked = self._checked.get(key)
        if checked is None or checked.module is not module:
            if len(self._checked) == KEPT_LAUNCHES:
                self._checked.clear()
            checked = self._checked[key] = self._check(module, launch)
        kernel, size = checked.kernel, checked.size
        with self._errors(launch.function):
            kernel.set_args(*checked.values)
            self._before_launch()
            event = self._cl.enqueue_nd_range_kernel(self._queue, kernel, size, launch.group)
            event.wait()
            return float(event.profile.end - event.profile.start) * 1e-9

    def _check(self, module: _LoadedProgram, launch: Launch) -> _CheckedLaunch:
        """Look up what a launch needs; raises LaunchFailed where it does not fit its kernel."""
        kernel, parameters, group, static_bytes = self._kernel(module, launch.function)
        reason = why_unlaunchable(launch, self.limits, static_bytes)
        if launch.carveout != ANY_CARVEOUT:
            reason = f"{launch.function} has a carveout, which OpenCL cannot set"
        if reason:
            raise LaunchFailed(reason)
        if any(group) and group != three(launch.group):
            raise LaunchFailed(
                f"{launch.function} is compiled for groups of {group}, but the launch's are "
                f"{three(launch.group)}"
            )
        values = self._values(launch, parameters)
        size = tuple(g * n for g, n in zip(launch.group, launch.grid, strict=True))
        return _CheckedLaunch(module, self._arguments, launch, kernel, values, size)

    def _values(self, launch: Launch, parameters: Sequence[KernelParameter]) -> list[Any]:
        """Return the values to pass, checked: drivers crash on a number in place of an array."""
        local = local_position(launch, parameters)
        passed = [p for place, p in enumerate(parameters) if place != local]
        reason = why_unfit(launch, passed, self._arguments)
        if reason:
            raise LaunchFailed(reason)
        values = [
            each if isinstance(each, np.generic) else self._arguments[each]
            for each in launch.arguments
        ]
        found = [each.memory if isinstance(each, BoundArray) else each for each in values]
        if local is not None:
            found.insert(local, self._cl.LocalMemory(int(launch.shared_bytes)))
        return found

    def _kernel(self, module: _LoadedProgram, function: str) -> _OpenClKernel:
        if function not in module.kernels:
            with self._errors(f"looking up {function}"):
                kernel = self._cl.Kernel(module.program, plain_name(function))
                static_bytes = self._local_memory(kernel)
                group = self._ask(kernel, "COMPILE_WORK_GROUP_SIZE")
                module.kernels[function] = _OpenClKernel(
                    kernel, self._parameters(kernel), tuple(group), static_bytes
                )
        return module.kernels[function]

    def _ask(self, kernel: Any, name: str) -> Any:
        info = getattr(self._cl.kernel_work_group_info, name)
        return kernel.get_work_group_info(info, self._device)

    def _local_memory(self, kernel: Any) -> int:
        """Return the bytes that a kernel declares; raises LaunchFailed for too many."""
        wanted = int(self._ask(kernel, "LOCAL_MEM_SIZE"))
        if wanted > self.limits.max_local_bytes:
            raise LaunchFailed(
                f"it needs {wanted:,} bytes of local memory a group, but the device has "
                f"{self.limits.max_local_bytes:,}"
            )
        return wanted

    def _parameters(self, kernel: Any) -> list[KernelParameter]:
        """Return the kernel's parameters, as far as the driver describes them."""
        info, spaces = self._cl.kernel_arg_info, self._cl.kernel_arg_address_qualifier
        found = []
        for index in range(kernel.num_args):
            try:
                space = kernel.get_arg_info(index, info.ADDRESS_QUALIFIER)
                type_name = kernel.get_arg_info(index, info.TYPE_NAME)
            except self._cl.Error:  # for a binary, for instance
                found.append(KernelParameter())
            else:
                is_local = space == spaces.LOCAL
                found.append(KernelParameter(type_name, space != spaces.PRIVATE, is_local))
        return found
