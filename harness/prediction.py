"""Starchart's regression tree: the time of any configuration on any input, from samples.

A tree splits where the sum of squared errors falls most, over the parameters and the inputs'
features alike (Jia, Shaw, Martonosi, "Starchart", PACT 2013). It is grown on the logarithm of
the time, since it is judged by relative errors and inputs differ by orders of magnitude: a leaf
predicts the geometric mean of its samples.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from harness.records import Config, Input, Measurement
from harness.space import position_of
from harness.spec import Parameter
from harness.starchart.regression import Spread, fit, relative_errors
from harness.tree import derive_features

Array = npt.NDArray[np.float64]

_LEAST_GAIN = 1e-4  # of the root's squared error; with less, splits follow the noise


class PairColumns:
    """A configuration on an input as the numbers that a tree splits on.

    Scales stand by the position of their value, which float32 holds exactly up to 2^24, and
    beyond it to seven digits; an enumeration, as which flags are searched too, has
    a column for each of its values, since their order means nothing; sizes by their logarithm.
    """

    def __init__(self, parameters: Sequence[Parameter], inputs: Sequence[Input]) -> None:
        self._parameters = parameters
        self._features = derive_features(inputs)

    def of(self, pairs: Sequence[Measurement]) -> Array:
        """One row a measurement, shape (pairs, columns)."""
        features = [feature.column([m.input for m in pairs]) for feature in self._features]
        rows = [self._places(m.config) for m in pairs]
        return np.hstack(
            [np.array(rows, dtype=np.float64), np.array(features).reshape(-1, len(rows)).T]
        )

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


def prediction_errors(
    columns: PairColumns,
    training: Sequence[Measurement],
    reserved: Sequence[Measurement],
    seed: int = 0,
) -> Spread:
    """How far a tree that is grown on some measurements is off on others; all are ok."""
    logs = np.log([m.time_s for m in training])
    model = fit(columns.of(training), logs, _LEAST_GAIN, seed=seed)
    actual = np.array([m.time_s for m in reserved])
    return relative_errors(np.exp(model.predict(columns.of(reserved))), actual)
