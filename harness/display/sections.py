"""Sections of results: failures, energy, and the times of each input."""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.analysis.causes import FAILURES_HEAD, causes, causes_lines, failures_rows
from harness.analysis.energy import InputEnergy
from harness.analysis.failures import describe_failures
from harness.core.config_diff import difference
from harness.core.observations import ENERGY_SPREAD
from harness.core.records import Config, Measurement
from harness.core.text import format_energy
from harness.dispatch.study import InputSlowdowns, geometric_means
from harness.display.inputs import MOST_SHOWN, not_shown
from harness.display.text import Section, SectionTable
from harness.measure.energy import ENERGY, POWER
from harness.results.view import Results


def failures_section(results: Results, default: Config) -> Section:
    """Show the kinds of failures, the values that explain them, and the commonest reasons."""
    rows = failures_rows(results)
    reasons = list(describe_failures(results.measured, default, results.failed_later))
    if not reasons:
        return Section("failures", "Failures", ("No configuration failed.",))
    explained = [*causes_lines(causes(results)), ""] if rows else []
    table = SectionTable(FAILURES_HEAD, rows, range(len(FAILURES_HEAD))) if rows else None
    return Section("failures", "Failures", table=table, lines=[*explained, *reasons])


# -------------------------------------------------------------------------------- energy


def energy_section(energies: Sequence[InputEnergy], default: Config) -> Section | None:
    """Show the energy of the default, of the best configuration, and the least, on each input on
    which any is known; None without any."""
    if not energies:
        return None
    texts = [
        "Energy of the launches of a run, and power of the device meanwhile, with its idle power. "
        f"It is known of {sum(energy.known for energy in energies):,} measurements. Each was "
        "measured once, +- half the 95 % confidence interval of its parts, and the least is the "
        "luckiest of many: a difference of a few percent may be chance.",
        *not_shown(len(energies)),
    ]
    head = (
        "input",
        "default",
        "best configuration",
        "least energy",
        "configuration of the least energy",
        "its time over the best's",
    )
    rows = [
        (
            str(energy.problem),
            *map(_energy, (energy.default, energy.best, energy.least)),
            difference(energy.least.config, default),
            "-" if energy.slowdown is None else f"{energy.slowdown:.2f}x",
        )
        for energy in energies[:MOST_SHOWN]
    ]
    return Section("energy", "Energy", texts, table=SectionTable(head, rows, (0, 4)))


def _energy(measured: Measurement | None) -> str:
    if measured is None:
        return "-"
    power_w = measured.observed.get(POWER)
    power = "" if power_w is None else f", {power_w:.3g} W"
    spread_j = measured.observed.get(ENERGY_SPREAD)
    spread = "" if spread_j is None else f" +- {format_energy(spread_j, digits=2)}"
    return f"{format_energy(measured.observed[ENERGY])}{spread}{power}"


# ------------------------------------------------------------------------------ by input


def by_input_section(slowdowns: Sequence[InputSlowdowns], name: str) -> Section:
    """Show the worst, the default and the predicted configuration of each input, and the geometric
    means; `name` is the dispatcher that predicts."""
    text = (
        "Time of the worst, the default and the predicted configuration over the best time of the "
        f"same rounds. Predicted: what `{name}` chooses, learnt without the input."
    )
    rows = [
        (str(of_input.problem), of_input.worst, of_input.default, of_input.predicted)
        for of_input in slowdowns[:MOST_SHOWN]
    ]
    rows.append(("geometric mean", *geometric_means(slowdowns)))
    return Section(
        "by-input",
        "Worst, default and predicted",
        [text, *not_shown(len(slowdowns))],
        table=SectionTable(
            ("input", "worst", "default", "predicted"),
            [(label, *map(_slowdown, numbers)) for label, *numbers in rows],
        ),
    )


def _slowdown(number: float) -> str:
    if math.isnan(number):
        return "-"
    return f"{number:.2f}x" if math.isfinite(number) else "failed"
