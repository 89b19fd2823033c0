"""Loaded OpenCL programs, and launches whose arguments are checked against their kernels before the
driver may crash on them."""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from harness.core.errors import LaunchFailed
from harness.core.kernel_name import plain_name
from harness.core.program import ANY_CARVEOUT, Argument, Launch
from harness.core.records import DeviceLimits
from harness.measure.device.arguments import Bound, BoundArray, Errors
from harness.measure.device.launch_checks import (
    LoadedModule,
    three,
    values_of,
    why_unlaunchable,
)

VECTOR_HINT = '; pass a structure of its size, such as np.void((x, y), "f4, f4") for a float2'

# Kind and size in bytes, as numpy writes them.
_TYPES = {
    "bool": "i1",
    "char": "i1",
    "uchar": "i1",
    "short": "i2",
    "ushort": "i2",
    "int": "i4",
    "uint": "i4",
    "long": "i8",
    "ulong": "i8",
    "half": "f2",
    "float": "f4",
    "double": "f8",
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
    if not places:
        has_another = len(parameters) == len(launch.arguments) + 1
        if has_another and launch.shared_bytes and parameters[-1].is_local is None:
            return len(parameters) - 1
        return None
    if len(places) > 1:
        raise LaunchFailed(
            f"{launch.function} has {len(places)} `local` pointer parameters, but a launch gives "
            "one size of shared memory: join them into one, and compute the others from it"
        )
    if not launch.shared_bytes:
        raise LaunchFailed(
            f"parameter {places[0] + 1} of {launch.function} is a `local` pointer, which needs a "
            "size: write `launch: {shared: BYTES}`"
        )
    return places[0]


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
    passed = str(value.dtype)
    if value.dtype.kind == "V":
        passed = f"structure of {value.dtype.itemsize} bytes"
    if is_array and isinstance(value, np.generic):
        passed = f"a single {passed}"
    elif not is_array and not isinstance(value, np.generic):
        passed = "an array"
    elif _is_same(type_name, value.dtype):
        return None
    reason = f"is {type_name}, but the host module passes {passed}"
    is_vector = not is_array and type_name[-1:].isdigit()
    return reason + VECTOR_HINT if is_vector else reason


@lru_cache(maxsize=256)  # every launch asks, and a launch may take microseconds
def _is_same(type_name: str, passed: np.dtype[Any]) -> bool:
    element = re.sub(r"\b(?:const|volatile|restrict)\b|[*\s]", "", type_name)
    match = re.fullmatch(r"([a-z]+?)(2|3|4|8|16)?", element)
    if match is None or match[1] not in _TYPES:
        return True
    wanted = np.dtype(_TYPES[match[1]])
    is_float = wanted.kind == "f"
    is_structure = passed.kind == "V"
    is_complex = passed.kind == "c"
    if "*" not in type_name and (match[2] or is_structure):
        width = int(match[2] or 1)
        if width == 3:
            width = 4  # a float3 has the size of a float4
        fits = is_structure or (is_complex and is_float)
        return fits and passed.itemsize == wanted.itemsize * width
    if is_structure:
        return True
    if is_complex:
        return is_float and passed.itemsize == 2 * wanted.itemsize
    return passed.itemsize == wanted.itemsize and (passed.kind == "f") == is_float


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
        errors: Errors,
    ) -> None:
        super().__init__(limits, errors)
        self._cl = cl
        self._device = device
        self._program = program
        self._kernels: dict[str, _OpenClKernel] = {}
        self.last_s: dict[tuple[str, tuple[int, ...]], float] = {}  # of functions with a group

    def check(self, launch: Launch, bound: Bound) -> _CheckedLaunch:
        """Look up what a launch needs; drivers crash on a number in place of an array."""
        kernel = self._kernel(launch.function)
        reason = why_unlaunchable(launch, self._limits, kernel.static_bytes)
        group = three(launch.group)
        if launch.carveout != ANY_CARVEOUT:
            reason = f"{launch.function} has a carveout, which OpenCL cannot set"
        elif reason is None and any(kernel.group) and kernel.group != group:
            reason = (
                f"{launch.function} is compiled for groups of {kernel.group}, but the launch's are "
                f"{group}"
            )
        if reason:
            raise LaunchFailed(reason)
        parameters = list(kernel.parameters)
        local = _local_position(launch, parameters)
        if local is not None:
            del parameters[local]
        values = values_of(launch, bound)
        reason = why_unfit(launch, parameters, values)
        if reason:
            raise LaunchFailed(reason)
        passed = [value.memory if isinstance(value, BoundArray) else value for value in values]
        if local is not None:
            passed.insert(local, self._cl.LocalMemory(launch.shared_bytes))
        size = tuple(map(operator.mul, launch.group, launch.grid))
        return _CheckedLaunch(kernel.kernel, passed, size)

    def _kernel(self, function: str) -> _OpenClKernel:
        if function not in self._kernels:
            with self._errors(f"looking up {function}"):
                kernel = self._cl.Kernel(self._program, plain_name(function))
                self._kernels[function] = _OpenClKernel(
                    kernel,
                    self._parameters(kernel),
                    group=tuple(self._ask(kernel, "COMPILE_WORK_GROUP_SIZE")),
                    static_bytes=int(self._ask(kernel, "LOCAL_MEM_SIZE")),
                )
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
