"""The single configuration that suits all inputs best: which it is, and how much faster.

The candidates' interleaved rounds choose it, the finals judge it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.analysis.inputs import InputReport
from harness.core.arrays import Flags
from harness.core.config_diff import difference
from harness.core.records import Config, Input, Measurement, Timing, Value
from harness.dispatch.matrix import Matrix, first_applicable
from harness.dispatch.portfolio import static_order
from harness.stats.interleaved import unshown_gains
from harness.stats.timing import TimeRatio, hold_false_discoveries, mean_ratio, time_ratio

_Key = tuple[Value, ...]
"""The values of an input's features."""


@dataclass(frozen=True)
class Single:
    """The configuration to use on every input, and where it is illegal the `others`, in order.

    speedup: over the default, the geometric mean over the inputs on which the finals measured both,
        with the interval of the measurements; None for the default itself, and without finals.
    loss: the input on which another configuration is faster by most, of those on which one is
        significantly faster, and by how much; None if there is none.
    inputs: how many inputs the finals judged.
    lacking: why few configurations could be chosen from; empty if all were measured on all inputs.
    """

    config: Config
    others: tuple[Config, ...] = ()
    speedup: TimeRatio | None = None
    loss: tuple[InputReport, TimeRatio] | None = None
    inputs: int = 0
    lacking: str = ""

    @property
    def order(self) -> tuple[Config, ...]:
        """The configurations, of which the first that is legal on an input is used."""
        return self.config, *self.others


def single_configs(matrix: Matrix, in_finals: Flags | None = None) -> list[Config | None]:
    """Return the configuration to use on each input of a matrix where one serves all inputs: the
    first of the static order that applies; None where nothing that was measured wherever it applies
    does. One that failed on an input is not used, unless an input has no other; nor is one that the
    finals did not time wherever it applies, if they did so with others (`in_finals`, of the shape
    of the matrix)."""
    judged = matrix.complete()
    works = judged.applies & ~(judged.applies & np.isinf(judged.time_s)).any(axis=0)
    if works.any(axis=1).all():
        judged = replace(judged, applies=works)
    if in_finals is not None:
        timed = judged.applies & (in_finals | ~judged.applies).all(axis=0)
        if timed.any(axis=1).all():
            judged = replace(judged, applies=timed)
    rows = np.flatnonzero(judged.applies.any(axis=1))
    chosen = np.full(len(matrix.features), -1)
    if len(rows):
        some = judged.rows(rows)
        chosen[rows] = first_applicable(np.array([static_order(some)]), some.applies)
    return [matrix.candidates[index] if index >= 0 else None for index in chosen.tolist()]


def single_of(
    matrix: Matrix,
    reports: Sequence[InputReport],
    finals: Mapping[Input, Sequence[Measurement]],
    default: Config,
) -> Single | None:
    """Choose the single configuration of a matrix, and judge it by the finals of the inputs: the
    default, where it is not significantly faster. None where nothing worked. For a single input it
    is the configuration to use there."""
    known = {_key(r.problem): r for r in reports if r.recommended}
    if len(known) == 1:
        (report,) = known.values()
        return _of_one(report, default)
    columns = [matrix.features[name].tolist() for name in matrix.features.columns]
    keys = list(zip(*columns, strict=True))
    chosen = zip(keys, single_configs(matrix, _in_finals(matrix, keys, known, finals)), strict=True)
    used = {key: config for key, config in chosen if config is not None and key in known}
    if not used:
        return None
    judged = list(_judged(used, known, finals, default))
    over = [_over_default(used[key], known[key], r, default) for key, r in judged if default in r]
    speedup = mean_ratio(over) if over else None
    if speedup and not speedup.is_faster and len(over) == len(used):
        used, speedup = dict.fromkeys(used, default), None
    counts = Counter(used.values())
    config, *others = sorted(counts, key=lambda one: counts[one], reverse=True)
    loss, lacking = _largest_loss(used, known, judged), _lacking(matrix, default)
    return Single(config, tuple(others), speedup, loss, len(over), lacking)


def _in_finals(
    matrix: Matrix,
    keys: Sequence[_Key],
    known: Mapping[_Key, InputReport],
    finals: Mapping[Input, Sequence[Measurement]],
) -> Flags | None:
    """Say which candidates the finals timed on each input; None where they timed, of those that are
    not the first one, none on all of them."""
    timed = [set(_timings(known[key], finals)) if key in known else set() for key in keys]
    is_timed = np.array([[c in row for c in matrix.candidates] for row in timed], dtype=bool)
    is_timed = is_timed.reshape(len(keys), len(matrix.candidates))  # also where nothing worked
    return is_timed if is_timed[:, 1:].all(axis=0).any() else None


def _key(problem: Input) -> tuple[Value, ...]:
    """Return an input's values, which equal those of a row of a matrix."""
    return tuple(problem.values())


def _of_one(report: InputReport, default: Config) -> Single:
    """Return the configuration to use on the only input on which anything worked."""
    config = report.recommended.config if report.recommended else default
    speedup = report.speedup if config != default else None
    return Single(config, speedup=mean_ratio([speedup]) if speedup else None, inputs=1)


def _judged(
    used: Mapping[_Key, Config],
    known: Mapping[_Key, InputReport],
    finals: Mapping[Input, Sequence[Measurement]],
    default: Config,
) -> Iterator[tuple[_Key, Mapping[Config, Timing]]]:
    """Yield the final times of the inputs on which the configuration to use has one."""
    for key, config in used.items():
        timings = _timings(known[key], finals)
        if default in timings:
            session = list(finals.get(known[key].problem, ()))
            timings |= dict.fromkeys(unshown_gains([session], default), timings[default])
        if config in timings:
            yield key, timings


def _timings(
    report: InputReport, finals: Mapping[Input, Sequence[Measurement]]
) -> dict[Config, Timing]:
    """Return the final times of an input; a best configuration that stands for the finalist has
    the finalist's."""
    timings = {m.config: m.timing for m in finals.get(report.problem, ()) if m.timing}
    if report.best and report.finalist in timings:
        timings.setdefault(report.best.config, timings[report.finalist])
    return timings


def _over_default(
    config: Config, report: InputReport, timings: Mapping[Config, Timing], default: Config
) -> TimeRatio:
    """Return the speed-up of a configuration over the default on an input."""
    if report.best and report.speedup and config == report.best.config != report.finalist:
        return report.speedup  # which has the time of the part beside the finalist
    return time_ratio(timings[default], timings[config], report.confidence)


def _largest_loss(
    used: Mapping[_Key, Config],
    known: Mapping[_Key, InputReport],
    judged: Sequence[tuple[_Key, Mapping[Config, Timing]]],
) -> tuple[InputReport, TimeRatio] | None:
    """Find the input whose own configuration is significantly faster, by most."""
    pairs = [
        (
            report,
            time_ratio(timings[used[key]], timings[report.recommended.config], report.confidence),
        )
        for key, timings in judged
        if (report := known[key]).recommended and report.recommended.config in timings
        if used[key] in timings
    ]
    ratios = hold_false_discoveries([ratio for _, ratio in pairs])
    losses = [(r, o) for (r, _), o in zip(pairs, ratios, strict=True) if o and o.is_faster]
    return max(losses, key=lambda loss: loss[1].value, default=None)


def _lacking(matrix: Matrix, default: Config) -> str:
    """Say that only one configuration was measured on all inputs; empty if more were."""
    measured = np.flatnonzero(matrix.complete().applies.any(axis=0))
    if len(measured) != 1 or len(matrix.candidates) == 1:
        return ""
    lone = difference(matrix.candidates[measured[0]], default)
    return f"Only one configuration was measured on all inputs: {lone}. {matrix.remedy}".rstrip()
