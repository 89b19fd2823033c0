"""Predict the time of any configuration on any input from samples.

This is Starchart's tree (Jia, Shaw, Martonosi, "Starchart", PACT 2013), which splits on parameters
and input features alike. It is grown on the logarithm of the time, because it is judged by relative
errors and the times of inputs differ by orders of magnitude: a leaf predicts the geometric mean of
its samples.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.core.records import Measurement
from harness.models.encoding.pairs import PairEncoder
from harness.models.starchart.regression import ErrorSummary, fit, relative_errors

_LEAST_GAIN = 1e-4  # of the root's squared error; with less, splits follow the noise


def prediction_errors(
    columns: PairEncoder,
    training: Sequence[Measurement],
    reserved: Sequence[Measurement],
    seed: int = 0,
) -> ErrorSummary:
    """Grow a tree on the training measurements and summarize its errors on the reserved ones; all
    of them must be ok."""
    logs = np.log([m.time_s for m in training])
    model = fit(columns.of(training), logs, _LEAST_GAIN, seed=seed)
    actual = np.array([m.time_s for m in reserved])
    return relative_errors(np.exp(model.predict(columns.of(reserved))), actual)
