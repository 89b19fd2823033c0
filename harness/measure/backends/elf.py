"""The sections of ELF files, and a hash of what a program executes."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from typing import NamedTuple

_HEADER = struct.Struct("<4sBB")
_TABLE_OFFSET = struct.Struct("<Q")
_TABLE_SHAPE = struct.Struct("<HHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_NO_BITS = 8
_NOTE = 7
_IN_MEMORY = 2


class Section(NamedTuple):
    """A section; without content where the file holds none of it."""

    name: bytes
    kind: int
    flags: int
    size: int
    info: int
    alignment: int
    content: bytes


def sections(elf: bytes) -> Iterator[Section]:
    """The sections of a 64-bit little-endian ELF file, in their order.

    Raises ValueError for what is no such file, struct.error or IndexError for an incomplete one.
    """
    magic, width, order = _HEADER.unpack_from(elf)
    if (magic, width, order) != (b"\x7fELF", 2, 1):
        raise ValueError(f"not a 64-bit ELF file: it starts with {elf[:6]!r}")
    (table,) = _TABLE_OFFSET.unpack_from(elf, 0x28)
    entry_size, count, names_index = _TABLE_SHAPE.unpack_from(elf, 0x3A)
    headers = [_SECTION.unpack_from(elf, table + i * entry_size) for i in range(count)]
    names = headers[names_index][4]
    for name, kind, flags, _, offset, size, _, info, alignment, _ in headers:
        begin = names + name
        content = b"" if kind == _NO_BITS else elf[offset : offset + size]
        text = elf[begin : elf.index(b"\0", begin)]
        yield Section(text, kind, flags, size, info, alignment, content)


def executed_sha256(binary: bytes) -> str:
    """SHA-256, hexadecimal, over what of a program is in memory while it runs.

    Names of sections that are not loaded, debug information and notes (the build's id is a hash
    over all else) are left out. What is no ELF file is hashed whole.
    """
    digest = hashlib.sha256()
    try:
        loaded = [s for s in sections(binary) if s.flags & _IN_MEMORY and s.kind != _NOTE]
    except (ValueError, struct.error, IndexError):
        return hashlib.sha256(binary).hexdigest()
    for section in loaded:
        numbers = (section.kind, section.flags, section.size, section.info, section.alignment)
        told = f"{' '.join(map(str, numbers))} {len(section.content)}"
        digest.update(section.name + b"\0" + told.encode() + b"\0" + section.content)
    return digest.hexdigest()
