"""Time launches on a CUDA stream, and keep the host's work out of their times.

Where the device reaches a start event before the host has queued the launch behind it, the time
between the events holds the host's delay: some microseconds, or milliseconds where the system lets
another process run. So a kernel that waits for the host stands before the first event, as in
nvbench, and the host lets it end when everything behind it is queued.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from harness.core.errors import HostTooSlow
from harness.measure.backends.cuda_api import CudaDriver
from harness.measure.backends.cuda_kernels import WAIT_FOR_HOST, CudaKernels
from harness.measure.backends.sm_clock import SmClock

LIMIT_NS = 500_000_000
"""The device waits no longer: a call that waits for the device would otherwise never return."""

HELD_AT_ONCE = 128
"""Launches with their events that are queued before the device may start. A stream takes about a
thousand entries; then the host would wait for the device."""

_RELEASED, _EXPIRED = 0, 1  # words that host and device share


class TimedStream:
    """The default stream of the current context, with events that are used again and again.

    Every method may raise the driver's errors. `clock` is that around the launches that were queued
    last.
    """

    def __init__(self, driver: CudaDriver, multiprocessors: int) -> None:
        self._driver = driver
        self._kernels = CudaKernels(driver)
        self.clock = SmClock(driver, self._kernels, multiprocessors)
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
        for begin in range(0, max(1, len(launches)), HELD_AT_ONCE):
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
