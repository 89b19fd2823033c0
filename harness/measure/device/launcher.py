"""The interfaces of a backend: a `Compiler` makes what a `Device` loads and launches.

Both live in worker processes, so that neither a hang nor a crash reaches the main process.
"""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

from harness.core.errors import BackendUnavailable, LaunchFailed, OutOfDeviceMemory
from harness.core.program import Argument, Binary, Launch, Program
from harness.core.records import COLD, DeviceLimits, Environment
from harness.measure.device.arguments import Arguments
from harness.measure.device.clocks import (
    COMPARED,
    LAUNCHING_S,
    MOST_WORK,
    ClockWatch,
    find_tick,
    shows_clock,
    why_wrong,
)
from harness.measure.device.memory import DeviceMemory

_FILLED_BYTES = 1 << 18  # at most, to see the clock's tick
_COMPARED_BYTES = (1 << 20, 1 << 22, 1 << 24, 1 << 26)
"""The fills by which a device's clock is compared with the host's: up to the first that shows
whether it is right. A fast GPU takes too little time for all of them; then launches show it."""
COMPARED_LAUNCHES = 20
_MOST_SUSPICIONS = 15
"""A wrong clock is noticed at the first input whose launches take more than a millisecond."""

_BUSY_LAUNCHING = 3
"""Where the machine has other work, a launch may take so many times as long as the next one, as far
as the host's clock says it."""

_LEAST_FILL_BYTES = 64


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
    """Run binaries on `arguments`, in one process at a time; subclasses call the driver.

    Every method raises LaunchFailed, and nothing else for a failure that the configuration causes.
    """

    shares_cpu: bool
    """Whether kernels run on the cores that compile: then builds and launches never overlap."""

    def __init__(self, memory: DeviceMemory, channel: str, cache: str) -> None:
        """`channel` is what a failed launch can break. If `cache` is COLD, nothing of the arguments
        is in the device's caches at the first launch after they are restored."""
        self.arguments = Arguments(memory, self.errors)
        self.answers = True  # until a failed launch has broken this process for further launches
        self.watch = ClockWatch()  # how warm the device is, and the clocks that it had
        self.notices: list[str] = []  # what the user should know of the device
        self._memory = memory
        self._channel = channel
        self._cache = cache
        self._compared = 0  # launches with these arguments whose times the host's clock confirmed
        self._suspicions = 0  # launches in a row of which the device's clock cannot be right
        self._stated_tick_s = 0.0  # by the driver
        self._flush_memory: Any = None  # to empty the caches with
        self._flush_bytes = 0

    @abstractmethod
    def environment(self, compiler: str) -> Environment:
        """Return the device and its software: times of one environment can be compared."""

    @property
    @abstractmethod
    def limits(self) -> DeviceLimits:
        """The limits of a launch."""

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
    def _wait(self) -> None:
        """Wait for the device; raises its error where it does not work any more."""

    @abstractmethod
    def _why_full(self, error: Exception, allocated_bytes: int) -> str:
        """Return how much memory is free, and what may hold the rest besides these bytes, where a
        driver's error says that no memory is left; empty for other errors."""

    @abstractmethod
    def _timed_fill(self, memory: Any, size_bytes: int) -> float:
        """Set bytes to 0 on the device, wait, and return the seconds that its clock says."""

    @property
    @abstractmethod
    def _cache_bytes(self) -> int:
        """The size of the device's last cache."""

    def _time_by_host(self, why: str) -> None:
        """Take the host's clock from now on, or raise BackendUnavailable."""
        raise BackendUnavailable(f"{why}, so that it cannot be right. Update the device's driver")

    # ---------------------------------------------------------------------------- errors

    @property
    def is_lost(self) -> bool:
        """Whether this process must be replaced: the device does not answer any more, or a kernel
        left a guard zone where this process may have its memory."""
        return not self.answers or (self.shares_cpu and self.arguments.left_zone)

    @contextlib.contextmanager
    def errors(self, doing: str) -> Iterator[None]:
        """Turn the driver's errors into LaunchFailed, and find out whether the device survived."""
        try:
            yield
        except self._memory.error as error:
            self._check_answers()
            message = f"{doing}: {error}"
            if not self.answers:
                message += f"; the {self._channel} is lost and its process must end"
            why_full = self._why_full(error, self.arguments.size_bytes + self._flush_bytes)
            if why_full:
                raise OutOfDeviceMemory(f"{message}. {why_full}") from None
            raise LaunchFailed(message) from None

    def _check_answers(self) -> None:
        """Note whether the device still works: a broken one repeats its error at every call."""
        try:
            self._wait()
        except self._memory.error:
            self.answers = False

    # ---------------------------------------------------------------------------- caches

    def bind(self, *sets: Mapping[str, Argument]) -> None:
        """Replace the arguments by copies of these sets, and turn to the first one."""
        self._compared = 0
        if self._cache == COLD and self._flush_memory is None:
            size_bytes = 2 * self._cache_bytes  # as nvbench writes for cold times
            with self.errors(f"allocating {size_bytes:,} bytes to empty the caches with"):
                self._flush_memory = self._memory.allocate(size_bytes)
            self._flush_bytes = size_bytes
        self.arguments.bind(*sets)

    def _before_launch(self) -> None:
        """Queue the emptying of the caches, once after each restore, right before the launch: the
        device is busy with it while the host queues the launch, whose work is in no time."""
        if self._cache == COLD and self.arguments.was_restored:
            self.arguments.was_restored = False
            with self.errors("emptying the caches"):
                self._empty_caches()

    def _empty_caches(self) -> None:
        """Write to all of the memory that `bind` allocated for it."""
        self._memory.fill(self._flush_memory, 0, self._flush_bytes)

    # ---------------------------------------------------------------------------- clocks

    @cached_property
    def tick_s(self) -> float:
        """The step of the clock that times launches, in seconds; 0 where it is far below any.

        It is computed once, since filling memory takes different times.
        """
        sizes = [length * _FILLED_BYTES // MOST_WORK for length in range(1, MOST_WORK + 1)]
        with self.errors("reading the device's clock"):
            timed_s = self._timed_fills(sizes)
        return find_tick([device_s for device_s, _ in timed_s], self._stated_tick_s)

    def _timed_fills(self, sizes: Sequence[int]) -> list[tuple[float, float]]:
        """Fill so many bytes of memory in turn; return the seconds that the device's and the host's
        clock say."""
        timed_s = []
        memory = self._memory.allocate(max(sizes))
        try:
            for size_bytes in sizes:
                began_s = time.perf_counter()
                device_s = self._timed_fill(memory, size_bytes)
                timed_s.append((device_s, time.perf_counter() - began_s))
        finally:
            self._memory.free(memory)
        return timed_s

    def check_clock(self) -> None:
        """Compare the device's clock with the host's around the same fills of memory.

        Where it cannot be right, a backend takes the host's clock, or raises BackendUnavailable.
        """
        for size_bytes in _COMPARED_BYTES:
            try:
                with self.errors("comparing the device's clock with the host's"):
                    _, *timed_s = self._timed_fills([size_bytes] * (1 + COMPARED))  # may allocate
            except OutOfDeviceMemory:
                return
            if shows_clock(timed_s):
                break
        why = why_wrong(timed_s)
        if why:
            self._time_by_host(f"the device's clock {why}")

    @property
    def _compares_clocks(self) -> bool:
        """Whether the next launches are among the first with these arguments."""
        return self._compared < COMPARED_LAUNCHES

    def _compare_clocks(self, device_s: float, began_s: float, launches: int) -> None:
        """Compare the device's clock with the host's around launches that began at a moment, if
        they are among the first with these arguments, but not the first ones of their functions.

        Other work of the machine may hold the host back at any launch. So a launch that seems wrong
        counts only where a tiny fill right after it takes far less, by the host's clock. Raises
        BackendUnavailable after many in a row.
        """
        if not self._compares_clocks:
            return
        timed_s = [(device_s, time.perf_counter() - began_s)]
        why = why_wrong(timed_s, launches * LAUNCHING_S)
        if why:
            with self.errors("comparing the device's clock with the host's"):
                ((_, fill_s),) = self._timed_fills([_LEAST_FILL_BYTES])
            launching_s = max(LAUNCHING_S, _BUSY_LAUNCHING * fill_s)
            if not why_wrong(timed_s, launches * launching_s):
                return
        self._compared += 1
        if not why:
            self._suspicions = 0
            return
        self._suspicions += 1
        if self._suspicions == _MOST_SUSPICIONS:
            raise BackendUnavailable(
                f"the device's clock {why}, {_MOST_SUSPICIONS} times in a row, so that it cannot "
                "be right. Update the device's driver, or name another device with --device"
            )
