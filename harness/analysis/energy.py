"""The energy of configurations on each input, where sensors measured it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from harness.analysis.inputs import InputReport
from harness.core.records import Input, Measurement
from harness.core.text import counted
from harness.measure.energy import ENERGY, LAUNCH_SHARE, LEAST_SHARE
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
    has_energy = np.isfinite(rows.of(energy_j)) & rows.of(rows.columns.works)
    by_input = measured_by_input(rows.where(has_energy))
    return [
        _input_energy(report, own)
        for report in reports
        if (own := by_input.get(report.problem)) is not None
    ]


def unknown_energy_lines(results: Results) -> Iterator[str]:
    """Yield a sentence where the energy was asked for and stays unknown."""
    rows = results.searched
    share = rows.columns.observed.get(LAUNCH_SHARE)
    if share is None:
        return
    asked = np.isfinite(rows.of(share))
    energy_j = rows.columns.observed.get(ENERGY)
    has_energy = asked & (False if energy_j is None else np.isfinite(rows.of(energy_j)))
    unknown = int(asked.sum() - has_energy.sum())
    if unknown:
        yield (
            f"The energy of {unknown:,} of {counted(int(asked.sum()), 'measurement')} is unknown: "
            f"the launches take less than {LEAST_SHARE:.0%} of the time of a run, which restores "
            "arguments and may empty caches, or the counter of energy moves too seldom. Tune for "
            "larger inputs, or with `measure: {cache: warm}`."
        )


def _input_energy(report: InputReport, own: MeasuredConfigs) -> InputEnergy:
    energy_j = own.rows.of(own.columns.observed[ENERGY])
    least = int(own.rows.selected[int(np.argmin(energy_j))])
    default, best = (
        None if measurement is None else own.get(measurement.config)
        for measurement in (report.baseline, report.recommended)
    )
    return InputEnergy(report.problem, default, best, own.columns.measurement(least), len(own))
