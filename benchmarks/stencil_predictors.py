"""Predictors of a stencil's throughput, their evaluation on programs that they do not know, and
what the points of a campaign cost.

The tables are those of harness.stencil.predicted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import fmean

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import rankdata

from benchmarks.stencil_campaign import PROGRAMS
from harness.core.arrays import Array
from harness.core.errors import UsageError
from harness.results.view import Results
from harness.stencil.emit import OPENCL, emit
from harness.stencil.explore import explore
from harness.stencil.features import FEATURES, features
from harness.stencil.lower import lower
from harness.stencil.predicted import GROUP, forest, pca_knn, throughput
from harness.stencil.space_files import Definition

Predict = Callable[[pd.DataFrame, pd.DataFrame], Array]
"""(table of other programs, points of one program) -> a score for each point, larger is faster."""

GOOD = 0.9
"""The share of the best throughput that makes a point good."""

PHASES = ("make_s", "build_s", "run_s")
"""The phases of a point, each with its mean seconds."""

_BINS = 16
_POINTS_TO_TIME = 50


PREDICTORS: dict[str, Predict] = {"forest": forest, "pca_knn": pca_knn}
"""The default comes first."""


def proven_throughput(table: pd.DataFrame) -> pd.Series[float]:
    """Return the throughput by the second, interleaved measurement; 0 for points without one.

    A single lucky measurement has no effect on it.
    """
    return throughput(table, "final_s").fillna(0.0)


def leave_one_program_out(predict: Predict, table: pd.DataFrame) -> pd.DataFrame:
    """Predict each row's `score` by a predictor trained on the other programs only.

    `model_s` is the CPU seconds to train it and to predict all rows of the program.
    """
    parts = []
    for program, rows in table.groupby("program"):
        others = table[table["program"] != program]
        begin_s = time.process_time()
        scores = predict(others, rows)
        spent_s = time.process_time() - begin_s
        parts.append(pd.DataFrame({"score": scores, "model_s": spent_s}, index=rows.index))
    predicted: pd.DataFrame = pd.concat(parts).reindex(table.index)
    return predicted


def runs_to_good(throughputs: Sequence[float] | Array, predicted: Array) -> int:
    """Count the runs, in predicted order, up to and including the first GOOD point."""
    in_order = np.asarray(throughputs)[np.argsort(-predicted, kind="stable")]
    return int(np.argmax(in_order >= GOOD)) + 1


def runs_at_random(throughputs: Sequence[float] | Array) -> float:
    """Return the expected runs in random order: (n + 1) / (m + 1) with m good points of n."""
    values = np.asarray(throughputs)
    return float((len(values) + 1) / (np.count_nonzero(values >= GOOD) + 1))


def judged(predict: Predict, table: pd.DataFrame) -> pd.DataFrame:
    """Evaluate a predictor; return a row for each program and size.

    `spearman` is the rank correlation of score and throughput, and `pearson` the linear one; `runs`
    and `random_runs` count runs until a point is good by its final time, and `runs_saved` is their
    ratio; `points` counts the points; `shared` is the share of points whose design another program
    has too, which flatters the predictor; `model_s` is the CPU time of training and prediction.

    Raises UsageError if no point of a program has a final time.
    """
    predicted = leave_one_program_out(predict, table)
    known, proven = throughput(table), proven_throughput(table)
    found = []
    for group, rows in table.groupby(GROUP):
        scores, true = predicted.loc[rows.index, "score"].to_numpy(), known[rows.index].to_numpy()
        good = proven[rows.index].to_numpy()
        if not good.any():
            raise UsageError(f"{group[0]} at size {group[1]}: no point was measured a second time")
        others = table.loc[table["program"] != rows["program"].iloc[0], "design"]
        runs, random_runs = runs_to_good(good, scores), runs_at_random(good)
        found.append(
            dict(zip(GROUP, group, strict=True))
            | {
                "spearman": _correlation(rankdata(scores), rankdata(true)),
                "pearson": _correlation(scores, true),
                "runs": runs,
                "random_runs": random_runs,
                "runs_saved": random_runs / runs,
                "points": len(rows),
                "shared": float(rows["design"].isin(others).mean()),
                "model_s": float(predicted.loc[rows.index[0], "model_s"]),
            }
        )
    judgement: pd.DataFrame = pd.DataFrame(found)
    return judgement


def _correlation(scores: Array, true: Array) -> float:
    """Correlate linearly; a constant correlates with nothing, which is 0."""
    varies = np.ptp(scores) > 0 and np.ptp(true) > 0
    return float(np.corrcoef(scores, true)[0, 1]) if varies else 0.0


def costs_of(table: pd.DataFrame, campaigns: Sequence[Results]) -> pd.DataFrame:
    """Return the mean seconds of each phase of a point, a row for each program and size.

    Some points are made again here, in CPU time: rewritten, lowered to code, and their features
    computed. Builds and runs are wall times of the campaigns.
    """
    rows = []
    for group in sorted(set(zip(table["program"], table["size"], strict=True))):
        program, size = group
        expression = Definition.load(PROGRAMS[program]).expression(size)
        points = 0
        begin_s = time.process_time()
        for variant in explore("k", expression, _POINTS_TO_TIME, "0"):
            for kernel in variant.kernels.values():
                emit(lower("k", variant.expression, kernel.ndrange), OPENCL)
                features(kernel)
                points += 1
        make_s = (time.process_time() - begin_s) / points
        build_s = []
        run_s = []
        for results in campaigns:
            if results.campaign.space_name != program:
                continue
            for problem, measured in results.measured.items():
                if problem["size"] == size:
                    build_s += [m.build.compile_s if m.build else 0.0 for m in measured.values()]
                    run_s += [m.wall_s for m in measured.values()]
        rows.append((program, size, make_s, fmean(build_s), fmean(run_s)))
    costs: pd.DataFrame = pd.DataFrame(rows, columns=[*GROUP, *PHASES])
    return costs


def information(table: pd.DataFrame) -> pd.Series[float]:
    """Rank the features by their information about the throughput, the most informative first.

    The value is their mutual information over the sum of their entropies, from 0 to 1/2, with 16
    bins of equal counts. Throughput is relative to the best of the program, the size and, where the
    table has several, the campaign.
    """
    groups = [table[name] for name in ("campaign", *GROUP) if name in table]
    target = _binned(
        (table["time_s"].groupby(groups).transform("min") / table["time_s"]).to_numpy()
    )
    found = {name: _redundancy(_binned(table[name].to_numpy()), target) for name in FEATURES}
    ranking: pd.Series[float] = pd.Series(found).sort_values(ascending=False, kind="stable")
    return ranking


def _binned(values: Array) -> npt.NDArray[np.int64]:
    """Sort values into bins of equal counts; equal values share a bin."""
    ranks = np.searchsorted(np.sort(values), values, side="left")
    return np.asarray(ranks * _BINS // len(values), dtype=np.int64)


def _redundancy(one: npt.NDArray[np.int64], other: npt.NDArray[np.int64]) -> float:
    own, others = _entropy(one), _entropy(other)
    joint = _entropy(one * _BINS + other)
    return (own + others - joint) / (own + others) if own + others > 0 else 0.0


def _entropy(bins: npt.NDArray[np.int64]) -> float:
    share = np.unique(bins, return_counts=True)[1] / len(bins)
    return float(-(share * np.log2(share)).sum())
