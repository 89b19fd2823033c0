"""Tables of the dispatchers: one a data set, one over all, and the figures for programs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.dispatch_data import DataSet
from benchmarks.dispatch_runs import OURS, STATIC
from benchmarks.frame import show
from benchmarks.shortlists import Tries
from harness.core.arrays import Array, Indices
from harness.dispatch.study import to_ship
from harness.dispatch.verdict import Slowdowns


@dataclass(frozen=True)
class Result:
    """A data set with each learner's slowdowns on its inputs, in the same order; processor seconds
    to fit, and leaves, are means over folds. `tries` has what
    trying costs, by the names of the rows of shortlists."""

    data: DataSet
    slowdowns: Mapping[str, Slowdowns]
    fit_s: Mapping[str, float]
    leaves: Mapping[str, float]
    tries: Mapping[str, Tries] = field(default_factory=dict)

    @property
    def dispatcher(self) -> str:
        """The dispatcher that the command would ship, or refuse if none beats the best static
        one."""
        ours = [name for name in OURS if name in self.slowdowns]
        return to_ship(self.slowdowns, ours, [self.slowdowns[STATIC]])

    def cases(self) -> dict[str, dict[str, Slowdowns]]:
        """Return for each case each learner's slowdowns."""
        return {
            case: {name: of_rows(judged, rows) for name, judged in self.slowdowns.items()}
            for case, rows in self.data.parts
        }


def of_rows(judged: Slowdowns, rows: Indices) -> Slowdowns:
    """Keep only some inputs, by their indices."""
    parts = judged.logs[rows], judged.groups[rows], judged.failed[rows], judged.weights[rows]
    return Slowdowns(judged.name, *parts)


def print_cases(result: Result) -> None:
    """Print a table with a row a case and a column a learner."""
    rows = [
        (
            case,
            len(judged[STATIC].logs),
            *(f"{_mean(one):.3f} / {_tail(one.logs):.2f}" for one in judged.values()),
            judged[STATIC].over(judged[result.dispatcher]).ratio,
        )
        for case, judged in result.cases().items()
    ]
    head = ("case", "inputs", *result.slowdowns, f"gain of {result.dispatcher}")
    show(head, rows, result.data.name)


def print_verdict(result: Result) -> None:
    """Print a table with a row a learner, over all inputs of a data set."""
    rows = [
        (
            name,
            one.mean,
            one.percentile_99,
            one.worst,
            f"{one.near:.1%}",
            result.leaves.get(name, "-"),
            result.fit_s.get(name, "-"),
        )
        for name, one in result.slowdowns.items()
    ]
    head = ("choice", "geometric mean", "99th percentile", "worst", "within 5 %", "leaves")
    show((*head, "fit, s"), rows)


def _mean(judged: Slowdowns) -> float:
    return math.exp(float(judged.logs.mean()))


def figures(results: Sequence[Result]) -> dict[str, Any]:
    """Return the figures of the last line.

    Geometric means are over cases, each by the geometric mean of its inputs; `dispatcher_p99` is
    over the inputs of all cases together. A case beats the static one if the whole interval of the
    ratio is below 1. `shortlists` has the best that each lists, the share of inputs on which the
    choice is unsure, and there the cost of trying: by how many calls of the best candidate a call
    of each listed takes longer than as many of the best.
    """
    cases = [(r, case, judged) for r in results for case, judged in r.cases().items()]
    ours = [judged[result.dispatcher] for result, _, judged in cases]
    gains = [o.over(judged[STATIC]) for o, (_, _, judged) in zip(ours, cases, strict=True)]
    logs = np.concatenate([judged.logs for judged in ours])
    return {
        "cases": len(cases),
        "cases_beating_static_share": fmean(gain.is_better for gain in gains),
        "dispatcher_geomean": _over_cases(ours),
        "dispatcher_p99": _tail(logs),
        "geomeans": {
            name: _over_cases([judged[name] for _, _, judged in cases])
            for name in results[0].slowdowns
        },
        "shortlists": {name: _of_shortlist(results, name) for name in results[0].tries},
    }


def _of_shortlist(results: Sequence[Result], name: str) -> dict[str, float]:
    found = [result.slowdowns[name] for result in results]
    tries = [result.tries[name] for result in results]
    unsure = np.concatenate([one.unsure for one in tries])
    excess = np.concatenate([one.excess_calls for one in tries])
    cases = [judged[name] for result in results for judged in result.cases().values()]
    return {
        "geomean": _over_cases(cases),
        "p99": _tail(np.concatenate([one.logs for one in found])),
        "unsure_share": round(float(unsure.mean()), 4),
        "excess_calls_median": round(float(np.median(excess[unsure])), 3),
        "excess_calls_mean": round(float(excess[unsure].mean()), 3),
        "excess_calls_p99": round(float(np.percentile(excess[unsure], 99)), 3),
    }


def _tail(logs: Array) -> float:
    return round(math.exp(float(np.percentile(logs, 99, method="inverted_cdf"))), 4)


def _over_cases(judged: Sequence[Slowdowns]) -> float:
    return round(math.exp(float(np.mean([one.logs.mean() for one in judged]))), 4)
