"""OpenCL through PyOpenCL: a GPU platform where there is one, else PoCL on the CPU.

The only door to pyopencl, which is imported when a device or a compiler is opened.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.backends.base import Argument, Binary, Launch, Program
from harness.buildcache import cache_folder
from harness.errors import BackendUnavailable, BuildFailed, LaunchFailed
from harness.records import Build, DeviceLimits, Environment

_INSTALL = 'install it with `pip install "harness[opencl]"`, which brings PoCL along'
_MAX_GRID = 2**31 - 1


def _pyopencl() -> ModuleType:
    # PoCL keeps the work-group functions that it compiles at first launches here.
    os.environ.setdefault("POCL_CACHE_DIR", str(cache_folder("pocl")))
    # PoCL's threads are pinned: left alone, the scheduler often wakes two of them on one core,
    # and a launch on two cores then takes exactly twice as long, for seconds on end.
    os.environ.setdefault("POCL_AFFINITY", "1")
    try:
        import pyopencl
    except ImportError as error:
        raise BackendUnavailable(f"PyOpenCL is missing ({error}); {_INSTALL}") from None
    return pyopencl


@dataclass(frozen=True)
class DeviceName:
    """Which OpenCL device: its platform and place in it, and what people call it."""

    platform: str
    index: int
    name: str
    is_gpu: bool


def list_devices() -> list[DeviceName]:
    """Every OpenCL device there is, GPUs first; raises BackendUnavailable without PyOpenCL."""
    cl = _pyopencl()
    try:
        platforms = cl.get_platforms()
    except cl.Error:
        return []
    found = [
        DeviceName(
            platform.name, index, device.name.strip(), bool(device.type & cl.device_type.GPU)
        )
        for platform in platforms
        for index, device in enumerate(platform.get_devices())
    ]
    return sorted(found, key=lambda device: not device.is_gpu)


def find_device() -> DeviceName:
    """The first GPU, or else the first device; raises BackendUnavailable where there is none."""
    devices = list_devices()
    if not devices:
        raise BackendUnavailable(f"PyOpenCL is here, but no OpenCL platform is; {_INSTALL}")
    return devices[0]


def _device_of(cl: ModuleType, name: DeviceName) -> Any:
    for platform in cl.get_platforms():
        if platform.name == name.platform:
            return platform.get_devices()[name.index]
    raise BackendUnavailable(f"the OpenCL platform {name.platform} is gone; run the command again")


def _identity(device: Any) -> str:
    return f"{device.platform.version.strip()}, {device.name.strip()}, {device.driver_version}"


class OpenClCompiler:
    """Builds programs for one device.

    On PoCL the binary is the source itself: PoCL keeps its own code beside our cache, and to
    extract a binary costs a second compilation (0.5 s), since it compiles for any group size.
    """

    def __init__(self, name: DeviceName) -> None:
        self._cl = _pyopencl()
        self._device = _device_of(self._cl, name)
        self._context = self._cl.Context([self._device])
        self._keeps_source = "PoCL" in self._device.platform.version

    @property
    def identity(self) -> str:
        """Platform version, device and driver version."""
        return _identity(self._device)

    def compile(self, program: Program) -> Binary:
        """Build for the device; raises BuildFailed with the driver's log."""
        started = time.perf_counter()
        options = _options(program)
        built = _build(self._cl, self._cl.Program(self._context, program.text), options)
        elapsed_s = time.perf_counter() - started
        data, sha256 = _source_data(program.text, options), None
        if not self._keeps_source:
            (code,) = built.get_info(self._cl.program_info.BINARIES)
            data, sha256 = b"B" + code, hashlib.sha256(code).hexdigest()
        build = Build(
            key=program.key(self.identity),
            options=" ".join(program.options),
            compiler=self.identity,
            compile_s=elapsed_s,
            binary_sha256=sha256,
            shared_bytes=self._shared_bytes(built),
            log=built.get_build_info(self._device, self._cl.program_build_info.LOG).strip(),
        )
        return Binary(build, data)

    def _shared_bytes(self, built: Any) -> int:
        """The largest statically allocated local memory of the program's kernels."""
        info = self._cl.kernel_work_group_info.LOCAL_MEM_SIZE
        kernels = built.all_kernels()
        return max((int(k.get_work_group_info(info, self._device)) for k in kernels), default=0)


def _options(program: Program) -> list[str]:
    includes = [option for folder in program.include_dirs for option in ("-I", folder)]
    return [*includes, *program.options]


def _source_data(text: str, options: Sequence[str]) -> bytes:
    return b"S" + json.dumps({"text": text, "options": list(options)}).encode()


def _build(cl: ModuleType, program: Any, options: Sequence[str]) -> Any:
    """Build quietly: the log is kept, not printed, and PyOpenCL's own cache is left alone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return program.build(list(options), cache_dir=False)
        except cl.Error as error:
            raise BuildFailed(_log_of(error)) from None


def _log_of(error: Exception) -> str:
    """The compiler's part of PyOpenCL's message."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    kept = [line for line in lines if not line.startswith(("Build on", "(options:", "=====", "("))]
    return "\n".join(kept).strip() or str(error)


class OpenClDevice:
    """One OpenCL device; times are the events' from start to end."""

    def __init__(self, name: DeviceName) -> None:
        self._cl = _pyopencl()
        cl = self._cl
        self._device = _device_of(cl, name)
        self._context = cl.Context([self._device])
        profiling = cl.command_queue_properties.PROFILING_ENABLE
        self._queue = cl.CommandQueue(self._context, properties=profiling)
        self._buffers: dict[str, Any] = {}
        self._arrays: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {}
        self._scalars: dict[str, np.generic] = {}

    @property
    def environment(self) -> Environment:
        """Device with its compute units, platform, driver and compiler."""
        device = self._device
        return Environment(
            backend="opencl",
            device=f"{device.name.strip()}, {device.max_compute_units} compute units",
            platform=device.platform.name.strip(),
            driver=device.driver_version,
            compiler=_identity(device),
            notes={"global_memory_bytes": str(device.global_mem_size)},
        )

    @property
    def limits(self) -> DeviceLimits:
        """What the driver tells; OpenCL bounds the grid only by its index type."""
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
        """NVIDIA's and AMD's extensions tell it; a CPU has none, which is 1."""
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

    @property
    def healthy(self) -> bool:
        """OpenCL contexts survive failed launches."""
        return True

    def bind(self, arguments: Mapping[str, Argument]) -> None:
        """Allocate and copy; arguments bound before are given back."""
        cl = self._cl
        self._release()
        try:
            for name, value in arguments.items():
                if isinstance(value, np.ndarray):
                    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
                    self._buffers[name] = cl.Buffer(self._context, flags, hostbuf=value)
                    self._arrays[name] = (value.shape, value.dtype)
                else:
                    self._scalars[name] = value
        except cl.Error as error:
            raise LaunchFailed(f"the arguments do not fit on the device: {error}") from None

    def write(self, name: str, array: npt.NDArray[Any]) -> None:
        """Overwrite one array argument and wait."""
        try:
            self._cl.enqueue_copy(self._queue, self._buffers[name], array, is_blocking=True)
        except self._cl.Error as error:
            raise LaunchFailed(f"writing `{name}`: {error}") from None

    def read(self, name: str) -> npt.NDArray[Any]:
        """A copy of one array argument."""
        shape, dtype = self._arrays[name]
        array = np.empty(shape, dtype)
        try:
            self._cl.enqueue_copy(self._queue, array, self._buffers[name], is_blocking=True)
        except self._cl.Error as error:
            raise LaunchFailed(f"reading `{name}`: {error}") from None
        return array

    def load(self, binary: Binary) -> object:
        """A program ready to launch; on PoCL built again from its cache."""
        cl = self._cl
        kind, data = binary.data[:1], binary.data[1:]
        try:
            if kind == b"S":
                source = json.loads(data)
                program = cl.Program(self._context, source["text"])
                return _build(cl, program, source["options"])
            return _build(cl, cl.Program(self._context, [self._device], [data]), [])
        except (BuildFailed, cl.Error) as error:
            raise LaunchFailed(f"the binary cannot be loaded: {error}") from None

    def launch(self, module: object, launches: Sequence[Launch]) -> float:
        """Run in order; the sum of the kernels' times in seconds, by their events."""
        return math.fsum(self._launch(module, launch) for launch in launches)

    def _launch(self, module: Any, launch: Launch) -> float:
        cl = self._cl
        try:
            kernel = cl.Kernel(module, launch.function)
            self._check_local_memory(kernel)
            # The values stay referenced until the launch has ended; PoCL crashes otherwise.
            values = [self._buffers.get(n, self._scalars.get(n)) for n in launch.arguments]
            kernel.set_args(*values)
            size = tuple(g * n for g, n in zip(launch.group, launch.grid, strict=True))
            event = cl.enqueue_nd_range_kernel(self._queue, kernel, size, launch.group)
            event.wait()
            return float(event.profile.end - event.profile.start) * 1e-9
        except (cl.Error, TypeError, struct.error) as error:
            raise LaunchFailed(f"{launch.function}: {error}") from None

    def _check_local_memory(self, kernel: Any) -> None:
        info = self._cl.kernel_work_group_info.LOCAL_MEM_SIZE
        wanted = int(kernel.get_work_group_info(info, self._device))
        there = int(self._device.local_mem_size)
        if wanted > there:
            raise LaunchFailed(
                f"it needs {wanted:,} bytes of local memory a group, but the device has {there:,}"
            )

    def _release(self) -> None:
        for buffer in self._buffers.values():
            buffer.release()
        self._buffers, self._arrays, self._scalars = {}, {}, {}

    def close(self) -> None:
        """Give the buffers back."""
        self._release()
