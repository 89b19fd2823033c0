"""The data of the report's plots, typed and without drawing, so that tests can check numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.analysis.inputs import InputReport
from harness.core.arrays import Array
from harness.core.config_diff import DEFAULT, difference
from harness.core.observations import PEAKS, RATES
from harness.core.records import Config
from harness.dispatch.matrix import Matrix
from harness.results.measured import MeasuredConfigs, measured_by_input
from harness.results.view import Results
from harness.stats.timing import TimeRatio

MOST_COLUMNS = 32
"""The most candidates in the heat map; of more, those with the least mean slowdown are shown."""

MOST_ROWS = 64
"""The most inputs in the heat map; of more, every n-th is shown."""

MOST_BOXES = 12
"""The most inputs with boxes of their samples; of more, the first are shown."""

_LONGEST_LABEL = 32


def sample_count(results: Results) -> int:
    """Count the samples; configurations of equal machine code share theirs."""
    rows = results.rows
    return int(rows.of(rows.columns.samples_s.counts)[~rows.is_shared].sum())


# ------------------------------------------------------------------------------ the search


@dataclass(frozen=True)
class SearchCurve:
    """The progress of one input's search: after `tests[k]` distinct tests, `seconds[k]` after the
    search began, it has reached the fraction `reached[k]` of the input's best known performance. It
    has a point for each improvement, and one for the end."""

    label: str
    tests: tuple[int, ...]
    seconds: tuple[float, ...]
    reached: tuple[float, ...]


def search_curves(results: Results) -> list[SearchCurve]:
    """Compute the curve of each input on which anything worked."""
    searched = measured_by_input(results.rows.of_stages(["search"]))
    curves = (_curve(str(problem), configs) for problem, configs in searched.items())
    return [curve for curve in curves if curve is not None]


def _curve(label: str, configs: MeasuredConfigs) -> SearchCurve | None:
    times = configs.rows.of(configs.columns.time_s)
    least = times.min(initial=np.inf)
    if least == np.inf:
        return None
    best = np.minimum.accumulate(times)
    is_step = np.concatenate([[True], best[1:] < best[:-1]]) & (best < np.inf)
    ends = np.append(np.flatnonzero(is_step), len(best) - 1)
    measured_at = configs.rows.of(configs.columns.measured_at)
    first_s = configs.rows.of(configs.columns.wall_s)[0]
    seconds = np.maximum.accumulate((measured_at - measured_at[0]) / np.timedelta64(1, "s"))
    return SearchCurve(
        label,
        tuple((ends + 1).tolist()),
        tuple((first_s + seconds[ends]).tolist()),
        tuple((least / best[ends]).tolist()),
    )


# -------------------------------------------------------------------------- the winners


def speed_ups(reports: Sequence[InputReport]) -> dict[str, TimeRatio]:
    """Return the speed-ups over the default with a finite interval, in the order of the inputs."""
    return {
        str(report.problem): report.speedup
        for report in reports
        if report.speedup and math.isfinite(report.speedup.high)
    }


def final_samples(results: Results, reports: Sequence[InputReport]) -> dict[str, Array]:
    """Return the samples of the final rounds of each input: of the fastest configuration, by its
    changes from the default where they are few, of the default and the named baselines. They are
    over the default's median or, without it, that of the first one. A recording has none."""
    samples: dict[str, Array] = {}
    if results.is_replay:
        return samples
    for report in reports[:MOST_BOXES]:
        names = {config: name for name, config in results.baselines.items()}
        if report.finalist is not None:
            changes = difference(report.finalist, results.default)
            names[report.finalist] = changes if len(changes) <= _LONGEST_LABEL else "fastest"
        names[results.default] = DEFAULT
        timings = {}
        for final in results.finals.get(report.problem, ()):
            if final.timing and final.config in names:
                timings[names[final.config]] = final.timing
        if len(timings) > 1:
            unit_s = timings.get(DEFAULT, next(iter(timings.values()))).median_s
            for name, timing in timings.items():
                samples[f"{report.problem}: {name}"] = np.array(timing.samples_s) / unit_s
    return samples


def roofline(reports: Sequence[InputReport]) -> tuple[Array, Array] | None:
    """Return the GFLOP/s and GB/s of the recommended configurations, shape (inputs, 2), and the
    device's peaks of both, shape (2,); None where nothing is known."""
    kinds = ("flops", "bytes")
    observed = [
        m.observed
        for report in reports
        if (m := report.recommended) and m.observed.keys() >= {*RATES.values(), *PEAKS.values()}
    ]
    if not observed:
        return None
    rates = np.array([[numbers[RATES[kind]] for kind in kinds] for numbers in observed])
    return rates, np.array([observed[-1][PEAKS[kind]] for kind in kinds])


# ------------------------------------------------------------------------ across inputs


@dataclass(frozen=True)
class HeatMap:
    """Slowdowns of candidates on inputs, shape (inputs, candidates): NaN where not measured,
    infinity where a candidate failed. `changes` are the candidates' changes from the default,
    `labels` the same, or numbers where one is too long to stand beside a plot. `chosen` is the
    column that the dispatcher picks for each input, -1 where it is not shown or there is no
    dispatcher."""

    inputs: tuple[str, ...]
    changes: tuple[str, ...]
    labels: tuple[str, ...]
    slowdowns: Array
    chosen: tuple[int, ...]


def heat_map(matrix: Matrix, chosen: npt.NDArray[np.intp] | None, default: Config) -> HeatMap:
    """Select inputs and candidates, and order candidates by the inputs on which they are fast.

    `chosen` are indices of candidates, shape (inputs,).
    """
    count = len(matrix.features)
    rows = np.unique(np.linspace(0, count - 1, MOST_ROWS).round().astype(np.intp))
    slowdowns = matrix.slowdown[rows]
    picked = None if chosen is None else chosen[rows]
    columns = _columns(slowdowns, picked)
    shown_at = {int(column): index for index, column in enumerate(columns)}
    inputs = [matrix.features.iloc[row] for row in rows]
    changes = tuple(difference(matrix.candidates[column], default) for column in columns)
    at = [-1] * len(rows)
    if picked is not None:
        at = [shown_at.get(int(column), -1) for column in picked]
    fit = max(map(len, changes), default=0) <= _LONGEST_LABEL
    return HeatMap(
        tuple(", ".join(f"{name}={value}" for name, value in row.items()) for row in inputs),
        changes,
        changes if fit else tuple(f"{number}" for number in range(1, len(changes) + 1)),
        slowdowns[:, columns],
        tuple(at),
    )


def _columns(slowdowns: Array, picked: npt.NDArray[np.intp] | None) -> npt.NDArray[np.intp]:
    """Select at most MOST_COLUMNS candidates: first those that are chosen or the best of an
    input, then those of the least mean slowdown. Order them by the mean position of the inputs
    on which they are fast."""
    finite = np.where(np.isfinite(slowdowns), slowdowns, np.inf)
    logs = np.log(np.minimum(finite, 1e3))
    wanted = [*(picked.tolist() if picked is not None else []), *finite.argmin(axis=1).tolist()]
    wanted += np.argsort(logs.mean(axis=0), kind="stable").tolist()
    columns = np.array(list(dict.fromkeys(map(int, wanted)))[:MOST_COLUMNS])
    weights = np.exp(-4 * logs[:, columns])
    middle = (weights * np.arange(len(logs))[:, None]).sum(axis=0) / weights.sum(axis=0)
    ordered: npt.NDArray[np.intp] = columns[np.argsort(middle, kind="stable")]
    return ordered
