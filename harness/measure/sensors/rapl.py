"""The energy of processors: RAPL (running average power limit), of Intel and AMD, under Linux."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.measure.sensors.energy import SensorUnavailable

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
