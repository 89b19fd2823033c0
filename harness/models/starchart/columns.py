"""A table of samples as the numbers that a tree splits on, and splits as parts of the space.

Numbers stand by their positions among the known values. Words, such as the platform, stand by the
order of their mean target, for which a split into two sets is found as if they were numbers
(Breiman et al., Classification and Regression Trees, 1984, section 9.4); the order is that of all
samples, so that it is exact at the root and close to it below. Or each word has a column of its
own (one-hot), and a split parts one word from the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from harness.models.encoding.parts import one_hot
from harness.models.starchart.axes import Array, Axis
from harness.models.starchart.boxes import Part, WordSet, below, beyond

if TYPE_CHECKING:
    import pandas as pd


class WordColumns(str, Enum):
    """How words become numbers."""

    MEAN = "mean"
    ONE_HOT = "one-hot"


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


def make_encoder(
    axes: tuple[Axis, ...], codes: Array, values: Array, words: WordColumns
) -> SampleEncoder:
    """The encoder for samples of these positions and targets."""
    return SampleEncoder(
        axes,
        tuple(
            column
            for axis, of_axis in zip(axes, codes.T, strict=True)
            for column in _columns(axis, of_axis, values, words)
        ),
    )


def _columns(axis: Axis, codes: Array, values: Array, words: WordColumns) -> Iterator[AxisColumn]:
    if axis.is_number:
        yield AxisColumn(axis)
    elif words == WordColumns.MEAN:
        yield AxisColumn(axis, _ranks_by_mean(codes.astype(np.intp), values, len(axis.values)))
    else:
        for ranks in one_hot(np.arange(len(axis.values)), len(axis.values)):
            yield AxisColumn(axis, ranks)


def _ranks_by_mean(codes: npt.NDArray[np.intp], values: Array, count: int) -> Array:
    """Words by their mean; one of which there is no sample stands where the mean of all does."""
    rows = np.bincount(codes, minlength=count)
    sums = np.bincount(codes, weights=values, minlength=count)
    means = np.where(rows > 0, sums / np.maximum(rows, 1), values.mean())
    ranks = np.empty(count)
    ranks[np.argsort(means, kind="stable")] = np.arange(count)
    return ranks
