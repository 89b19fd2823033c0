"""A hash of what a cubin executes, equal for equal machine code.

The bytes of a cubin, an ELF file, are never equal under two sets of flags, even where every
instruction agrees, and depend on where it was compiled. Three things are left out:

- the note `.note.nv.tkinfo`, in which ptxas writes down its own command line;
- the register limit that was asked for, one record of `.nv.info.*` (the registers that are
  used stay in);
- the hash of the source's directory in the names of things with internal linkage, such as
  `_INTERNAL_47d4193a_9_kernel_cu_...`.

All else counts: code, constants, shared memory and its alignment, symbols, launch bounds, the
architecture and its features.
"""

from __future__ import annotations

import hashlib
import re
import struct

from harness.measure.backends.elf import Section, sections

_FLAGS_AT = slice(0x30, 0x34)

_TOOL_NOTE = ".note.nv.tkinfo"
_INFO_RECORD = struct.Struct("<BBH")
_RECORD_WITH_PAYLOAD = 0x04
_REGISTER_LIMIT = 0x1B
_MODULE_HASH = re.compile(rb"(_INTERNAL_|_GLOBAL__N__)[0-9a-f]{8}_")


def machine_code_sha256(cubin: bytes) -> str:
    """SHA-256, hexadecimal, over the sections of a cubin that decide what it does.

    Raises ValueError for anything but a complete 64-bit little-endian ELF file.
    """
    digest = hashlib.sha256()
    try:
        digest.update(cubin[_FLAGS_AT])
        for section in sections(cubin):
            if section.name != _TOOL_NOTE.encode():
                digest.update(_identity(section))
    except (ValueError, struct.error, IndexError) as error:
        raise ValueError(f"not a complete cubin of {len(cubin):,} bytes: {error}") from error
    return digest.hexdigest()


def _identity(section: Section) -> bytes:
    content = section.content
    if section.name.startswith(b".nv.info."):
        content = _without_register_limit(content)
    # The string tables' text holds names; blanking a hash of eight digits keeps every offset.
    content = _MODULE_HASH.sub(rb"\g<1>00000000_", content)
    name = _MODULE_HASH.sub(rb"\g<1>00000000_", section.name)
    numbers = (section.kind, section.flags, section.size, section.info, section.alignment)
    told = f"{' '.join(map(str, numbers))} {len(content)}"
    return name + b"\0" + told.encode() + b"\0" + content


def _without_register_limit(records: bytes) -> bytes:
    """The records of an `.nv.info.*` section but the one that repeats `maxrregcount`.

    A record is a format byte, an attribute byte and two bytes of value, which for the last
    of the formats are the size of a payload that follows.
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
