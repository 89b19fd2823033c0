"""Times of the few configurations that a dispatcher may choose from, on every input."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from harness.dispatching.matrix import Matrix, make_matrix
from harness.expression import Expression
from harness.records import Config, Input, Measurement
from harness.timing import is_within_noise

if TYPE_CHECKING:  # harness.tables tells matrices
    from harness.tables import Measured, Results

MOST_CANDIDATES = 200
"""Of a matrix; of more, those of the least mean slowdown, and the winners."""


def matrix_of(results: Results) -> Matrix:
    """Times of the candidates on every input on which anything worked: the default, every winner,
    and what was measured on all inputs.

    Times are those of the search and of the measurements across inputs; the finals, which only a
    few were measured for, are at another time. Of candidates with the same times everywhere, as
    those of equal machine code have, only the first stands. A candidate applies where the space's
    constraints hold.

    All inputs have a say in what the candidates are. `harness.dispatching.verdict.held_out` takes
    those away that only inputs which are held out won; but of more than MOST_CANDIDATES that were
    measured on all inputs, the mean over all of them tells which stay.
    """
    import pandas as pd  # here: it takes half a second to load

    known = {given: row for given, row in results.measured.items() if _least(row) < math.inf}
    inputs, candidates = list(known), _candidates(known, results.default)
    time_s = np.array([[_time_s(known[i].get(c)) for c in candidates] for i in inputs])
    constraints = [Expression(text) for text in results.constraints]
    applies = [[_holds(constraints, i, c, results.limits) for c in candidates] for i in inputs]
    ties = [_ties(known[given], candidates) for given in inputs]
    return make_matrix(
        pd.DataFrame([dict(given) for given in inputs]),
        candidates,
        time_s.reshape(len(inputs), len(candidates)),
        applies=np.array(applies, dtype=bool).reshape(len(inputs), len(candidates)),
        best_s=np.array([_least(known[given]) for given in inputs]),
        tied=np.array(ties, dtype=bool).reshape(len(inputs), len(candidates)),
        default=0,
        choices=[name for name, role in results.campaign.roles.items() if role == "choice"],
    )


def _candidates(known: Mapping[Input, Measured], default: Config) -> list[Config]:
    winners = [min(row.values(), key=lambda m: m.time_s).config for row in known.values()]
    everywhere = [c for c in next(iter(known.values()), {}) if all(c in r for r in known.values())]
    least = {given: _least(row) for given, row in known.items()}
    everywhere.sort(key=lambda c: _mean_log_slowdown(known, least, c))
    distinct: dict[tuple[float, ...], Config] = {}
    for config in [default, *winners, *everywhere[:MOST_CANDIDATES]]:
        column = tuple(_time_s(row.get(config)) for row in known.values())
        key = tuple(-1.0 if math.isnan(time_s) else time_s for time_s in column)
        distinct.setdefault(key, config)
    return list(distinct.values())


def _time_s(measurement: Measurement | None) -> float:
    return math.nan if measurement is None else measurement.time_s


def _least(row: Measured) -> float:
    return min((m.time_s for m in row.values()), default=math.inf)


def _mean_log_slowdown(
    known: Mapping[Input, Measured], least: Mapping[Input, float], config: Config
) -> float:
    ratios = [row[config].time_s / least[given] for given, row in known.items()]
    return math.inf if math.inf in ratios else math.fsum(map(math.log, ratios)) / len(ratios)


def _holds(
    constraints: Iterable[Expression], given: Input, config: Config, limits: Mapping[str, int]
) -> bool:
    values = {**given, **config, **limits}
    return all(constraint.holds(values) for constraint in constraints)


def _ties(row: Measured, candidates: Sequence[Config]) -> list[bool]:
    """Which candidates do not differ from the best one for certain."""
    best = min(row.values(), key=lambda m: m.time_s).timing
    timings = [m.timing if (m := row.get(config)) else None for config in candidates]
    return [bool(best and timing and is_within_noise(timing, best)) for timing in timings]
