"""Times of the few configurations that a dispatcher may choose from, on every input."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from harness.constraints.expression import Expression
from harness.core.records import Config, Input, Interleaved, Measurement, StopReason, Timing
from harness.dispatch.matrix import Matrix, make_matrix
from harness.dispatch.portfolio import greedy_portfolio, static_order
from harness.models.folds import FEWEST_INPUTS
from harness.stats.interleaved import merge_sessions, refuted
from harness.stats.timing import is_within_noise, mean_log, time_ratio

if TYPE_CHECKING:
    from harness.results.measured import Measured
    from harness.results.view import Results

MOST_CANDIDATES = 200
"""In a matrix; beyond that, those of the least mean slowdown, and the winners."""

_MOST_MEMBERS = 8  # of a portfolio that is measured interleaved
_MOST_SINGLE = 3  # best ones for all inputs, which choosing by input has to beat

Applies = Callable[[Input, Config], bool]
"""Whether a configuration may be chosen on an input."""


def matrix_of(results: Results) -> Matrix:
    """Make the matrix of the candidates' times on every input on which anything worked.

    Where the same candidates were measured interleaved on all of these inputs, times are the
    geometric means of those samples, and each input's best time is the best interleaved one,
    finalists included. Otherwise the candidates are the default, every winner, and what was
    measured on all inputs, as the search and the measurements across inputs timed them; the
    matrix's note says so.

    Of candidates with the same times everywhere, such as those with equal machine code, only the
    first is kept. A candidate applies where the space's constraints hold.

    All inputs take part in choosing the candidates. `harness.dispatch.verdict.held_out` removes
    those that only held-out inputs won.
    """
    known = {problem: row for problem, row in results.measured.items() if _least(row) < math.inf}
    applies = applies_where(map(Expression, results.constraints), results.limits)
    choices = [name for name, role in results.campaign.roles.items() if role == "choice"]
    sessions = {problem: results.candidates.get(problem, ()) for problem in known}
    interleaved = {
        problem: _interleaved(row, results.interleaved.get(problem, ()))
        for problem, row in known.items()
    }
    if common := _interleaved_everywhere(interleaved, sessions, applies):
        times = _CandidateTimes(interleaved, _mean_s, _is_tie_interleaved)
        return _matrix(times, results.default, common, applies, choices)
    note = "" if _is_recorded(known) else _note(sessions)
    return _matrix(_searched(known), results.default, _candidates(known), applies, choices, note)


def applies_where(constraints: Iterable[Expression], limits: Mapping[str, int]) -> Applies:
    """Return a test of whether constraints over features, parameters and the device's numbers hold;
    constraints that name anything unknown are ignored."""
    listed = list(constraints)

    def applies(problem: Input, config: Config) -> bool:
        values = {**problem, **config, **limits}
        return all(c.holds(values) for c in listed if c.names <= values.keys())

    return applies


def shortlist(known: Mapping[Input, Measured], default: Config, applies: Applies) -> list[Config]:
    """List what is worth measuring again on every input, interleaved: the default, a portfolio that
    suits the inputs best, and the best for all of them, as the search timed them.

    Only configurations that were measured wherever they apply; empty if inputs are too few to learn
    across.
    """
    if len(known) < FEWEST_INPUTS:
        return []
    matrix = _matrix(_searched(known), default, _candidates(known), applies).judgeable()
    if len(matrix.features) == 0:
        return []
    indices = [*greedy_portfolio(matrix, _MOST_MEMBERS), *static_order(matrix)[:_MOST_SINGLE]]
    return [
        matrix.candidates[index]
        for index in dict.fromkeys([0, *indices])
        if matrix.applies[:, index].any()
    ]


# ------------------------------------------------------------------ interleaved times


def _interleaved(row: Measured, sessions: Sequence[Interleaved]) -> Measured:
    """Return the interleaved measurements of an input, and its failures from the search, which are
    not tried again.

    A configuration that failed in any session, such as on the other data of the finals, is a
    failure whatever other sessions say, unless that may have been chance.
    """
    failed = {config: m for config, m in row.items() if m.timing is None}
    return failed | merge_sessions(sessions) | refuted(sessions)


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
    if any(_least(row) == math.inf for row in interleaved.values()):
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


def _note(sessions: Mapping[Input, Sequence[Interleaved]]) -> str:
    """Say why times are the search's, and what to do about it."""
    count = sum(map(bool, sessions.values()))
    if not count:
        why = "candidates were not measured interleaved"
    elif count < len(sessions):
        why = f"candidates were measured interleaved on {count} of {len(sessions)} inputs"
    else:
        why = "inputs were measured interleaved with different candidates"
    return (
        f"Times are the search's, each taken at another moment: {why}. `python -m harness.tune` "
        "with all inputs, and without --no-cross, measures candidates interleaved, which compares "
        "them more precisely."
    )


# ------------------------------------------------------------------ which times count


@dataclass(frozen=True)
class _CandidateTimes:
    """The measurements of each input that count, the seconds of each, and which are ties."""

    rows: Mapping[Input, Measured]
    seconds: Callable[[Measurement], float]
    is_tie: Callable[[Timing, Timing], bool]

    def best(self, problem: Input) -> Measurement:
        """Return the fastest measurement."""
        return min(self.rows[problem].values(), key=self.seconds)

    def time_s(self, problem: Input, config: Config) -> float:
        """Return the seconds; infinity for a failure, NaN where it was not measured."""
        found = self.rows[problem].get(config)
        return math.nan if found is None else self.seconds(found)

    def ties(self, problem: Input, configs: Iterable[Config]) -> list[bool]:
        """Say which configurations do not differ significantly from the best."""
        row, best = self.rows[problem], self.best(problem).timing
        timings = [row[config].timing if config in row else None for config in configs]
        return [bool(best and timing and self.is_tie(timing, best)) for timing in timings]


def _searched(known: Mapping[Input, Measured]) -> _CandidateTimes:
    return _CandidateTimes(known, lambda m: m.time_s, is_within_noise)


def _is_recorded(known: Mapping[Input, Measured]) -> bool:
    """Say whether these come from a recording, where nothing more can be measured."""
    timings = (m.timing for row in known.values() for m in row.values())
    return any(timing and timing.stopped is StopReason.RECORDED for timing in timings)


def _mean_s(measurement: Measurement) -> float:
    """Return the geometric mean, by which interleaved times are compared."""
    timing = measurement.timing
    return math.exp(mean_log(timing.samples_s)) if timing else math.inf


def _is_tie_interleaved(one: Timing, other: Timing) -> bool:
    return not time_ratio(one, other).is_significant


# ------------------------------------------------------------------------------ the matrix


def _matrix(
    times: _CandidateTimes,
    default: Config,
    candidates: Iterable[Config],
    applies: Applies,
    choices: Iterable[str] = (),
    note: str = "",
) -> Matrix:
    import pandas as pd  # here: it takes half a second to load

    inputs = list(times.rows)
    chosen = _distinct(times, [default, *candidates])
    shape = len(inputs), len(chosen)
    return make_matrix(
        pd.DataFrame([dict(problem) for problem in inputs]),
        chosen,
        np.array([[times.time_s(i, c) for c in chosen] for i in inputs]).reshape(shape),
        applies=np.array([[applies(i, c) for c in chosen] for i in inputs], bool).reshape(shape),
        best_s=np.array([times.seconds(times.best(i)) for i in inputs]),
        tied=np.array([times.ties(i, chosen) for i in inputs], bool).reshape(shape),
        default=0,
        choices=choices,
        note=note,
    )


def _distinct(times: _CandidateTimes, configs: Iterable[Config]) -> list[Config]:
    distinct: dict[tuple[float, ...], Config] = {}
    for config in configs:
        column = (times.time_s(problem, config) for problem in times.rows)
        key = tuple(-1.0 if math.isnan(time_s) else time_s for time_s in column)
        distinct.setdefault(key, config)
    return list(distinct.values())


def _candidates(known: Mapping[Input, Measured]) -> list[Config]:
    """Return every winner, and what was measured on all inputs."""
    winners = [min(row.values(), key=lambda m: m.time_s).config for row in known.values()]
    everywhere = [c for c in next(iter(known.values()), {}) if all(c in r for r in known.values())]
    least = {problem: _least(row) for problem, row in known.items()}
    everywhere.sort(key=lambda c: _mean_log_slowdown(known, least, c))
    return [*winners, *everywhere[:MOST_CANDIDATES]]


def _least(row: Measured) -> float:
    return min((m.time_s for m in row.values()), default=math.inf)


def _mean_log_slowdown(
    known: Mapping[Input, Measured], least: Mapping[Input, float], config: Config
) -> float:
    ratios = [row[config].time_s / least[problem] for problem, row in known.items()]
    return math.inf if math.inf in ratios else math.fsum(map(math.log, ratios)) / len(ratios)
