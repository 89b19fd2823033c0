"""Starchart's regression tree: the time of any configuration on any input, from samples.

A tree splits where the sum of squared errors falls most, over the parameters and the inputs'
features alike (Jia, Shaw, Martonosi, "Starchart", PACT 2013). It is grown on the logarithm of
the time, since it is judged by relative errors and inputs differ by orders of magnitude: a leaf
predicts the geometric mean of its samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from harness.core.records import Config, Input, Measurement
from harness.models.columns import column_values, derive_columns
from harness.models.starchart.regression import ErrorSummary, fit, relative_errors
from harness.space import position_of
from harness.space_file import Parameter

if TYPE_CHECKING:
    import pandas as pd

Array = npt.NDArray[np.float64]

_LEAST_GAIN = 1e-4  # of the root's squared error; with less, splits follow the noise


class PairEncoder:
    """A configuration on an input as the numbers that a tree splits on.

    Scales stand by the position of their value, which float32 holds exactly up to 2^24, and
    beyond it to seven digits; an enumeration, as which flags are searched too, has
    a column for each of its values, since their order means nothing; the columns of inputs
    (harness.models.columns) by their logarithm where all are positive.
    """

    def __init__(self, parameters: Sequence[Parameter], inputs: Sequence[Input]) -> None:
        features = _table(inputs)
        self._parameters = parameters
        self._derived = derive_columns(features)
        self._are_sizes = (column_values(self._derived, features) > 0).all(axis=0)

    def of(self, pairs: Sequence[Measurement]) -> Array:
        """One row a measurement, shape (pairs, columns)."""
        rows = [self._places(m.config) for m in pairs]
        features = column_values(self._derived, _table([m.input for m in pairs]))
        features[:, self._are_sizes] = np.log2(features[:, self._are_sizes])
        return np.hstack([np.array(rows, dtype=np.float64), features])

    def _places(self, config: Config) -> list[float]:
        places: list[float] = []
        for parameter in self._parameters:
            here = position_of(parameter, config[parameter.name])
            assert here is not None
            if parameter.kind == "enum":
                places += [float(place == here) for place in range(len(parameter.values))]
            else:
                places.append(float(here))
        return places


def _table(inputs: Sequence[Input]) -> pd.DataFrame:
    import pandas as pd  # here: it takes half a second to load

    table: pd.DataFrame = pd.DataFrame([dict(given) for given in inputs])
    return table


def prediction_errors(
    columns: PairEncoder,
    training: Sequence[Measurement],
    reserved: Sequence[Measurement],
    seed: int = 0,
) -> ErrorSummary:
    """How far a tree that is grown on some measurements is off on others; all are ok."""
    logs = np.log([m.time_s for m in training])
    model = fit(columns.of(training), logs, _LEAST_GAIN, seed=seed)
    actual = np.array([m.time_s for m in reserved])
    return relative_errors(np.exp(model.predict(columns.of(reserved))), actual)
