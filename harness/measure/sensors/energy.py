"""Measure the energy of a launch with a counter that the device updates now and then.

NVIDIA's counter moves every 20 to 100 ms. A launch is shorter. So
runs are repeated for a second, while a thread reads the counter; the power between its first and
its last update needs no other clock. What a run does beside its launches, such as emptying caches,
takes part of that power. So only launches that take nearly all of the time have an energy.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from harness.core.observations import ENERGY_SPREAD
from harness.stats.timing import half_width

ENERGY_S = 1.0
"""The seconds for which launches are repeated."""

ENERGY = "energy_j"
POWER = "power_w"
"""The observations: of the launches of one run."""

LAUNCH_SHARE = "launch_share"
"""The observation where the energy was asked for: the launches' share of the time of a run."""

LEAST_SHARE = 0.9
"""Launches with a lower share of the time have no energy."""

LONGEST_LAUNCH = 3
"""Longer launches, in units of the seconds for which they are repeated, have no energy."""

DEADLINE = 10
"""Measuring an energy takes no longer, in the same unit: two of the longest runs, and a rest."""

_SETTLING = 0.25
"""The share of the seconds that comes before them: clocks and power take time to settle."""

_POLL_S = 0.002
_FEWEST_UPDATES = 5
_PARTS = 5

EnergyCounter = Callable[[], float]
"""Returns the joules since some moment; raises SensorUnavailable."""


class SensorUnavailable(Exception):
    """A sensor cannot be read here; the message says why, and what to do."""


_Update = tuple[float, float]
"""When a counter was first seen with a value, in seconds, and this value, in joules."""


@contextlib.contextmanager
def counter_updates(counter: EnergyCounter) -> Iterator[list[_Update]]:
    """Read a counter in a thread, which adds its updates to the list until the body has ended.

    A failure of the counter ends the reading: what it has read until then stays.
    """
    updates: list[_Update] = []
    ended = threading.Event()

    def read() -> None:
        last_j: float | None = None
        while not ended.wait(_POLL_S):
            try:
                energy_j = counter()
            except SensorUnavailable:
                return
            # The first value may have stood for long, so it dates from no known moment.
            if last_j is not None and energy_j != last_j:
                updates.append((time.perf_counter(), energy_j))
            last_j = energy_j

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        yield updates
    finally:
        ended.set()
        thread.join()


def _mean_power(
    updates: Sequence[_Update], begin_s: float, end_s: float
) -> tuple[float, float] | None:
    """Return the mean power between the first and the last update of a period, and half its 95 %
    confidence interval, from five parts; None where there are too few updates."""
    inside = [update for update in updates if begin_s <= update[0] <= end_s]
    if len(inside) <= _FEWEST_UPDATES:
        return None
    ends = [inside[part * (len(inside) - 1) // _PARTS] for part in range(_PARTS + 1)]
    parts_w = [_power(first, last) for first, last in itertools.pairwise(ends)]
    return _power(inside[0], inside[-1]), half_width(parts_w)


def _power(first: _Update, last: _Update) -> float:
    begin_s, begin_j = first
    end_s, end_j = last
    return (end_j - begin_j) / (end_s - begin_s)


def measure_energy(
    run: Callable[[], float], verify: Callable[[], None], counter: EnergyCounter, seconds: float
) -> dict[str, float]:
    """Repeat a run, which returns its launches' seconds, for some seconds; `verify` checks the
    outputs of the last one.

    Returns the launches' share of the time, and the energy and the power of the launches of a run
    where they become known, as observations.
    """
    with counter_updates(counter) as updates:
        _run_until(run, time.perf_counter() + _SETTLING * seconds)
        begin_s = time.perf_counter()
        launches_s = _run_until(run, begin_s + seconds)
        end_s = time.perf_counter()
    verify()
    observed = {LAUNCH_SHARE: sum(launches_s) / (end_s - begin_s)}
    power = _mean_power(updates, begin_s, end_s)
    if observed[LAUNCH_SHARE] >= LEAST_SHARE and power is not None:
        power_w, spread_w = power
        mean_s = sum(launches_s) / len(launches_s)
        observed[ENERGY] = power_w * mean_s
        observed[ENERGY_SPREAD] = spread_w * mean_s
        observed[POWER] = power_w
    return observed


def _run_until(run: Callable[[], float], end_s: float) -> list[float]:
    """Run once or more, until a moment; return what each run returned."""
    samples = [run()]
    while time.perf_counter() < end_s:
        samples.append(run())
    return samples
