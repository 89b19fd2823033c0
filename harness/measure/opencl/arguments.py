"""Check a launch's arguments against its kernel before the driver, which may crash on them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from harness.core.errors import LaunchFailed
from harness.core.program import Argument, Launch
from harness.measure.device.guard_zones import BoundArray

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


def local_position(launch: Launch, parameters: Sequence[KernelParameter]) -> int | None:
    """Return the index of the `local` pointer that gets a launch's shared memory; None for none.

    Where the driver does not describe the parameters, it is the last one. Raises LaunchFailed for
    several, and for one without a size.
    """
    found = [place for place, parameter in enumerate(parameters) if parameter.is_local]
    if not found and len(parameters) == len(launch.arguments) + 1 and launch.shared_bytes:
        is_unknown = parameters[-1].is_local is None
        return len(parameters) - 1 if is_unknown else None
    if len(found) > 1:
        raise LaunchFailed(
            f"{launch.function} has {len(found)} `local` pointer parameters, but a launch gives "
            "one size of shared memory: join them into one, and compute the others from it"
        )
    if found and not launch.shared_bytes:
        raise LaunchFailed(
            f"parameter {found[0] + 1} of {launch.function} is a `local` pointer, which needs a "
            "size: write `launch: {shared: BYTES}`"
        )
    return found[0] if found else None


def why_unfit(
    launch: Launch,
    parameters: Sequence[KernelParameter],
    bound: Mapping[str, BoundArray | Argument],
) -> str | None:
    """Return why the arguments cannot be passed to a kernel; None where they can.

    Arrays of vectors count as their elements (`float4*` takes float32), a single vector has the
    vector's size, signed and unsigned types are equal, and types that the kernel defines are not
    checked.
    """
    if len(launch.arguments) != len(parameters):
        return (
            f"{launch.function} takes {len(parameters)} arguments, but the host module passes "
            f"{len(launch.arguments)}: {', '.join(map(str, launch.arguments)) or 'none'}"
        )
    pairs = zip(launch.arguments, parameters, strict=True)
    for position, (argument, parameter) in enumerate(pairs, start=1):
        value = argument if isinstance(argument, np.generic) else bound.get(argument)
        if value is None:
            there = ", ".join(bound) or "none"
            return f"{launch.function} takes an argument {argument}, but bound are {there}"
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
    found = re.fullmatch(r"([a-z]+?)(2|3|4|8|16)?", element)
    if found is None or found[1] not in _TYPES:
        return True
    if "*" not in type_name and (found[2] or passed.kind == "V"):
        size_bytes, is_float = _TYPES[found[1]]
        width = {"3": 4}.get(found[2], int(found[2] or 1))  # a float3 has the size of a float4
        fits = passed.kind == "V" or (passed.kind == "c" and is_float)
        return fits and passed.itemsize == size_bytes * width
    if passed.kind == "V":
        return True
    parts = 2 if passed.kind == "c" else 1
    return _TYPES[found[1]] == (passed.itemsize // parts, passed.kind in "fc")
