"""What sensors say of a campaign: at which clocks of the device it ran, and its energy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from harness.analysis.inputs import InputReport
from harness.constraints.arithmetic import MAX_EXACT
from harness.core.arrays import Array
from harness.core.observations import HOST, HOST_RETRIES, SM_CLOCK_MHZ, THROTTLED_SAMPLES
from harness.core.records import SUSTAINED, Input, Measurement
from harness.core.text import counted, format_time
from harness.measure.device.clocks import LOW_CLOCK
from harness.measure.sensors.energy import ENERGY, LAUNCH_SHARE, LEAST_SHARE
from harness.measure.sensors.nvml import THROTTLED, THROTTLED_BY
from harness.results.measured import MeasuredConfigs, measured_by_input
from harness.results.view import Results


def sensor_lines(results: Results) -> Iterator[str]:
    """Yield what `clock_lines` does, and a sentence where the driver says that a GPU was throttled,
    and where the energy was asked for and stays unknown."""
    yield from clock_lines(results)
    yield from _throttled_lines(results)
    yield from _unknown_energy_lines(results)


def clock_lines(results: Results) -> Iterator[str]:
    """Yield a sentence on runs that were thrown away for their low clock, one on those for which
    the host was too slow, one on measurements that ran at a low clock all the same or on the
    sustained clocks, and one on calls that take the host longer than the device."""
    thrown = _total(results, THROTTLED_SAMPLES)
    if thrown:
        runs = counted(thrown, "timed run")
        share = f"{100 * LOW_CLOCK:g} %"
        yield f"{runs} met a GPU clock under {share} of the full one: thrown away, and taken again."
    late = _total(results, HOST_RETRIES)
    if late:
        yield (
            f"The host was too slow for {counted(late, 'timed run')}: thrown away, and taken again."
        )
    clocks_mhz = _observed(results, SM_CLOCK_MHZ)
    low_mhz = clocks_mhz[clocks_mhz < LOW_CLOCK * clocks_mhz.max(initial=0)]
    if results.campaign.environment.clock == SUSTAINED:
        yield from _sustained_lines(results, clocks_mhz)
    elif len(low_mhz):
        yield (
            f"In {len(low_mhz):,} of {counted(len(clocks_mhz), 'measurement')} the GPU's clock was "
            f"low ({low_mhz.min():,.0f} MHz at the lowest, {clocks_mhz.max():,.0f} MHz in others): "
            "their times are those of a slower GPU. Power or temperature limits it; cool it, or "
            "lock a lower clock (nvidia-smi --lock-gpu-clocks), and tune with --fresh."
        )
    yield from _host_lines(results)


def _sustained_lines(results: Results, clocks_mhz: Array) -> Iterator[str]:
    """Yield a sentence on the clocks that a GPU sustained, as shares of the highest that it
    states."""
    boost_mhz = 0.0
    for run in results.runs:
        stated_khz = run.notes.get("facts", {}).get("clock_khz", "")
        if stated_khz.isdecimal():
            boost_mhz = max(boost_mhz, int(stated_khz) / 1000)
    if boost_mhz and len(clocks_mhz):
        low, high = (100 * share for share in np.quantile(clocks_mhz / boost_mhz, [0, 1]))
        boost = f"its boost clock, {boost_mhz:,.0f} MHz"
        yield f"The GPU sustained {low:.0f} to {high:.0f} % of {boost}."


def _host_lines(results: Results) -> Iterator[str]:
    """Yield a sentence where calls of Python took the host longer than the device."""
    rows = results.rows
    if HOST not in rows.columns.observed:
        return
    host_s = rows.of(rows.columns.observed[HOST])
    time_s = rows.of(rows.columns.time_s)
    timed = ~rows.is_shared & np.isfinite(host_s) & np.isfinite(time_s)
    count = int((host_s[timed] > time_s[timed]).sum())
    if count:
        host = format_time(float(np.median(host_s[timed])))
        device = format_time(float(np.median(time_s[timed])))
        yield (
            f"In {count:,} of {counted(int(timed.sum()), 'measurement')} the host took longer for "
            f"a call than the device (medians of all: {host}, {device}): the host is the limit, "
            "not the kernel. Give a call more work, or record calls in a CUDA graph."
        )


def _throttled_lines(results: Results) -> Iterator[str]:
    """Yield a sentence where the driver says that a GPU was throttled around samples."""
    throttled = _observed(results, THROTTLED)
    count = _total(results, THROTTLED)
    if not count:
        return
    reasons: list[str] = []
    for name in results.rows.columns.observed:
        number = len(_observed(results, name))
        if number and name.startswith(THROTTLED_BY):
            reasons.append(f"{name.removeprefix(THROTTLED_BY)} in {number:,}")
    yield (
        f"The GPU held its clocks back in {count:,} of {counted(len(throttled), 'measurement')} "
        f"({', '.join(reasons)}): their times may be too long."
    )


def clock_range(results: Results) -> str:
    """Return the clocks of the measurements, such as `1,980 MHz (1,410 to 1,995)`; empty where none
    is known."""
    clocks_mhz = _observed(results, SM_CLOCK_MHZ)
    if not len(clocks_mhz):
        return ""
    low, median, high = (f"{mhz:,.0f}" for mhz in np.quantile(clocks_mhz, [0, 0.5, 1]))
    return f"{median} MHz" if low == high else f"{median} MHz ({low} to {high})"


def _total(results: Results, name: str) -> int:
    """Return the sum of counts; numbers that harness never writes, in a damaged file, are none."""
    counts = _observed(results, name)
    return int(counts[(counts > 0) & (counts <= MAX_EXACT)].sum())


def _observed(results: Results, name: str) -> Array:
    """Return the observations of measurements that were really made, of those that have any."""
    rows = results.rows
    if name not in rows.columns.observed:
        return np.empty(0)
    values = rows.of(rows.columns.observed[name])[~rows.is_shared]
    observed: Array = values[~np.isnan(values)]
    return observed


# ------------------------------------------------------------------------ energy


@dataclass(frozen=True)
class InputEnergy:
    """The measurements with an energy of the default and of the configuration to use; None where it
    is not known. `front` has those for which none is both faster and takes less, the fastest first.
    `count` is the number of all of the input."""

    problem: Input
    default: Measurement | None
    best: Measurement | None
    front: Sequence[Measurement]
    count: int


def input_energies(results: Results, reports: Sequence[InputReport]) -> list[InputEnergy]:
    """Return the energies on each input on which any is known."""
    energy_j = results.searched.columns.observed.get(ENERGY)
    if energy_j is None:
        return []
    rows = results.searched
    has_energy = np.isfinite(rows.of(energy_j)) & rows.of(rows.columns.works)
    measured = measured_by_input(rows.where(has_energy))
    with_energy = [report for report in reports if report.problem in measured]
    return [_input_energy(report, measured[report.problem]) for report in with_energy]


def _unknown_energy_lines(results: Results) -> Iterator[str]:
    """Yield a sentence where the energy was asked for and stays unknown."""
    rows = results.searched
    share = rows.columns.observed.get(LAUNCH_SHARE)
    if share is None:
        return
    asked = np.isfinite(rows.of(share))
    unknown = asked.copy()
    if ENERGY in rows.columns.observed:
        unknown &= ~np.isfinite(rows.of(rows.columns.observed[ENERGY]))
    if unknown.any():
        yield (
            f"The energy of {unknown.sum():,} of {counted(int(asked.sum()), 'measurement')} is "
            "unknown: "
            f"the launches take less than {LEAST_SHARE:.0%} of the time of a run, which restores "
            "arguments and may empty caches, or the counter of energy moves too seldom. Tune for "
            "larger inputs, or with `measure: {cache: warm}`."
        )


def _input_energy(report: InputReport, measured: MeasuredConfigs) -> InputEnergy:
    """Return the energies of an input, of whose configurations these have one."""
    rows = measured.rows
    default = None
    best = None
    energy_j = rows.of(rows.columns.observed[ENERGY])
    time_s = rows.of(rows.columns.time_s)
    order = np.lexsort((energy_j, time_s))
    ordered_j = energy_j[order]
    is_less = ordered_j < np.minimum.accumulate(np.append(np.inf, ordered_j))[:-1]
    front = list(rows.take(rows.selected[order[is_less]]).measurements())
    if report.baseline is not None:
        default = measured.get(report.baseline.config)
    if report.recommended is not None:
        best = measured.get(report.recommended.config)
    if best is None and report.recommended is report.best and report.finalist is not None:
        best = measured.get(report.finalist)  # of the needed part only times are known
    return InputEnergy(report.problem, default, best, front, len(measured))
