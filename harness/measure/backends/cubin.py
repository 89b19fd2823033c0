"""Hash what a cubin executes: equal for equal machine code.

A cubin is an ELF file. Its bytes always differ under two sets of flags, even where every
instruction agrees, and depend on the folder of the source. The hash leaves out three things:

- the note `.note.nv.tkinfo`, which holds the command line of ptxas;
- the requested register limit, one record of `.nv.info.*` (the used registers stay in);
- the hash of the source's folder in names with internal linkage, such as
  `_INTERNAL_47d4193a_9_kernel_cu_...`.

All else counts: code, constants, shared memory and its alignment, symbols, launch bounds, the
architecture and its features.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterator

from harness.measure.backends.elf import ElfSection, sections

_FLAGS_AT = slice(0x30, 0x34)

_SYMBOL = struct.Struct("<IBBHQQ")
_IS_KERNEL = 0x10  # STO_CUDA_ENTRY, a bit of a symbol's `other`
_IS_VARIABLE = 1  # STT_OBJECT, the type in a symbol's `info`
_TOOL_NOTE = b".note.nv.tkinfo"
_INFO_RECORD = struct.Struct("<BBH")
_RECORD_WITH_PAYLOAD = 0x04
_REGISTER_LIMIT = 0x1B
_MODULE_HASH = re.compile(rb"(_INTERNAL_|_GLOBAL__N__)[0-9a-f]{8}_")


def machine_code_sha256(cubin: bytes) -> str:
    """Return the SHA-256 in hexadecimal of the sections of a cubin that decide what it does.

    Raises ValueError for anything but a complete 64-bit little-endian ELF file.
    """
    try:
        parts = [_identity(each) for each in sections(cubin) if each.name != _TOOL_NOTE]
    except (ValueError, struct.error, IndexError) as error:
        raise ValueError(f"not a complete cubin of {len(cubin):,} bytes: {error}") from error
    return hashlib.sha256(cubin[_FLAGS_AT] + b"".join(parts)).hexdigest()


def kernel_names(cubin: bytes) -> list[str]:
    """Return the names by which the kernels of a cubin are launched, in alphabetical order.

    C++ mangles the name of a kernel without extern "C". Raises what `sections` raises.
    """
    return sorted(name for name, _, other in _symbols(cubin) if other & _IS_KERNEL)


def variable_names(cubin: bytes) -> list[str]:
    """Return the names of a cubin's variables, such as `__constant__` arrays."""
    found = (name for name, info, _ in _symbols(cubin) if info & 0xF == _IS_VARIABLE)
    return sorted(name for name in found if not name.startswith("."))  # the compiler's own


def _symbols(cubin: bytes) -> Iterator[tuple[str, int, int]]:
    """Yield the name of each symbol, its `info` and its `other`."""
    parts = {section.name: section.content for section in sections(cubin)}
    names = parts.get(b".strtab", b"")
    for name, info, other, *_ in _SYMBOL.iter_unpack(parts.get(b".symtab", b"")):
        yield names[name : names.index(b"\0", name)].decode(), info, other


def _identity(section: ElfSection) -> bytes:
    content = section.content
    if section.name.startswith(b".nv.info."):
        content = _without_register_limit(content)
    return section._replace(name=_masked(section.name), content=_masked(content)).identity


def _masked(text: bytes) -> bytes:
    """Return a text with zeros in place of hashes of the module, which keep every offset."""
    return _MODULE_HASH.sub(rb"\g<1>00000000_", text)


def _without_register_limit(records: bytes) -> bytes:
    """Return the records of an `.nv.info.*` section without the one that holds `maxrregcount`.

    A record is a format byte, an attribute byte and two bytes of value. In one of the formats the
    value is the size of a payload that follows.
    """
    kept = bytearray()
    begin = 0
    while begin < len(records):
        layout, attribute, value = _INFO_RECORD.unpack_from(records, begin)
        end = begin + _INFO_RECORD.size + (value if layout == _RECORD_WITH_PAYLOAD else 0)
        if attribute != _REGISTER_LIMIT:
            kept += records[begin:end]
        begin = end
    return bytes(kept)
