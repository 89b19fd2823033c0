"""What a cubin says of its kernels: their code, their names, and where their arguments lie.

A cubin is an ELF file. Three things are read from it:

- A hash, equal for equal machine code (`machine_code_sha256`).
- The name of a kernel. C++ mangles the names of kernels that are not extern "C", by the rules of
  the Itanium C++ ABI. A name that is more than a word has a variable with the kernel's address in
  the source (see `harness.core.kernel_name`); the relocations hold the mangled name of that kernel.
- The offset and the size of each parameter, in the section `.nv.info.KERNEL`, but not whether it is
  a pointer. The driver copies as many bytes as the kernel takes, whatever it is given.
"""

from __future__ import annotations

import ctypes
import hashlib
import re
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from harness.core.errors import LaunchFailed
from harness.core.kernel_name import is_plain, reference_name
from harness.core.machine import libc
from harness.core.program import Launch
from harness.core.text import first_few
from harness.measure.builds.elf import sections

_FLAGS_AT = slice(0x30, 0x34)

_SYMBOL = struct.Struct("<IBBHQQ")
_IS_KERNEL = 0x10  # STO_CUDA_ENTRY, a bit of a symbol's `other`
_IS_VARIABLE = 1  # STT_OBJECT, the type in a symbol's `info`
_INFO = b".nv.info."  # and a kernel's name
_TOOL_NOTE = b".note.nv.tkinfo"
_INFO_RECORD = struct.Struct("<BBH")
_RECORD_WITH_PAYLOAD = 0x04
_REGISTER_LIMIT = 0x1B
_PARAMETER = 0x17  # EIATTR_KPARAM_INFO
_PARAMETER_BYTES = 0x19  # EIATTR_CBANK_PARAM_SIZE
_PAYLOAD = struct.Struct("<IHHI")
_SIZE_SHIFT = 18
_RELOCATION = struct.Struct("<QQq")
_SHORT_RELOCATION = struct.Struct("<QQ")
_WITH_ADDEND = 4
_VARIABLES = (b".rela.nv.global.init", b".rel.nv.global.init")
_MODULE_HASH = re.compile(rb"(_INTERNAL_|_GLOBAL__N__)[0-9a-f]{8}_")


def machine_code_sha256(cubin: bytes) -> str:
    """Return the SHA-256 in hexadecimal of the sections of a cubin that decide what it does.

    The bytes of a cubin always differ under two sets of flags, even where every instruction agrees,
    and depend on the folder of the source. The hash leaves out three things:

    - the note `.note.nv.tkinfo`, which holds the command line of ptxas;
    - the requested register limit, one record of `.nv.info.*` (the used registers stay in);
    - the hash of the source's folder in names with internal linkage, such as
      `_INTERNAL_47d4193a_9_kernel_cu_...`.

    All else counts: code, constants, shared memory and its alignment, symbols, launch bounds, the
    architecture and its features.

    Raises ValueError for anything but a complete 64-bit little-endian ELF file.
    """
    parts = []
    try:
        for section in sections(cubin):
            if section.name == _TOOL_NOTE:
                continue
            if section.name.startswith(_INFO):
                records = _info_records(section.content)
                content = b"".join(r for attribute, _, r in records if attribute != _REGISTER_LIMIT)
                section = section._replace(content=content)
            parts.append(_MODULE_HASH.sub(rb"\g<1>00000000_", section.identity))
    except (ValueError, struct.error, IndexError) as error:
        raise ValueError(f"not a complete cubin of {len(cubin):,} bytes: {error}") from error
    return hashlib.sha256(cubin[_FLAGS_AT] + b"".join(parts)).hexdigest()


def _kernel_names(cubin: bytes) -> list[str]:
    """Return the names by which the kernels of a cubin are launched, in alphabetical order.

    C++ mangles the name of a kernel without extern "C". Raises what `sections` raises.
    """
    return sorted(symbol.name for symbol in _symbols(cubin) if symbol.other & _IS_KERNEL)


def variable_names(cubin: bytes) -> list[str]:
    """Return the names of a cubin's variables, such as `__constant__` arrays."""
    names = (symbol.name for symbol in _symbols(cubin) if symbol.info & 0xF == _IS_VARIABLE)
    return sorted(name for name in names if not name.startswith("."))  # the compiler's own


class _Symbol(NamedTuple):
    name: str
    info: int
    other: int
    address: int


def _symbols(cubin: bytes) -> list[_Symbol]:
    """Return the symbols in their order, by which relocations name them."""
    parts = {section.name: section.content for section in sections(cubin)}
    names = parts.get(b".strtab", b"")
    symbols = []
    for begin, info, other, _, address, _ in _SYMBOL.iter_unpack(parts.get(b".symtab", b"")):
        end = names.index(b"\0", begin)
        symbols.append(_Symbol(names[begin:end].decode(), info, other, address))
    return symbols


def _info_records(content: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield the attribute and the value of each record of an `.nv.info.*` section, and the record.

    A record is a format byte, an attribute byte and two bytes of value. In one of the formats the
    value is the size of a payload that follows.
    """
    begin = 0
    while begin < len(content):
        layout, attribute, value = _INFO_RECORD.unpack_from(content, begin)
        end = begin + _INFO_RECORD.size
        if layout == _RECORD_WITH_PAYLOAD:
            end += value
        yield attribute, value, content[begin:end]
        begin = end


class ParameterPlace(NamedTuple):
    """Where a parameter lies among a kernel's parameters, in bytes."""

    offset: int
    size_bytes: int


def parameter_places(cubin: bytes, symbol: str) -> tuple[ParameterPlace, ...] | None:
    """Return the places of a kernel's parameters, in order; None where the cubin does not say."""
    name = _INFO + symbol.encode()
    info = [section.content for section in sections(cubin) if section.name == name]
    if not info:
        return None
    places: dict[int, ParameterPlace] = {}
    size_bytes = 0
    for attribute, value, record in _info_records(info[0]):
        if attribute == _PARAMETER_BYTES:
            size_bytes = value
        elif attribute == _PARAMETER and len(record) == _INFO_RECORD.size + _PAYLOAD.size:
            _, ordinal, offset, packed = _PAYLOAD.unpack_from(record, _INFO_RECORD.size)
            places[ordinal] = ParameterPlace(offset, packed >> _SIZE_SHIFT)
    if bool(places) != (size_bytes > 0) or sorted(places) != list(range(len(places))):
        return None
    return tuple(place for _, place in sorted(places.items()))


def packed_arguments(
    launch: Launch,
    values: Sequence[np.generic],
    are_arrays: Sequence[bool],
    places: Sequence[ParameterPlace] | None,
) -> bytes:
    """Return a launch's arguments as the driver takes them, each where the kernel has it.

    An array's value is its address. Raises LaunchFailed for another number of arguments than the
    kernel's, and for one of another size.
    """
    if places is None:
        return _pack_arguments(values)
    if len(values) != len(places):
        named = ", ".join(map(str, launch.arguments)) or "none"
        raise LaunchFailed(
            f"{launch.function} takes {len(places)} arguments, but the host module passes "
            f"{len(values)}: {named}"
        )
    packed = bytearray()
    passed = zip(launch.arguments, values, are_arrays, places, strict=True)
    for position, (name, value, is_array, place) in enumerate(passed, start=1):
        content = value.tobytes()
        if len(content) != place.size_bytes:
            kind = "an array, whose address has" if is_array else f"{value.dtype}, which has"
            raise LaunchFailed(
                f"argument {position} of {launch.function}, {name}, has {place.size_bytes} bytes "
                f"in the kernel, but the host module passes {kind} {len(content)}"
            )
        packed += b"\0" * (place.offset - len(packed)) + content
    return bytes(packed)


def _pack_arguments(values: Sequence[np.generic]) -> bytes:
    """Return arguments of a kernel that does not say where they lie: each at a multiple of its own
    size.

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


def kernel_symbol(cubin: bytes, function: str) -> str:
    """Return the name by which the driver knows a kernel of the space.

    Raises LookupError, with the kernels that are there, where no kernel or several have the name.
    """
    names = _kernel_names(cubin)
    if function in names:
        return function
    if not is_plain(function):
        return _referenced(cubin, function)
    # The kernel stands outside of named namespaces, and is no template.
    length_and_name = f"{len(function)}{function}"
    hidden = rf"N\d+_(?:GLOBAL__N_|INTERNAL_)\w*?{length_and_name}E"
    mangled = re.compile(rf"_Z(?:L?{length_and_name}(?!I)|{hidden})")
    named = [name for name in names if mangled.match(name)]
    if len(named) == 1:
        return named[0]
    if named:
        raise LookupError(
            f"{len(named)} kernels are called `{function}`: {_listed(named)}. Name one with its "
            f"parameters' types in kernel.function, such as `{readable(named[0])}`"
        )
    there = f"its kernels are {_listed(names)}" if names else "it has no kernel"
    raise LookupError(
        f"`{function}` is not in the binary; {there}. A template needs its arguments, and a kernel "
        f"in a namespace the namespace's name, as in `lib::{function}<float, 16>`"
    )


def _referenced(cubin: bytes, function: str) -> str:
    """Return the kernel whose address the variable of a name holds."""
    symbols = _symbols(cubin)
    addresses = {symbol.name: symbol.address for symbol in symbols}
    variable = addresses.get(reference_name(function))
    for section in sections(cubin):
        if section.name in _VARIABLES:
            layout = _RELOCATION if section.kind == _WITH_ADDEND else _SHORT_RELOCATION
            for offset, info, *_ in layout.iter_unpack(section.content):
                if offset == variable:
                    kernel: int = info >> 32
                    return symbols[kernel].name
    raise LookupError(
        f"the binary does not say which kernel `{function}` is; its kernels are "
        f"{_listed(_kernel_names(cubin))}. Declare it `__global__`, and build it with this space"
    )


def _listed(names: Sequence[str]) -> str:
    return first_few([f"`{readable(name)}`" for name in names], ", ")


def readable(mangled: str) -> str:
    """Return a C++ name as a person writes it; the mangled name where that is not known."""
    if not mangled.startswith("_Z"):
        return mangled
    try:
        demangle = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
    except (OSError, AttributeError):
        return mangled
    demangle.restype = ctypes.c_void_p
    address = demangle(mangled.encode(), None, None, None)
    if not address:
        return mangled
    name = ctypes.string_at(address).decode()
    libc().free(address)
    return name.removeprefix("void ")
