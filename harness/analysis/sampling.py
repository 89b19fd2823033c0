"""Random samples of large databases: models of some rows cost less, and say the same."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

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
