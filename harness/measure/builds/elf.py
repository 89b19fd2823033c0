"""Read the machine code that compilers leave in ELF files.

This is not pyelftools: importing that takes each builder process 98 ms, and it names some section
types by version, while the stored hashes are over their numbers.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from typing import NamedTuple

_HEADER = struct.Struct("<4sBB34xQ10xHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_NO_BITS = 8  # the kind of a section of zeros, of which the file holds nothing
_NOTE = 7
_IN_MEMORY = 2
"""The flag of a section that is in memory while the program runs."""


class ElfSection(NamedTuple):
    """A section; `content` is empty where the file holds none of it."""

    name: bytes
    kind: int
    flags: int
    size: int
    info: int
    alignment: int
    content: bytes

    @property
    def identity(self) -> bytes:
        """Everything that decides what the section does."""
        numbers = (self.kind, self.flags, self.size, self.info, self.alignment)
        fields = f"{' '.join(map(str, numbers))} {len(self.content)}"
        return self.name + b"\0" + fields.encode() + b"\0" + self.content


def sections(elf: bytes) -> Iterator[ElfSection]:
    """Yield the sections of a 64-bit little-endian ELF file in their order.

    Raises ValueError for another kind of file, struct.error or IndexError for an incomplete one.
    """
    magic, width, order, table, entry_size, count, names_index = _HEADER.unpack_from(elf)
    if (magic, width, order) != (b"\x7fELF", 2, 1):
        raise ValueError(f"not a 64-bit ELF file: it starts with {elf[:6]!r}")
    headers = [_SECTION.unpack_from(elf, table + i * entry_size) for i in range(count)]
    names = headers[names_index][4]
    for name, kind, flags, _, offset, size, _, info, alignment, _ in headers:
        begin = names + name
        content = b"" if kind == _NO_BITS else elf[offset : offset + size]
        text = elf[begin : elf.index(b"\0", begin)]
        yield ElfSection(text, kind, flags, size, info, alignment, content)


def executed_sha256(binary: bytes) -> str:
    """Return the SHA-256 in hexadecimal of what a program has in memory while it runs.

    Debug information and other sections that are not loaded are left out, and so are notes: the
    build's id is a hash of everything. A file of another kind is hashed whole.
    """
    try:
        loaded = [s for s in sections(binary) if s.flags & _IN_MEMORY and s.kind != _NOTE]
    except (ValueError, struct.error, IndexError):
        return hashlib.sha256(binary).hexdigest()
    return hashlib.sha256(b"".join(section.identity for section in loaded)).hexdigest()
