"""Samples as the numbers that a tree splits on, and splits as parts of the space.

A number becomes its position among the known values. Words, such as the platform, are sorted by
their mean target, for which a split into two sets is found as if they were numbers (Breiman et al.,
Classification and Regression Trees, 1984, section 9.4). The order is that of all samples, so it is
exact at the root and close to it below. The numbers of a flag that may be absent keep their order;
absent is put before or behind them, where the targets are more like its own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.models.starchart.axes import Axis
from harness.models.starchart.boxes import Interval, Part, WordSet

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class AxisColumn:
    """One number of an axis. `ranks` has the number of each word; None for numbers."""

    axis: Axis
    ranks: Array | None = None

    def encode(self, codes: Array) -> Array:
        """Encode positions on the axis."""
        return codes if self.ranks is None else self.ranks[codes.astype(np.intp)]

    def sides(self, threshold: float) -> tuple[Part, Part]:
        """Return the parts of a split at `threshold`: the values up to it, and those above it."""
        known = self.axis.values
        if self.ranks is None:
            # Halfway between two positions lies halfway between their values.
            index = int(threshold)
            value = float(known[index] + (threshold - index) * (known[index + 1] - known[index]))
            return Interval(-math.inf, value, known), Interval(value, math.inf, known)
        low, high = (
            WordSet(tuple(itertools.compress(known, side)), known)
            for side in (self.ranks <= threshold, self.ranks > threshold)
        )
        return low, high


def encode(columns: Sequence[AxisColumn], codes: Array) -> Array:
    """Encode positions of shape (rows, axes), of which each has its column, in the same shape."""
    return np.column_stack(
        [column.encode(own) for column, own in zip(columns, codes.T, strict=True)]
    )


def positions(axes: Sequence[Axis], table: pd.DataFrame) -> Array:
    """Return the position of each value of a table on its axis, shape (rows, axes)."""
    return np.column_stack([axis.codes(table) for axis in axes])


def make_columns(axes: Sequence[Axis], codes: Array, values: Array) -> tuple[AxisColumn, ...]:
    """Make a column of each axis for the samples of these positions and targets."""
    return tuple(
        AxisColumn(axis)
        if axis.is_number
        else AxisColumn(axis, _ranks(axis, own.astype(np.intp), values))
        for axis, own in zip(axes, codes.T, strict=True)
    )


def _ranks(axis: Axis, codes: npt.NDArray[np.intp], values: Array) -> Array:
    """Rank words by their mean target; a word without samples is ranked at the mean of all. Numbers
    keep their order, and absent is ranked below or above them all."""
    count = len(axis.values)
    rows = np.bincount(codes, minlength=count)
    sums = np.bincount(codes, weights=values, minlength=count)
    means = np.where(rows > 0, sums / np.maximum(rows, 1), values.mean())
    if axis.is_optional_number:
        numbers = np.abs(means[:-1] - means[-1])
        middle = len(numbers) // 2
        is_low = np.mean(numbers[:middle]) < np.mean(numbers[-middle:])
        return np.array([*range(count - 1), -1 if is_low else count - 1], dtype=np.float64)
    ranks = np.empty(count)
    ranks[np.argsort(means, kind="stable")] = np.arange(count)
    return ranks
