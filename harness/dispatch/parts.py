"""Parts of winners, without the flags that have no effect, as candidates of a dispatcher."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from harness.core.arrays import Indices
from harness.core.records import Config, Input
from harness.dispatch.matrix import Matrix
from harness.results.ablation import TOLERANCE
from harness.results.measured import Measured
from harness.stats.interleaved import refuted
from harness.stats.timing import time_ratio

if TYPE_CHECKING:
    from harness.results.view import Results


def with_needed_parts(matrix: Matrix, known: Mapping[Input, Measured], results: Results) -> Matrix:
    """Put the parts that ablation found to be as fast in the place of winners.

    A winner gives way to its part where that is the same on all inputs that it won, unless the part
    is clearly slower on another input. A part that is no candidate takes over the winner's times:
    elsewhere the search must have verified it, and its time there must not be clearly longer.
    `known` is what the search measured on the inputs of the matrix.
    """
    candidates, applies = list(matrix.candidates), matrix.applies.copy()
    for index, winner in enumerate(matrix.candidates):
        parts = {
            problem: ablation.config
            for problem, ablation in results.ablations.items()
            if ablation.winner == winner and ablation.replaces_winner
        }
        distinct = set(parts.values())
        if len(distinct) != 1 or winner in distinct:
            continue
        part = distinct.pop()
        concerned = np.flatnonzero(matrix.applies[:, index])
        if part in candidates:
            if not _is_slower(matrix, candidates.index(part), index, concerned):
                applies[:, index] = False
            continue
        inputs = list(known)
        elsewhere = {inputs[row] for row in concerned.tolist()} - parts.keys()
        if all(
            _is_as_fast(part, winner, known[problem])
            and part not in refuted(results.interleaved.get(problem, ()))
            for problem in elsewhere
        ):
            candidates[index] = part
    return replace(matrix, candidates=tuple(candidates), applies=applies)


def _is_slower(matrix: Matrix, part: int, winner: int, rows: Indices) -> bool:
    """Say whether a part does not apply, or is clearly slower than the winner, on one of these
    inputs: significantly, and by more than ablation allows."""
    assert matrix.half_log is not None
    slower = matrix.measured_log[rows, part] - matrix.measured_log[rows, winner]
    half = np.hypot(matrix.half_log[rows, part], matrix.half_log[rows, winner])
    is_as_fast = slower <= np.maximum(half, math.log(1 + TOLERANCE))  # NaN is not
    return not bool(is_as_fast.all())


def _is_as_fast(part: Config, winner: Config, measured: Measured) -> bool:
    """Say the same of the search's times on an input; a winner that failed is not chosen there."""
    of_winner, of_part = measured.get(winner), measured.get(part)
    if of_winner is None or of_winner.timing is None:
        return True
    if of_part is None or of_part.timing is None:
        return False
    ratio = time_ratio(of_part.timing, of_winner.timing)
    return ratio.value <= 1 + TOLERANCE or not ratio.is_significant
