"""Read the clock of the multiprocessors around launches, as nvbench does, with two small kernels.

Each multiprocessor counts its own cycles, so that only counts of the same one are compared. It may
not count where it has nothing to do; so the highest clock of all multiprocessors is the device's.
The GPU's time has steps of 32 ns to 1 us, and more on some. Both kernels therefore wait for the
beginning of a step, and the second one for the end of a least interval. Launches must not begin in
step with the GPU's time, which times them as well (see harness.measure.clock_tick): the first
kernel takes a whole number of steps.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from harness.measure.backends.cuda_api import CudaDriver
from harness.measure.backends.cuda_kernels import START_CLOCK, STOP_CLOCK, CudaKernels

LEAST_NS = 50_000
"""The least interval: beside it, the 0.1 us that a kernel may need to see a step are 0.2 %."""

_MOST_MULTIPROCESSORS = 512
"""The rows for multiprocessors, whose numbers may have gaps."""


class SmClock:
    """The clock of the multiprocessors around what is queued between `queue_start` and
    `queue_stop`; every method may raise the driver's errors.
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
