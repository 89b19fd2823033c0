"""Loaded CUDA modules and their launches, prepared so that a sample needs few calls."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from harness.core.errors import LaunchFailed
from harness.core.program import ANY_CARVEOUT, Launch
from harness.core.records import DeviceLimits
from harness.core.text import first_few
from harness.measure.bound import (
    Bound,
    BoundArray,
    LoadedModule,
    three,
    values_of,
    why_unlaunchable,
)
from harness.measure.cuda.bindings import CudaDriver, LaunchShape
from harness.measure.cuda.cubin import (
    ParameterPlace,
    kernel_symbol,
    packed_arguments,
    parameter_places,
    variable_names,
)


@dataclass
class _CudaFunction:
    """A kernel, what it allows and needs; `has_run` once a launch has ended.

    `dynamic_bytes` are the most of dynamic shared memory that it was let have, `carveout` the
    percentage of shared memory that its launches now prefer.
    """

    handle: Any
    most_threads: int
    registers: int
    static_bytes: int
    places: tuple[ParameterPlace, ...] | None
    dynamic_bytes: int = 0
    carveout: int = ANY_CARVEOUT
    has_run: bool = False


class _PreparedLaunch(NamedTuple):
    """A launch that was checked; `queue` queues it on the default stream."""

    function: _CudaFunction
    queue: Callable[[], None]


class CudaModule(LoadedModule):
    """A module on the device."""

    def __init__(
        self,
        driver: CudaDriver,
        module: Any,
        cubin: bytes,
        limits: DeviceLimits,
        errors: Callable[[str], AbstractContextManager[None]],
    ) -> None:
        super().__init__(limits, errors)
        self._driver = driver
        self._module = module
        self._cubin = cubin
        self._functions: dict[str, _CudaFunction] = {}
        self._variables: dict[str, tuple[int, int]] = {}

    def variable(self, name: str, size_bytes: int) -> int:
        """Return the address of a variable of the module, such as a `__constant__` array.

        Raises LaunchFailed where there is none, or where it is smaller than what fills it.
        """
        if name not in self._variables:
            there = variable_names(self._cubin)
            if name not in there:
                listed = first_few(there, ", ") or "it has none"
                raise LaunchFailed(
                    f"CONSTANT names {name}, but the binary has no variable of this name; its "
                    f"variables: {listed}"
                )
            with self._errors(f"looking up the variable {name}"):
                self._variables[name] = self._driver.variable(self._module, name)
        address, most_bytes = self._variables[name]
        if size_bytes > most_bytes:
            raise LaunchFailed(
                f"the array {name} has {size_bytes:,} bytes, but the variable that it fills has "
                f"{most_bytes:,}"
            )
        return address

    def check(self, launch: Launch, bound: Bound) -> _PreparedLaunch:
        """Check a launch, and pack its arguments."""
        function = self._function(launch.function)
        reason = why_unlaunchable(launch, self._limits, function.static_bytes)
        if reason:
            raise LaunchFailed(reason)
        _check_group(function, launch)
        self._allow_memory(function, launch)
        values = values_of(launch, bound)
        are_arrays = [isinstance(value, BoundArray) for value in values]
        numbers = [np.uintp(v.memory) if isinstance(v, BoundArray) else v for v in values]
        packed = packed_arguments(launch, numbers, are_arrays, function.places)
        extents = three(launch.grid), three(launch.group)
        shape = LaunchShape(*extents, launch.shared_bytes, launch.cooperative)
        queue = partial(self._queue, function, shape, packed, launch.carveout)
        return _PreparedLaunch(function, queue)

    def _queue(
        self, function: _CudaFunction, shape: LaunchShape, packed: bytes, carveout: int
    ) -> None:
        """Queue a launch on the default stream."""
        if function.carveout != carveout:  # another launch of the function changed it
            self._driver.prefer_carveout(function.handle, carveout)
            function.carveout = carveout
        self._driver.launch(function.handle, shape, packed)

    def _allow_memory(self, function: _CudaFunction, launch: Launch) -> None:
        """Let a function have its dynamic shared memory, where that needs a permission."""
        wanted = int(launch.shared_bytes)
        if function.static_bytes + wanted <= self._limits.max_local_bytes:
            return
        if wanted > function.dynamic_bytes:
            with self._errors(f"giving {launch.function} {wanted:,} bytes of shared memory"):
                self._driver.allow_dynamic_bytes(function.handle, wanted)
            function.dynamic_bytes = wanted

    def _function(self, name: str) -> _CudaFunction:
        if name not in self._functions:
            try:
                symbol = kernel_symbol(self._cubin, name)
            except LookupError as error:
                raise LaunchFailed(f"looking up {name}: {error}") from None
            with self._errors(f"looking up {name}"):
                handle = self._driver.function(self._module, symbol)
            with self._errors(f"asking what {name} needs"):
                ask = partial(self._driver.function_attribute, handle)
                most = ask("MAX_THREADS_PER_BLOCK")
                registers, static_bytes = ask("NUM_REGS"), ask("SHARED_SIZE_BYTES")
            places = parameter_places(self._cubin, symbol)
            self._functions[name] = _CudaFunction(handle, most, registers, static_bytes, places)
        return self._functions[name]


def _check_group(function: _CudaFunction, launch: Launch) -> None:
    """Raise LaunchFailed for a group that the registers or launch bounds do not allow."""
    x, y, z = three(launch.group)
    if x * y * z > function.most_threads:
        raise LaunchFailed(
            f"group {(x, y, z)} of {launch.function} has {x * y * z:,} threads, but with its "
            f"{function.registers} registers and its launch bounds the kernel takes "
            f"{function.most_threads:,}"
        )
