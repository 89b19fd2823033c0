"""Find a kernel in a cubin by the name that the space gives it.

C++ mangles the names of kernels that are not extern "C", by the rules of the Itanium C++ ABI. A
name that is more than a word has a variable with the kernel's address in the source (see
`harness.core.kernel_name`); the cubin's relocations hold the mangled name of that kernel.
"""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from harness.core.kernel_name import is_plain, reference_name
from harness.core.text import first_few
from harness.measure.backends.cubin import kernel_names
from harness.measure.backends.elf import ElfSection, sections

_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_SHORT_RELOCATION = struct.Struct("<QQ")
_WITH_ADDEND = 4
_VARIABLES = (b".rela.nv.global.init", b".rel.nv.global.init")


def kernel_symbol(cubin: bytes, function: str) -> str:
    """Return the name by which the driver knows a kernel of the space.

    Raises LookupError, with the kernels that are there, where no kernel or several have the name.
    """
    names = kernel_names(cubin)
    if function in names:
        return function
    if not is_plain(function):
        return _referenced(cubin, function)
    found = [name for name in names if _is_named(name, function)]
    if len(found) == 1:
        return found[0]
    if found:
        raise LookupError(
            f"{len(found)} kernels are called `{function}`: {_listed(found)}. Name one with its "
            f"parameters' types in kernel.function, such as `{readable(found[0])}`"
        )
    there = f"its kernels are {_listed(names)}" if names else "it has no kernel"
    raise LookupError(
        f"`{function}` is not in the binary; {there}. A template needs its arguments, and a kernel "
        f"in a namespace the namespace's name, as in `lib::{function}<float, 16>`"
    )


def _is_named(mangled: str, word: str) -> bool:
    """Whether a mangled name is that of a kernel outside of named namespaces, and no template."""
    name = f"{len(word)}{re.escape(word)}"
    hidden = rf"N\d+_(?:GLOBAL__N_|INTERNAL_)\w*?{name}E"
    return re.match(rf"_Z(?:L?{name}(?!I)|{hidden})", mangled) is not None


def _referenced(cubin: bytes, function: str) -> str:
    """Return the kernel whose address the variable of a name holds."""
    parts = {section.name: section for section in sections(cubin)}
    texts, symbols = parts[b".strtab"].content, parts[b".symtab"].content
    variable = reference_name(function).encode()
    where = None
    for name, _, _, _, address, _ in _SYMBOL.iter_unpack(symbols):
        if _text(texts, name) == variable:
            where = address
    for offset, index in _relocations(parts.get(n) for n in _VARIABLES):
        if offset == where:
            name = _SYMBOL.unpack_from(symbols, index * _SYMBOL.size)[0]
            return _text(texts, name).decode()
    raise LookupError(
        f"the binary does not say which kernel `{function}` is; its kernels are "
        f"{_listed(kernel_names(cubin))}. Declare it `__global__`, and build it with this space"
    )


def _relocations(found: Iterator[ElfSection | None]) -> Iterator[tuple[int, int]]:
    """Yield the offset of each relocation, and the index of its symbol."""
    for section in found:
        if section is not None:
            has_addend = section.kind == _WITH_ADDEND
            layout = _RELOCATION if has_addend else _SHORT_RELOCATION
            for offset, info, *_ in layout.iter_unpack(section.content):
                yield offset, info >> 32


def _text(texts: bytes, begin: int) -> bytes:
    return texts[begin : texts.index(b"\0", begin)]


def _listed(names: Sequence[str]) -> str:
    return first_few([f"`{readable(name)}`" for name in names], ", ")


@lru_cache(maxsize=1024)
def readable(mangled: str) -> str:
    """Return a C++ name as a person writes it; the mangled name where that is not known."""
    demangle = _demangler()
    if demangle is None or not mangled.startswith("_Z"):
        return mangled
    status = ctypes.c_int()
    address = demangle(mangled.encode(), None, None, ctypes.byref(status))
    if not address:
        return mangled
    try:
        return ctypes.string_at(address).decode().removeprefix("void ")
    finally:
        ctypes.CDLL(None).free(ctypes.c_void_p(address))


@lru_cache(maxsize=1)
def _demangler() -> Any:
    """Return abi::__cxa_demangle of the C++ library; None where there is none."""
    try:
        demangle = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
    except (OSError, AttributeError):
        return None
    demangle.restype = ctypes.c_void_p
    return demangle
