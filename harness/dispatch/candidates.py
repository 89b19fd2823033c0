"""Times of the few configurations that a dispatcher may choose from, on every input."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from harness.constraints.expression import Expression
from harness.core.arrays import Array, Flags
from harness.core.config_diff import preference
from harness.core.invocation import command_line
from harness.core.records import Config, Input, Interleaved, Measurement, Value
from harness.dispatch.matrix import Matrix, make_matrix
from harness.dispatch.portfolio import fastest_overall, greedy_portfolio, static_order
from harness.dispatch.searched_times import SearchedTimes
from harness.results.cells import CROSS
from harness.results.measured import Measured, MeasuredConfigs
from harness.results.sessions import Command
from harness.stats.interleaved import merge_sessions, merged_unscaled, refuted
from harness.stats.timing import TimeRatio, trimmed_log_time, trimmed_ratio

if TYPE_CHECKING:
    from harness.results.view import Results

MOST_CANDIDATES = 200
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

    Of candidates with the same times everywhere, such as those with equal machine code, only the
    first is kept. A candidate applies where the space's constraints hold. The default has the
    index 0; candidates that were measured interleaved are in the order in which equally fast ones
    are chosen (`preference`).

    All inputs take part in choosing the candidates. `harness.dispatch.verdict.held_out` removes
    those that only held-out inputs won.
    """
    known = {problem: row for problem, row in results.measured.items() if row.works()}
    applies = applies_where(map(Expression, results.constraints), results.limits)
    choices = [name for name, role in results.campaign.roles.items() if role == "choice"]
    sessions, default = results.candidates, results.default
    matrix = interleaved_matrix(known, results.interleaved, sessions, default, applies)
    if matrix is not None:
        return dataclasses.replace(matrix, choices=frozenset(choices))
    searched = SearchedTimes.of(known)
    count = sum(problem in sessions for problem in known)
    note = "" if searched.are_recorded else _note(count, len(known))
    candidates = searched.candidates(MOST_CANDIDATES)
    matrix = _matrix(searched, default, candidates, applies, choices, note)
    advice = _SEEDS if results.is_recorded else crossing_advice(results.commands)
    return dataclasses.replace(matrix, remedy=advice)


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
    whatever others say, unless that may have been chance.
    """
    if not known or not all(problem in sessions for problem in known):
        return None
    tried = {m.config for problem in known for group in sessions[problem] for m in group}
    tried.add(default)
    failed = {
        problem: {m.config: m for m in MeasuredConfigs.of(row).failures(tried)}
        | refuted(every[problem])
        for problem, row in known.items()
    }
    worked = {p: {**merged_unscaled(sessions[p]), **failed[p]} for p in known}
    common = _interleaved_everywhere(worked, sessions, applies)
    if not common:
        return None
    own, times = (
        _InterleavedTimes({p: {**merge_sessions(found[p]), **failed[p]} for p in known})
        for found in (sessions, every)
    )
    common.sort(key=lambda config: preference(config, default))
    matrix = _matrix(times, default, common, applies)
    reference = matrix.candidates[fastest_overall(matrix)]
    return dataclasses.replace(matrix, half_log=own.half_log(matrix.candidates, reference))


def crossing_advice(commands: Sequence[Command]) -> str:
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
    matrix = searched_matrix(known, default, applies)
    if len(matrix.features) == 0:
        return []
    indices = [*greedy_portfolio(matrix, _MOST_MEMBERS), *static_order(matrix)[:_MOST_SINGLE]]
    return [
        matrix.candidates[index]
        for index in dict.fromkeys([0, *indices])
        if matrix.applies[:, index].any()
    ]


def searched_matrix(known: Mapping[Input, Measured], default: Config, applies: Applies) -> Matrix:
    """Make the matrix of what was measured wherever it applies, as the search timed it."""
    searched = SearchedTimes.of(known)
    return _matrix(searched, default, searched.candidates(MOST_CANDIDATES), applies).comparable()


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
        any(_working(session, row) <= names for session in sessions[problem])
        or all(config not in row or not row[config].timing for config in common)
        for problem, row in interleaved.items()
    )
    return common if is_whole else []


def _working(session: Interleaved, row: Measured) -> set[Config]:
    """Return the configurations of a session that are no failures."""
    return {m.config for m in session if m.config in row and row[m.config].timing}


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


# ------------------------------------------------------------------ which times count


class _Times(Protocol):
    """The times of configurations on each input, in seconds, and which are ties."""

    @property
    def inputs(self) -> Sequence[Input]:
        """The inputs, in the order of all rows below."""

    @property
    def best_s(self) -> Array:
        """The least time of each input, shape (inputs,)."""

    def time_s(self, configs: Sequence[Config]) -> Array:
        """Return times, shape (inputs, configurations): infinity for a failure, NaN where a
        configuration was not measured."""

    def tied(self, configs: Sequence[Config]) -> Flags:
        """Say which do not differ significantly from the best, shape (inputs, configurations)."""


@dataclass(frozen=True)
class _InterleavedTimes:
    """Times of interleaved measurements, which are compared by trimmed geometric means."""

    rows: Mapping[Input, Measured]

    @property
    def inputs(self) -> Sequence[Input]:
        return list(self.rows)

    @property
    def best_s(self) -> Array:
        return np.array([_mean_s(best) for best in self._best()])

    def time_s(self, configs: Sequence[Config]) -> Array:
        found = [
            [_mean_s(row[c]) if c in row else math.nan for c in configs]
            for row in self.rows.values()
        ]
        return np.array(found).reshape(len(self.rows), len(configs))

    def tied(self, configs: Sequence[Config]) -> Flags:
        ratios = self._ratios(configs, self._best())
        found = [not ratio.is_significant if ratio else False for ratio in ratios]
        return np.array(found, dtype=np.bool_).reshape(len(self.rows), len(configs))

    def half_log(self, configs: Sequence[Config], reference: Config) -> Array:
        """Return half the 95 % intervals of the logarithms of times over the reference's, shape
        (inputs, configurations); 0 where there is no time."""
        ratios = self._ratios(configs, [row.get(reference) for row in self.rows.values()])
        found = [math.log(ratio.high / ratio.value) if ratio else 0.0 for ratio in ratios]
        return np.array(found).reshape(len(self.rows), len(configs))

    def _ratios(
        self, configs: Sequence[Config], others: Sequence[Measurement | None]
    ) -> Iterator[TimeRatio | None]:
        """Yield the times over that of another one on each input, one input after another."""
        for row, other in zip(self.rows.values(), others, strict=True):
            base = other.timing if other else None
            for timing in (row[c].timing if c in row else None for c in configs):
                yield trimmed_ratio(timing, base) if timing and base else None

    def _best(self) -> list[Measurement]:
        return [min(row.values(), key=_mean_s) for row in self.rows.values()]


def _mean_s(measurement: Measurement) -> float:
    """Return the mean by which interleaved times are compared."""
    timing = measurement.timing
    return math.exp(trimmed_log_time(timing)) if timing else math.inf


# ------------------------------------------------------------------------------ the matrix


def _matrix(
    times: _Times,
    default: Config,
    candidates: Iterable[Config],
    applies: Applies,
    choices: Iterable[str] = (),
    note: str = "",
) -> Matrix:
    import pandas as pd  # here: it takes half a second to load

    inputs = times.inputs
    chosen = _distinct(times, [default, *candidates])
    shape = len(inputs), len(chosen)
    return make_matrix(
        pd.DataFrame([dict(problem) for problem in inputs]),
        chosen,
        times.time_s(chosen),
        applies=np.array([[applies(i, c) for c in chosen] for i in inputs], bool).reshape(shape),
        best_s=times.best_s,
        tied=times.tied(chosen),
        default=0,
        choices=choices,
        note=note,
    )


def _distinct(times: _Times, configs: Iterable[Config]) -> list[Config]:
    listed = list(dict.fromkeys(configs))
    columns = np.nan_to_num(times.time_s(listed), nan=-1.0, posinf=np.inf).T
    distinct: dict[bytes, Config] = {}
    for config, column in zip(listed, columns, strict=True):
        distinct.setdefault(column.tobytes(), config)
    return list(distinct.values())
