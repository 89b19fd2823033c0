"""Times of the few configurations that a dispatcher may choose from, on every input."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from harness.dispatching.matrix import FEWEST_INPUTS, Matrix, make_matrix
from harness.dispatching.portfolio import greedy_portfolio, static_order
from harness.expression import Expression
from harness.records import Config, Input, Measurement, StopReason, Timing
from harness.timing import is_within_noise, time_ratio

if TYPE_CHECKING:  # harness.tables tells matrices
    from harness.tables import Measured, Results

MOST_CANDIDATES = 200
"""Of a matrix; of more, those of the least mean slowdown, and the winners."""

_MOST_MEMBERS = 8  # of a portfolio that is measured in turn
_MOST_SINGLE = 3  # of the best for all inputs: what choosing by input has to beat

_SEARCHED = (
    "Times are those of the search, each taken at another moment. `python -m harness.tune`, unless "
    "with --no-cross, measures the candidates in turn, which tells them apart better."
)

Applies = Callable[[Input, Config], bool]
"""Whether a configuration may be chosen on an input."""


def matrix_of(results: Results) -> Matrix:
    """Times of the candidates on every input on which anything worked.

    Where the same candidates were measured in turn on all of these: the geometric means of their
    samples. Otherwise the default, every winner, and what was measured on all inputs, as the
    search and the measurements across inputs timed them; the matrix's note says so. The finals,
    which only a few were measured for, are at another time.

    Of candidates with the same times everywhere, as those of equal machine code have, only the
    first stands. A candidate applies where the space's constraints hold.

    All inputs have a say in what the candidates are. `harness.dispatching.verdict.held_out` takes
    those away that only inputs which are held out won.
    """
    known = {given: row for given, row in results.measured.items() if _least(row) < math.inf}
    constraints = [Expression(text) for text in results.constraints]
    limits, roles = results.limits, results.campaign.roles
    choices = [name for name, role in roles.items() if role == "choice"]

    def applies(given: Input, config: Config) -> bool:
        values = {**given, **config, **limits}
        return all(constraint.holds(values) for constraint in constraints)

    turns = _turns(results.candidates, known)
    if common := _in_turn_everywhere(turns, applies):
        return _matrix(
            _Times(turns, _mean_s, _is_tie_in_turn), results.default, common, applies, choices
        )
    note = "" if _is_recorded(known) else _SEARCHED
    return _matrix(_searched(known), results.default, _candidates(known), applies, choices, note)


def shortlist(known: Mapping[Input, Measured], default: Config, applies: Applies) -> list[Config]:
    """What is worth being measured once more on every input, in turn: the default, a portfolio that
    suits the inputs best, and the best for all of them, as the search timed them.

    Nothing where inputs are too few to learn across.
    """
    if len(known) < FEWEST_INPUTS:
        return []
    matrix = _matrix(_searched(known), default, _candidates(known), applies).judgeable()
    if len(matrix.features) == 0:
        return []
    single = [place for place in static_order(matrix) if matrix.applies[:, place].any()]
    places = [*greedy_portfolio(matrix, _MOST_MEMBERS), *single[:_MOST_SINGLE]]
    return list(dict.fromkeys([default, *(matrix.candidates[place] for place in places)]))


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
    return statistics.geometric_mean(timing.samples_s) if timing else math.inf


def _is_tie_in_turn(one: Timing, other: Timing) -> bool:
    return not time_ratio(one, other).is_clear


def _turns(
    candidates: Mapping[Input, Sequence[Measurement]], known: Mapping[Input, Measured]
) -> dict[Input, Measured]:
    """What was measured in turn on each input; and what had failed there, which is not tried
    again."""
    return {
        given: {config: m for config, m in row.items() if m.timing is None}
        | {m.config: m for m in candidates.get(given, ())}
        for given, row in known.items()
    }


def _in_turn_everywhere(turns: Mapping[Input, Measured], applies: Applies) -> list[Config]:
    """What was measured in turn on every input where it applies and had worked.

    Nothing where inputs were measured for different candidates: only the winner of its input
    stands beside them in each turn.
    """
    sizes = [sum(m.timing is not None for m in turn.values()) for turn in turns.values()]
    if not all(sizes):
        return []
    told = dict.fromkeys(c for turn in turns.values() for c, m in turn.items() if m.timing)
    common = [c for c in told if all(c in turns[i] or not applies(i, c) for i in turns)]
    return common if len(common) >= max([2, *(size - 1 for size in sizes)]) else []


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
