"""Break down the time of a stencil campaign: exploring, lowering, features, building, running."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

import pandas as pd

from benchmarks.stencil_campaign import PROGRAMS
from harness.results.view import Results
from harness.stencil.emit import OPENCL, emit
from harness.stencil.explore import explore
from harness.stencil.features import features
from harness.stencil.lower import lower
from harness.stencil.predicted import GROUP
from harness.stencil.space_files import Definition

_POINTS_TO_TIME = 50

PHASES = ("explore_s", "lower_s", "features_s", "build_s", "run_s")
"""The phases of a point, each with its mean seconds."""


def costs_of(table: pd.DataFrame, found: Sequence[Results]) -> pd.DataFrame:
    """Compute the mean seconds of each phase of a point; return a row for each program and size.

    Building and running are wall times of the campaigns. The others are CPU times of making some
    points again here.
    """
    rows: list[dict[str, object]] = []
    for group, points in table.groupby(GROUP):
        program, size = str(group[0]), int(str(group[1]))
        row = dict(zip(GROUP, (program, size), strict=True)) | {"measured_points": len(points)}
        rows.append(row | _making(program, size) | _measuring(program, size, found))
    costs: pd.DataFrame = pd.DataFrame(rows)
    return costs


def _measuring(program: str, size: int, found: Sequence[Results]) -> dict[str, float]:
    """Return the mean seconds of a build, and of a run with its verification and repeats."""
    measured = [
        m
        for results in found
        if results.campaign.space_name == program
        for problem, of_problem in results.measured.items()
        if problem["size"] == size
        for m in of_problem.values()
    ]
    return {
        "build_s": statistics.fmean(m.build.compile_s if m.build else 0.0 for m in measured),
        "run_s": statistics.fmean(m.wall_s for m in measured),
    }


def _making(program: str, size: int) -> dict[str, float]:
    """Time the rewriting, the lowering with its code, and the features of some points.

    Rewriting includes the draws that come to nothing, and what they cost to lower.
    """
    expression = Definition.load(PROGRAMS[program]).expression(size)
    begin_s = time.process_time()
    variants = explore("k", expression, _POINTS_TO_TIME, "0")
    explored_s = time.process_time()
    for variant in variants:
        for kernel in variant.kernels.values():
            emit(lower("k", variant.expression, kernel.ndrange), OPENCL)
    lowered_s = time.process_time()
    for variant in variants:
        for kernel in variant.kernels.values():
            features(kernel)
    end_s = time.process_time()
    points = sum(len(variant.kernels) for variant in variants)
    lower_s = (lowered_s - explored_s) / points
    return {
        "explore_s": max(0.0, (explored_s - begin_s) / points - lower_s),
        "lower_s": lower_s,
        "features_s": (end_s - lowered_s) / points,
    }
