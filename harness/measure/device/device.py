"""The interfaces of a backend: a `Compiler` makes what a `Device` loads.

Both live in worker processes, so that neither a hang nor a crash reaches the main process.
"""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from harness.core.errors import BackendUnavailable, LaunchFailed, OutOfDeviceMemory
from harness.core.program import Argument, Binary, Contents, Fill, Launch, Program
from harness.core.records import COLD, DeviceLimits, Environment
from harness.measure.device.bound import (
    Bound,
    BoundArray,
    BoundSet,
    KeptCopy,
    StrayWrite,
    plain,
    stray_write,
    zone_bytes,
    zone_content,
)
from harness.measure.device.clocks import (
    COMPARED,
    MOST_WORK,
    ClockWatch,
    find_tick,
    shows_clock,
    why_wrong,
)

_FILLED_BYTES = 1 << 18  # at most, to see the clock's tick
_COMPARED_BYTES = (1 << 20, 1 << 22, 1 << 24, 1 << 26)
"""The fills by which a device's clock is compared with the host's: up to the first that shows
whether it is right. A fast GPU takes too little time for all of them; then launches show it."""
COMPARED_LAUNCHES = 20
_MOST_SUSPICIONS = 15
"""Of a right clock, three in ten launches seem wrong where eight processes work beside harness, so
that so many in a row are one case in 10^8. A wrong one is noticed at the first input whose launches
take more than a millisecond."""


class Compiler(Protocol):
    """Compile programs, in several builder processes at once."""

    @property
    def identity(self) -> str:
        """The compiler, its version and target: builds of two identities are never mixed."""

    @property
    def arch(self) -> str | None:
        """The NVIDIA architecture to compile for, such as `sm_90`; None for other devices."""

    def compile(self, program: Program) -> Binary:
        """Compile, or raise BuildFailed with the compiler's log."""


class Device(ABC):
    """Run binaries, in one process at a time; subclasses call the driver.

    Every method raises LaunchFailed, and nothing else for a failure that the configuration causes.
    A device is `healthy` until a failed launch has spoilt this process for further launches; it
    `overran` once a kernel wrote past a guard zone where this process may keep its own memory.
    """

    def __init__(self, error: type[Exception], channel: str, cache: str) -> None:
        """`error` is the base class of the driver's errors, `channel` what a failed launch can
        spoil. If `cache` is COLD, nothing of the arguments is in the device's caches at the first
        launch after a `restore`."""
        self.healthy = True
        self.overran = False
        self.watch = ClockWatch()  # how warm the device is, and the clocks that it had
        self.notices: list[str] = []  # what the user should know of the device
        self._compared = 0  # launches with these arguments whose times the host's clock confirmed
        self._suspicions = 0  # launches in a row of which the device's clock cannot be right
        self._error = error
        self._channel = channel
        self._cache = cache
        self._flushed_with: Any | None = None
        self._is_flush_due = False
        self._sets: Sequence[Mapping[str, Argument]] = ()
        self._bound_sets: dict[int, BoundSet] = {}  # all of them, or one at a time
        self._current = BoundSet({}, {})
        self._strays: list[StrayWrite] = []  # of sets that are bound no more

    @abstractmethod
    def environment(self, compiler: str) -> Environment:
        """Return the device and its software: times of one environment can be compared."""

    @property
    @abstractmethod
    def limits(self) -> DeviceLimits:
        """The limits of a launch."""

    @property
    @abstractmethod
    def shares_cpu(self) -> bool:
        """Whether kernels run on the cores that compile: then builds and launches never overlap."""

    @abstractmethod
    def load(self, binary: Binary) -> Any:
        """Make a binary ready to launch; the result is only good for `launch`."""

    @abstractmethod
    def unload(self) -> None:
        """Forget what was loaded, so that the next load may put the code elsewhere; a device whose
        driver never moves code may keep it."""

    @abstractmethod
    def launch(self, module: Any, launches: Sequence[Launch]) -> float:
        """Run the launches in order, wait, and return the sum of their device times in seconds."""

    def sm_clock_mhz(self) -> float | None:
        """Return the multiprocessors' mean clock around the last `launch`; None if unknown."""
        return None

    def observed(self, module: Any) -> dict[str, float]:
        """Return what else is known of the last launches of a module, by observations."""
        return {}

    @abstractmethod
    def _allocated(self, size_bytes: int) -> Any:
        """Return new device memory."""

    @abstractmethod
    def _inside(self, memory: Any, offset: int, size_bytes: int) -> Any:
        """Return a part of device memory as kernels take it."""

    @abstractmethod
    def _write(self, memory: Any, offset: int, array: npt.NDArray[Any]) -> None:
        """Copy a C-contiguous array to the device, and wait."""

    @abstractmethod
    def _read(self, array: npt.NDArray[Any], memory: Any, offset: int) -> None:
        """Copy from the device into an array, and wait."""

    @abstractmethod
    def _fill(self, memory: Any, offset: int, byte: int, size_bytes: int) -> None:
        """Set bytes on the device; need not wait."""

    @abstractmethod
    def _copy(self, memory: Any, offset: int, source: Any, size_bytes: int) -> None:
        """Copy the start of `source` within the device; need not wait."""

    @abstractmethod
    def _free(self, whole: Any, part: Any = None) -> None:
        """Free device memory, and the part of it that `_inside` returned."""

    @property
    @abstractmethod
    def _cache_bytes(self) -> int:
        """The size of the device's last cache."""

    @abstractmethod
    def _wait(self) -> None:
        """Wait for the device; raises its error where it does not work any more."""

    @abstractmethod
    def _is_out_of_memory(self, error: Exception) -> bool:
        """Whether a driver's error says that the device has no memory left."""

    @abstractmethod
    def _describe_memory(self) -> str:
        """Return how much of the device's memory is free, and what may hold the rest."""

    @abstractmethod
    def _timed_fill(self, memory: Any, size_bytes: int) -> float:
        """Set bytes to 0 on the device, wait, and return the seconds that its clock says."""

    @property
    def _stated_tick_s(self) -> float:
        """The tick that the driver states; 0 where it states none."""
        return 0.0

    @cached_property
    def tick_s(self) -> float:
        """The step of the clock that times launches, in seconds; 0 where it is far below any.

        It is found once: filling memory takes different times.
        """
        with self._errors("reading the device's clock"):
            memory = self._allocated(_FILLED_BYTES)
            try:
                return find_tick(
                    lambda length: self._timed_fill(memory, length * _FILLED_BYTES // MOST_WORK),
                    self._stated_tick_s,
                )
            finally:
                self._free(memory)

    def check_clock(self) -> None:
        """Compare the device's clock with the host's around the same fills of memory.

        Where it cannot be right, a backend takes the host's clock, or raises BackendUnavailable.
        """
        for size_bytes in _COMPARED_BYTES:
            try:
                with self._errors("comparing the device's clock with the host's"):
                    timed_s = self._timed_fills(size_bytes)
            except OutOfDeviceMemory:
                return
            if shows_clock(timed_s):
                break
        why = why_wrong(timed_s)
        if why:
            self._time_by_host(f"the device's clock {why}")

    def _timed_fills(self, size_bytes: int) -> list[tuple[float, float]]:
        """Fill memory several times; return the seconds that the device's and the host's clock
        say."""
        timed_s: list[tuple[float, float]] = []
        memory = self._allocated(size_bytes)
        try:
            self._timed_fill(memory, size_bytes)  # the first one may allocate
            while len(timed_s) < COMPARED:
                begin_s = time.perf_counter()
                device_s = self._timed_fill(memory, size_bytes)
                timed_s.append((device_s, time.perf_counter() - begin_s))
        finally:
            self._free(memory)
        return timed_s

    def _time_by_host(self, why: str) -> None:
        """Take the host's clock from now on, or raise BackendUnavailable."""
        raise BackendUnavailable(f"{why}, so that it cannot be right. Update the device's driver")

    @property
    def _compares_clocks(self) -> bool:
        """Whether the next launches are among the first with these arguments."""
        return self._compared < COMPARED_LAUNCHES

    def _compare_clocks(self, device_s: float, begin_s: float, launches: int) -> None:
        """Compare the device's clock with the host's around launches that began at a moment, if
        they are among the first with these arguments, but not the first ones of their functions.

        Other work of the machine may hold the host back at any launch, and seldom at many in a
        row: raises BackendUnavailable after these.
        """
        if not self._compares_clocks:
            return
        self._compared += 1
        why = why_wrong([(device_s, time.perf_counter() - begin_s)], launches)
        if not why:
            self._suspicions = 0
            return
        self._suspicions += 1
        if self._suspicions == _MOST_SUSPICIONS:
            raise BackendUnavailable(
                f"the device's clock {why}, {_MOST_SUSPICIONS} times in a row, so that it cannot "
                "be right. Update the device's driver, or name another device with --device"
            )

    @property
    def _arguments(self) -> Bound:
        return self._current.arguments

    def bind(self, *sets: Mapping[str, Argument]) -> None:
        """Replace the arguments on the device by copies of these sets, and turn to the first; where
        memory does not hold all, the others are copied when it is turned to them."""
        self._release_sets()
        self._strays.clear()
        self._compared = 0
        self._sets = sets
        self.turn_to(0)
        if self._cache == COLD and self._flushed_with is None:
            size_bytes = 2 * self._cache_bytes
            with self._errors(f"allocating {size_bytes:,} bytes to empty the caches with"):
                self._flushed_with = self._allocated(size_bytes)
        with contextlib.suppress(OutOfDeviceMemory):
            for number in range(1, len(sets)):
                self._bound_sets[number] = self._bound_copy(self._sets[number], number)

    def turn_to(self, number: int) -> None:
        """Let all that follows be about this one of the sets of arguments."""
        if number not in self._bound_sets:
            self._strays += self.stray_writes()
            self._release_sets()
            self._bound_sets[number] = self._bound_copy(self._sets[number], number)
        self._current = self._bound_sets[number]

    def _bound_copy(self, arguments: Mapping[str, Argument], number: int = 0) -> BoundSet:
        """Return a copy of a set of arguments, with each array between two guard zones."""
        bound = BoundSet({}, {})
        try:
            for name, value in arguments.items():
                if isinstance(value, np.ndarray):
                    with self._errors(f"allocating {value.nbytes:,} bytes for {name}"):
                        bound.arguments[name] = self._between_zones(name, value, number % 2 == 1)
                else:
                    bound.arguments[name] = value
        except LaunchFailed:
            self._free_set(bound)
            raise
        return bound

    def _between_zones(self, name: str, array: npt.NDArray[Any], is_ordinary: bool) -> BoundArray:
        """Return a copy of an array on the device, between two guard zones."""
        begin = zone_bytes(array.nbytes)
        whole = self._allocated(array.nbytes + 2 * begin)
        inside = self._inside(whole, begin, array.nbytes)
        zone = zone_content(name, array.dtype, begin, is_ordinary)
        bound = BoundArray(inside, whole, array.shape, array.dtype, zone)
        for place, _ in bound.zones():
            self._write(whole, place, zone)
        self._write(whole, begin, plain(array))
        return bound

    def write(self, name: str, array: npt.NDArray[Any]) -> None:
        """Overwrite one array argument; same shape and dtype as it was bound with."""
        bound = self._bound_like(name, array)
        with self._errors(f"writing {name}"):
            self._write(bound.whole, bound.begin, plain(array))

    def restore(self, contents: Mapping[str, Contents]) -> None:
        """Give array arguments a content that they are given again and again; the arrays must not
        change.

        Need not wait: what comes next on the device finds them restored. ValueError unless the
        arrays' shapes and dtypes are as bound.
        """
        with self._errors(f"restoring {', '.join(contents)}"):
            for name, content in contents.items():
                self._restore(name, content)
        self._is_flush_due = self._cache == COLD

    def _before_launch(self) -> None:
        """Queue the emptying of the caches, once after each restore, right before the launch: the
        device is busy with it while the host queues the launch, whose work is in no time."""
        if self._is_flush_due:
            self._is_flush_due = False
            with self._errors("emptying the caches"):
                self._empty_caches(self._flushed_with, 2 * self._cache_bytes)

    def _empty_caches(self, memory: Any, size_bytes: int) -> None:
        """Write to memory of twice the size of the last cache, as nvbench does for cold times."""
        self._fill(memory, 0, 0, size_bytes)

    def _restore(self, name: str, content: Contents) -> None:
        if isinstance(content, Fill):
            bound = self._bound(name)
            self._fill(bound.whole, bound.begin, content.byte, bound.size_bytes)
            return
        bound = self._bound_like(name, content)
        copy = self._copy_on_device(name, content)
        if copy is None:
            self._write(bound.whole, bound.begin, plain(content))
        else:
            self._copy(bound.whole, bound.begin, copy, bound.size_bytes)

    def _copy_on_device(self, name: str, array: npt.NDArray[Any]) -> Any | None:
        """Return a copy of an array on the device; None where there is no room for one.

        One copy is kept of each argument: of the array that it was last given.
        """
        copies = self._current.copies
        copy = copies.get(name)
        if copy is None or copy.array is not array:
            if copy is not None and copy.memory is not None:
                self._free(copy.memory)
            copy = copies[name] = KeptCopy(array, self._new_copy(array))
        return copy.memory

    def _new_copy(self, array: npt.NDArray[Any]) -> Any | None:
        try:
            memory = self._allocated(array.nbytes)
            self._write(memory, 0, plain(array))
        except self._error:
            if not self._answers():
                raise
            return None
        return memory

    def read(self, name: str, part: slice | None = None) -> npt.NDArray[Any]:
        """Return a copy of one array argument as it now is on the device.

        A `part`, with start and stop, is one of its elements in C order, and comes flat.
        """
        bound = self._bound(name)
        start, stop = (part.start, part.stop) if part else (0, 0)
        array = np.empty(stop - start if part else bound.shape, bound.dtype)
        with self._errors(f"reading {name}"):
            self._read(plain(array), bound.whole, bound.begin + start * bound.dtype.itemsize)
        return array

    def stray_writes(self) -> list[StrayWrite]:
        """Return what was written before or behind array arguments since they were bound, or
        since the last call, and repair it."""
        strays, self._strays = self._strays, []
        return strays + [s for bound in self._bound_sets.values() for s in self._strays_of(bound)]

    def _strays_of(self, bound: BoundSet) -> list[StrayWrite]:
        """Return the stray writes around a set, and repair them."""
        arrays = {n: v for n, v in bound.arguments.items() if isinstance(v, BoundArray)}
        with self._errors("reading the memory around the arguments"):
            strays = [s for name, v in arrays.items() for s in self._stray_writes(name, v)]
        self.overran |= self.shares_cpu and any(stray.leaves_zone for stray in strays)
        return strays

    def _stray_writes(self, name: str, bound: BoundArray) -> Iterator[StrayWrite]:
        zone = np.empty_like(bound.zone)
        for begin, behind in bound.zones():
            self._read(zone, bound.whole, begin)
            stray = stray_write(name, bound.dtype, zone, bound.zone, behind)
            if stray is not None:
                self._write(bound.whole, begin, bound.zone)
                yield stray

    def _bound_like(self, name: str, array: npt.NDArray[Any]) -> BoundArray:
        bound = self._bound(name)
        if (array.shape, array.dtype) != (bound.shape, bound.dtype):
            raise ValueError(
                f"{name} is bound as {bound.dtype}{list(bound.shape)}, "
                f"but written as {array.dtype}{list(array.shape)}"
            )
        return bound

    def _bound(self, name: str) -> BoundArray:
        value = self._arguments.get(name)
        if not isinstance(value, BoundArray):
            arrays = [n for n, v in self._arguments.items() if isinstance(v, BoundArray)]
            raise ValueError(
                f"{name} is not a bound array; arrays are {', '.join(arrays) or 'none'}"
            )
        return value

    def _release_sets(self) -> None:
        sets, self._bound_sets, self._current = self._bound_sets, {}, BoundSet({}, {})
        with self._errors("freeing device memory"):
            for bound in sets.values():
                self._free_set(bound)

    def _free_set(self, bound: BoundSet) -> None:
        for copy in bound.copies.values():
            if copy.memory is not None:
                self._free(copy.memory)
        for value in bound.arguments.values():
            if isinstance(value, BoundArray):
                self._free(value.whole, value.memory)

    @contextlib.contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        """Turn the driver's errors into LaunchFailed, and find out whether the device survived."""
        try:
            yield
        except self._error as error:
            self.healthy = self.healthy and self._answers()
            lost = "" if self.healthy else f"; the {self._channel} is lost and its process must end"
            message = f"{doing}: {error}{lost}"
            if self._is_out_of_memory(error):
                message += f". {self._describe_memory()}"
                raise OutOfDeviceMemory(message) from None
            raise LaunchFailed(message) from None

    @property
    def _held_bytes(self) -> int:
        """The device memory that this object has allocated."""
        flush_bytes = 0 if self._flushed_with is None else 2 * self._cache_bytes
        return flush_bytes + sum(bound.size_bytes for bound in self._bound_sets.values())

    def _answers(self) -> bool:
        """Say whether the device still works: a spoiled one repeats its error at every call."""
        try:
            self._wait()
        except self._error:
            return False
        return True
