"""What the report's pictures show, as typed data: no drawing, so that tests can look at numbers."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.analysis.inputs import InputReport
from harness.core.config_diff import difference
from harness.core.records import Config, Input, Measurement, Outcome
from harness.dispatch.matrix import Matrix
from harness.results.view import Results
from harness.stats import Estimate

Array = npt.NDArray[np.float64]

MOST_BOXES = 16
"""Inputs of the box plots; of more, those spread evenly over all by their speed-up."""

MOST_COLUMNS = 32
"""Candidates of the heat map; of more, those that are within noise of the best most often."""

MOST_ROWS = 64
"""Inputs of the heat map; of more, every n-th."""

_LONGEST_LABEL = 32

_NOT_BUILT = (Outcome.ILLEGAL, Outcome.BUILD_FAILED)


def name_of(given: Input) -> str:
    """An input as people read it."""
    return ", ".join(f"{name}={value}" for name, value in given.items())


def distinct_code(results: Results) -> str:
    """How many of the tests that were built stood for machine code of their own."""
    tried = [m for known in results.measured.values() for m in known.values()]
    built = [m for m in tried if m.outcome not in _NOT_BUILT]
    shared = sum(m.shared_with is not None for m in built)
    told = f"{len(built) - shared:,} of {len(built):,} that were built"
    if not shared:
        return f"{told}: no two are known to have the same machine code"
    return f"{told}; {shared:,} have the machine code of another one, which was measured once"


def sample_count(results: Results) -> int:
    """How many samples were taken; those of equal machine code, once."""
    taken = (row.measurement for row in results.rows if row.measurement.shared_with is None)
    return sum(m.timing.count for m in taken if m.timing)


# ------------------------------------------------------------------------------ the search


@dataclass(frozen=True)
class Course:
    """The best so far of one input's search: after `tests[k]` distinct tests the fraction
    `reached[k]` of the best performance that is known of the input. One point an improvement,
    and the end."""

    label: str
    tests: tuple[int, ...]
    reached: tuple[float, ...]


def courses(results: Results) -> list[Course]:
    """Of each input on which anything worked, in the order of the tests."""
    searched: dict[Input, dict[Config, float]] = {}
    for row in results.rows:
        if row.stage == "search":
            m = row.measurement
            searched.setdefault(m.input, {})[m.config] = m.time_s
    found = []
    for given, known in searched.items():
        times = list(known.values())
        least = min(times, default=math.inf)
        if least < math.inf:
            best = list(itertools.accumulate(times, min))
            steps = [k for k, time_s in enumerate(best) if k == 0 or time_s < best[k - 1]]
            steps = [k for k in steps if best[k] < math.inf]
            ends = [*steps, len(best) - 1]
            found.append(
                Course(
                    name_of(given),
                    tuple(k + 1 for k in ends),
                    tuple(least / best[k] for k in ends),
                )
            )
    return found


@dataclass(frozen=True)
class Distribution:
    """Slowdowns of all configurations that worked, each against the best known of its input, and
    how many failed."""

    slowdowns: Array
    failed: int


def distribution(results: Results) -> Distribution:
    """Of what the search measured."""
    slowdowns: list[float] = []
    failed = 0
    for known in results.measured.values():
        times = [m.time_s for m in known.values() if m.timing]
        failed += len(known) - len(times)
        least = min(times, default=math.inf)
        slowdowns += [time_s / least for time_s in times]
    return Distribution(np.array(slowdowns), failed)


# -------------------------------------------------------------------------- the winners


@dataclass(frozen=True)
class Box:
    """The samples of one configuration, as ratios to the baseline's median; `role` is what it
    is called: tuned, default, -O2."""

    role: str
    config: Config
    ratios: Array


@dataclass(frozen=True)
class Boxes:
    """The finalists of an input, measured in turn."""

    label: str
    boxes: tuple[Box, ...]


def boxes(results: Results, reports: Sequence[InputReport]) -> list[Boxes]:
    """Tuned beside the baseline, of inputs whose finals were measured."""
    judged = [r for r in reports if r.speedup and r.best and r.baseline and r.baseline.timing]
    judged.sort(key=lambda r: r.speedup.value if r.speedup else 0.0, reverse=True)
    return [
        Boxes(name_of(report.given), tuple(_boxes(report, results)))
        for report in _spread(judged, MOST_BOXES)
    ]


def _boxes(report: InputReport, results: Results) -> list[Box]:
    best, baseline = report.best, report.baseline
    assert best is not None
    assert baseline is not None
    assert baseline.timing is not None
    in_turn = {m.config: m for m in results.finals.get(report.given, ())}
    named = [(n, in_turn[c]) for n, c in results.baselines.items() if c in in_turn]
    beside = [(name, m) for name, m in named if m.timing]
    roles = [("default", baseline), *beside]
    roles += [("tuned", best)] if best.config != baseline.config else []
    middle = baseline.timing.median_s
    return [Box(role, m.config, _samples(m) / middle) for role, m in roles]


def _samples(measurement: Measurement) -> Array:
    return np.array(measurement.timing.samples_s if measurement.timing else ())


def _spread(found: Sequence[InputReport], most: int) -> list[InputReport]:
    """At most so many, evenly spread, the first and the last among them."""
    if len(found) <= most:
        return list(found)
    places = np.linspace(0, len(found) - 1, most).round().astype(int)
    return [found[place] for place in places]


@dataclass(frozen=True)
class SpeedUp:
    """The speed-up of one input over the baseline."""

    label: str
    ratio: Estimate


def speed_ups(reports: Sequence[InputReport]) -> list[SpeedUp]:
    """In the order of the inputs."""
    return [
        SpeedUp(name_of(r.given), r.speedup)
        for r in reports
        if r.speedup and math.isfinite(r.speedup.high)
    ]


def mean_speed_up(found: Sequence[SpeedUp]) -> float:
    """The geometric mean."""
    return math.exp(statistics.fmean(math.log(one.ratio.value) for one in found))


# ------------------------------------------------------------------------ across inputs


@dataclass(frozen=True)
class HeatMap:
    """Slowdowns of candidates on inputs, shape (inputs, candidates): NaN where not measured,
    infinity where one failed. `labels` are the candidates' differences from the default, short.
    `chosen` is the column that the dispatcher picks for each input, -1 where it is none of those
    shown or there is no dispatcher."""

    inputs: tuple[str, ...]
    candidates: tuple[Config, ...]
    labels: tuple[str, ...]
    slowdowns: Array
    chosen: tuple[int, ...]


def heat_map(
    matrix: Matrix, chosen: npt.NDArray[np.intp] | None, default: Config | None = None
) -> HeatMap:
    """`chosen` are places of candidates, shape (inputs,). Candidates come by how much they have
    in common with the one before: the fastest on the first inputs first."""
    rows = np.unique(np.linspace(0, len(matrix.features) - 1, MOST_ROWS).round().astype(int))
    slowdowns = matrix.slowdown[rows]
    picked = None if chosen is None else chosen[rows]
    columns = _columns(slowdowns, picked)
    places = {int(column): place for place, column in enumerate(columns)}
    inputs = [matrix.features.iloc[row] for row in rows]
    candidates = tuple(matrix.candidates[column] for column in columns)
    return HeatMap(
        tuple(", ".join(f"{name}={value}" for name, value in given.items()) for given in inputs),
        candidates,
        tuple(_labels([difference(config, default or {}) for config in candidates])),
        slowdowns[:, columns],
        tuple(-1 for _ in rows)
        if picked is None
        else tuple(places.get(int(p), -1) for p in picked),
    )


def _labels(told: Sequence[str]) -> list[str]:
    """What fits beside a picture: where one is too long, all have a number, which tells them apart
    though they are cut."""
    if max(map(len, told), default=0) <= _LONGEST_LABEL:
        return list(told)
    numbered = (f"{number}: {text}" for number, text in enumerate(told, start=1))
    return [x if len(x) <= _LONGEST_LABEL else f"{x[: _LONGEST_LABEL - 4]} ..." for x in numbered]


def _columns(slowdowns: Array, picked: npt.NDArray[np.intp] | None) -> npt.NDArray[np.intp]:
    """The best of any input and what is chosen first, then those of the least mean; at most
    MOST_COLUMNS, ordered by the middle of the inputs that they suit."""
    finite = np.where(np.isfinite(slowdowns), slowdowns, np.inf)
    logs = np.log(np.minimum(finite, 1e3))
    wanted = [*(picked.tolist() if picked is not None else []), *finite.argmin(axis=1).tolist()]
    wanted += np.argsort(logs.mean(axis=0), kind="stable").tolist()
    kept = np.array(list(dict.fromkeys(int(place) for place in wanted))[:MOST_COLUMNS])
    weights = np.exp(-4 * logs[:, kept])
    middle = (weights * np.arange(len(logs))[:, None]).sum(axis=0) / weights.sum(axis=0)
    ordered: npt.NDArray[np.intp] = kept[np.argsort(middle, kind="stable")]
    return ordered


# -------------------------------------------------------------------------------- noise


def noise(results: Results) -> Array:
    """Of each measurement of several samples the standard deviation over the mean."""
    timings = [m.timing for known in results.measured.values() for m in known.values() if m.timing]
    return np.array([t.std_s / t.mean_s for t in timings if t.count > 1])
