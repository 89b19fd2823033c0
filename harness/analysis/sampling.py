"""Random samples of large databases: models of some rows cost less, and say the same."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.core.arrays import Indices
from harness.results import MeasurementRows
from harness.results.view import Results

MOST_ROWS = 20_000
"""Causes of failures and trees come from at most so many measurements."""

_SEED = 0


def sampled(rows: MeasurementRows) -> MeasurementRows:
    """Draw at most MOST_ROWS at random, always the same ones, in their order."""
    if len(rows) <= MOST_ROWS:
        return rows
    drawn = np.random.default_rng(_SEED).choice(len(rows), MOST_ROWS, replace=False)
    return rows.take(rows.selected[np.sort(drawn)])


def sampling_lines(results: Results) -> Iterator[str]:
    """Yield a sentence where some results come from a sample of the measurements."""
    if len(results.searched) > MOST_ROWS:
        yield (
            f"Causes of failures and trees come from random samples of {MOST_ROWS:,} of the "
            f"{len(results.searched):,} measurements (seed {_SEED})."
        )


def measurement_numbers(rows: MeasurementRows) -> Indices:
    """Number the measurements that were really made, in the order in which they appear, shape
    (rows,).

    Of configurations with the same machine code, one was measured on an input; the others have its
    samples and its number.
    """
    columns = rows.columns
    origins = rows.of(columns.origins).astype(np.int64)
    width = int(origins.max(initial=0)) + 1
    codes = rows.of(columns.inputs.codes) * width + origins
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    numbers: Indices = np.argsort(np.argsort(first))[inverse]
    return numbers
