"""Loaded OpenCL programs, and launches whose arguments are checked against their kernels before the
driver may crash on them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from harness.core.errors import LaunchFailed
from harness.core.kernel_name import plain_name
from harness.core.program import ANY_CARVEOUT, Argument, Launch
from harness.core.records import DeviceLimits
from harness.measure.device.bound import (
    Bound,
    BoundArray,
    LoadedModule,
    three,
    values_of,
    why_unlaunchable,
)

VECTOR_HINT = '; pass a structure of its size, such as np.void((x, y), "f4, f4") for a float2'

# Size in bytes, and whether it is a floating-point number.
_TYPES = {
    "bool": (1, False),
    "char": (1, False),
    "uchar": (1, False),
    "short": (2, False),
    "ushort": (2, False),
    "int": (4, False),
    "uint": (4, False),
    "long": (8, False),
    "ulong": (8, False),
    "half": (2, True),
    "float": (4, True),
    "double": (8, True),
}


class KernelParameter(NamedTuple):
    """A parameter of a kernel; None where the driver does not describe it."""

    type_name: str | None = None
    is_array: bool | None = None
    is_local: bool | None = None


def _local_position(launch: Launch, parameters: Sequence[KernelParameter]) -> int | None:
    """Return the index of the `local` pointer that gets a launch's shared memory; None for none.

    Where the driver does not describe the parameters, it is the last one. Raises LaunchFailed for
    several, and for one without a size.
    """
    places = [place for place, parameter in enumerate(parameters) if parameter.is_local]
    if not places and len(parameters) == len(launch.arguments) + 1 and launch.shared_bytes:
        is_unknown = parameters[-1].is_local is None
        return len(parameters) - 1 if is_unknown else None
    if len(places) > 1:
        raise LaunchFailed(
            f"{launch.function} has {len(places)} `local` pointer parameters, but a launch gives "
            "one size of shared memory: join them into one, and compute the others from it"
        )
    if places and not launch.shared_bytes:
        raise LaunchFailed(
            f"parameter {places[0] + 1} of {launch.function} is a `local` pointer, which needs a "
            "size: write `launch: {shared: BYTES}`"
        )
    return places[0] if places else None


def why_unfit(
    launch: Launch, parameters: Sequence[KernelParameter], values: Sequence[BoundArray | Argument]
) -> str | None:
    """Return why these values of the arguments cannot be passed to a kernel; None where they can.

    Arrays of vectors count as their elements (`float4*` takes float32), a single vector has the
    vector's size, signed and unsigned types are equal, and types that the kernel defines are not
    checked.
    """
    if len(launch.arguments) != len(parameters):
        return (
            f"{launch.function} takes {len(parameters)} arguments, but the host module passes "
            f"{len(launch.arguments)}: {', '.join(map(str, launch.arguments)) or 'none'}"
        )
    passed = zip(launch.arguments, values, parameters, strict=True)
    for position, (argument, value, parameter) in enumerate(passed, start=1):
        reason = _why_other(parameter, value)
        if reason:
            return f"argument {position} of {launch.function}, {argument}, {reason}"
    return None


def _why_other(parameter: KernelParameter, value: BoundArray | Argument) -> str | None:
    type_name, is_array, _ = parameter
    if is_array is None or type_name is None:
        return None
    if is_array == isinstance(value, np.generic):
        passed = f"a single {_shown(value.dtype)}" if is_array else "an array"
    elif _is_same(type_name, value.dtype):
        return None
    else:
        passed = _shown(value.dtype)
    is_vector = not is_array and re.search(r"\d$", type_name)
    hint = VECTOR_HINT if is_vector else ""
    return f"is {type_name}, but the host module passes {passed}{hint}"


def _shown(dtype: np.dtype[Any]) -> str:
    return f"structure of {dtype.itemsize} bytes" if dtype.kind == "V" else str(dtype)


@lru_cache(maxsize=256)  # every launch asks, and a launch may take microseconds
def _is_same(type_name: str, passed: np.dtype[Any]) -> bool:
    element = re.sub(r"\b(?:const|volatile|restrict)\b|[*\s]", "", type_name)
    match = re.fullmatch(r"([a-z]+?)(2|3|4|8|16)?", element)
    if match is None or match[1] not in _TYPES:
        return True
    if "*" not in type_name and (match[2] or passed.kind == "V"):
        size_bytes, is_float = _TYPES[match[1]]
        width = {"3": 4}.get(match[2], int(match[2] or 1))  # a float3 has the size of a float4
        fits = passed.kind == "V" or (passed.kind == "c" and is_float)
        return fits and passed.itemsize == size_bytes * width
    if passed.kind == "V":
        return True
    parts = 2 if passed.kind == "c" else 1
    return _TYPES[match[1]] == (passed.itemsize // parts, passed.kind in "fc")


class _OpenClKernel(NamedTuple):
    """A kernel and its parameters; `group` is the only legal group size, (0, 0, 0) for any."""

    kernel: Any
    parameters: list[KernelParameter]
    group: tuple[int, ...]
    static_bytes: int  # of local memory


class _CheckedLaunch(NamedTuple):
    """A kernel, the values to pass, and all work-items of a launch that fits them.

    The values stay until a launch has ended; PoCL crashes otherwise.
    """

    kernel: Any
    values: list[Any]
    size: tuple[int, ...]


class OpenClModule(LoadedModule):
    """A program on the device; each of its kernels is looked up once."""

    def __init__(
        self,
        cl: Any,
        device: Any,
        program: Any,
        limits: DeviceLimits,
        errors: Callable[[str], AbstractContextManager[None]],
    ) -> None:
        super().__init__(limits, errors)
        self._cl = cl
        self._device = device
        self._program = program
        self._kernels: dict[str, _OpenClKernel] = {}
        self.last_s: dict[tuple[str, tuple[int, ...]], float] = {}  # of functions with a group

    def check(self, launch: Launch, bound: Bound) -> _CheckedLaunch:
        """Look up what a launch needs; drivers crash on a number in place of an array."""
        kernel, parameters, group, static_bytes = self._kernel(launch.function)
        reason = why_unlaunchable(launch, self._limits, static_bytes)
        if launch.carveout != ANY_CARVEOUT:
            reason = f"{launch.function} has a carveout, which OpenCL cannot set"
        elif not reason and any(group) and group != three(launch.group):
            reason = (
                f"{launch.function} is compiled for groups of {group}, but the launch's are "
                f"{three(launch.group)}"
            )
        if reason:
            raise LaunchFailed(reason)
        local = _local_position(launch, parameters)
        values = values_of(launch, bound)
        reason = why_unfit(launch, [p for n, p in enumerate(parameters) if n != local], values)
        if reason:
            raise LaunchFailed(reason)
        given = [value.memory if isinstance(value, BoundArray) else value for value in values]
        if local is not None:
            given.insert(local, self._cl.LocalMemory(int(launch.shared_bytes)))
        size = tuple(g * n for g, n in zip(launch.group, launch.grid, strict=True))
        return _CheckedLaunch(kernel, given, size)

    def _kernel(self, function: str) -> _OpenClKernel:
        if function not in self._kernels:
            with self._errors(f"looking up {function}"):
                kernel = self._cl.Kernel(self._program, plain_name(function))
                static_bytes = int(self._ask(kernel, "LOCAL_MEM_SIZE"))
                group = tuple(self._ask(kernel, "COMPILE_WORK_GROUP_SIZE"))
                made = _OpenClKernel(kernel, self._parameters(kernel), group, static_bytes)
            self._kernels[function] = made
        return self._kernels[function]

    def _ask(self, kernel: Any, name: str) -> Any:
        info = getattr(self._cl.kernel_work_group_info, name)
        return kernel.get_work_group_info(info, self._device)

    def _parameters(self, kernel: Any) -> list[KernelParameter]:
        """Return the kernel's parameters, as far as the driver describes them."""
        info, spaces = self._cl.kernel_arg_info, self._cl.kernel_arg_address_qualifier
        parameters = []
        for index in range(kernel.num_args):
            try:
                space = kernel.get_arg_info(index, info.ADDRESS_QUALIFIER)
                type_name = kernel.get_arg_info(index, info.TYPE_NAME)
            except self._cl.Error:  # for a binary, for instance
                parameters.append(KernelParameter())
            else:
                is_local = space == spaces.LOCAL
                parameters.append(KernelParameter(type_name, space != spaces.PRIVATE, is_local))
        return parameters
