"""C, CUDA and OpenCL types -> numpy types."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

_SCALARS = {
    "bool": "bool_", "_Bool": "bool_",
    "char": "int8", "signed char": "int8", "int8_t": "int8",
    "unsigned char": "uint8", "uchar": "uint8", "uint8_t": "uint8",
    "short": "int16", "short int": "int16", "int16_t": "int16",
    "unsigned short": "uint16", "unsigned short int": "uint16", "ushort": "uint16",
    "uint16_t": "uint16",
    "int": "int32", "signed": "int32", "signed int": "int32", "int32_t": "int32",
    "unsigned": "uint32", "unsigned int": "uint32", "uint": "uint32", "uint32_t": "uint32",
    "long": "int64", "long int": "int64", "long long": "int64", "long long int": "int64",
    "longlong": "int64", "int64_t": "int64", "ptrdiff_t": "int64",
    "unsigned long": "uint64", "unsigned long int": "uint64", "ulong": "uint64",
    "unsigned long long": "uint64", "unsigned long long int": "uint64", "ulonglong": "uint64",
    "uint64_t": "uint64", "size_t": "uint64",
    "half": "float16", "__half": "float16", "float": "float32", "double": "float64",
}  # fmt: skip
_VECTOR = re.compile(r"([a-z]+?)(2|3|4|8|16)")
_ALIASES = 20


@dataclass(frozen=True)
class NumpyType:
    """A numpy scalar type by name; `width` is 1, or the number of scalars in a vector."""

    name: str
    width: int = 1

    @property
    def is_integer(self) -> bool:
        """Return whether the scalar is an integer."""
        return self.name.startswith(("int", "uint"))

    @property
    def size_bytes(self) -> int:
        """Return the size of an element."""
        return np.dtype(self.name.rstrip("_")).itemsize * self.width


UNKNOWN_TYPE = NumpyType("float32")
"""The guess for a kernel's own types."""


def numpy_type(type_name: str, aliases: Mapping[str, str], dialect: str) -> NumpyType | None:
    """Return the numpy type of a C type; None for the kernel's own types.

    `aliases` are macros that stand for type names, such as `#define REAL float`.
    """
    for _ in range(_ALIASES):
        if type_name not in aliases:
            break
        type_name = aliases[type_name]
    name = type_name.removeprefix("std::")
    if name in _SCALARS:
        return NumpyType(_SCALARS[name])
    vector = _VECTOR.fullmatch(name)
    if vector is None or vector[1] not in _SCALARS:
        return None
    width = int(vector[2])
    # OpenCL's vectors of three are stored like vectors of four.
    return NumpyType(_SCALARS[vector[1]], 4 if width == 3 and dialect != "cuda" else width)
