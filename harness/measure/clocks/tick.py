"""The tick of the clock that times runs, and what it leaves unknown of a time.

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
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterable
from itertools import pairwise

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


def find_tick(timed_work: Callable[[int], float], stated_s: float = 0.0) -> float:
    """Return the tick of a device's clock: the least step between the times of works of different
    lengths, 1 to MOST_WORK, and at least what the driver states."""
    seen_s = sorted(timed_work(length) for length in range(1, MOST_WORK + 1))
    steps_s = (later - earlier for earlier, later in pairwise([0.0, *seen_s]))
    return max(stated_s, min((step for step in steps_s if step > _ROUNDING_S), default=0.0))


def run_sample(
    run: Callable[[], float], tick_s: float, least_s: float = 0.0, samples: int = 1
) -> list[float]:
    """Run until the times make enough ticks in all, and the least time; return them.

    It is one of so many samples.
    """
    longest_s = min(LONGEST_SAMPLE_S, LONGEST_SAMPLES_S / samples)
    enough_s = max(ENOUGH_TICKS * tick_s, least_s)
    found_s: list[float] = []
    total_s, fastest_s, now_s = 0.0, math.inf, time.perf_counter()
    while not found_s or (
        total_s < enough_s
        and len(found_s) < MOST_RUNS
        and (len(found_s) == 1 or len(found_s) * fastest_s < longest_s)
    ):
        found_s.append(run())
        total_s += found_s[-1]
        began_s, now_s = now_s, time.perf_counter()
        fastest_s = min(fastest_s, now_s - began_s)
    return found_s


def clock_error(tick_s: float, runs: int, samples_s: Iterable[float]) -> float:
    """Return by how much the clock may put samples off that are means of so many runs; 0 where
    that is negligible."""
    error_s = tick_s / (2 * runs)
    return error_s if error_s > _LEAST_SHARE * min(samples_s) else 0.0


def delay_randomly(tick_s: float) -> None:
    """Wait until a random moment of a tick."""
    until_s = time.perf_counter() + _random.random() * tick_s
    while time.perf_counter() < until_s:
        pass
