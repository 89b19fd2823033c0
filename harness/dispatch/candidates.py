"""Times of the few configurations that a dispatcher may choose from, on every input."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from harness.constraints.expression import Expression
from harness.core.arrays import Array, Flags, Indices
from harness.core.config_diff import preference
from harness.core.records import Config, Input, Interleaved, Measurement, StopReason, Value
from harness.core.text import command_line
from harness.dispatch.matrix import Matrix, make_matrix
from harness.dispatch.parts import with_needed_parts
from harness.dispatch.portfolio import fastest_overall, greedy_portfolio, static_order
from harness.results.campaigns import Command
from harness.results.columns import MeasurementColumns, MeasurementRow, as_rows
from harness.results.measured import Measured, MeasuredConfigs, measured_by_input
from harness.results.schema import CROSS
from harness.stats.interleaved import merge_sessions, refuted, unshown_gains
from harness.stats.samples import within_noise
from harness.stats.timing import TimeRatio, trimmed_log_time, trimmed_ratio

if TYPE_CHECKING:
    from harness.results.view import Results

_MOST_CANDIDATES = 200
"""In a matrix; beyond that, those of the least mean slowdown, and the winners."""

_MOST_MEMBERS = 8  # of a portfolio that is measured interleaved
_MOST_SINGLE = 3  # best ones for all inputs, which choosing by input has to beat

Applies = Callable[[Input, Config], bool]
"""Whether a configuration may be chosen on an input."""


_SEEDS = "Give OpenTuner the same seed configurations on every input."


def matrix_of(results: Results) -> Matrix:
    """Make the matrix of the candidates' times on every input on which anything worked.

    Where the same candidates were measured interleaved on all of these inputs, times are trimmed
    geometric means of those samples, and each input's best time is the best interleaved one,
    finalists included. Otherwise the candidates are the default, every winner, and what was
    measured on all inputs, as the search and the measurements across inputs timed them; the
    matrix's note says so.

    Of candidates with the same times everywhere, such as those with equal machine code, there is
    only the one with the fewest changes from the default, and the part that a winner needs takes
    its place (`with_needed_parts`). A candidate applies where the space's constraints hold. The
    default has the index 0; candidates that were measured interleaved are in the order in which
    equally fast ones are chosen (`preference`).

    All inputs take part in choosing the candidates. `harness.dispatch.verdict.held_out` removes
    those that only held-out inputs won.
    """
    known = {problem: row for problem, row in results.measured.items() if row.works()}
    applies = applies_where(map(Expression, results.constraints), results.limits)
    choices = [name for name, role in results.campaign.roles.items() if role == "choice"]
    sessions, default = results.candidates, results.default
    matrix = interleaved_matrix(known, results.interleaved, sessions, default, applies)
    if matrix is not None:
        matrix = with_needed_parts(matrix, known, results)
        return replace(matrix, choices=frozenset(choices))
    count = sum(problem in sessions for problem in known)
    # NumPy does not compare members of StopReason with an array of them.
    is_recorded = StopReason.RECORDED in results.searched.columns.stopped.tolist()
    return replace(
        searched_matrix(known, default, applies),
        choices=frozenset(choices),
        note="" if is_recorded else _note(count, len(known)),
        remedy=_SEEDS if results.is_recorded else _crossing_advice(results.commands),
    )


def interleaved_matrix(
    known: Mapping[Input, Measured],
    every: Mapping[Input, Sequence[Interleaved]],
    sessions: Mapping[Input, Sequence[Interleaved]],
    default: Config,
    applies: Applies,
) -> Matrix | None:
    """Make the matrix of the times in the candidates' interleaved `sessions`; None where these do
    not have the same candidates on every input.

    `known` is what the search measured; its failures are not tried again. `every` has all
    interleaved sessions, those of candidates last: others time what is no candidate. A
    configuration that failed in any of them, such as on the other data of the finals, is a failure
    whatever others say, unless that may have been chance. One whose gain first runs do not show
    takes as long as the default there.
    """
    if not known or not all(problem in sessions for problem in known):
        return None
    tried = {m.config for problem in known for group in sessions[problem] for m in group}
    tried.add(default)
    unshown = {problem: unshown_gains(every[problem], default) for problem in known}
    failed = {
        problem: {m.config: m for m in MeasuredConfigs.of(row).failures(tried)}
        | {c: m for c, m in refuted(every[problem]).items() if c not in unshown[problem]}
        for problem, row in known.items()
    }
    worked = {p: {**merge_sessions(sessions[p], is_scaled=False), **failed[p]} for p in known}
    common = _interleaved_everywhere(worked, sessions, applies)
    if not common:
        return None
    own, all_times = (
        {p: {**merge_sessions(timed[p]), **failed[p]} for p in known} for timed in (sessions, every)
    )
    for times in (own, all_times):
        for problem, configs_there in unshown.items():
            if default in times[problem]:
                as_default = times[problem][default]
                times[problem] |= {c: replace(as_default, config=c) for c in configs_there}
    common.sort(key=lambda config: preference(config, default))
    configs = list(dict.fromkeys([default, *common]))
    matrix = _matrix(_interleaved_times(all_times, configs), applies)
    reference = matrix.candidates[fastest_overall(matrix)]
    return replace(matrix, half_log=_half_log(own, matrix.candidates, reference))


def _crossing_advice(commands: Sequence[Command]) -> str:
    """Say what measures winners on the inputs on which the last command did not."""
    last = max(commands, key=lambda command: command.started_at, default=None)
    if last is not None and last.ended_at is None:
        return "The last run was stopped: the same command goes on, and measures winners on them."
    if last is not None and last.stages.get(CROSS):
        return "The time was up: tune again with a longer --max-time."
    if last is not None and CROSS in last.stages:
        return "Tune again, with more tests."
    return f"`{command_line('tune')}` without --no-cross measures winners on the others."


def applies_where(constraints: Iterable[Expression], limits: Mapping[str, int]) -> Applies:
    """Return a test of whether constraints over features, parameters and the device's numbers hold;
    constraints that name anything unknown are ignored."""
    listed = list(constraints)
    by_config: dict[Config, bool] = {}  # what does not depend on the input, for 10^5 inputs

    def holds(problem: Mapping[str, Value], config: Config, judged: Iterable[Expression]) -> bool:
        values = {**problem, **config, **limits}
        return all(bool(c.holds(values)) for c in judged if c.names <= values.keys())

    def applies(problem: Input, config: Config) -> bool:
        if config not in by_config:
            by_config[config] = holds({}, config, listed)
        concerned = [c for c in listed if not c.names.isdisjoint(problem)]
        return by_config[config] and (not concerned or holds(problem, config, concerned))

    return applies


def shortlist(known: Mapping[Input, Measured], default: Config, applies: Applies) -> list[Config]:
    """List what is worth measuring again on every input, interleaved: the default, a portfolio that
    suits the inputs best, and the best for all of them, as the search timed them.

    Only configurations that were measured wherever they apply; empty for a single input, whose
    winner is the answer.
    """
    if len(known) < 2:
        return []
    matrix = searched_matrix(known, default, applies).comparable()
    if len(matrix.features) == 0:
        return []
    indices = [*greedy_portfolio(matrix, _MOST_MEMBERS), *static_order(matrix)[:_MOST_SINGLE]]
    return [
        matrix.candidates[index]
        for index in dict.fromkeys([0, *indices])
        if matrix.applies[:, index].any()
    ]


# ------------------------------------------------------------------ interleaved times


def _interleaved_everywhere(
    interleaved: Mapping[Input, Measured],
    sessions: Mapping[Input, Sequence[Interleaved]],
    applies: Applies,
) -> list[Config]:
    """Return the configurations that were measured interleaved on every input where they apply and
    had worked.

    Empty if some input was measured only for other candidates, since then they have little in
    common, or if nothing worked in the interleaved rounds.
    """
    if not all(any(m.timing for m in row.values()) for row in interleaved.values()):
        return []
    measured = dict.fromkeys(c for row in interleaved.values() for c, m in row.items() if m.timing)
    common = [
        c for c in measured if all(c in row or not applies(i, c) for i, row in interleaved.items())
    ]
    names = set(common)
    is_whole = all(
        any(
            {m.config for m in session if m.config in row and row[m.config].timing} <= names
            for session in sessions[problem]
        )
        or all(config not in row or not row[config].timing for config in common)
        for problem, row in interleaved.items()
    )
    return common if is_whole else []


def _note(count: int, inputs: int) -> str:
    """Say why the times are the search's, where candidates were measured on `count` inputs."""
    if not count:
        why = "candidates were not measured interleaved"
    elif count < inputs:
        why = f"candidates were measured interleaved on {count} of {inputs} inputs"
    else:
        why = "inputs were measured interleaved with different candidates"
    return (
        f"Times are the search's, each taken at another moment: {why}. `{command_line('tune')}` "
        "with all inputs, and without --no-cross, measures candidates interleaved, which compares "
        "them more precisely."
    )


# ------------------------------------------------------------------------------ the matrix


def _matrix(times: _Times, applies: Applies) -> Matrix:
    """Make the matrix of distinct times, with the preferred one of configurations with the same
    times. The default is the first configuration."""
    import pandas as pd  # here: it takes half a second to load

    distinct: dict[bytes, int] = {}
    for index, column in enumerate(np.nan_to_num(times.time_s, nan=-1.0, posinf=np.inf).T):
        first = distinct.setdefault(column.tobytes(), index)
        if preference(times.configs[index], times.configs[0]) < preference(
            times.configs[first], times.configs[0]
        ):
            distinct[column.tobytes()] = index
    kept = list(distinct.values())
    configs, shape = [times.configs[index] for index in kept], (len(times.inputs), len(kept))
    return make_matrix(
        pd.DataFrame([dict(problem) for problem in times.inputs]),
        configs,
        times.time_s[:, kept],
        applies=np.array([[applies(i, c) for c in configs] for i in times.inputs], bool).reshape(
            shape
        ),
        best_s=times.best_s,
        tied=times.tied[:, kept],
        default=0,
    )


# ------------------------------------------------------------------------------- times

_BATCH = 1000
"""Inputs that are compared at once, so that copies stay small."""


@dataclass(frozen=True)
class _Times:
    """Seconds of configurations on inputs, shape (inputs, configurations): infinity for a failure,
    NaN where not measured; where one is `tied` with the best; and the least of each input, of any
    configuration, shape (inputs,)."""

    inputs: Sequence[Input]
    configs: Sequence[Config]
    time_s: Array
    tied: Flags
    best_s: Array


def searched_matrix(
    known: Mapping[Input, Measured], default: Config, applies: Applies, most: int = _MOST_CANDIDATES
) -> Matrix:
    """Make the matrix of the search's times: of the default, of every winner, and of what was
    measured on all inputs, at most so many, those of the least mean slowdown."""
    columns, rows = _rows_of(known)
    sizes = [len(own) for own in rows.values()]
    every = np.concatenate([np.empty(0, dtype=np.intp), *rows.values()])
    owner: Indices = np.repeat(np.arange(len(rows)), sizes)
    order = np.lexsort((columns.time_s[every], owner))  # stable: the first of equal ones
    best: Indices = every[order[np.cumsum([0, *sizes])[:-1]]]
    best_s = columns.time_s[best]
    table, codes = columns.configs, columns.config_codes[every]
    logs = np.log(columns.time_s[every] / np.repeat(best_s, sizes))
    slowdown = np.bincount(codes, weights=logs, minlength=len(table))
    counts = np.bincount(codes, minlength=len(table))
    first = columns.config_codes[next(iter(rows.values()), every)]
    everywhere = first[counts[first] == len(rows)]
    chosen = everywhere[np.argsort(slowdown[everywhere], kind="stable")[:most]]
    winners = [columns.config(row) for row in best.tolist()]
    if columns.is_shared.any():
        for index, (problem, measured) in enumerate(known.items()):
            may_be_chosen = partial(applies, problem)
            equal = MeasuredConfigs.of(measured)
            winners[index] = equal.shortest(winners[index], default, may_be_chosen)
    configs = list(dict.fromkeys([default, *winners, *(table[c] for c in chosen.tolist())]))
    column = np.full(len(table), -1, dtype=np.intp)
    for index, config in enumerate(configs):
        code = table.find(config)
        if code is not None:
            column[code] = index
    is_wanted = column[codes] >= 0
    found = np.full((len(rows), len(configs)), -1, dtype=np.intp)
    found[owner[is_wanted], column[codes[is_wanted]]] = every[is_wanted]
    time_s: Array = np.where(found >= 0, columns.time_s[found], np.nan)
    times = _Times(list(rows), configs, time_s, _tied(columns, found, best), best_s)
    return _matrix(times, applies)


def _rows_of(known: Mapping[Input, Measured]) -> tuple[MeasurementColumns, Mapping[Input, Indices]]:
    """Return the rows of each input, of common columns, with one row for each configuration."""
    by_input = {problem: row for problem, row in known.items() if isinstance(row, MeasuredConfigs)}
    if len(by_input) < len(known) or len({id(row.columns) for row in by_input.values()}) != 1:
        rows = (MeasurementRow(0, "search", m) for row in known.values() for m in row.values())
        by_input = measured_by_input(as_rows(rows))
    columns = next(iter(by_input.values())).columns if by_input else as_rows(()).columns
    return columns, {problem: row.rows.selected for problem, row in by_input.items()}


def _tied(columns: MeasurementColumns, indices: Indices, best: Indices) -> Flags:
    """Say which rows do not differ significantly from the input's best."""
    tied = np.zeros(indices.shape, dtype=np.bool_)
    for start in range(0, len(indices), _BATCH):
        others, own = indices[start : start + _BATCH], best[start : start + _BATCH]
        there = (others >= 0) & columns.works[others]
        bests = np.broadcast_to(own[:, None], there.shape)[there]
        tied[start : start + _BATCH][there] = within_noise(columns.statistics, bests, others[there])
    return tied


def _interleaved_times(rows: Mapping[Input, Measured], configs: Sequence[Config]) -> _Times:
    """Return the times of interleaved measurements: trimmed geometric means."""
    shape = len(rows), len(configs)
    times = [_mean_s(row[c]) if c in row else math.nan for row in rows.values() for c in configs]
    best = [min(row.values(), key=_mean_s) for row in rows.values()]
    ratios = _ratios(rows, configs, best)
    tied = [not ratio.is_significant if ratio else False for ratio in ratios]
    return _Times(
        list(rows),
        configs,
        np.array(times).reshape(shape),
        np.array(tied, dtype=np.bool_).reshape(shape),
        np.array(list(map(_mean_s, best))),
    )


def _half_log(
    rows: Mapping[Input, Measured], configs: Sequence[Config], reference: Config
) -> Array:
    """Return half the 95 % intervals of the logarithms of interleaved times over the reference's,
    shape (inputs, configurations); 0 where there is no time."""
    ratios = _ratios(rows, configs, [row.get(reference) for row in rows.values()])
    widths = [math.log(ratio.high / ratio.value) if ratio else 0.0 for ratio in ratios]
    return np.array(widths).reshape(len(rows), len(configs))


def _ratios(
    rows: Mapping[Input, Measured], configs: Sequence[Config], others: Sequence[Measurement | None]
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
