"""Call Python functions on arrays of NumPy, on the CPU."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.core.errors import HostModuleError, LaunchFailed
from harness.core.machine import processor, usable_cores
from harness.core.program import PYTHON, Argument, Binary, Launch
from harness.core.records import WARM, DeviceLimits, Environment, Input
from harness.measure.bound import BoundArray, BoundSet
from harness.measure.device import Device
from harness.measure.kernels.data import make_arguments
from harness.measure.trial.host_module import HostModule, describe_error, load_host

_FIRST_CALL_SEED = 1 << 40
"""The data of a first call are those of no other run: nothing that it keeps is of use later."""

_ALIGNMENT_BYTES = 64
_CACHE_BYTES = 1 << 25  # where the system does not say it
_KEPT_CALLABLES = 128  # as many as OpenClDevice keeps
_KEPT_MODULES = 8  # what one of them has compiled serves all of its configurations and inputs

_VARIABLES = ("NUMBA_NUM_THREADS", "NUMBA_THREADING_LAYER", "OMP_NUM_THREADS", "TRITON_INTERPRET")
"""Variables that change how a framework computes."""

Passed = dict[str, Any]
"""The arguments of a callable, by name: arrays of its framework, and Python's numbers."""


@dataclass(frozen=True)
class BuiltCallable:
    """What build() of a module returned, once its first call has compiled it."""

    path: Path
    function: Callable[[Passed], object]
    build_s: float


class PythonDevice(Device):
    """The CPU, which calls functions on arrays of NumPy. A time is the wall time of the call."""

    clock = "wall time of the call"

    def __init__(self, framework: str, cache: str = WARM) -> None:
        """`cache` is WARM or COLD, what runs find in the CPU's caches."""
        super().__init__(MemoryError, "process", cache)
        self._framework = framework
        self._built = lru_cache(maxsize=_KEPT_CALLABLES)(self._build)
        self._module = lru_cache(maxsize=_KEPT_MODULES)(_module)
        self._first_arguments = lru_cache(maxsize=1)(_first_arguments)
        self._passed: Passed = {}

    def environment(self, compiler: str) -> Environment:
        """Return the processor, the framework with its clock, and Python's version."""
        said = (f", {name}={os.environ[name]}" for name in _VARIABLES if name in os.environ)
        return Environment(
            backend=PYTHON,
            device=self._device_name,
            platform=f"{self._framework}, {self.clock}{''.join(said)}",
            driver=f"{platform.python_implementation()} {platform.python_version()}",
            compiler=compiler,
            cache=self._cache,
        )

    @property
    def _device_name(self) -> str:
        return f"{processor()}, {usable_cores()} cores"

    @property
    def limits(self) -> DeviceLimits:
        """The number of cores; a callable has no groups."""
        most = 2**31 - 1
        return DeviceLimits(most, (most,) * 3, (most,) * 3, most, usable_cores(), 1)

    @property
    def shares_cpu(self) -> bool:
        """Whether callables run on the CPU."""
        return True

    # ------------------------------------------------------------------------------ memory

    def _allocated(self, size_bytes: int) -> Any:
        memory = np.empty(size_bytes + _ALIGNMENT_BYTES, np.uint8)
        begin = -memory.ctypes.data % _ALIGNMENT_BYTES
        return memory[begin : begin + size_bytes]

    def _inside(self, memory: Any, offset: int, size_bytes: int) -> Any:
        return memory[offset : offset + size_bytes]

    def _write(self, memory: Any, offset: int, array: npt.NDArray[Any]) -> None:
        memory[offset : offset + array.nbytes] = array.reshape(-1).view(np.uint8)

    def _read(self, array: npt.NDArray[Any], memory: Any, offset: int) -> None:
        array.reshape(-1).view(np.uint8)[:] = memory[offset : offset + array.nbytes]

    def _fill(self, memory: Any, offset: int, byte: int, size_bytes: int) -> None:
        memory[offset : offset + size_bytes] = byte

    def _copy(self, memory: Any, offset: int, source: Any, size_bytes: int) -> None:
        memory[offset : offset + size_bytes] = source[:size_bytes]

    def _free(self, whole: Any, part: Any = None) -> None:
        """Do nothing: memory goes with the last array that is in it."""

    def _wait(self) -> None:
        """Do nothing: all has ended when a call returns."""

    def _timed_fill(self, memory: Any, size_bytes: int) -> float:
        began_s = time.perf_counter()
        self._fill(memory, 0, 0, size_bytes)
        return time.perf_counter() - began_s

    @property
    def _cache_bytes(self) -> int:
        name = "SC_LEVEL3_CACHE_SIZE"
        return (os.sysconf(name) if name in os.sysconf_names else 0) or _CACHE_BYTES

    def _is_out_of_memory(self, error: Exception) -> bool:
        return True  # MemoryError says nothing else

    def _describe_memory(self) -> str:
        return f"harness holds {self._held_bytes:,} bytes; other programs may hold the rest"

    # ----------------------------------------------------------------------------- calling

    def load(self, binary: Binary) -> BuiltCallable:
        """Build a callable and call it once, or return one of the last built ones.

        The first call, which may compile for seconds, is on arguments of its own.
        """
        return self._built(binary.data)

    def unload(self) -> None:
        """Keep the callables: to compile them again would take seconds, and move nothing."""

    def _build(self, data: bytes) -> BuiltCallable:
        parts = json.loads(data.partition(b"\n")[0])
        path, features = Path(parts["path"]), parts["features"]
        try:
            arguments = self._first_arguments(path, Input(features))
            began_s = time.perf_counter()
            function = self._module(path).build(parts["config"], features)
        except HostModuleError as error:
            raise LaunchFailed(str(error)) from None
        except (Exception, SystemExit) as error:
            raise LaunchFailed(f"build() raised {describe_error(error, path)}") from None
        if not callable(function):
            kind = type(function).__name__
            raise LaunchFailed(f"{path}: build() must return a callable, but returned a {kind}")
        self._call_first(BuiltCallable(path, function, 0.0), arguments)
        return BuiltCallable(path, function, time.perf_counter() - began_s)

    def _call_first(self, built: BuiltCallable, arguments: Mapping[str, Argument]) -> None:
        """Call on these arguments, and leave those that are bound as they are."""
        bound, self._current = self._current, BoundSet({}, {})
        try:
            with self._errors("allocating the arguments of a first call"):
                self._current = self._bound_copy(arguments)
            self._call(built)
            strays = self._strays_of(self._current)
        finally:
            self._free_set(self._current)
            self._current = bound
        if strays:
            names = ", ".join(map(str, strays))
            raise LaunchFailed(f"the first call writes outside of the argument {names}")

    def launch(self, module: BuiltCallable, launches: Sequence[Launch]) -> float:
        """Call on the bound arguments, once for each launch, and return the seconds in all."""
        return sum(self._call(module) for _ in launches)

    def _call(self, built: BuiltCallable) -> float:
        """Call a function once.

        All calls get one dict, and new arrays over the same memory: what a function keeps by the
        identity of its arguments is soon that of other data.
        """
        self._passed.clear()
        for name, value in self._arguments.items():
            if isinstance(value, BoundArray):
                self._passed[name] = self._view(value)
            else:
                self._passed[name] = value.item()
        self._before_launch()
        try:
            elapsed_s, returned = self._timed(built.function)
        except (Exception, SystemExit) as error:
            self.healthy = self.healthy and self._answers()
            described = describe_error(error, built.path)
            raise LaunchFailed(f"the callable raised {described}") from None
        self._passed.clear()
        self._store(returned)
        return elapsed_s

    def _timed(self, function: Callable[[Passed], object]) -> tuple[float, object]:
        """Call, wait, and return the seconds with what was returned."""
        began_s = time.perf_counter()
        returned = function(self._passed)
        return time.perf_counter() - began_s, returned

    def _view(self, bound: BoundArray) -> Any:
        """Return a new array of the framework over a bound array."""
        return bound.memory.view(bound.dtype).reshape(bound.shape)

    def _store(self, returned: object) -> None:
        """Copy arrays that a callable returned to the arguments of their names."""
        if returned is None:
            return
        if not isinstance(returned, Mapping):
            kind = type(returned).__name__
            raise LaunchFailed(
                f"the callable returned a {kind}; write the outputs in place and return None, or "
                "return a dict of arrays by their names"
            )
        for name, array in returned.items():
            try:
                self.write(name, self._array_of(array))
            except ValueError as error:
                raise LaunchFailed(f"the callable returned another array: {error}") from None

    def _array_of(self, array: Any) -> npt.NDArray[Any]:
        """Return an array of the framework as one of NumPy."""
        return np.asarray(array)


def _module(path: Path) -> ModuleType:
    return load_host(path, "harness_kernel", ("build",))


def _first_arguments(path: Path, problem: Input) -> dict[str, Argument]:
    return make_arguments(HostModule(path), problem, _FIRST_CALL_SEED)
