"""Measure the energy of a launch with a counter that the device updates now and then.

NVIDIA's counter moves every 20 to 100 ms, a processor's every millisecond. A launch is shorter. So
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
from pathlib import Path

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

_SHORTEST_S = 0.1
"""Of runs of a program: a hundred updates of a processor's counter."""

_LONGEST_S = 60.0
"""Of a run of a program: a processor's counter may wrap twice in a longer one."""

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
    parts_w = [_power(*pair) for pair in itertools.pairwise(ends)]
    return _power(inside[0], inside[-1]), half_width(parts_w)


def _power(first: _Update, last: _Update) -> float:
    (begin_s, begin_j), (end_s, end_j) = first, last
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
    share = sum(launches_s) / (end_s - begin_s)
    power = _mean_power(updates, begin_s, end_s)
    if share < LEAST_SHARE or power is None:
        return {LAUNCH_SHARE: share}
    mean_s, (power_w, spread_w) = sum(launches_s) / len(launches_s), power
    energy = {ENERGY: power_w * mean_s, ENERGY_SPREAD: spread_w * mean_s, POWER: power_w}
    return {LAUNCH_SHARE: share, **energy}


def _run_until(run: Callable[[], float], end_s: float) -> list[float]:
    """Run once or more, until a moment; return what each run returned."""
    found = [run()]
    while time.perf_counter() < end_s:
        found.append(run())
    return found


def joules(counter: EnergyCounter | None) -> float | None:
    """Return what a counter says now; None without one, or where it fails."""
    try:
        return None if counter is None else counter()
    except SensorUnavailable:
        return None


def energy_of_runs(runs: Sequence[tuple[float, float | None]]) -> dict[str, float]:
    """Return the mean energy and the power of runs, each with its seconds and its joules, as
    observations; none where these are unknown, or the runs too short for the counter."""
    pairs = [(run_s, energy_j) for run_s, energy_j in runs if energy_j is not None]
    total_s, total_j = sum(run_s for run_s, _ in pairs), sum(energy_j for _, energy_j in pairs)
    if total_s < _SHORTEST_S or total_j <= 0 or max(run_s for run_s, _ in pairs) > _LONGEST_S:
        return {}
    several = len(pairs) > 1
    spread = {ENERGY_SPREAD: half_width([energy_j for _, energy_j in pairs])} if several else {}
    return {ENERGY: total_j / len(pairs), POWER: total_j / total_s, **spread}


FOLDER = Path("/sys/class/powercap")
_COUNTER, _RANGE = "energy_uj", "max_energy_range_uj"
_PACKAGE = "package-"  # `psys`, beside these, counts the whole machine, with the packages


class RaplCounter:
    """The energy of all processor packages, without memory, by RAPL (running average power limit)
    of Intel and AMD, under Linux.

    A counter wraps after a minute or more: readings must follow each other sooner.
    """

    def __init__(self, folder: Path | None = None) -> None:
        """Open the counters; raises SensorUnavailable."""
        folder = folder or FOLDER
        self._total_uj = 0
        try:
            packages = [domain for domain in folder.glob("intel-rapl:*") if _is_package(domain)]
            self._ranges_uj = {each / _COUNTER: _number(each / _RANGE) for each in packages}
            self._last_uj = {path: _number(path) for path in self._ranges_uj}
        except PermissionError as error:
            raise SensorUnavailable(
                f"you may not read {error.filename}, the processor's energy. To allow it until the "
                f"next boot, run `sudo chmod a+r {folder}/intel-rapl:*/{_COUNTER}`"
            ) from None
        except (OSError, ValueError) as error:
            raise SensorUnavailable(f"the processor's energy cannot be read: {error}") from None
        if not packages:
            raise SensorUnavailable(
                f"{folder} has no energy of a processor (intel-rapl:*, also for AMD). Virtual "
                "machines and containers often lack it: measure on the machine itself"
            )

    def read_j(self) -> float:
        """Return the joules since this counter was opened; raises SensorUnavailable."""
        try:
            for path, range_uj in self._ranges_uj.items():
                now_uj = _number(path)
                passed_uj = now_uj - self._last_uj[path]
                self._total_uj += passed_uj if passed_uj >= 0 else passed_uj + range_uj + 1
                self._last_uj[path] = now_uj
        except (OSError, ValueError) as error:
            raise SensorUnavailable(f"the processor's energy cannot be read: {error}") from None
        return self._total_uj * 1e-6


def _is_package(domain: Path) -> bool:
    """Whether a folder is a package's, and not that of a part of one."""
    is_part = domain.name.count(":") > 1
    return not is_part and (domain / "name").read_text(encoding="ascii").startswith(_PACKAGE)


def _number(path: Path) -> int:
    return int(path.read_text(encoding="ascii"))
