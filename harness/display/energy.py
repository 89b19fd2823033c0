"""The table of the energy of launches on each input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from harness.analysis.energy import InputEnergy
from harness.core.config_diff import difference
from harness.core.observations import ENERGY_SPREAD
from harness.core.records import Measurement, Value
from harness.core.text import format_energy
from harness.display.inputs import MOST_SHOWN, not_shown
from harness.measure.sensors.energy import ENERGY, POWER

ENERGY_HEAD = (
    "input",
    "default",
    "best configuration",
    "least energy",
    "configuration of the least energy",
    "its time over the best's",
)


def energy_lines(found: Sequence[InputEnergy]) -> Iterator[str]:
    """Explain the table."""
    count = sum(one.known for one in found)
    yield (
        f"Energy of the launches of a run, and power of the device meanwhile, with its idle power. "
        f"It is known of {count:,} measurements. Each was measured once, +- half the 95 % "
        "confidence interval of its parts, and the least is the luckiest of many: a difference of "
        "a few percent may be chance."
    )
    yield from not_shown(len(found))


def energy_rows(
    found: Sequence[InputEnergy], default: Mapping[str, Value]
) -> Iterator[tuple[str, ...]]:
    """Make a row an input."""
    for one in found[:MOST_SHOWN]:
        slowdown = one.slowdown
        yield (
            str(one.problem),
            *map(_energy, (one.default, one.best, one.least)),
            difference(one.least.config, default),
            "-" if slowdown is None else f"{slowdown:.2f}x",
        )


def _energy(measured: Measurement | None) -> str:
    if measured is None:
        return "-"
    power_w = measured.observed.get(POWER)
    power = "" if power_w is None else f", {power_w:.3g} W"
    spread_j = measured.observed.get(ENERGY_SPREAD)
    spread = "" if spread_j is None else f" +- {format_energy(spread_j, digits=2)}"
    return f"{format_energy(measured.observed[ENERGY])}{spread}{power}"
