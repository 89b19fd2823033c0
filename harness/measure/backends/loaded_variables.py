"""Variables of machine code that is loaded into this process, such as PoCL's kernels.

A kernel could keep results in a variable of its program, and copy them in later runs. So every run
starts with variables as they were when the code was loaded.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from harness.core.machine import libc
from harness.measure.backends.elf import NO_BITS, ElfSection, sections

_RELOCATED = 4  # the kind of sections that list addresses which the loader fills in
_RELOCATION = struct.Struct("<QQq")
_POINTER = struct.Struct("<Q")
_TO_OWN = (8, 1027)  # relocations to an address of the object itself, on x86-64 and on Arm
_LOADERS_OWN = (b".got", b".got.plt", b".dynamic", b".init_array", b".fini_array", b".data.rel.ro")
_WRITABLE_IN_MEMORY = 3
_ALL = 1 << 31


class _LoadedObject(ctypes.Structure):
    """The part of `struct dl_phdr_info` that is read here (dl_iterate_phdr(3))."""

    _fields_ = (
        ("address", ctypes.c_uint64),
        ("path", ctypes.c_char_p),
        ("headers", ctypes.c_void_p),
        ("header_count", ctypes.c_uint16),
        ("loads", ctypes.c_ulonglong),
        ("unloads", ctypes.c_ulonglong),
    )


_Visit = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(_LoadedObject), ctypes.c_size_t, ctypes.c_void_p
)


class _Part(NamedTuple):
    """Memory of variables, and what it held when it was loaded."""

    address: int
    content: bytes


class LoadedVariables:
    """The variables of the shared objects that are loaded from a folder, now or later.

    Does nothing where the C library cannot list the loaded objects (it is no ELF system).
    """

    def __init__(self, folder: Path) -> None:
        self._folder = os.fsencode(folder.resolve()) + b"/"
        self._loads: tuple[int, int] | None = None
        self._parts: list[_Part] = []

    def reset(self) -> None:
        """Give all variables what they held when they were loaded; nothing may run meanwhile."""
        loads = _loads_so_far()
        if loads != self._loads:
            self._loads = loads
            self._parts = [
                part
                for loaded in _visited(_ALL)
                if (path := os.path.realpath(loaded.path or b"")).startswith(self._folder)
                for part in _parts_of(path, loaded.address)
            ]
        for address, content in self._parts:
            ctypes.memmove(address, content, len(content))


def _loads_so_far() -> tuple[int, int]:
    """Return how often this process has loaded and unloaded objects."""
    return next(((first.loads, first.unloads) for first in _visited(1)), (0, 0))


def _visited(most: int) -> list[_LoadedObject]:
    """Return copies of the records of so many loaded objects."""
    iterate: Any = getattr(libc(), "dl_iterate_phdr", None)
    found: list[_LoadedObject] = []

    def note(loaded: Any, _size: int, _data: object) -> int:
        found.append(_LoadedObject.from_buffer_copy(loaded.contents))
        return len(found) >= most

    if iterate is not None:
        iterate(_Visit(note), None)
    return found


def _parts_of(path: bytes, base: int) -> Iterator[_Part]:
    """Yield the variables of a file's object, without pointers to other objects."""
    try:
        parts = list(sections(Path(os.fsdecode(path)).read_bytes()))
    except (OSError, ValueError, struct.error, IndexError):
        return  # PoCL has removed the file: its code runs no more
    pointers = {where: to for part in parts for where, to in _pointers(part, base)}
    for part in parts:
        is_writable = part.flags & _WRITABLE_IN_MEMORY == _WRITABLE_IN_MEMORY
        if is_writable and part.size and part.name not in _LOADERS_OWN:
            content = bytearray(part.size) if part.kind == NO_BITS else bytearray(part.content)
            begin, end = part.address, part.address + part.size
            start = begin
            for where in sorted(w for w in pointers if begin <= w < end):
                to = pointers[where]
                if to is not None:
                    _POINTER.pack_into(content, where - begin, to)
                    continue
                yield _Part(base + start, bytes(content[start - begin : where - begin]))
                start = where + _POINTER.size
            yield _Part(base + start, bytes(content[start - begin :]))


def _pointers(part: ElfSection, base: int) -> Iterator[tuple[int, int | None]]:
    """Yield where the loader fills in pointers, and what: None for addresses in other objects."""
    if part.kind == _RELOCATED:
        for where, info, addend in _RELOCATION.iter_unpack(part.content):
            yield where, base + addend if info in _TO_OWN else None
