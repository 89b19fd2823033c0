"""Parts of winners, without the flags that have no effect, as candidates of a dispatcher."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from harness.core.arrays import Indices
from harness.core.records import Input
from harness.dispatch.matrix import Matrix
from harness.results.ablation import TOLERANCE, Ablation


def with_needed_parts(
    matrix: Matrix, inputs: Sequence[Input], ablations: Mapping[Input, Ablation]
) -> Matrix:
    """Put the parts that ablation found to be as fast in the place of winners.

    A winner gives way to a candidate that is its part on every input that it won, unless that one
    is clearly slower on another input. It is replaced by a part that is no candidate only where
    this is its part on every input on which it applies: elsewhere the part was not verified.
    """
    candidates, applies = list(matrix.candidates), matrix.applies.copy()
    for index, winner in enumerate(matrix.candidates):
        parts = {
            problem: ablation.config
            for problem, ablation in ablations.items()
            if ablation.winner == winner and ablation.is_decided
        }
        distinct = set(parts.values())
        if len(distinct) != 1 or winner in distinct:
            continue
        part = distinct.pop()
        concerned = np.flatnonzero(matrix.applies[:, index])
        if part in candidates:
            if not _is_slower(matrix, candidates.index(part), index, concerned):
                applies[:, index] = False
        elif all(inputs[row] in parts for row in concerned.tolist()):
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
