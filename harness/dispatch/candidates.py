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
from harness.stats.interleaved import merge_sessions
from harness.stats.timing import is_within_noise, mean_log, time_ratio

if TYPE_CHECKING:  # harness.results.view tells matrices
    from harness.results.view import Measured, Results

MOST_CANDIDATES = 200
"""Of a matrix; of more, those of the least mean slowdown, and the winners."""

_MOST_MEMBERS = 8  # of a portfolio that is measured in turn
_MOST_SINGLE = 3  # of the best for all inputs: what choosing by input has to beat

Applies = Callable[[Input, Config], bool]
"""Whether a configuration may be chosen on an input."""


def matrix_of(results: Results) -> Matrix:
    """Times of the candidates on every input on which anything worked.

    Where the same candidates were measured in turn on all of these: the geometric means of their
    samples, and of each input the best that was measured in turn, finalists among it. Otherwise
    the default, every winner, and what was measured on all inputs, as the search and the
    measurements across inputs timed them; the matrix's note says so.

    Of candidates with the same times everywhere, as those of equal machine code have, only the
    first stands. A candidate applies where the space's constraints hold.

    All inputs have a say in what the candidates are. `harness.dispatch.verdict.held_out` takes
    those away that only inputs which are held out won.
    """
    known = {given: row for given, row in results.measured.items() if _least(row) < math.inf}
    applies = applies_where(map(Expression, results.constraints), results.limits)
    choices = [name for name, role in results.campaign.roles.items() if role == "choice"]
    turns = {given: results.candidates.get(given, ()) for given in known}
    in_turn = {
        given: _in_turn(row, results.interleaved.get(given, ())) for given, row in known.items()
    }
    if common := _in_turn_everywhere(in_turn, turns, applies):
        times = _Times(in_turn, _mean_s, _is_tie_in_turn)
        return _matrix(times, results.default, common, applies, choices)
    note = "" if _is_recorded(known) else _note(turns)
    return _matrix(_searched(known), results.default, _candidates(known), applies, choices, note)


def applies_where(constraints: Iterable[Expression], limits: Mapping[str, int]) -> Applies:
    """Where constraints over features, parameters and the device's numbers hold; those that name
    what is not known are left out."""
    listed = list(constraints)

    def applies(given: Input, config: Config) -> bool:
        values = {**given, **config, **limits}
        return all(c.holds(values) for c in listed if c.names <= values.keys())

    return applies


def shortlist(known: Mapping[Input, Measured], default: Config, applies: Applies) -> list[Config]:
    """What is worth being measured once more on every input, in turn: the default, a portfolio that
    suits the inputs best, and the best for all of them, as the search timed them.

    Only what was measured wherever it applies; nothing where inputs are too few to learn across.
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


# ------------------------------------------------------------------ what was measured in turn


def _in_turn(row: Measured, turns: Sequence[Interleaved]) -> Measured:
    """All that was measured in turn on an input; and what had failed there, which is not tried
    again."""
    failed = {config: m for config, m in row.items() if m.timing is None}
    return failed | merge_sessions(turns)


def _in_turn_everywhere(
    in_turn: Mapping[Input, Measured],
    turns: Mapping[Input, Sequence[Interleaved]],
    applies: Applies,
) -> list[Config]:
    """What was measured in turn on every input where it applies and had worked.

    Nothing where some input was only measured for other candidates, since then little is in
    common, or where nothing worked in turn.
    """
    if any(_least(row) == math.inf for row in in_turn.values()):
        return []
    told = dict.fromkeys(c for row in in_turn.values() for c, m in row.items() if m.timing)
    common = [c for c in told if all(c in row or not applies(i, c) for i, row in in_turn.items())]
    names = set(common)
    is_whole = all(
        any({m.config for m in turn} <= names for turn in turns[given])
        or all(config not in row or not row[config].timing for config in common)
        for given, row in in_turn.items()
    )
    return common if is_whole else []


def _note(turns: Mapping[Input, Sequence[Interleaved]]) -> str:
    """Why times are those of the search, and what to do about it."""
    count = sum(map(bool, turns.values()))
    if not count:
        why = "candidates were not measured in turn"
    elif count < len(turns):
        why = f"candidates were measured in turn on {count} of {len(turns)} inputs"
    else:
        why = "inputs were measured in turn for different candidates"
    return (
        f"Times are those of the search, each taken at another moment: {why}. "
        "`python -m harness.tune` with all inputs, and without --no-cross, measures them in turn, "
        "which tells them apart better."
    )


# ------------------------------------------------------------------ what times are those of


@dataclass(frozen=True)
class _Times:
    """Of each input the measurements that count, the seconds of each, and which are ties."""

    rows: Mapping[Input, Measured]
    seconds: Callable[[Measurement], float]
    is_tie: Callable[[Timing, Timing], bool]

    def best(self, given: Input) -> Measurement:
        """The fastest."""
        return min(self.rows[given].values(), key=self.seconds)

    def time_s(self, given: Input, config: Config) -> float:
        """Infinity for a failure, NaN where it was not measured."""
        found = self.rows[given].get(config)
        return math.nan if found is None else self.seconds(found)

    def ties(self, given: Input, configs: Iterable[Config]) -> list[bool]:
        """Which configurations do not differ from the best for certain."""
        row, best = self.rows[given], self.best(given).timing
        timings = [row[config].timing if config in row else None for config in configs]
        return [bool(best and timing and self.is_tie(timing, best)) for timing in timings]


def _searched(known: Mapping[Input, Measured]) -> _Times:
    return _Times(known, lambda m: m.time_s, is_within_noise)


def _is_recorded(known: Mapping[Input, Measured]) -> bool:
    """Whether these are of a recording, of which no more can be measured."""
    timings = (m.timing for row in known.values() for m in row.values())
    return any(timing and timing.stopped is StopReason.RECORDED for timing in timings)


def _mean_s(measurement: Measurement) -> float:
    """The geometric mean, which is what times in turn are compared by."""
    timing = measurement.timing
    return math.exp(mean_log(timing.samples_s)) if timing else math.inf


def _is_tie_in_turn(one: Timing, other: Timing) -> bool:
    return not time_ratio(one, other).is_significant


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

    inputs = list(times.rows)
    chosen = _distinct(times, [default, *candidates])
    shape = len(inputs), len(chosen)
    return make_matrix(
        pd.DataFrame([dict(given) for given in inputs]),
        chosen,
        np.array([[times.time_s(i, c) for c in chosen] for i in inputs]).reshape(shape),
        applies=np.array([[applies(i, c) for c in chosen] for i in inputs], bool).reshape(shape),
        best_s=np.array([times.seconds(times.best(i)) for i in inputs]),
        tied=np.array([times.ties(i, chosen) for i in inputs], bool).reshape(shape),
        default=0,
        choices=choices,
        note=note,
    )


def _distinct(times: _Times, configs: Iterable[Config]) -> list[Config]:
    distinct: dict[tuple[float, ...], Config] = {}
    for config in configs:
        column = (times.time_s(given, config) for given in times.rows)
        key = tuple(-1.0 if math.isnan(time_s) else time_s for time_s in column)
        distinct.setdefault(key, config)
    return list(distinct.values())


def _candidates(known: Mapping[Input, Measured]) -> list[Config]:
    """Every winner, and what was measured on all inputs."""
    winners = [min(row.values(), key=lambda m: m.time_s).config for row in known.values()]
    everywhere = [c for c in next(iter(known.values()), {}) if all(c in r for r in known.values())]
    least = {given: _least(row) for given, row in known.items()}
    everywhere.sort(key=lambda c: _mean_log_slowdown(known, least, c))
    return [*winners, *everywhere[:MOST_CANDIDATES]]


def _least(row: Measured) -> float:
    return min((m.time_s for m in row.values()), default=math.inf)


def _mean_log_slowdown(
    known: Mapping[Input, Measured], least: Mapping[Input, float], config: Config
) -> float:
    ratios = [row[config].time_s / least[given] for given, row in known.items()]
    return math.inf if math.inf in ratios else math.fsum(map(math.log, ratios)) / len(ratios)
