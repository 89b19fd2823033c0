"""Times of configurations on inputs: as the search measured them, or interleaved."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.core.arrays import Array, Flags, Indices
from harness.core.records import Config, Input, Measurement, StopReason
from harness.results.columns import MeasurementColumns, MeasurementRow
from harness.results.gathering import as_rows
from harness.results.measured import Measured, MeasuredConfigs, measured_by_input
from harness.stats.samples import within_noise
from harness.stats.timing import TimeRatio, trimmed_log_time, trimmed_ratio

_BATCH = 1000
"""Inputs that are compared at once, so that copies stay small."""


@dataclass(frozen=True)
class Times:
    """Seconds of configurations on inputs, shape (inputs, configurations): infinity for a failure,
    NaN where not measured; where one is `tied` with the best; and the least of each input, of any
    configuration, shape (inputs,). Nothing more can be measured where they `are_recorded`."""

    inputs: Sequence[Input]
    configs: Sequence[Config]
    time_s: Array
    tied: Flags
    best_s: Array
    are_recorded: bool = False


def searched_times(known: Mapping[Input, Measured], default: Config, most: int) -> Times:
    """Return the times of the search: of the default, of every winner, and of what was measured on
    all inputs, at most so many, those of the least mean slowdown."""
    columns, rows = _rows_of(known)
    sizes = [len(own) for own in rows.values()]
    every = np.concatenate([np.empty(0, dtype=np.intp), *rows.values()])
    owner: Indices = np.repeat(np.arange(len(rows)), sizes)
    order = np.lexsort((columns.time_s[every], owner))  # stable: the first of equal ones
    best: Indices = every[order[np.cumsum([0, *sizes])[:-1]]]
    best_s = columns.time_s[best]
    table, codes = columns.config_table, columns.configs.codes[every]
    logs = np.log(columns.time_s[every] / np.repeat(best_s, sizes))
    slowdown = np.bincount(codes, weights=logs, minlength=len(table))
    counts = np.bincount(codes, minlength=len(table))
    first = columns.configs.codes[next(iter(rows.values()), every)]
    everywhere = first[counts[first] == len(rows)]
    chosen = everywhere[np.argsort(slowdown[everywhere], kind="stable")[:most]]
    winners = columns.configs.codes[best].tolist()
    configs = list(dict.fromkeys([default, *(table[c] for c in [*winners, *chosen.tolist()])]))
    column = np.full(len(table), -1, dtype=np.intp)
    for index, config in enumerate(configs):
        code = table.find(config)
        if code is not None:
            column[code] = index
    is_wanted = column[codes] >= 0
    found = np.full((len(rows), len(configs)), -1, dtype=np.intp)
    found[owner[is_wanted], column[codes[is_wanted]]] = every[is_wanted]
    time_s: Array = np.where(found >= 0, columns.time_s[found], np.nan)
    recorded = columns.stopped.codes[every] == columns.stopped.code(StopReason.RECORDED)
    tied = _tied(columns, found, best)
    return Times(list(rows), configs, time_s, tied, best_s, bool(recorded.any()))


def _rows_of(
    known: Mapping[Input, Measured],
) -> tuple[MeasurementColumns, Mapping[Input, Indices]]:
    """Return the rows of each input, of common columns, with one row for each configuration."""
    found = {problem: row for problem, row in known.items() if isinstance(row, MeasuredConfigs)}
    if len(found) < len(known) or len({id(row.columns) for row in found.values()}) != 1:
        rows = (MeasurementRow(0, "search", m) for row in known.values() for m in row.values())
        found = measured_by_input(as_rows(rows))
    columns = next(iter(found.values())).columns if found else as_rows(()).columns
    return columns, {problem: row.rows.selected for problem, row in found.items()}


def _tied(columns: MeasurementColumns, found: Indices, best: Indices) -> Flags:
    """Say which rows do not differ significantly from the input's best."""
    tied = np.zeros(found.shape, dtype=np.bool_)
    for start in range(0, len(found), _BATCH):
        others, own = found[start : start + _BATCH], best[start : start + _BATCH]
        there = (others >= 0) & columns.works[others]
        bests = np.broadcast_to(own[:, None], there.shape)[there]
        tied[start : start + _BATCH][there] = within_noise(columns.statistics, bests, others[there])
    return tied


def interleaved_times(rows: Mapping[Input, Measured], configs: Sequence[Config]) -> Times:
    """Return the times of interleaved measurements: trimmed geometric means."""
    shape = len(rows), len(configs)
    times = [_mean_s(row[c]) if c in row else math.nan for row in rows.values() for c in configs]
    best = [min(row.values(), key=_mean_s) for row in rows.values()]
    ratios = _ratios(rows, configs, best)
    tied = [not ratio.is_significant if ratio else False for ratio in ratios]
    return Times(
        list(rows),
        configs,
        np.array(times).reshape(shape),
        np.array(tied, dtype=np.bool_).reshape(shape),
        np.array(list(map(_mean_s, best))),
    )


def half_log(rows: Mapping[Input, Measured], configs: Sequence[Config], reference: Config) -> Array:
    """Return half the 95 % intervals of the logarithms of interleaved times over the reference's,
    shape (inputs, configurations); 0 where there is no time."""
    ratios = _ratios(rows, configs, [row.get(reference) for row in rows.values()])
    found = [math.log(ratio.high / ratio.value) if ratio else 0.0 for ratio in ratios]
    return np.array(found).reshape(len(rows), len(configs))


def _ratios(
    rows: Mapping[Input, Measured],
    configs: Sequence[Config],
    others: Sequence[Measurement | None],
) -> Iterator[TimeRatio | None]:
    """Yield the times over that of another one on each input, one input after another."""
    for row, other in zip(rows.values(), others, strict=True):
        base = other.timing if other else None
        for timing in (row[c].timing if c in row else None for c in configs):
            yield trimmed_ratio(timing, base) if timing and base else None


def _mean_s(measurement: Measurement) -> float:
    """Return the mean by which interleaved times are compared."""
    timing = measurement.timing
    return math.exp(trimmed_log_time(timing)) if timing else math.inf
