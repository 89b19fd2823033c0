"""Check a launch's arguments against its kernel before the driver, which may crash on them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from harness.core.program import Launch

DType = np.dtype[Any]

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


def why_unfit(
    launch: Launch,
    parameters: Sequence[KernelParameter],
    arrays: Mapping[str, DType],
    scalars: Mapping[str, DType],
) -> str | None:
    """Return why the arguments cannot be passed to a kernel; None where they can.

    Vectors count as their elements (`float4*` takes float32), signed and unsigned types are
    equal, and types that the kernel defines are not checked.
    """
    if len(launch.arguments) != len(parameters):
        return (
            f"{launch.function} takes {len(parameters)} arguments, but the host module passes "
            f"{len(launch.arguments)}: {', '.join(map(str, launch.arguments)) or 'none'}"
        )
    pairs = zip(launch.arguments, parameters, strict=True)
    for position, (argument, parameter) in enumerate(pairs, start=1):
        array, scalar = _dtypes(argument, arrays, scalars)
        if array is None and scalar is None:
            there = ", ".join((*arrays, *scalars)) or "none"
            return f"{launch.function} takes an argument {argument}, but bound are {there}"
        reason = _why_other(parameter, array, scalar)
        if reason:
            return f"argument {position} of {launch.function}, {argument}, {reason}"
    return None


def _dtypes(
    argument: str | np.generic, arrays: Mapping[str, DType], scalars: Mapping[str, DType]
) -> tuple[DType | None, DType | None]:
    """Return the argument's dtype as an array and as a number, of which one at most is not None."""
    if isinstance(argument, np.generic):
        return None, argument.dtype
    return arrays.get(argument), scalars.get(argument)


def _why_other(parameter: KernelParameter, array: DType | None, scalar: DType | None) -> str | None:
    if parameter.is_array is None or parameter.type_name is None:
        return None
    if parameter.is_array and array is None:
        return f"is {parameter.type_name}, but the host module passes a single {scalar}"
    if not parameter.is_array and scalar is None:
        return f"is {parameter.type_name}, but the host module passes an array"
    passed = scalar if array is None else array
    if passed is not None and not _is_same(parameter.type_name, passed):
        return f"is {parameter.type_name}, but the host module passes {passed}"
    return None


def _is_same(type_name: str, passed: DType) -> bool:
    element = re.sub(r"\b(?:const|volatile|restrict)\b|[*\s]", "", type_name)
    found = re.fullmatch(r"([a-z]+?)(2|3|4|8|16)?", element)
    if found is None or found[1] not in _TYPES or passed.kind == "V":
        return True
    parts = 2 if passed.kind == "c" else 1
    return _TYPES[found[1]] == (passed.itemsize // parts, passed.kind in "fc")
