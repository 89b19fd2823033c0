"""Measure the energy of a launch with a counter that the device updates now and then.

NVIDIA's counter moves every 20 to 100 ms, a processor's every millisecond. A launch is shorter. So
launches are repeated for a second, while a thread reads the counter; the power between its first
and its last update needs no other clock.

Before each launch harness restores arguments and may empty caches. So a second loop does that
alone. With the power P and the seconds T of a run in the first loop, of which the launches take t,
and the power Q of the second loop, the launches take the energy P T - Q (T - t): a GPU waits while
the host queues a launch. Where the device is the processor, the host's work takes energy too. There
the launches take what a run of the first loop takes more than one of the second, whatever the host
does between them.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol

from harness.core.observations import ENERGY_SPREAD
from harness.stats.timing import half_width

ENERGY_S = 1.0
"""The seconds for which launches are repeated."""

ENERGY = "energy_j"
POWER = "power_w"
"""The observations: of the launches of one run."""

LAUNCH_SHARE = "launch_share"
"""The observation where the energy was asked for: the launches' share of the time of a run."""

LONGEST_LAUNCH = 3
"""Longer launches, in units of the seconds for which they are repeated, have no energy."""

DEADLINE = 10
"""The loops take no longer, in the same unit: two of the longest runs, and what is between them."""

SETTLING = 0.25
"""The share of a loop's seconds that come before it: clocks and power take time to settle."""

_SHORTEST_S = 0.1
"""Of runs of a program: a hundred updates of a processor's counter."""

_LONGEST_S = 60.0
"""Of a run of a program: a processor's counter may wrap twice in a longer one."""

_POLL_S = 0.002
_FEWEST_UPDATES = 5
_PARTS = 5
_LEAST_SHARE = 0.25
_NEARLY_ALL = 0.98


class SensorUnavailable(Exception):
    """A sensor cannot be read here; the message says why, and what to do."""


class EnergyCounter(Protocol):
    """Counts the energy of a device; the host's work takes part of it where it `counts_host`."""

    counts_host: bool

    def read_j(self) -> float:
        """Return the joules since some moment; raises SensorUnavailable."""


@dataclass(frozen=True)
class CounterUpdate:
    """When a counter was first seen with a value."""

    at_s: float
    energy_j: float


@dataclass(frozen=True)
class RepeatedRun:
    """The mean of runs that were repeated: the power while they ran, None where it is unknown, the
    seconds of a run, those of its launches, and half the confidence interval of the power."""

    power_w: float | None
    run_s: float
    launches_s: float
    spread_w: float = 0.0

    @property
    def share(self) -> float:
        """The launches' share of the time."""
        return self.launches_s / self.run_s


class CounterReader:
    """Reads a counter in a thread of its own; a context manager.

    A failure of the counter ends the reading: what it has read until then stays.
    """

    def __init__(self, counter: EnergyCounter, poll_s: float = _POLL_S) -> None:
        self.updates: list[CounterUpdate] = []
        self._counter = counter
        self._poll_s = poll_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> CounterReader:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _read(self) -> None:
        last: float | None = None
        while not self._ended.wait(self._poll_s):
            try:
                energy_j = self._counter.read_j()
            except SensorUnavailable:
                return
            # The first value may have stood for long, so it dates from no known moment.
            if last is not None and energy_j != last:
                self.updates.append(CounterUpdate(time.perf_counter(), energy_j))
            last = energy_j


def power_between(updates: Sequence[CounterUpdate], begin_s: float, end_s: float) -> float | None:
    """Return the mean power between the first and the last update of a period; None where there
    are too few updates."""
    inside = [update for update in updates if begin_s <= update.at_s <= end_s]
    return None if len(inside) <= _FEWEST_UPDATES else _power(inside[0], inside[-1])


def power_spread(updates: Sequence[CounterUpdate], begin_s: float, end_s: float) -> float:
    """Return half the 95 % confidence interval of the power of a period, from its parts; 0 where
    there are too few updates."""
    inside = [update for update in updates if begin_s <= update.at_s <= end_s]
    if len(inside) <= _FEWEST_UPDATES:
        return 0.0
    ends = [inside[part * (len(inside) - 1) // _PARTS] for part in range(_PARTS + 1)]
    return half_width([_power(*pair) for pair in itertools.pairwise(ends)])


def _power(first: CounterUpdate, last: CounterUpdate) -> float:
    return (last.energy_j - first.energy_j) / (last.at_s - first.at_s)


def repeat(run: Callable[[], float], counter: EnergyCounter, seconds: float) -> RepeatedRun:
    """Repeat a run, which returns its launches' seconds."""
    with CounterReader(counter) as reader:
        _run_until(run, time.perf_counter() + SETTLING * seconds)
        begin_s = time.perf_counter()
        launches_s = _run_until(run, begin_s + seconds)
        end_s = time.perf_counter()
    power_w = power_between(reader.updates, begin_s, end_s)
    count = len(launches_s)
    spread_w = power_spread(reader.updates, begin_s, end_s)
    return RepeatedRun(power_w, (end_s - begin_s) / count, sum(launches_s) / count, spread_w)


def _run_until(run: Callable[[], float], end_s: float) -> list[float]:
    """Run once or more, until a moment; return what each run returned."""
    found = [run()]
    while time.perf_counter() < end_s:
        found.append(run())
    return found


def measure_energy(
    run: Callable[[], float],
    restore: Callable[[], float],
    verify: Callable[[], None],
    counter: EnergyCounter,
    seconds: float,
) -> dict[str, float]:
    """Return the energy and the power of the launches of a run, where they become known, and the
    launches' share of the time, as observations.

    `restore` does what a run does but launch, and `verify` checks the outputs of the last run.
    """
    busy = repeat(run, counter, seconds)
    verify()
    share = {LAUNCH_SHARE: busy.share}
    if busy.share < _LEAST_SHARE or busy.power_w is None:
        return share
    if busy.share >= _NEARLY_ALL:
        energy_j, spread_j = busy.power_w * busy.launches_s, busy.spread_w * busy.launches_s
        return share | {ENERGY: energy_j, ENERGY_SPREAD: spread_j, POWER: busy.power_w}
    return share | energy_of(busy, repeat(restore, counter, seconds), counter.counts_host)


def energy_of(busy: RepeatedRun, other: RepeatedRun, counts_host: bool) -> dict[str, float]:
    """Return the energy and the power of launches from runs with and without them."""
    if busy.power_w is None or other.power_w is None:
        return {}
    rest_s = other.run_s if counts_host else busy.run_s - busy.launches_s
    energy_j = busy.power_w * busy.run_s - other.power_w * rest_s
    time_s = busy.run_s - rest_s
    if min(energy_j, time_s) <= 0:
        return {}
    spread_j = math.hypot(busy.spread_w * busy.run_s, other.spread_w * rest_s)
    return {ENERGY: energy_j, ENERGY_SPREAD: spread_j, POWER: energy_j / time_s}


@dataclass
class PassedEnergy:
    """The joules that passed, None until they are known."""

    passed_j: float | None = None


@contextlib.contextmanager
def counted(counter: EnergyCounter | None) -> Iterator[PassedEnergy]:
    """Count the energy of a body; it stays unknown without a counter, or where that fails."""
    passed = PassedEnergy()
    begin_j = None if counter is None else _read(counter)
    yield passed
    end_j = None if counter is None else _read(counter)
    if begin_j is not None and end_j is not None:
        passed.passed_j = end_j - begin_j


def _read(counter: EnergyCounter) -> float | None:
    try:
        return counter.read_j()
    except SensorUnavailable:
        return None


def energy_of_runs(runs: Sequence[tuple[float, float | None]]) -> dict[str, float]:
    """Return the mean energy and the power of runs, each with its seconds and its joules, as
    observations; none where these are unknown, or the runs too short for the counter."""
    known = [(run_s, energy_j) for run_s, energy_j in runs if energy_j is not None]
    total_s, total_j = sum(run_s for run_s, _ in known), sum(energy_j for _, energy_j in known)
    if total_s < _SHORTEST_S or total_j <= 0 or max(run_s for run_s, _ in known) > _LONGEST_S:
        return {}
    several = len(known) > 1
    spread = {ENERGY_SPREAD: half_width([energy_j for _, energy_j in known])} if several else {}
    return {ENERGY: total_j / len(known), POWER: total_j / total_s, **spread}


FOLDER = Path("/sys/class/powercap")
_COUNTER, _RANGE = "energy_uj", "max_energy_range_uj"
_PACKAGE = "package-"  # `psys`, beside these, counts the whole machine, with the packages


@dataclass
class _PackageCounter:
    """The counter of a processor package, which begins again at 0 after `range_uj`."""

    path: Path
    range_uj: int
    last_uj: int
    total_uj: int = 0

    def advance(self) -> int:
        """Return the microjoules since the first reading."""
        now_uj = int(self.path.read_text(encoding="ascii"))
        passed_uj = now_uj - self.last_uj
        self.total_uj += passed_uj if passed_uj >= 0 else passed_uj + self.range_uj + 1
        self.last_uj = now_uj
        return self.total_uj


class RaplCounter:
    """The energy of all processor packages, without memory; an `EnergyCounter`.

    It reads RAPL (running average power limit) of Intel and AMD, under Linux.

    A counter wraps after a minute or more: readings must follow each other sooner.
    """

    counts_host = True

    def __init__(self, folder: Path | None = None) -> None:
        """Open the counters; raises SensorUnavailable."""
        folder = folder or FOLDER
        try:
            self._packages = list(_packages(folder))
        except PermissionError as error:
            raise SensorUnavailable(
                f"you may not read {error.filename}, the processor's energy. To allow it until the "
                f"next boot, run `sudo chmod a+r {folder}/intel-rapl:*/{_COUNTER}`"
            ) from None
        except (OSError, ValueError) as error:
            raise SensorUnavailable(f"the processor's energy cannot be read: {error}") from None
        if not self._packages:
            raise SensorUnavailable(
                f"{folder} has no energy of a processor (intel-rapl:*, also for AMD). Virtual "
                "machines and containers often lack it: measure on the machine itself"
            )

    def read_j(self) -> float:
        """Return the joules since this counter was opened."""
        try:
            return sum(package.advance() for package in self._packages) * 1e-6
        except (OSError, ValueError) as error:
            raise SensorUnavailable(f"the processor's energy cannot be read: {error}") from None


def _packages(folder: Path) -> Iterator[_PackageCounter]:
    for domain in sorted(folder.glob("intel-rapl:*")):
        if domain.name.count(":") > 1:  # a part of a package
            continue
        if not (domain / "name").read_text(encoding="ascii").startswith(_PACKAGE):
            continue
        range_uj = int((domain / _RANGE).read_text(encoding="ascii"))
        yield _PackageCounter(
            domain / _COUNTER, range_uj, int((domain / _COUNTER).read_text(encoding="ascii"))
        )
