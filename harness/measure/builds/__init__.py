"""What compilers leave: warnings which say that they did not obey their flags, and machine code.

Compilers warn about flags that exclude one another, that they adjust or ignore, and exit with
status 0. The measured time would be filed under flags that had no effect, so such a build has
failed. Warnings about the source do not count, nor those about deprecated flags that still work.

ELF files are read here, and not by pyelftools: importing it takes each builder process 98 ms; and
it names some section types by version, while the stored hashes are over their numbers.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterator
from typing import NamedTuple

from harness.core.errors import BuildFailed
from harness.core.program import family

# nvcc's tools warn about the source in the same format, so the messages that count are listed. They
# are those of nvcc, ptxas and nvlink 13.0, and of NVRTC, which takes flags of nvcc;
# `harness/space_file/flags/nvcc.yaml` has the settings.
_NVCC_TOOL = r"^(?:(?:nvcc|ptxas|nvlink|cicc)\s+(?:warning|info)\s*|nvrtc: warning):\s*"
_NVCC_CONFLICT = "|".join(
    (
        r"incompatible redefinition for option",
        r"Conflicting options",
        r"adjusting per thread register count",
        r"Too big maxrregcount value",
        r"Value of .* will be ignored",
        r"option will be ignored",
        r"Command line option .* will be ignored",
        r"Option .* (?:will be ignored|ignoring)",
        r"[Oo]ption .* is ignored unless",
        r"flag is not supported .* will be ignored",
        r"is not fully implemented",
        r"not compatible with .*, ignoring option",
        r"Too many (?:values )?specified for .* will be ignored",
        r"minnctapersm is ignored",
        r"overrides '",
        r"Ignoring -dlto option",
        r"setmaxnreg' ignored",
        r'" followed by "',
    )
)

# The C compilers report the file and line of the source: a message of the driver or the front end
# without them is about the command line.
_C_TOOL = r"^(?:\S*/)?(?:cc1|cc1plus|gcc|g\+\+|lto1|lto-wrapper|clang|clang\+\+)(?:-\d+)?"
_C_CONFLICT = _C_TOOL + r": (?:warning|sorry, unimplemented): (?!.*\bdeprecated\b)"
_UNPLACED = r"^(?:<invalid loc>: )?(?:warning|sorry, unimplemented): (?!.*\bdeprecated\b)"

# PoCL's clang; "not yet supported" is PoCL's own.
_OPENCL_CONFLICT = "|".join(
    (
        r"^(?:warning: )?<invalid loc>:.*does not support the option",
        r"build option is not (?:yet )?supported",
        r"argument unused during compilation",
        r"^(?:warning: )?.*overriding '-",
    )
)

_PATTERNS = {
    "nvcc": f"{_NVCC_TOOL}.*(?:{_NVCC_CONFLICT})",
    "opencl": _OPENCL_CONFLICT,
    "gcc": _C_CONFLICT,
    "g++": _C_CONFLICT,
    "clang": f"{_C_CONFLICT}|{_UNPLACED}",
    "clang++": f"{_C_CONFLICT}|{_UNPLACED}",
}
_COMPILED = {compiler: re.compile(pattern) for compiler, pattern in _PATTERNS.items()}


def require_obeyed(compiler: str, log: str) -> None:
    """Raise BuildFailed with the lines which say that the compiler did not obey its flags."""
    lines = conflicts(compiler, log)
    if lines:
        raise BuildFailed("the compiler did not obey its flags\n" + "\n".join(lines))


def conflicts(compiler: str, log: str) -> tuple[str, ...]:
    """Return the lines of a log which say that the compiler did not obey its flags, each once.

    `compiler` is a key of `harness.space_file.flags.COMPILERS`, with or without a version. For
    another compiler there are none.
    """
    pattern = _COMPILED.get(family(compiler))
    if pattern is None:
        return ()
    lines = (line.strip() for line in log.splitlines())
    return tuple(dict.fromkeys(line for line in lines if pattern.search(line)))


_HEADER = struct.Struct("<4sBB")
_TABLE_OFFSET = struct.Struct("<Q")
_TABLE_SHAPE = struct.Struct("<HHH")
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
