"""Checks of a kernel besides its results, and the share of a measurement's time that they take."""

from __future__ import annotations

import contextlib
import hashlib
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from harness.core.program import Fill
from harness.measure.device.launcher import Device
from harness.measure.device.verify import Array

CHECK_SHARE = 0.05
"""Verifications that a measurement could do without take at most this share of its time; and so
does the comparison of the inputs after it."""

_OTHER_WORK_S = 0.04
"""The least that a configuration takes besides its runs: its build, the search, the database."""

_FIRST_CHECKS = 2  # are made in any case
_PART_BYTES = 1 << 22
_FEW_BYTES = 1 << 16
_COMPARED = 1 << 16  # wrong elements, to find out why
_NEARLY_ALL = 0.99


@dataclass
class CheckTime:
    """The seconds of a measurement's work, and of its verifications, which take a small share of
    them.

    The first two verifications are made in any case, and each later one at a random moment, so
    that no kernel can work out which of its runs are verified.
    """

    work_s: float = _OTHER_WORK_S
    checks_s: float = 0.0
    count: int = 0
    draw: Callable[[], float] = field(default_factory=lambda: random.Random().random)

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Count what is done meanwhile as work."""
        began_s = time.perf_counter()
        try:
            yield
        finally:
            self.work_s += time.perf_counter() - began_s

    @contextlib.contextmanager
    def checking(self) -> Iterator[None]:
        """Count what is done meanwhile as a verification."""
        began_s = time.perf_counter()
        yield
        self.count += 1
        self.checks_s += time.perf_counter() - began_s

    def affords(self) -> bool:
        """Say whether one more verification is one of the first, or within the share."""
        if self.count < _FIRST_CHECKS:
            return True
        needed_s = (1 + self.draw()) * self.checks_s / self.count
        return self.checks_s + needed_s <= self.allowed_s

    @property
    def allowed_s(self) -> float:
        """The seconds that checks of one kind may take."""
        return CHECK_SHARE * self.work_s


def same_bytes(arrays: Mapping[str, Array], other: Mapping[str, Array]) -> bool:
    """Say whether arrays of the same names, shapes and dtypes are equal bit for bit."""
    return all(_first_difference(arrays[name], other[name]) is None for name in arrays)


def bits_of(arrays: Mapping[str, Array]) -> float:
    """Return a digest of arrays, a whole number from 1 to 2^48 that a float holds exactly."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(_bytes_of(arrays[name]).data)
    return float(1 + int.from_bytes(digest.digest()[:6], "little"))


def _first_difference(array: Array, other: Array) -> int | None:
    """Return the first element, in C order, whose bytes differ between arrays of one dtype."""
    these = _bytes_of(array)
    those = _bytes_of(other)
    # Nearly all are equal. numpy needs 40 us to find that of an array of any size.
    if these.size <= _FEW_BYTES and these.tobytes() == those.tobytes():
        return None
    wide = these.size // 8 * 8  # eight bytes at a time are compared ten times as fast
    if np.array_equal(these[:wide].view(np.uint64), those[:wide].view(np.uint64)):
        differs = wide + np.flatnonzero(these[wide:] != those[wide:])
    else:
        differs = np.flatnonzero(these != those)
    if not differs.size:
        return None
    return int(differs[0]) // array.dtype.itemsize


def _bytes_of(array: Array) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def wrong_writes(
    device: Device, read_only: Mapping[str, Array], allowed_s: float = math.inf
) -> str | None:
    """Return what a kernel wrote that it may not write; None where it wrote nothing else.

    `read_only` is what the arrays that no run may write should hold. Parts of large ones are
    compared, in random order, until `allowed_s` have passed.
    """
    writes = device.arguments.outside_writes()
    if writes:
        return f"it writes outside of the argument {', '.join(map(str, writes))}"
    return why_overwritten(device, read_only, allowed_s)


def why_overwritten(
    device: Device, read_only: Mapping[str, Array], allowed_s: float = math.inf
) -> str | None:
    """Return which array that no run may write has changed; None where none has."""
    parts: list[tuple[str, slice]] = []
    for name, array in read_only.items():
        step = max(1, _PART_BYTES // array.dtype.itemsize)
        for start in range(0, array.size, step):
            parts.append((name, slice(start, min(start + step, array.size))))
    random.Random().shuffle(parts)  # not the generator that a seed repeats a search with
    end_s = time.perf_counter() + allowed_s
    for number, (name, part) in enumerate(parts):
        if number >= _FIRST_CHECKS and time.perf_counter() > end_s:
            break
        expected = read_only[name]
        first = _first_difference(device.arguments.read(name, part), expected.reshape(-1)[part])
        if first is not None:
            index = np.unravel_index(part.start + first, expected.shape)
            return _advice(name, ", ".join(map(str, index)))
    return None


def _advice(name: str, index: str) -> str:
    """Say that a kernel writes an array that is no output, and what to do."""
    element = f"{name}[{index}]" if index else name
    return (
        f"it writes the argument {name}, which is no output ({element} differs). Remove the write; "
        f'or write in the host module SCRATCH = ("{name}",) if {name} holds nothing between runs, '
        f'INOUT = ("{name}",) if a run reads what it holds before, or return {name} from '
        f"reference()"
    )


def why_added(name: str, found: Array, expected: Array, before: Fill, rtol: float) -> str:
    """Explain an output to which a kernel adds, and which held `before`; empty for others."""
    if not _adds(found, expected, before.array(found.shape, found.dtype), rtol):
        return ""
    return (
        f". {name} looks like what was there before plus the expected value: does the kernel "
        f'add to it? Then write in the host module INOUT = ("{name}",) '
        "(docs/reference/space.md#the-host-module)"
    )


def _adds(found: Array, expected: Array, fill: Array, rtol: float) -> bool:
    """Whether a wrong output holds what was there before a run plus what is expected, on nearly
    all elements that are wrong."""
    differs = np.flatnonzero(found != expected)[:_COMPARED]
    got = found.reshape(-1)[differs]
    want = expected.reshape(-1)[differs]
    before = fill.reshape(-1)[differs]
    if found.dtype.kind in "iu":
        is_sum = got == before + want.astype(found.dtype)  # both wrap around
    else:
        wide = np.complex128 if found.dtype.kind == "c" else np.float64
        base = before.astype(wide)
        added = want.astype(wide)
        with np.errstate(invalid="ignore", over="ignore"):
            allowed = rtol * (np.abs(base) + np.abs(added))
            is_sum = np.abs(got.astype(wide) - (base + added)) <= allowed
    # Beside a large number, a small one is lost: then nothing tells a sum from no write at all.
    return bool(differs.size and is_sum.mean() >= _NEARLY_ALL and (got != before).any())
