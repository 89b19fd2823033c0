"""Checks of a kernel besides its results, and the share of a measurement's time that they take."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from harness.measure.backends.base import Device
from harness.measure.host_module import Array

CHECK_SHARE = 0.05
"""Checks that a measurement could do without take at most this share of its other time."""

_OTHER_WORK_S = 0.04
"""The least that a configuration takes besides its runs: its build, the search, the database."""

_PART_BYTES = 1 << 22


@dataclass
class CheckTime:
    """Which checks fit into their share of the time that the other work of a measurement takes.

    A check counts as long as the shortest of its kind took: one that the machine disturbed must
    not end all others.
    """

    clock: Callable[[], float] = time.perf_counter
    _work_s: float = _OTHER_WORK_S
    _checks_s: float = 0.0
    _shortest_s: dict[Hashable, float] = field(default_factory=dict)

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Count what is done meanwhile as work."""
        began_s = self.clock()
        try:
            yield
        finally:
            self._work_s += self.clock() - began_s

    @contextlib.contextmanager
    def checking(self, kind: Hashable) -> Iterator[None]:
        """Count what is done meanwhile as a check of this kind."""
        began_s = self.clock()
        yield
        elapsed_s = self.clock() - began_s
        self._shortest_s[kind] = min(elapsed_s, self._shortest_s.get(kind, elapsed_s))
        self._checks_s += self._shortest_s[kind]

    def affords(self, kind: Hashable) -> bool:
        """Say whether one more check of a kind stays within the share; the first always does."""
        shortest_s = self._shortest_s.get(kind)
        return shortest_s is None or self._checks_s + shortest_s <= CHECK_SHARE * self._work_s


def same_bytes(one: Mapping[str, Array], other: Mapping[str, Array]) -> bool:
    """Say whether arrays of the same names, shapes and dtypes are equal bit for bit."""
    return all(_first_difference(one[name], other[name]) is None for name in one)


def _first_difference(one: Array, other: Array) -> int | None:
    """Return the first element, in C order, whose bytes differ between arrays of one dtype."""
    these, those = _bytes_of(one), _bytes_of(other)
    wide = these.size // 8 * 8  # eight bytes at a time are compared ten times as fast
    if np.array_equal(these[:wide].view(np.uint64), those[:wide].view(np.uint64)):
        differs = wide + np.flatnonzero(these[wide:] != those[wide:])
    else:
        differs = np.flatnonzero(these != those)
    return int(differs[0]) // one.dtype.itemsize if differs.size else None


def _bytes_of(array: Array) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def why_astray(
    device: Device, read_only: Mapping[str, Array], time: CheckTime | None
) -> str | None:
    """Return what a kernel wrote that it may not write; None where it wrote nothing else.

    `read_only` is what the arrays that no run may write should hold. With a `time`, only parts
    of large ones are compared, in random order, as far as it affords them.
    """
    strays = device.stray_writes()
    if strays:
        return f"it writes outside of the argument {', '.join(map(str, strays))}"
    parts = [part for name, array in read_only.items() for part in _parts_of(name, array)]
    random.Random().shuffle(parts)  # not the generator that a seed repeats a search with
    for name, part in parts:
        size = part.stop - part.start, read_only[name].dtype
        if time is not None and not time.affords(size):
            continue
        with time.checking(size) if time is not None else contextlib.nullcontext():
            expected = read_only[name].reshape(-1)[part]
            first = _first_difference(device.read(name, part), expected)
        if first is not None:
            return _writes(name, np.unravel_index(part.start + first, read_only[name].shape))
    return None


def _parts_of(name: str, array: Array) -> Iterator[tuple[str, slice]]:
    step = max(1, _PART_BYTES // array.dtype.itemsize)
    for start in range(0, array.size, step):
        yield name, slice(start, min(start + step, array.size))


def _writes(name: str, index: tuple[np.intp, ...]) -> str:
    element = f"{name}[{', '.join(map(str, index))}]" if index else name
    return (
        f"it writes the argument {name}, which is no output ({element} differs). Remove the write; "
        f'or write in the host module SCRATCH = ("{name}",) if {name} holds nothing between runs, '
        f'INOUT = ("{name}",) if a run reads what it holds before, or return {name} from '
        f"reference()"
    )
