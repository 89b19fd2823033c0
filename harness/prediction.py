"""Starchart's regression tree: the time of any configuration on any input, from samples.

A tree splits where the sum of squared errors falls most, over the parameters and the inputs'
features alike (Jia, Shaw, Martonosi, "Starchart", PACT 2013). It is grown on the logarithm of
the time, since it is judged by relative errors and inputs differ by orders of magnitude: a leaf
predicts the geometric mean of its samples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.records import Config, Input, Measurement
from harness.space import position_of
from harness.spec import Parameter
from harness.tree import derive_features

Array = npt.NDArray[np.float64]

_LEAST_GAIN = 1e-4  # of the root's squared error; with less, splits follow the noise
_TINY = 1e-12  # never 0: scikit-learn would split where nothing is gained
_Z_95 = 1.96


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


@dataclass(frozen=True)
class Spread:
    """Relative errors |predicted - actual| / actual: their median with its 95 % interval, and
    the value that nine in ten do not exceed."""

    median: float
    low: float
    high: float
    ninth_decile: float
    count: int


def prediction_errors(
    columns: PairColumns,
    training: Sequence[Measurement],
    reserved: Sequence[Measurement],
    seed: int = 0,
) -> Spread:
    """How far a tree that is grown on some measurements is off on others; all are ok."""
    model = _fit(columns.of(training), np.array([m.time_s for m in training]), seed)
    actual = np.array([m.time_s for m in reserved])
    predicted = np.exp(model.predict(columns.of(reserved)))
    return spread(np.abs(predicted - actual) / actual)


def _fit(columns: Array, time_s: Array, seed: int) -> Any:
    from sklearn.tree import DecisionTreeRegressor  # here: it takes a second to load

    logs = np.log(time_s)
    # scikit-learn counts the gain of a split in squared error a sample, as a variance does.
    gain = max(_LEAST_GAIN * float(logs.var()), _TINY)
    model = DecisionTreeRegressor(
        criterion="squared_error", min_impurity_decrease=gain, random_state=seed
    )
    return model.fit(columns, logs)


def spread(errors: Array) -> Spread:
    """The median with its distribution-free interval, from the order statistics around it
    (Conover, Practical Nonparametric Statistics, 1999, section 3.2)."""
    ordered = np.sort(errors)
    count = len(ordered)
    reach = _Z_95 * math.sqrt(count) / 2
    low = max(0, math.floor(count / 2 - reach))
    high = min(count - 1, math.ceil(count / 2 + reach) - 1)
    return Spread(
        float(np.median(ordered)),
        float(ordered[low]),
        float(ordered[high]),
        float(np.quantile(ordered, 0.9)),
        count,
    )
