"""The data of the report's plots, typed and without drawing, so that tests can check numbers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.analysis.inputs import InputReport
from harness.analysis.search_counts import SearchCounts
from harness.core.arrays import Array, Flags
from harness.core.config_diff import difference
from harness.core.records import Config, Measurement, Outcome
from harness.dispatch.matrix import Matrix
from harness.results import MeasurementRows
from harness.results.measured import MeasuredConfigs, measured_by_input
from harness.results.view import Results
from harness.stats.timing import TimeRatio

MOST_BOXES = 16
"""The most inputs in the box plots; of more, a selection spread evenly by speed-up is shown."""

MOST_COLUMNS = 32
"""The most candidates in the heat map; of more, those with the least mean slowdown are shown."""

MOST_ROWS = 64
"""The most inputs in the heat map; of more, every n-th is shown."""

_LONGEST_LABEL = 32

_NOT_BUILT = (Outcome.ILLEGAL, Outcome.BUILD_FAILED)


def distinct_code(results: Results) -> str:
    """Count the builds, and those with a machine code of their own."""
    rows = _distinct(results)
    outcomes = rows.columns.outcomes
    built = rows.where(~np.isin(rows.of(outcomes.codes), list(map(outcomes.code, _NOT_BUILT))))
    shared = int(_is_shared(built).sum())
    counts = f"{len(built) - shared:,} of {len(built):,} builds"
    if not shared:
        return f"{counts}; no two are known to have the same machine code"
    return f"{counts}; the other {shared:,} share a measurement with equal machine code"


def sample_count(results: Results) -> int:
    """Count the samples; configurations of equal machine code share theirs."""
    rows = results.rows
    return int(rows.of(rows.columns.samples_s.counts)[~_is_shared(rows)].sum())


def outcome_counts(results: Results) -> Counter[Outcome]:
    """Count the configurations on all inputs by outcome."""
    counts: Counter[Outcome] = Counter()
    for known in results.measured.values():
        counts.update(SearchCounts(known).outcomes)
    return counts


def _distinct(results: Results) -> MeasurementRows:
    """Take one row for each configuration on each input."""
    parts = [known.rows.selected for known in results.measured.values()]
    return results.rows.take(np.concatenate(parts) if parts else np.empty(0, dtype=np.intp))


def _is_shared(rows: MeasurementRows) -> Flags:
    shared = rows.columns.shared_with
    flags: Flags = rows.of(shared.codes) != shared.code(None)
    return flags


# ------------------------------------------------------------------------------ the search


@dataclass(frozen=True)
class SearchCurve:
    """The progress of one input's search: after `tests[k]` distinct tests, it has reached the
    fraction `reached[k]` of the input's best known performance. It has a point for each
    improvement, and one for the end."""

    label: str
    tests: tuple[int, ...]
    reached: tuple[float, ...]


def search_curves(results: Results) -> list[SearchCurve]:
    """Compute the curve of each input on which anything worked."""
    searched = measured_by_input(results.rows.of_stages(["search"]))
    curves = (_curve(str(problem), known) for problem, known in searched.items())
    return [curve for curve in curves if curve is not None]


def _curve(label: str, known: MeasuredConfigs) -> SearchCurve | None:
    times = known.rows.of(known.columns.time_s)
    least = times.min(initial=np.inf)
    if least == np.inf:
        return None
    best = np.minimum.accumulate(times)
    is_step = np.concatenate([[True], best[1:] < best[:-1]]) & (best < np.inf)
    ends = np.append(np.flatnonzero(is_step), len(best) - 1)
    return SearchCurve(label, tuple((ends + 1).tolist()), tuple((least / best[ends]).tolist()))


# -------------------------------------------------------------------------- the winners


@dataclass(frozen=True)
class BoxPlot:
    """The samples of one configuration over the default's median. `role` is its name: `tuned`,
    `default`, or a named baseline such as `-O2`."""

    role: str
    config: Config
    ratios: Array


@dataclass(frozen=True)
class InputBoxes:
    """The interleaved samples of an input's best configuration and its baselines."""

    label: str
    boxes: tuple[BoxPlot, ...]


def input_boxes(results: Results, reports: Sequence[InputReport]) -> list[InputBoxes]:
    """Collect the samples of inputs whose best configuration was measured with the default."""
    judged = [r for r in reports if r.speedup and r.best and r.baseline and r.baseline.timing]
    judged.sort(key=lambda r: r.speedup.value if r.speedup else 0.0, reverse=True)
    return [
        InputBoxes(str(report.problem), tuple(_boxes(report, results)))
        for report in _spread(judged, MOST_BOXES)
    ]


def _boxes(report: InputReport, results: Results) -> list[BoxPlot]:
    best, baseline = report.best, report.baseline
    assert best is not None
    assert baseline is not None
    assert baseline.timing is not None
    finals = {m.config: m for m in results.finals.get(report.problem, ())}
    named = [(n, finals[c]) for n, c in results.baselines.items() if c in finals]
    roles = [("default", baseline), *((name, m) for name, m in named if m.timing)]
    roles += [("tuned", best)] if best.config != baseline.config else []
    middle = baseline.timing.median_s
    return [BoxPlot(role, m.config, _samples(m) / middle) for role, m in roles]


def _samples(measurement: Measurement) -> Array:
    return np.array(measurement.timing.samples_s if measurement.timing else ())


def _spread(found: Sequence[InputReport], most: int) -> list[InputReport]:
    """Select at most so many, evenly spread, with the first and the last."""
    if len(found) <= most:
        return list(found)
    return [found[index] for index in np.linspace(0, len(found) - 1, most).round().astype(int)]


@dataclass(frozen=True)
class SpeedUp:
    """The speed-up of one input over the baseline."""

    label: str
    ratio: TimeRatio


def speed_ups(reports: Sequence[InputReport]) -> list[SpeedUp]:
    """List the speed-ups with a finite interval, in the order of the inputs."""
    return [
        SpeedUp(str(r.problem), r.speedup)
        for r in reports
        if r.speedup and math.isfinite(r.speedup.high)
    ]


# ------------------------------------------------------------------------ across inputs


@dataclass(frozen=True)
class HeatMap:
    """Slowdowns of candidates on inputs, shape (inputs, candidates): NaN where not measured,
    infinity where a candidate failed. `changes` are the candidates' changes from the default,
    `labels` the same, or numbers where one is too long to stand beside a plot. `chosen` is the
    column that the dispatcher picks for each input, -1 where it is not shown or there is no
    dispatcher."""

    inputs: tuple[str, ...]
    candidates: tuple[Config, ...]
    changes: tuple[str, ...]
    labels: tuple[str, ...]
    slowdowns: Array
    chosen: tuple[int, ...]


def heat_map(
    matrix: Matrix, chosen: npt.NDArray[np.intp] | None, default: Config | None = None
) -> HeatMap:
    """Select inputs and candidates, and order candidates by the inputs on which they are fast.

    `chosen` are indices of candidates, shape (inputs,).
    """
    rows = _some(len(matrix.features))
    slowdowns = matrix.slowdown[rows]
    picked = None if chosen is None else chosen[rows]
    columns = _columns(slowdowns, picked)
    shown_at = {int(column): index for index, column in enumerate(columns)}
    inputs = [matrix.features.iloc[row] for row in rows]
    candidates = tuple(matrix.candidates[column] for column in columns)
    changes = tuple(difference(config, default or {}) for config in candidates)
    fit = max(map(len, changes), default=0) <= _LONGEST_LABEL
    return HeatMap(
        tuple(", ".join(f"{name}={value}" for name, value in row.items()) for row in inputs),
        candidates,
        changes,
        changes if fit else tuple(f"{number}" for number in range(1, len(changes) + 1)),
        slowdowns[:, columns],
        tuple(-1 for _ in rows)
        if picked is None
        else tuple(shown_at.get(int(p), -1) for p in picked),
    )


def _columns(slowdowns: Array, picked: npt.NDArray[np.intp] | None) -> npt.NDArray[np.intp]:
    """Select at most MOST_COLUMNS candidates: first those that are chosen or the best of an
    input, then those of the least mean slowdown. Order them by the mean position of the inputs
    on which they are fast."""
    finite = np.where(np.isfinite(slowdowns), slowdowns, np.inf)
    logs = np.log(np.minimum(finite, 1e3))
    wanted = [*(picked.tolist() if picked is not None else []), *finite.argmin(axis=1).tolist()]
    wanted += np.argsort(logs.mean(axis=0), kind="stable").tolist()
    kept = np.array(list(dict.fromkeys(map(int, wanted)))[:MOST_COLUMNS])
    weights = np.exp(-4 * logs[:, kept])
    middle = (weights * np.arange(len(logs))[:, None]).sum(axis=0) / weights.sum(axis=0)
    ordered: npt.NDArray[np.intp] = kept[np.argsort(middle, kind="stable")]
    return ordered


def _some(count: int) -> npt.NDArray[np.intp]:
    return np.unique(np.linspace(0, count - 1, MOST_ROWS).round().astype(np.intp))
