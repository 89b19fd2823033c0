"""Do a launch's arguments fit its kernel? Settled before the driver is asked, which may crash."""

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


class Wanted(NamedTuple):
    """What a kernel takes in one place; None is what the driver does not tell."""

    type_name: str | None = None
    is_array: bool | None = None


def why_unfit(
    launch: Launch,
    wanted: Sequence[Wanted],
    arrays: Mapping[str, DType],
    scalars: Mapping[str, DType],
) -> str | None:
    """Why the named arguments cannot be passed to a kernel; None when they can.

    Vectors count as their elements (`float4*` takes float32), signed and unsigned alike; types
    that the kernel defines itself are not judged.
    """
    if len(launch.arguments) != len(wanted):
        return (
            f"{launch.function} takes {len(wanted)} arguments, but the host module gives "
            f"{len(launch.arguments)}: {', '.join(map(str, launch.arguments)) or 'none'}"
        )
    for place, (argument, want) in enumerate(zip(launch.arguments, wanted, strict=True), start=1):
        array, scalar = _dtypes(argument, arrays, scalars)
        if array is None and scalar is None:
            there = ", ".join((*arrays, *scalars)) or "none"
            return f"{launch.function} takes an argument {argument}, but bound are {there}"
        reason = _why_other(want, array, scalar)
        if reason:
            return f"argument {place} of {launch.function}, {argument}, {reason}"
    return None


def _dtypes(
    argument: str | np.generic, arrays: Mapping[str, DType], scalars: Mapping[str, DType]
) -> tuple[DType | None, DType | None]:
    """The argument's dtype as an array and as a number; one of them at most is there."""
    if isinstance(argument, np.generic):
        return None, argument.dtype
    return arrays.get(argument), scalars.get(argument)


def _why_other(want: Wanted, array: DType | None, scalar: DType | None) -> str | None:
    if want.is_array is None or want.type_name is None:
        return None
    if want.is_array and array is None:
        return f"is {want.type_name}, but the host module gives a single {scalar}"
    if not want.is_array and scalar is None:
        return f"is {want.type_name}, but the host module gives an array"
    given = scalar if array is None else array
    if given is not None and not _is_same(want.type_name, given):
        return f"is {want.type_name}, but the host module gives {given}"
    return None


def _is_same(type_name: str, given: DType) -> bool:
    element = re.sub(r"\b(?:const|volatile|restrict)\b|[*\s]", "", type_name)
    found = re.fullmatch(r"([a-z]+?)(2|3|4|8|16)?", element)
    if found is None or found[1] not in _TYPES or given.kind == "V":
        return True
    parts = 2 if given.kind == "c" else 1
    return _TYPES[found[1]] == (given.itemsize // parts, given.kind in "fc")
