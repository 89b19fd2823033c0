"""Sections of results: failures, energy, and the times of each input."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from harness.analysis.bits import EqualBits
from harness.analysis.causes import FAILURES_HEAD, causes_lines, failures_rows
from harness.analysis.failures import describe_failures
from harness.analysis.inputs import InputReport
from harness.analysis.sensors import InputEnergy
from harness.analysis.summary import ProgramSummary
from harness.core.config_diff import DEFAULT, difference
from harness.core.observations import ENERGY_SPREAD, PEAK_FRACTION, PEAKS, RATES
from harness.core.records import Config, Measurement, Statistic
from harness.core.text import counted, format_energy, format_time
from harness.dispatch.study import InputSlowdowns, geometric_means
from harness.display.inputs import MOST_SHOWN, not_shown
from harness.display.text import Section, SectionTable, format_ratio, format_share
from harness.measure.sensors.energy import ENERGY, POWER
from harness.results.view import Results


def failures_section(results: Results, default: Config) -> Section:
    """Show the kinds of failures, the values that explain them, and the commonest reasons."""
    rows, table = failures_rows(results), None
    lines = list(describe_failures(results.measured, default, results.failed_later))
    if not lines:
        return Section("failures", "Failures", ("No configuration failed.",))
    if rows:
        lines = [*causes_lines(results), "", *lines]
        table = SectionTable(FAILURES_HEAD, rows, range(len(FAILURES_HEAD)))
    return Section("failures", "Failures", table=table, lines=lines)


# -------------------------------------------------------------------------------- energy


def energy_section(energies: Sequence[InputEnergy]) -> Section | None:
    """Show the energy of the default and of the configuration to use, on each input on which any
    is known; None without any."""
    if not energies:
        return None
    texts = [
        "Energy of the launches of a run, and power of the device meanwhile, with its idle power, "
        "+- half the 95 % confidence interval of its parts. It is known of "
        f"{sum(energy.count for energy in energies):,} measurements.",
        *not_shown(len(energies)),
    ]
    rows = [
        (str(energy.problem), _energy(energy.default), _energy(energy.best))
        for energy in energies[:MOST_SHOWN]
    ]
    head = ("input", "default", "best configuration")
    return Section("energy", "Energy", texts, table=SectionTable(head, rows))


def front_section(energies: Sequence[InputEnergy], default: Config) -> Section | None:
    """Show on each input the configurations for which none is both faster and takes less energy,
    where these are several, the fastest first; None where no energy is known."""
    if not energies:
        return None
    traded = [energy for energy in energies if len(energy.front) > 1]
    rows = [
        (
            str(energy.problem),
            difference(measured.config, default),
            format_time(measured.time_s),
            _energy(measured),
            f"{measured.time_s / energy.front[0].time_s:.2f}x",
            f"{measured.observed[ENERGY] / energy.front[0].observed[ENERGY]:.2f}x",
        )
        for energy in traded[:MOST_SHOWN]
        for measured in energy.front
    ]
    text = (
        f"On {len(energies) - len(traded)} of {counted(len(energies), 'input')} the fastest "
        "configuration takes the least energy. On the others none is faster than one of these and "
        "takes less. Ratios are to the fastest. Each was measured once, and the least is the "
        "luckiest of many: a difference of a few percent may be chance."
    )
    head = ("input", "configuration", "time", "energy", "time ratio", "energy ratio")
    table = SectionTable(head, rows, (0, 1)) if rows else None
    return Section("front", "Time against energy", [text, *not_shown(len(traded))], table=table)


def _energy(measured: Measurement | None) -> str:
    if measured is None:
        return "-"
    power_w = measured.observed.get(POWER)
    power = "" if power_w is None else f", {power_w:.3g} W"
    spread_j = measured.observed.get(ENERGY_SPREAD)
    spread = "" if spread_j is None else f" +- {format_energy(spread_j, digits=2)}"
    return f"{format_energy(measured.observed[ENERGY])}{spread}{power}"


# -------------------------------------------------------------------------------- bits


def bits_section(bits: EqualBits | None) -> Section | None:
    """Show the classes of configurations with equal bits on each input, what splits them, and what
    staying in the default's class costs; None where no bits are known."""
    if bits is None:
        return None
    inputs, varying = bits.inputs, max(of.varying for of in bits.inputs)
    differ = (
        f"The outputs of up to {counted(varying, 'configuration')} differ from run to run, as with "
        "atomics on floating-point numbers; these are in no class."
    )
    if max(of.classes for of in inputs) < 2:
        others = "other measured" if varying else "measured"
        alike = f"On each input, all {others} configurations have outputs of equal bits."
        return Section("bits", "Equal bits", lines=[differ, alike] if varying else [alike])
    names = ", ".join(bits.split_by)
    lines = [f"Measured configurations of equal {names} have outputs of equal bits."]
    if varying:
        lines.append(differ)
    if bits.slowdown is not None:
        lines.append(
            f"Staying in the default's class costs {bits.slowdown:.2f}x (geometric mean, by the "
            "times of the search). `verify: {bits: default}` in the space accepts no other class."
        )
    lines += not_shown(len(inputs))
    head = ("input", "classes", "configurations", "in the default's class", "slowdown there")
    rows = [
        (
            str(of.problem),
            f"{of.classes:,}",
            f"{of.configs:,}",
            "-" if of.in_default is None else f"{of.in_default:,}",
            "-" if of.slowdown is None else f"{of.slowdown:.2f}x",
        )
        for of in inputs[:MOST_SHOWN]
    ]
    return Section("bits", "Equal bits", lines, table=SectionTable(head, rows))


# ------------------------------------------------------------------------------ roofline


def roofline_section(reports: Sequence[InputReport], picture: str = "") -> Section | None:
    """Show what the best configuration of each input does in a second, and what fraction of the
    device's peak that is; None where no space says its work."""
    rated = [
        (str(report.problem), best.observed, report.baseline.observed if report.baseline else {})
        for report in reports
        if (best := report.recommended) and best.observed.keys() & set(RATES.values())
    ]
    if not rated:
        return None
    peaks = {kind: o[name] for _, o, _ in rated for kind, name in PEAKS.items() if name in o}
    named = " and ".join(_PEAKS[kind].format(peak) for kind, peak in peaks.items())
    text = (
        "What the best configurations do in a second, by the `work` of the space, and the share of "
        "the device's peak that they and the default reach. The peak is "
        f"{named or 'not known'}."
    )
    above = sum(observed.get(PEAK_FRACTION, 0) > 1 for _, observed, _ in rated)
    line = (
        f"{counted(above, 'input')} above the peak, with right results: the data lie in a cache, "
        "or `work` counts more than the kernel must do."
    )
    rows = [
        (
            problem,
            *(f"{best[name]:.4g}" if name in best else "-" for name in RATES.values()),
            _of_peak(best),
            _of_peak(default),
            _limited_by(best),
        )
        for problem, best, default in rated[:MOST_SHOWN]
    ]
    head = ("input", "GB/s", "GFLOP/s", "of the peak", "default", "limited by")
    table = SectionTable(head, rows, (0, 5))
    texts = [text, *not_shown(len(rated))]
    return Section("roofline", "Roofline", texts, picture, table, [line] if above else [])


_PEAKS = {"bytes": "{:.4g} GB/s in a copy", "flops": "{:.4g} GFLOP/s in float32 multiply-adds"}


def _of_peak(observed: Mapping[str, float]) -> str:
    return format_share(observed[PEAK_FRACTION]) if PEAK_FRACTION in observed else "-"


def _limited_by(observed: Mapping[str, float]) -> str:
    """Say which part of the work takes longer at the device's peak."""
    known = [kind for kind in RATES if {RATES[kind], PEAKS[kind]} <= observed.keys()]
    longest = max(known, key=lambda kind: observed[RATES[kind]] / observed[PEAKS[kind]], default="")
    return {"bytes": "memory", "flops": "arithmetic"}.get(longest, "-")


# ------------------------------------------------------------------------------ by input


def by_input_section(slowdowns: Sequence[InputSlowdowns], name: str) -> Section:
    """Show the worst, the default and the predicted configuration of each input, and the geometric
    means; `name` is the dispatcher that predicts."""
    text = (
        "Time of the worst, the default and the predicted configuration over the best time of the "
        f"same rounds. Predicted: what `{name}` chooses, learnt without the input."
    )
    rows = []
    for shown in slowdowns[:MOST_SHOWN]:
        numbers = shown.worst, shown.default, shown.predicted
        rows.append((str(shown.problem), *map(_slowdown, numbers)))
    rows.append(("geometric mean", *map(_slowdown, geometric_means(slowdowns))))
    table = SectionTable(("input", "worst", "default", "predicted"), rows)
    texts = [text, *not_shown(len(slowdowns))]
    return Section("by-input", "Worst, default and predicted", texts, table=table)


def _slowdown(number: float) -> str:
    if math.isnan(number):
        return "-"
    return f"{number:.2f}x" if math.isfinite(number) else "failed"


_SPEEDUPS = (
    "Speed-ups are of the best configuration of each input, judged by other launches than those "
    "that chose it, with their confidence interval; over several inputs, geometric means."
)


def summary_sections(cells: Sequence[ProgramSummary]) -> Iterator[Section]:
    """Show a row for each program and a column for each device: failed tests, and speed-ups over
    each baseline, -O2 first."""
    names = {name for cell in cells for name in cell.speedups}
    means = [f"{c.program} on {c.device}" for c in cells if c.statistic is Statistic.MEAN]
    named = "all programs" if len(means) == len(cells) else "; ".join(means)
    note = f"{_SPEEDUPS} By means of samples, not medians: {named}." if means else _SPEEDUPS
    yield Section("summary", "Programs and devices", [note] if names else [])
    yield _section("Failed tests", cells, _failures)
    for name in sorted(names, key=lambda name: (name != "-O2", name != DEFAULT, name)):
        over = "the default" if name == DEFAULT else name
        yield _section(f"Speed-up over {over}", cells, partial(_speedup, name))


def _section(
    title: str, cells: Sequence[ProgramSummary], text: Callable[[ProgramSummary], str]
) -> Section:
    devices = sorted({cell.device for cell in cells})
    texts = {(cell.program, cell.device): text(cell) for cell in cells}
    rows = [
        (program, *(texts.get((program, device), "not tuned") for device in devices))
        for program in sorted({cell.program for cell in cells})
    ]
    head = ("program", *devices)
    return Section("", title, table=SectionTable(head, rows, range(len(head))))


def _failures(cell: ProgramSummary) -> str:
    failed = sum(cell.failures.values())
    if not failed:
        return f"none of {cell.tests:,}"
    kinds = ", ".join(f"{count:,} {outcome}" for outcome, count in cell.failures.items())
    return f"{failed:,} of {cell.tests:,} ({format_share(failed / cell.tests)}): {kinds}"


def _speedup(name: str, cell: ProgramSummary) -> str:
    """Format a speed-up with its interval, and the number of inputs where there are several."""
    speedup = cell.speedups.get(name)
    if speedup is None:
        return "not measured"
    inputs = "" if speedup.count == 1 else f", {counted(speedup.count, 'input')}"
    return f"{format_ratio(speedup)}{inputs}"
