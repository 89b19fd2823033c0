"""Run CUDA kernels.

An illegal address, a trap or a launch that times out spoils the process's context for good:
every later call fails. `CudaDevice` checks this after each failure and sets `healthy` to False.
Its process must then be replaced, since no new device in it would work.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.core.errors import BackendUnavailable, LaunchFailed
from harness.core.program import Binary, Launch
from harness.core.records import WARM, DeviceLimits, Environment
from harness.measure.backends.cuda import load_pycuda, meaning_of
from harness.measure.backends.cuda_driver import driver_version, require_driver
from harness.measure.backends.driver_device import BoundArray, DriverDevice
from harness.measure.backends.launch_checks import three, why_unlaunchable, why_unloadable

_KEPT_MODULES = 2  # of a configuration and its twin


@dataclass
class _LoadedModule:
    """A module on the device; each of its functions is looked up once."""

    module: Any
    functions: dict[str, Any] = field(default_factory=dict)


_Shape = tuple[int, int, int]
_PreparedLaunch = tuple[Any, _Shape, _Shape, bytes, int]
"""Function, grid, group, packed arguments and bytes of dynamic shared memory, so that little
happens between events."""


class CudaDevice(DriverDevice):
    """The first GPU, with its primary context current in the thread that opened it; a `Device`.

    Raises BackendUnavailable.
    """

    shares_cpu = False
    """Compilers may run while a kernel does."""

    def __init__(self, cache: str = WARM) -> None:
        """`cache` is WARM or COLD, what runs find in the GPU's caches."""
        require_driver()
        self._driver = load_pycuda()
        super().__init__(self._driver.Error, "context", cache)
        self._context: Any = None
        self._module = lru_cache(maxsize=_KEPT_MODULES)(self._make_module)
        try:
            self._driver.init()
            self._device = self._driver.Device(0)
            self._context = self._device.retain_primary_context()
            self._context.push()
        except self._driver.Error as error:
            raise BackendUnavailable(
                f"CUDA device 0 cannot be opened: {error}. Check nvidia-smi, "
                "and whether another process holds the device exclusively"
            ) from error

    @cached_property
    def limits(self) -> DeviceLimits:
        """The device's limits on a launch."""
        ask = self._attribute
        return DeviceLimits(
            max_group_size=ask("MAX_THREADS_PER_BLOCK"),
            max_group_dims=(
                ask("MAX_BLOCK_DIM_X"),
                ask("MAX_BLOCK_DIM_Y"),
                ask("MAX_BLOCK_DIM_Z"),
            ),
            max_grid_dims=(ask("MAX_GRID_DIM_X"), ask("MAX_GRID_DIM_Y"), ask("MAX_GRID_DIM_Z")),
            max_local_bytes=ask("MAX_SHARED_MEMORY_PER_BLOCK"),
            compute_units=ask("MULTIPROCESSOR_COUNT"),
            warp_size=ask("WARP_SIZE"),
            opt_in_local_bytes=ask("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        )

    def environment(self, compiler: str) -> Environment:
        """Return the device, the driver's CUDA version and own version, and the compiler."""
        with self._errors("describing the device"):
            api = f"CUDA {_cuda_version(self._driver.get_driver_version())}"
            return Environment(
                backend="cuda",
                device=self._device.name(),
                platform=api,
                driver=driver_version() or api,
                compiler=compiler,
                cache=self._cache,
                notes=self._notes(),
            )

    def load(self, binary: Binary) -> object:
        """Load the binary's module, or return it if it was loaded last.

        The first launch of new code is slow, which says nothing of how it treats new data.
        """
        reason = why_unloadable(binary.build, self.limits)
        if reason:
            raise LaunchFailed(reason)
        try:
            with self._errors("loading the binary"):
                return self._module(binary.data)
        except LaunchFailed as error:
            raise LaunchFailed(f"{error}{self._advice(binary.build.compiler)}") from None

    def _advice(self, compiler: str) -> str:
        """Return what to do where the compiler is of a later CUDA than the driver knows.

        A driver runs the code of every toolkit with its own major version or an earlier one.
        """
        with self._errors("asking for the driver's version"):
            version = self._driver.get_driver_version()
        toolkit = re.match(r"nvcc (\d+)\.", compiler)
        if toolkit is None or int(toolkit[1]) <= version // 1000:
            return ""
        return (
            f". This driver supports up to CUDA {_cuda_version(version)}, but the compiler is "
            f"{compiler}: update the driver, or set CUDACXX to an nvcc of CUDA {version // 1000}"
        )

    def unload(self) -> None:
        """Forget the modules that were loaded last."""
        self._module.cache_clear()

    def _make_module(self, data: bytes) -> _LoadedModule:
        return _LoadedModule(self._driver.module_from_buffer(data))

    def launch(self, module: object, launches: Sequence[Launch]) -> float:
        """Run the launches in order, wait, and return the sum of their device times in seconds.

        Each launch is between two events of its own, so that the host's work between launches does
        not count. With cold caches the device is busy emptying them while the host queues the first
        launches. With warm ones it waits for the host, and the time of a tiny kernel includes the
        launch latency of a few microseconds.
        """
        if not isinstance(module, _LoadedModule):
            raise TypeError(f"launch() takes what load() returned, but got {module!r}")
        prepared = [self._prepare(module, launch) for launch in launches]
        with self._errors("running " + ", ".join(launch.function for launch in launches)):
            events = [(self._driver.Event(), self._driver.Event()) for _ in prepared]
            self._before_launch()
            for one, (start, stop) in zip(prepared, events, strict=True):
                self._enqueue(one, start, stop)
            self._wait()
            return float(sum(stop.time_since(start) for start, stop in events)) * 1e-3

    def close(self) -> None:
        """Free the arguments and release the context; a second call does nothing.

        With a spoiled context, PyCUDA may abort the process when the interpreter ends ("context
        stack was not empty"): end such a process with `os._exit`.
        """
        if self._context is None:
            return
        context, self._context = self._context, None
        self.unload()
        if self.healthy:
            self._release_arguments()
        # In a spoiled context every call fails, and the process is about to end anyway.
        ignored = contextlib.nullcontext() if self.healthy else contextlib.suppress(LaunchFailed)
        with ignored, self._errors("closing the device"):
            context.pop()
            # Otherwise PyCUDA would detach later, which fails for a primary context.
            context.detach()

    def _notes(self) -> dict[str, str]:
        major, minor = self._device.compute_capability()
        return {
            "compute_capability": f"{major}.{minor}",
            "memory_bytes": str(self._device.total_memory()),
            "clock_khz": str(self._attribute("CLOCK_RATE")),
            "memory_clock_khz": str(self._attribute("MEMORY_CLOCK_RATE")),
            "pycuda_built_with": "CUDA " + ".".join(map(str, self._driver.get_version())),
        }

    def _attribute(self, name: str) -> int:
        with self._errors(f"asking for {name}"):
            return int(self._device.get_attribute(getattr(self._driver.device_attribute, name)))

    def _allocated(self, size_bytes: int) -> Any:
        return self._driver.mem_alloc(size_bytes)

    def _inside(self, memory: Any, offset: int, size_bytes: int) -> int:
        return int(memory) + offset

    def _write(self, memory: Any, offset: int, array: npt.NDArray[Any]) -> None:
        self._driver.memcpy_htod(int(memory) + offset, array)

    def _read(self, array: npt.NDArray[Any], memory: Any, offset: int) -> None:
        self._driver.memcpy_dtoh(array, int(memory) + offset)

    def _fill(self, memory: Any, offset: int, byte: int, size_bytes: int) -> None:
        self._driver.memset_d8(int(memory) + offset, byte, size_bytes)

    def _copy(self, memory: Any, offset: int, source: Any, size_bytes: int) -> None:
        self._driver.memcpy_dtod(int(memory) + offset, int(source), size_bytes)

    def _free(self, whole: Any, part: Any = None) -> None:
        whole.free()

    @property
    def _cache_bytes(self) -> int:
        return self._attribute("L2_CACHE_SIZE")

    def _wait(self) -> None:
        self._driver.Context.synchronize()

    def _meaning(self, error: Exception) -> str:
        return f"{meaning_of(error)}: "

    def _prepare(self, module: _LoadedModule, launch: Launch) -> _PreparedLaunch:
        function = self._function(module, launch.function)
        self._check_function(function, launch)
        packed = pack_arguments([self._passed(each, launch) for each in launch.arguments])
        # All arguments as one string of bytes: PyCUDA's formats have neither bool nor half.
        function.prepare([f"{len(packed)}s"])
        return function, three(launch.grid), three(launch.group), packed, int(launch.shared_bytes)

    def _function(self, module: _LoadedModule, name: str) -> Any:
        if name not in module.functions:
            with self._errors(f'looking up {name} (a kernel must be declared extern "C")'):
                module.functions[name] = module.module.get_function(name)
        return module.functions[name]

    def _check_function(self, function: Any, launch: Launch) -> None:
        """Raise LaunchFailed for a group that the device, the registers or launch bounds do not
        allow; let the function have its dynamic shared memory."""
        names = self._driver.function_attribute
        with self._errors(f"asking what {launch.function} needs"):
            most = function.get_attribute(names.MAX_THREADS_PER_BLOCK)
            registers = function.get_attribute(names.NUM_REGS)
            static_bytes = function.get_attribute(names.SHARED_SIZE_BYTES)
        reason = why_unlaunchable(launch, self.limits, static_bytes)
        if reason:
            raise LaunchFailed(reason)
        if static_bytes + launch.shared_bytes > self.limits.max_local_bytes:
            dynamic_bytes = int(launch.shared_bytes)
            with self._errors(f"giving {launch.function} {dynamic_bytes:,} bytes of shared memory"):
                function.set_attribute(names.MAX_DYNAMIC_SHARED_SIZE_BYTES, dynamic_bytes)
        x, y, z = three(launch.group)
        if x * y * z > most:
            raise LaunchFailed(
                f"group {(x, y, z)} of {launch.function} has {x * y * z:,} threads, but with "
                f"its {registers} registers and its launch bounds the kernel takes {most:,}"
            )

    def _passed(self, argument: str | np.generic, launch: Launch) -> np.generic:
        if isinstance(argument, np.generic):
            return argument
        if argument not in self._arguments:
            raise LaunchFailed(
                f"{launch.function} takes an argument {argument}, but bound are "
                f"{', '.join(self._arguments) or 'none'}"
            )
        value = self._arguments[argument]
        return np.uintp(value.memory) if isinstance(value, BoundArray) else value

    def _enqueue(self, prepared: _PreparedLaunch, start: Any, stop: Any) -> None:
        function, grid, group, packed, shared_bytes = prepared
        start.record()
        function.prepared_async_call(grid, group, None, packed, shared_size=shared_bytes)
        stop.record()


def _cuda_version(number: int) -> str:
    """Return the version that the driver writes as 12040: 12.4."""
    return f"{number // 1000}.{number % 1000 // 10}"


def pack_arguments(values: Sequence[np.generic]) -> bytes:
    """Return kernel arguments as the driver takes them: each at a multiple of its own size.

    This is the layout of C, and of CUDA's complex numbers (float2, double2), whose alignment
    is their size. Structures (numpy.void) have the alignment of their dtype.
    """
    packed = bytearray()
    for value in values:
        structure = isinstance(value, np.void)
        alignment = value.dtype.alignment if structure else value.dtype.itemsize
        packed += b"\0" * (-len(packed) % alignment)
        packed += value.tobytes()
    return bytes(packed)
