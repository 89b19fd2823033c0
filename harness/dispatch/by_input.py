"""The worst, the default and the predicted configuration of each input: the comparison of
figures 3, 4 and 6 of G-ADAPT's paper (Liu, Zhang, Shen, IPDPS 2009)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.core.arrays import Array
from harness.core.records import Input
from harness.dispatch.learners import Default
from harness.dispatch.study import AUTO, Study
from harness.dispatch.verdict import Slowdowns
from harness.results.measured import MeasuredConfigs
from harness.results.view import Results


@dataclass(frozen=True)
class InputSlowdowns:
    """Times of an input over its best known time: of the worst configuration that worked,
    of the default, and of the one that a dispatcher predicts without this input.

    Infinity for a failure; NaN for a default that does not apply to the input or has no time.
    """

    problem: Input
    worst: float
    default: float
    predicted: float


def slowdowns_by_input(results: Results, found: Study, choice: str = AUTO) -> list[InputSlowdowns]:
    """Compare the configurations of each input of a study; `choice` names one of its rows."""
    matrix = found.matrix
    names = list(map(str, matrix.features.columns))
    problems = {tuple(problem[name] for name in names): problem for problem in results.measured}
    inputs = [problems[row] for row in matrix.features.itertuples(index=False, name=None)]
    default = np.full(len(inputs), np.nan)
    if matrix.default is not None and Default().name in found.slowdowns:
        applies = matrix.applies[:, matrix.default]
        default[applies] = _of(found.slowdowns[Default().name])[applies]
    predicted = _of(found.slowdowns[found.best if choice == AUTO else choice])
    known = np.where(matrix.applies & np.isfinite(matrix.time_s), matrix.slowdown, 1.0)
    return [
        InputSlowdowns(
            problem,
            max(_worst(results.measured[problem]), float(most)),
            float(of_default),
            float(chosen),
        )
        for problem, most, of_default, chosen in zip(
            inputs, known.max(axis=1), default, predicted, strict=True
        )
    ]


def _of(judged: Slowdowns) -> Array:
    return np.where(judged.failed, np.inf, judged.slowdown)


def _worst(known: MeasuredConfigs) -> float:
    """Return the greatest time over the least of all that worked, as the search timed them."""
    times = known.rows.of(known.columns.time_s)
    times = times[np.isfinite(times)]
    return float(times.max() / times.min())


def geometric_means(rows: Sequence[InputSlowdowns]) -> tuple[float, float, float]:
    """Return the geometric means of the worst, the default's and the predicted slowdowns; NaN where
    one is not finite on some input."""
    logs = np.log([(row.worst, row.default, row.predicted) for row in rows])
    means = np.where(np.isfinite(logs).all(axis=0), np.exp(logs.mean(axis=0)), np.nan)
    worst, default, predicted = means.tolist()
    return worst, default, predicted
