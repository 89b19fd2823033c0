"""A table of samples as the numbers that a tree splits on, and splits as parts of the space.

Numbers stand by their positions among the known values. Words, such as the platform, stand by the
order of their mean target, for which a split into two sets is found as if they were numbers
(Breiman et al., Classification and Regression Trees, 1984, section 9.4); the order is that of all
samples, so that it is exact at the root and close to it below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from harness.models.starchart.axes import Array, Axis
from harness.models.starchart.boxes import Part, WordSet, below, beyond

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class AxisColumn:
    """One number of an axis. `ranks` has for words the number of each; None for numbers."""

    axis: Axis
    ranks: Array | None = None

    def sides(self, threshold: float) -> tuple[Part, Part]:
        """What a split at `threshold` parts: the values up to it, and those above it."""
        known = self.axis.values
        if self.ranks is None:
            # Halfway between two positions lies halfway between their values.
            index = int(threshold)
            value = float(known[index] + (threshold - index) * (known[index + 1] - known[index]))
            return below(known, value), beyond(known, value)
        low = self.ranks <= threshold
        return (
            WordSet(tuple(word for word, is_low in zip(known, low, strict=True) if is_low), known),
            WordSet(
                tuple(word for word, is_low in zip(known, low, strict=True) if not is_low), known
            ),
        )


@dataclass(frozen=True)
class SampleEncoder:
    """The columns of some axes, made for the samples that a tree is grown on."""

    axes: tuple[Axis, ...]
    columns: tuple[AxisColumn, ...]

    def encode(self, codes: Array) -> Array:
        """Shape (rows, columns), from positions of shape (rows, axes)."""
        return np.column_stack(
            [
                self._encoded(column, codes[:, self.axes.index(column.axis)])
                for column in self.columns
            ]
        )

    def _encoded(self, column: AxisColumn, codes: Array) -> Array:
        return codes if column.ranks is None else column.ranks[codes.astype(np.intp)]


def positions(axes: Sequence[Axis], table: pd.DataFrame) -> Array:
    """Of each value of a table its position on its axis, shape (rows, axes)."""
    return np.column_stack([axis.codes(table) for axis in axes])


def make_encoder(axes: tuple[Axis, ...], codes: Array, values: Array) -> SampleEncoder:
    """Make the encoder for samples of these positions and targets."""
    columns = (_column(axis, own, values) for axis, own in zip(axes, codes.T, strict=True))
    return SampleEncoder(axes, tuple(columns))


def _column(axis: Axis, codes: Array, values: Array) -> AxisColumn:
    if axis.is_number:
        return AxisColumn(axis)
    return AxisColumn(axis, _ranks_by_mean(codes.astype(np.intp), values, len(axis.values)))


def _ranks_by_mean(codes: npt.NDArray[np.intp], values: Array, count: int) -> Array:
    """Words by their mean; one of which there is no sample stands where the mean of all does."""
    rows = np.bincount(codes, minlength=count)
    sums = np.bincount(codes, weights=values, minlength=count)
    means = np.where(rows > 0, sums / np.maximum(rows, 1), values.mean())
    ranks = np.empty(count)
    ranks[np.argsort(means, kind="stable")] = np.arange(count)
    return ranks
