"""Overwrite the memory of PoCL's threads: `local` memory, and stacks, which hold `private` memory;
and the variables of machine code that is loaded into this process, such as PoCL's kernels.

They keep their content from launch to launch. So a kernel could keep results there, or find those
that another configuration has left, and copy them in later runs. Every run starts with variables as
they were when the code was loaded.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import random
import struct
import sys
from collections import Counter
from collections.abc import Hashable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from harness.core.machine import libc
from harness.measure.elf import NO_BITS, ElfSection, sections

_SOURCE = """
kernel void overwrite(volatile global int *arrived, volatile global ulong *stacks,
                      volatile global ulong *locals, global const ulong *words,
                      local ulong *memory, int threads) {
    volatile ulong top[TOP];
    const int group = get_group_id(0);
    stacks[group] = (ulong)top;
    locals[group] = (ulong)memory;
    atomic_inc(arrived); /* and keep this thread busy until each thread has taken a group */
    for (int left = POLLS; left && atomic_add(arrived, 0) < threads; left--);
    for (ulong k = 0; k < words[0]; k++) memory[k] = -1;
    for (int k = 0; k < TOP; k++) top[k] = -1;
    volatile ulong *below = (volatile ulong *)stacks[group] - GAP;
    for (ulong k = 0; k < words[1]; k++) *--below = -1;
}
"""
_WORD = 8  # bytes of a ulong
_TOP = 512
"""Words of the stack that the kernel overwrites in its own frame, before what lies below."""

_GAP = 256
"""Words for variables of that frame, which may lie below the array. The host overwrites them."""

_POLLS = 1 << 22
"""How often a thread looks for the others: for some 40 ms, as a busy machine may hold them up."""

_TRIES = 5

_FIRST_LOOKS, _LATER_LOOKS = 8, 16
"""A thread is looked at after each of the first runs of a kernel, and after one in so many later
ones. How much is overwritten never shrinks, so that most later looks find nothing new."""

_POOLS = ("pthread-", "cpu-")
"""How PoCL names the devices of its drivers that run kernels on threads of their own."""

_CALLERS = ("basic-", "cpu-minimal-")
"""The same for drivers that run them on the thread that launches."""


def is_known(device_name: str) -> bool:
    """Say whether PoCL runs the kernels of a device on threads of this process: those of a GPU or
    of another machine have addresses that mean nothing here."""
    return sys.platform == "linux" and device_name.startswith((*_POOLS, *_CALLERS))


class ThreadMemory:
    """The local memory and the stacks of the threads that run PoCL's kernels, on Linux."""

    def __init__(self, cl: Any, context: Any, queue: Any) -> None:
        self._cl, self._queue, device = cl, queue, queue.device
        self._threads = int(device.max_compute_units)
        self._is_callers = device.name.startswith(_CALLERS)
        self._local_bytes = int(device.local_mem_size)
        self._arrived = np.zeros(1, np.int32)
        self._stacks = np.zeros(self._threads, np.uint64)
        self._locals = np.zeros(self._threads, np.uint64)
        self._words = np.zeros(2, np.uint64)
        self._runs: Counter[Hashable] = Counter()
        self._random = random.Random()  # not the generator that a seed repeats a search with
        self._kernel = self._build(context)

    def _build(self, context: Any) -> Any:
        # The device reads and writes the arrays themselves, which takes no transfers.
        flags = self._cl.mem_flags.READ_WRITE | self._cl.mem_flags.USE_HOST_PTR
        shared = (self._arrived, self._stacks, self._locals, self._words)
        # Kept: PoCL does not, and crashes.
        self._buffers = [self._cl.Buffer(context, flags, hostbuf=array) for array in shared]
        options = [f"-DTOP={_TOP}", f"-DGAP={_GAP}", f"-DPOLLS={_POLLS}"]
        program = self._cl.Program(context, _SOURCE).build(options, cache_dir=False)
        kernel = self._cl.Kernel(program, "overwrite")
        memory = self._cl.LocalMemory(self._local_bytes)
        kernel.set_args(*self._buffers, memory, np.int32(self._threads))
        return kernel

    def overwrite(self, ran: Hashable = None) -> None:
        """Queue the overwriting of what kernels have touched; nothing may run meanwhile.

        `ran` is what ran last. What it touched is gone even where no thread is looked at: memory
        beyond what is overwritten is dropped. Looking saves the next run of `ran` the new pages.

        What is queued next finds the threads awake: to wait here would make each run wake them
        twice, which takes some 0.3 ms. A thread that the machine does not run for long keeps its
        memory.
        """
        self._queue.finish()  # a launch that was refused has not waited for the last overwriting
        if not self._locals.all():
            self._find_addresses()
        if self._is_look_due(ran):
            self._look()
        if not self._is_callers:  # the frames of this function may lie there, and overwrite it
            for stack in self._stacks:
                ctypes.memset(int(stack) - _GAP * _WORD, 0xFF, _GAP * _WORD)
            self._clear_deeper()
        self._launch()

    def _is_look_due(self, ran: Hashable) -> bool:
        if self._is_callers:  # nothing is dropped there
            return True
        self._runs[ran] += 1
        return self._runs[ran] <= _FIRST_LOOKS or not self._random.randrange(_LATER_LOOKS)

    def _look(self) -> None:
        """Overwrite from now on what one of the threads has touched."""
        # Threads run the same kernels; which of them is looked at, no kernel can know.
        thread = self._random.randrange(self._threads)
        local_bytes = self._local_bytes  # where nothing is cleared
        if not self._is_callers:
            local_bytes = _touched_from(int(self._locals[thread]), self._local_bytes)
        stack_bytes = _touched_below(int(self._stacks[thread])) - _GAP * _WORD
        touched = (local_bytes // _WORD, max(0, stack_bytes) // _WORD)
        self._words[:] = np.maximum(self._words, touched)

    def _clear_deeper(self) -> None:
        """Clear what a thread that was not looked at may have touched beyond what is overwritten.

        That costs a few us a thread, where to look at one costs 0.2 ms.
        """
        local_bytes, stack_bytes = (int(words) * _WORD for words in self._words)
        for stack in map(int, self._stacks):
            _clear(_low_end(stack), stack - _GAP * _WORD - stack_bytes)
        for memory in map(int, self._locals):
            _clear(memory + local_bytes, memory + self._local_bytes)

    def _find_addresses(self) -> None:
        """Run the kernel on all threads, again where one of them took the groups of two."""
        for _ in range(_TRIES):
            self._launch().wait()
            if np.unique(self._stacks).size == self._threads:
                return

    def _launch(self) -> Any:
        self._arrived[0] = 0
        return self._cl.enqueue_nd_range_kernel(self._queue, self._kernel, (self._threads,), (1,))


def _touched_from(address: int, size_bytes: int) -> int:
    """Return the bytes of a block of memory up to the end of the last whole page that was touched:
    a part of a page behind it shares that page with other memory."""
    begin = _page_of(address)
    pages = _touched(begin, max(begin + mmap.PAGESIZE, _page_of(address + size_bytes)))
    end = begin + (int(pages[-1]) + 1) * mmap.PAGESIZE if pages.size else address
    return min(end - address, size_bytes)


def _page_of(address: int) -> int:
    return address - address % mmap.PAGESIZE


def _touched_below(address: int) -> int:
    """Return the bytes of a stack below an address, down to the last page that was touched."""
    low = _low_end(address)
    pages = _touched(low, address)
    return address - (low + int(pages[0]) * mmap.PAGESIZE) if pages.size else 0


def _touched(begin: int, end: int) -> npt.NDArray[np.intp]:
    """Return which pages of mapped memory were ever touched, as sorted numbers from 0."""
    found = np.empty(-(-(end - begin) // mmap.PAGESIZE), np.uint8)
    if _libc().mincore(begin, end - begin, found.ctypes.data):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return np.flatnonzero(found & 1)


def _clear(begin: int, end: int) -> None:
    """Replace mapped memory between two addresses: whole pages by zeros, which takes no memory, and
    the rest of the first and of the last page by NaN bytes."""
    first, last = (-(-begin // mmap.PAGESIZE) * mmap.PAGESIZE, end // mmap.PAGESIZE * mmap.PAGESIZE)
    if first >= last:
        ctypes.memset(begin, 0xFF, max(0, end - begin))
        return
    ctypes.memset(begin, 0xFF, first - begin)
    ctypes.memset(last, 0xFF, end - last)
    if _libc().madvise(first, last - first, mmap.MADV_DONTNEED):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


@lru_cache(maxsize=1)
def _libc() -> ctypes.CDLL:
    library = libc()
    library.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    library.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return library


@lru_cache(maxsize=1024)
def _low_end(address: int) -> int:
    """Return where the mapping begins that holds an address of this process."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        low, high = (int(word, 16) for word in line.split(maxsplit=1)[0].split("-"))
        if low <= address < high:
            return low
    raise ValueError(f"{address:#x} is no address of this process")


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
