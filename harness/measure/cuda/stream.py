"""Time launches on a CUDA stream, and keep the host's work out of their times.

Where the device reaches a start event before the host has queued the launch behind it, the time
between the events holds the host's delay: some microseconds, or milliseconds where the system lets
another process run. So a kernel that waits for the host stands before the first event, as in
nvbench, and the host lets it end when everything behind it is queued.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.core.errors import HostTooSlow
from harness.measure.cuda.bindings import CudaDriver, LaunchShape

PTX = Path(__file__).with_name("kernels.ptx")
"""harness's own kernels, with what they do."""

WAIT_FOR_HOST, START_CLOCK, STOP_CLOCK = "wait_for_host", "start_clock", "stop_clock"

LIMIT_NS = 500_000_000
"""The device waits no longer: a call that waits for the device would otherwise never return."""

HELD_AT_ONCE = 128
"""Launches with their events that are queued before the device may start. A stream takes about a
thousand entries; then the host would wait for the device."""

LEAST_NS = 50_000
"""The least interval of the clock: beside it, the 0.1 us that a kernel may need to see a step are
0.2 %."""

_MOST_MULTIPROCESSORS = 512
"""The rows for multiprocessors, whose numbers may have gaps."""

_RELEASED, _EXPIRED = 0, 1  # words that host and device share


class CudaKernels:
    """harness's own kernels in a driver's context; each is looked up once.

    Every method may raise the driver's errors.
    """

    def __init__(self, driver: CudaDriver) -> None:
        self._driver = driver
        self._module = driver.load(PTX.read_bytes() + b"\0")
        self._functions: dict[str, Any] = {}

    def queue(self, name: str, *arguments: int, blocks: int = 1) -> None:
        """Queue a kernel on the default stream, in so many blocks; does not wait."""
        if name not in self._functions:
            self._functions[name] = self._driver.function(self._module, name)
        packed = np.array(arguments, np.uint64).tobytes()
        shape = LaunchShape((blocks, 1, 1), (1, 1, 1))
        self._driver.launch(self._functions[name], shape, packed)


class TimedStream:
    """The default stream of the current context, with events that are used again and again.

    Every method may raise the driver's errors. `clock` is that around the launches that were queued
    last.
    """

    def __init__(self, driver: CudaDriver, multiprocessors: int) -> None:
        self._driver = driver
        self._kernels = CudaKernels(driver)
        self.clock = _SmClock(driver, self._kernels, multiprocessors)
        self._words, self._address = driver.share_words(2)
        self._holds = 0
        self._events: list[tuple[Any, Any]] = []

    def queue(
        self, launches: Sequence[Callable[[], None]], first: Callable[[], None], is_held: bool
    ) -> None:
        """Queue `first`, which is not timed, and then the launches, each between two events.

        The device is held back where `is_held`. The driver may wait for the device at the first
        launch of a function, which must therefore not be held.
        """
        while len(self._events) < len(launches):
            self._events.append((self._driver.event(), self._driver.event()))
        self._reset_words()
        for begin in range(0, len(launches), HELD_AT_ONCE):
            part = slice(begin, begin + HELD_AT_ONCE)
            with self._held() if is_held else contextlib.nullcontext():
                if begin == 0:
                    first()
                    self.clock.queue_start()
                for launch, (start, stop) in zip(launches[part], self._events[part], strict=False):
                    self._driver.record(start)
                    launch()
                    self._driver.record(stop)
                if begin + HELD_AT_ONCE >= len(launches):
                    self.clock.queue_stop()

    def _reset_words(self) -> None:
        """Overwrite what a kernel may have written to the words, so that it changes no later hold.
        Nothing waits for the host now."""
        self._words[_RELEASED], self._words[_EXPIRED] = self._holds, 0

    @contextlib.contextmanager
    def _held(self) -> Iterator[None]:
        """Hold the device back until the body has ended."""
        self._holds += 1
        self._kernels.queue(WAIT_FOR_HOST, self._address, self._holds, LIMIT_NS)
        try:
            yield
        finally:
            self._words[_RELEASED] = self._holds

    def elapsed_s(self, count: int) -> float:
        """Return the sum of the device times of the launches that were queued last, in seconds.

        They must have ended. Raises HostTooSlow where the device did not wait for all of them.
        """
        if self._words[_EXPIRED]:
            raise HostTooSlow(
                f"the device waited {LIMIT_NS * 1e-9:g} s in vain for the host to queue its work"
            )
        return sum(self._driver.elapsed_s(*pair) for pair in self._events[:count])


class _SmClock:
    """The clock of the multiprocessors around what is queued between `queue_start` and
    `queue_stop`, read by two small kernels as in nvbench.

    Each multiprocessor counts its own cycles, so that only counts of the same one are compared. It
    may not count where it has nothing to do; so the highest clock of all multiprocessors is the
    device's. The GPU's time has steps of 32 ns to 1 us, and more on some. Both kernels therefore
    wait for the beginning of a step, and the second one for the end of a least interval. Launches
    must not begin in step with the GPU's time, which times them as well (see
    harness.measure.clocks): the first kernel takes a whole number of steps. Every method may
    raise the driver's errors.
    """

    def __init__(self, driver: CudaDriver, kernels: CudaKernels, multiprocessors: int) -> None:
        self._kernels = kernels
        self._blocks = multiprocessors
        words, self._address = driver.share_words(4 * _MOST_MULTIPROCESSORS)
        self._stamps = words.reshape(_MOST_MULTIPROCESSORS, 4)
        self._is_known = True
        # At its first launch the driver may load a kernel, and wait for a device that is held.
        self.queue_start()
        self.queue_stop()
        driver.synchronize()
        # Where the time stands still, each reading would take 4 ms, and find nothing.
        self._is_known = self.mhz() is not None

    def queue_start(self) -> None:
        """Queue the first reading; what was queued before must have ended."""
        self._stamps.fill(0)
        self._queue(START_CLOCK)

    def queue_stop(self) -> None:
        """Queue the second reading."""
        self._queue(STOP_CLOCK, LEAST_NS)

    def _queue(self, name: str, *arguments: int) -> None:
        if self._is_known:
            rows = len(self._stamps)
            self._kernels.queue(name, self._address, rows, *arguments, blocks=self._blocks)

    def mhz(self) -> float | None:
        """Return the clock in MHz after both readings have ended; None where they saw no time."""
        return clock_of(self._stamps)


def clock_of(stamps: npt.NDArray[np.uint64]) -> float | None:
    """Return the highest clock of the multiprocessors, in MHz.

    A row has cycles and nanoseconds of the first reading of a multiprocessor, and those of the
    second one; zeros where there was none. None if no row has both.
    """
    counts = stamps.view(np.int64)
    rows = counts[(counts[:, 1] > 0) & (counts[:, 3] > counts[:, 1])]
    differences = rows[:, 2:] - rows[:, :2]
    return 1e3 * float((differences[:, 0] / differences[:, 1]).max()) if len(rows) else None
