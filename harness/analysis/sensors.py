"""What sensors say of configurations: the energy on each input, and where a GPU was throttled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from harness.analysis.inputs import InputReport
from harness.core.records import Input, Measurement
from harness.measure.sensors.energy import ENERGY
from harness.measure.sensors.nvml import THROTTLED
from harness.results.measured import MeasuredConfigs, measured_by_input
from harness.results.view import Results


@dataclass(frozen=True)
class InputEnergy:
    """The measurements with an energy of the default, of the configuration to use, and of the one
    that takes the least; None where it is not known. `known` counts all of the input."""

    problem: Input
    default: Measurement | None
    best: Measurement | None
    least: Measurement
    known: int

    @property
    def slowdown(self) -> float | None:
        """The time of the one of least energy, over that of the configuration to use."""
        return None if self.best is None else self.least.time_s / self.best.time_s


def input_energies(results: Results, reports: Sequence[InputReport]) -> list[InputEnergy]:
    """Return the energies on each input on which any is known."""
    energy_j = results.searched.columns.observed.get(ENERGY)
    if energy_j is None:
        return []
    rows = results.searched
    known = np.isfinite(rows.of(energy_j)) & rows.of(rows.columns.works)
    found = measured_by_input(rows.where(known))
    return [
        _input_energy(report, own)
        for report in reports
        if (own := found.get(report.problem)) is not None
    ]


def _input_energy(report: InputReport, own: MeasuredConfigs) -> InputEnergy:
    energy_j = own.rows.of(own.columns.observed[ENERGY])
    least = int(own.rows.selected[int(np.argmin(energy_j))])
    default, best = (
        None if one is None else own.get(one.config)
        for one in (report.baseline, report.recommended)
    )
    return InputEnergy(report.problem, default, best, own.columns.measurement(least), len(own))


def throttled_lines(results: Results) -> Iterator[str]:
    """Yield a sentence where a GPU was throttled around samples."""
    rows = results.rows
    counts = {
        name: int((rows.of(column) == 1).sum())
        for name, column in rows.columns.observed.items()
        if name == THROTTLED or name.startswith(f"{THROTTLED}_")
    }
    if not counts.get(THROTTLED):
        return
    known = int(np.isfinite(rows.of(rows.columns.observed[THROTTLED])).sum())
    reasons = {name.removeprefix(f"{THROTTLED}_"): n for name, n in counts.items() if n}
    named = ", ".join(f"{name} in {n:,}" for name, n in reasons.items() if name != THROTTLED)
    yield (
        f"The GPU held its clocks back in {counts[THROTTLED]:,} of {known:,} measurements "
        f"({named}): their times may be too long."
    )
