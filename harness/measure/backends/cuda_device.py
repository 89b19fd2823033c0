"""Run CUDA kernels.

An illegal address, a trap or a launch that times out spoils the process's context for good:
every later call fails. `CudaDevice` checks this after each failure and sets `healthy` to False.
Its process must then be replaced, since no new device in it would work.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from harness.core.errors import BackendUnavailable, LaunchFailed
from harness.core.program import Argument, Binary, Launch
from harness.core.records import DeviceLimits, Environment
from harness.measure.backends.cuda import load_pycuda, meaning_of, no_device
from harness.measure.backends.cuda_arguments import pack_arguments
from harness.measure.backends.cuda_driver import driver_version, require_driver
from harness.measure.backends.launch_checks import three, why_unlaunchable, why_unloadable
from harness.measure.backends.nvcc import Nvcc


@dataclass
class _LoadedModule:
    """A module on the device; each of its functions is looked up once."""

    module: Any
    functions: dict[str, Any] = field(default_factory=dict)


@dataclass
class _Bound:
    """An array argument: its device memory, and its shape and type on the host."""

    memory: Any
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    size_bytes: int


class _PreparedLaunch(NamedTuple):
    """A launch with everything looked up and packed, so that little happens between events."""

    function: Any
    grid: tuple[int, int, int]
    group: tuple[int, int, int]
    packed: bytes


class CudaDevice:
    """One GPU, with its primary context current in the thread that opened it; a `Device`.

    `compiler` is the identity of the compiler for `environment`, by default that of nvcc for this
    device; `ordinal` is the driver's number of the device. Raises BackendUnavailable.
    """

    def __init__(self, compiler: str | None = None, ordinal: int = 0) -> None:
        require_driver()
        self._driver = load_pycuda()
        self._compiler = compiler
        self._healthy = True
        self._arguments: dict[str, _Bound | np.generic] = {}
        self._context: Any = None
        try:
            self._open(ordinal)
        except self._driver.Error as error:
            raise BackendUnavailable(
                f"CUDA device {ordinal} cannot be opened: {error}. Check nvidia-smi, "
                "and whether another process holds the device exclusively"
            ) from error

    def _open(self, ordinal: int) -> None:
        self._driver.init()
        count = self._driver.Device.count()
        if not 0 <= ordinal < count:
            raise BackendUnavailable(no_device(ordinal, count))
        self._device = self._driver.Device(ordinal)
        self._context = self._device.retain_primary_context()
        self._context.push()

    @property
    def healthy(self) -> bool:
        """False once a failure has spoiled the context: then the process must be replaced."""
        return self._healthy

    @property
    def shares_cpu(self) -> bool:
        """False: compilers may run while a kernel does."""
        return False

    @cached_property
    def arch(self) -> str:
        """The architecture to compile for, such as `sm_90`."""
        major, minor = self._device.compute_capability()
        return f"sm_{major}{minor}"

    @cached_property
    def limits(self) -> DeviceLimits:
        """The device's limits; shared memory is that of a block that does not opt in to more."""
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
        )

    @cached_property
    def environment(self) -> Environment:
        """The device, the driver's CUDA version and own version, and the compiler."""
        with self._errors("describing the device"):
            version = self._driver.get_driver_version()
            api = f"CUDA {version // 1000}.{version % 1000 // 10}"
            return Environment(
                backend="cuda",
                device=self._device.name(),
                platform=api,
                driver=driver_version() or api,
                compiler=self._compiler or Nvcc(self.arch).identity,
                notes=self._notes(),
            )

    def bind(self, arguments: Mapping[str, Argument]) -> None:
        """Replace the arguments on the device by copies of these ones; arrays may be empty."""
        self._release_arguments()
        for name, value in arguments.items():
            self._arguments[name] = (
                self._copied(name, value) if isinstance(value, np.ndarray) else value
            )

    def write(self, name: str, array: npt.NDArray[Any]) -> None:
        """Overwrite one array argument; ValueError unless shape and dtype are as bound."""
        bound = self._bound(name)
        if (array.shape, array.dtype) != (bound.shape, bound.dtype):
            raise ValueError(
                f"{name} is bound as {bound.dtype}{list(bound.shape)}, "
                f"but written as {array.dtype}{list(array.shape)}"
            )
        if bound.size_bytes:
            with self._errors(f"writing {name}"):
                self._driver.memcpy_htod(bound.memory, np.asarray(array, order="C"))

    def read(self, name: str) -> npt.NDArray[Any]:
        """Return a copy of one array argument, in C order."""
        bound = self._bound(name)
        array = np.empty(bound.shape, bound.dtype)
        if bound.size_bytes:
            with self._errors(f"reading {name}"):
                self._driver.memcpy_dtoh(array, bound.memory)
        return array

    def load(self, binary: Binary) -> object:
        """Load the binary's module."""
        reason = why_unloadable(binary.build, self.limits)
        if reason:
            raise LaunchFailed(reason)
        with self._errors("loading the binary"):
            return _LoadedModule(self._driver.module_from_buffer(binary.data))

    def launch(self, module: object, launches: Sequence[Launch]) -> float:
        """Run the launches in order, wait, and return the sum of their device times in seconds.

        Each launch is between two events of its own, so that the host's work between launches does
        not count. The time of a tiny kernel includes the launch latency of a few microseconds.
        """
        if not isinstance(module, _LoadedModule):
            raise TypeError(f"launch() takes what load() returned, but got {module!r}")
        prepared = [self._prepare(module, launch) for launch in launches]
        with self._errors("running " + ", ".join(launch.function for launch in launches)):
            events = [self._enqueue(one) for one in prepared]
            self._driver.Context.synchronize()
            return float(sum(stop.time_since(start) for start, stop in events)) * 1e-3

    def close(self) -> None:
        """Free the arguments and release the context; a second call does nothing.

        With a spoiled context, PyCUDA may abort the process when the interpreter ends ("context
        stack was not empty"): end such a process with `os._exit`.
        """
        if self._context is None:
            return
        context, self._context = self._context, None
        if self._healthy:
            self._release_arguments()
        # In a spoiled context every call fails, and the process is about to end anyway.
        ignored = contextlib.nullcontext() if self._healthy else contextlib.suppress(LaunchFailed)
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

    def _copied(self, name: str, array: npt.NDArray[Any]) -> _Bound:
        with self._errors(f"allocating {array.nbytes:,} bytes for {name}"):
            # The driver cannot allocate 0 bytes, but a kernel may take an empty array.
            memory = self._driver.mem_alloc(max(array.nbytes, 1))
        bound = _Bound(memory, array.shape, array.dtype, array.nbytes)
        self._arguments[name] = bound
        self.write(name, array)
        return bound

    def _release_arguments(self) -> None:
        arguments, self._arguments = self._arguments, {}
        with self._errors("freeing device memory"):
            for value in arguments.values():
                if isinstance(value, _Bound):
                    value.memory.free()

    def _bound(self, name: str) -> _Bound:
        value = self._arguments.get(name)
        if not isinstance(value, _Bound):
            raise ValueError(f"{name} is not a bound array; arrays are {self._names(_Bound)}")
        return value

    def _names(self, kind: type) -> str:
        return ", ".join(n for n, v in self._arguments.items() if isinstance(v, kind)) or "none"

    def _prepare(self, module: _LoadedModule, launch: Launch) -> _PreparedLaunch:
        reason = why_unlaunchable(launch, self.limits)
        if reason:
            raise LaunchFailed(reason)
        function = self._function(module, launch.function)
        self._check_function(function, launch)
        packed = pack_arguments([self._passed(each, launch) for each in launch.arguments])
        return _PreparedLaunch(function, three(launch.grid), three(launch.group), packed)

    def _function(self, module: _LoadedModule, name: str) -> Any:
        if name not in module.functions:
            with self._errors(f'looking up {name} (a kernel must be declared extern "C")'):
                module.functions[name] = module.module.get_function(name)
        return module.functions[name]

    def _check_function(self, function: Any, launch: Launch) -> None:
        """Raise LaunchFailed for a group that the registers or launch bounds do not allow."""
        names = self._driver.function_attribute
        with self._errors(f"asking what {launch.function} needs"):
            most = function.get_attribute(names.MAX_THREADS_PER_BLOCK)
            registers = function.get_attribute(names.NUM_REGS)
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
        return np.uintp(int(value.memory)) if isinstance(value, _Bound) else value

    def _enqueue(self, prepared: _PreparedLaunch) -> tuple[Any, Any]:
        function, grid, group, packed = prepared
        start, stop = self._driver.Event(), self._driver.Event()
        # Pass all arguments as one string of bytes: PyCUDA's formats have neither bool nor half.
        function.prepare([f"{len(packed)}s"])
        start.record()
        function.prepared_async_call(grid, group, None, packed)
        stop.record()
        return start, stop

    @contextlib.contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        """Turn the driver's errors into LaunchFailed, and find out whether the context survived."""
        try:
            yield
        except self._driver.Error as error:
            self._healthy = self._healthy and self._answers()
            state = "" if self._healthy else "; the context is lost and its process must end"
            raise LaunchFailed(f"{doing}: {meaning_of(error)}: {error}{state}") from error

    def _answers(self) -> bool:
        """Say whether the context still works: a spoiled one repeats its error at every call."""
        try:
            self._driver.Context.synchronize()
        except self._driver.Error:
            return False
        return True
