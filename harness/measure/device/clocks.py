"""The clock that times runs, and the device's own clock that decides how long they take.

A clock that counts in ticks of q seconds says of a run of k + f ticks (k whole, f below 1) that it
took k ticks or k + 1. It says k + 1 with probability f where the run begins at a random moment of a
tick. Then the mean of n runs is right on average, with the standard error

    q sqrt(f (1 - f) / n), which is at most q / (2 sqrt(n)).

The samples' spread shows this error, unless f is so near to 0 or 1 that all runs say the same. With
N runs in all this hides at most 3.7 q / N, at 97.5 % (f is larger with probability (1 - f)^N). In
eight samples or more, each the mean of n runs, that is less than half a tick over n:

    clock_error = q / (2 n)

This is added to each interval (`Timing.clock_error_s`). A sample of `ENOUGH_TICKS` or more makes it
0.5 % of the time or less, which counts as no difference.

All this needs random moments. Where runs begin in step with the tick, their mean may be off by
nearly a tick, however many there are. So each begins after a random delay of up to a tick.

A GPU that had nothing to do lowers its clock, and takes some milliseconds of work to raise it
again. Then it is at its highest clock, the boost, for about a tenth of a second; power and
temperature lower it after that, and at any time. A `ClockWatch` waits for boost: a sample that
meets a low clock says more about the GPU than about the kernel, and is thrown away. A
`SustainedWatch` waits until nothing changes any more, and takes the clock as it is.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from harness.core.observations import SM_CLOCK_MHZ, THROTTLED_SAMPLES
from harness.core.text import format_time

ENOUGH_TICKS = 100
MOST_RUNS = 1000
LONGEST_SAMPLE_S = 0.05
LONGEST_SAMPLES_S = 5.0
"""A sample has so many ticks, unless it would be of more runs, or it or all samples would take
longer with all that comes before and after their runs. The time of the fastest of its runs, two or
more, counts for each of them, so that a sample in which the host was stopped for a while is no
shorter than others."""

GPU_LEAST_TIME_S = 0.1
"""How long each configuration runs in all in the final rounds on a GPU, unless the space says."""

_LEAST_SHARE = 1e-4  # of a time: a smaller error is in no interval's last digit
_ROUNDING_S = 1e-10  # CUDA's times are 32-bit numbers of milliseconds
MOST_WORK = 64

_random = random.Random()


def find_tick(times_s: Iterable[float], stated_s: float = 0.0) -> float:
    """Return the tick of a device's clock: the least step between the times of works of different
    lengths, such as 1 to MOST_WORK, and at least what the driver states."""
    seen_s = sorted(times_s)
    steps_s = [later - earlier for earlier, later in pairwise([0.0, *seen_s])]
    least_s = min((step_s for step_s in steps_s if step_s > _ROUNDING_S), default=0.0)
    return max(stated_s, least_s)


def run_sample(
    run: Callable[[], float], tick_s: float, least_s: float = 0.0, samples: int = 1
) -> list[float]:
    """Run until the times make enough ticks in all, and the least time; return them.

    It is one of so many samples.
    """
    longest_s = min(LONGEST_SAMPLE_S, LONGEST_SAMPLES_S / samples)
    enough_s = max(ENOUGH_TICKS * tick_s, least_s)
    runs_s: list[float] = []
    total_s = 0.0
    fastest_s = math.inf
    now_s = time.perf_counter()
    while True:
        runs_s.append(run())
        total_s += runs_s[-1]
        began_s = now_s
        now_s = time.perf_counter()
        fastest_s = min(fastest_s, now_s - began_s)
        is_long = len(runs_s) > 1 and len(runs_s) * fastest_s >= longest_s
        if total_s >= enough_s or len(runs_s) >= MOST_RUNS or is_long:
            return runs_s


def clock_error(tick_s: float, runs: int, samples_s: Iterable[float]) -> float:
    """Return by how much the clock may put samples off that are means of so many runs; 0 where
    that is negligible."""
    error_s = tick_s / (2 * runs)
    if error_s <= _LEAST_SHARE * min(samples_s):
        return 0.0
    return error_s


def delay_randomly(tick_s: float) -> None:
    """Wait until a random moment of a tick."""
    until_s = time.perf_counter() + _random.random() * tick_s
    while time.perf_counter() < until_s:
        pass


_MOST_FASTER = 10
LAUNCHING_S = 1e-3
"""A right clock says of a work at least a tenth of what the host's clock says around it, and what a
launch takes, which is some microseconds, or a millisecond where the host has other work as well.
Of several such works, the least of the host's times counts."""

_MOST_SLOWER = 1.1

COMPARED = 5
"""The works by which a device's clock is compared with the host's."""


def shows_clock(timed_s: Sequence[tuple[float, float]]) -> bool:
    """Say whether works show if a device's clock is right: where it says enough of one of them, or
    where the host's clock says so much of all that it must have."""
    shortest_s = min(host for _, host in timed_s)
    longest_s = max(device for device, _ in timed_s)
    return _MOST_FASTER * longest_s >= shortest_s or shortest_s > LAUNCHING_S


def why_wrong(timed_s: Sequence[tuple[float, float]], launching_s: float = LAUNCHING_S) -> str:
    """Say why a device's clock cannot be right, by the times that it and the host's clock say of
    the same works, of which launching takes so long; empty where it may be right."""
    device_s = [device for device, _ in timed_s]
    host_s = [host for _, host in timed_s]
    if _MOST_FASTER * max(device_s) + launching_s < min(host_s):
        said = f"at most {format_time(max(device_s))}"
        return f"says {said} for work that takes {format_time(min(host_s))} or more"
    if min(device_s) > _MOST_SLOWER * max(host_s):
        said = f"at least {format_time(min(device_s))}"
        return f"says {said} for work that takes at most {format_time(max(host_s))}"
    return ""


GPU_WARMUP_S = 0.025
"""How long a GPU must have been at work before the first sample, unless the space says."""

LOW_CLOCK = 0.75
"""A lower share of the device's full clock is low; nvbench has the same limit."""

PAUSE_S = 0.1
"""After so many seconds without work a device may have lowered its clock."""

_STEADY_RUNS = 3
_STEADY_WITHIN = 1.02

_MOST_WARMUPS = 10
"""The clock may take so many times the time of the warm-up to become steady."""

_MOST_THROWN = 5
"""So many samples in a row are thrown away; after these the low clock counts as the device's."""

_MOST_THROWN_IN_ALL = 40
"""So many samples of a measurement are thrown away, which takes 2 seconds. A clock that is low
every other time would otherwise use up the measurement's deadline."""

_RECOVERY_S = 0.05
"""The pause after a low clock, in which a hot device cools, and which is too short to make it
idle."""


class ClockWatch:
    """The work of a device in this process, and the clocks that it had.

    `full_mhz` is the clock that the device states, None where it states none. Where this clock
    is not reached, because the user has locked the clocks or the device is too hot, the
    `expected_mhz` become the highest clock of late: there is no use in waiting for more.
    """

    def __init__(
        self, full_mhz: float | None = None, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self.expected_mhz = full_mhz or 0.0
        self.full_mhz = full_mhz
        self._now_s = now_s
        self._working_since_s = math.inf
        self._last_run_s = -math.inf
        self._is_warm = False
        self._recent_mhz: deque[float] = deque(maxlen=_STEADY_RUNS)

    def measurement_begins(self) -> None:
        """Note that other configurations run from now on, at the clock of those before."""

    def run_begins(self) -> None:
        """Note that the device has work from now on."""
        if self._has_paused:
            self._working_since_s = self._now_s()
            self._recent_mhz.clear()
            self._is_warm = False

    def run_ended(self, mhz: float | None, elapsed_s: float) -> None:
        """Note that the device has no work from now on, and its run's time and clock if known."""
        self._last_run_s = self._now_s()
        if mhz is not None:
            self._recent_mhz.append(mhz)
            self.expected_mhz = max(self.expected_mhz, min(mhz, self.full_mhz or mhz))

    def is_warm(self, warmup_s: float) -> bool:
        """Say whether the device has worked for so long without a pause, and its clock was steady
        once, as far as it is known; 0 s asks for neither."""
        if warmup_s == 0:
            return True
        if self._has_paused:
            return False
        worked_s = self._last_run_s - self._working_since_s
        if not self._is_warm and worked_s >= _MOST_WARMUPS * warmup_s:
            self.expect_no_more()
            self._is_warm = True
        elif worked_s >= warmup_s and self._is_steady:
            self._is_warm = True
        return self._is_warm

    def is_low(self, mhz: float | None) -> bool:
        """Say whether a clock is under 75 % of what is expected."""
        return mhz is not None and mhz < LOW_CLOCK * self.expected_mhz

    def expect_no_more(self) -> None:
        """Take the highest clock of late for the device's, since waiting did not raise it."""
        if self._recent_mhz:
            self.expected_mhz = min(self.expected_mhz, max(self._recent_mhz))

    @property
    def _has_paused(self) -> bool:
        return self._now_s() - self._last_run_s > PAUSE_S

    @property
    def _is_steady(self) -> bool:
        """Whether the last runs had about the same clock, and no low one, as far as it is known."""
        if len(self._recent_mhz) < _STEADY_RUNS:
            return not self._recent_mhz
        lowest = min(self._recent_mhz)
        highest = max(self._recent_mhz)
        return highest <= _STEADY_WITHIN * lowest and not self.is_low(highest)


SUSTAINED_S = 1.0
"""A clock that does not change for so long is sustained."""

LONGEST_SUSTAINING_S = 5.0
"""A measurement waits so long in all for a sustained clock."""

_PARTS = 4
_ALIKE_WITHIN = 1.01


class SustainedWatch(ClockWatch):
    """The work of a device that is measured at the clock that it keeps, however low.

    It is warm once the medians of the clock in the last `_PARTS` parts of `SUSTAINED_S` are alike.
    Where the clock is unknown, the times of the runs take its place: one configuration runs until
    the device is warm. What another one has reached says nothing, since kernels differ in power;
    but those that are measured interleaved share a clock.
    """

    def __init__(
        self,
        full_mhz: float | None = None,
        now_s: Callable[[], float] = time.monotonic,
        longest_s: float = LONGEST_SUSTAINING_S,
    ) -> None:
        super().__init__(full_mhz, now_s)
        self._longest_s = longest_s
        self._waited_s = 0.0  # in this measurement
        self._part_began_s = 0.0
        self._part: list[float] = []
        self._medians: deque[float] = deque(maxlen=_PARTS)

    def measurement_begins(self) -> None:
        self._last_run_s = -math.inf
        self._waited_s = 0.0

    def run_begins(self) -> None:
        if self._has_paused:
            self._part_began_s = self._now_s()
            self._part.clear()
            self._medians.clear()
        super().run_begins()

    def run_ended(self, mhz: float | None, elapsed_s: float) -> None:
        super().run_ended(mhz, elapsed_s)
        if self._is_warm:
            return
        self._part.append(mhz or elapsed_s)
        part_s = self._last_run_s - self._part_began_s
        if part_s >= SUSTAINED_S / _PARTS:
            self._medians.append(statistics.median(self._part))
            self._part.clear()
            self._part_began_s = self._last_run_s
            self._waited_s += part_s
            worked_s = self._last_run_s - self._working_since_s
            if worked_s >= SUSTAINED_S and len(self._medians) > 1:
                self._is_warm = max(self._medians) <= _ALIKE_WITHIN * min(self._medians)

    def is_warm(self, warmup_s: float) -> bool:
        is_warm = self._is_warm and not self._has_paused
        return is_warm or self._waited_s >= self._longest_s

    def is_low(self, mhz: float | None) -> bool:
        return False  # it is the device's


@dataclass
class SampleClocks:
    """The clocks of one measurement's samples, and how many samples were thrown away."""

    watch: ClockWatch
    wait: Callable[[float], None] = time.sleep
    clocks_mhz: list[float] = field(default_factory=list)
    thrown: int = 0
    _in_a_row: int = 0
    _takes_any: bool = False

    def keeps(self, mhz: float | None) -> bool:
        """Say whether a sample with this clock is kept; where not, wait for a better one.

        After some in a row, or many in all, this measurement takes all samples: its kernel may be
        what makes the device so hot.
        """
        if self._takes_any or not self.watch.is_low(mhz):
            self._in_a_row = 0
            if mhz is not None:
                self.clocks_mhz.append(mhz)
            return True
        self.thrown += 1
        self._in_a_row += 1
        if self._in_a_row == _MOST_THROWN:
            self._takes_any = True
            self.watch.expect_no_more()
        else:
            self._takes_any = self.thrown == _MOST_THROWN_IN_ALL
            self.wait(_RECOVERY_S)
        return False

    def observed(self) -> dict[str, float]:
        """Return the median clock of the samples where it is known, and the number of those that
        were thrown away where some were."""
        observed: dict[str, float] = {}
        if self.clocks_mhz:
            observed[SM_CLOCK_MHZ] = statistics.median(self.clocks_mhz)
        if self.thrown:
            observed[THROTTLED_SAMPLES] = float(self.thrown)
        return observed
