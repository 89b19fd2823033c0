"""Predict the time of any configuration on any input from samples.

This is Starchart's tree (Jia, Shaw, Martonosi, "Starchart", PACT 2013), which splits on parameters
and input features alike. It is grown on the logarithm of the time, because it is judged by relative
errors and the times of inputs differ by orders of magnitude: a leaf predicts the geometric mean of
its samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from harness.core.arrays import Array, Flags, Indices
from harness.core.records import Config, Input, Measurement
from harness.models.encoding.columns import column_values, derive_columns
from harness.models.starchart.regression import ErrorSummary, fit, relative_errors
from harness.space import position_of
from harness.space_file import Parameter

if TYPE_CHECKING:
    import pandas as pd

_LEAST_GAIN = 1e-4  # of the root's squared error; with less, splits follow the noise


class PairEncoder:
    """Encodes a configuration on an input as the numbers that a tree splits on.

    An ordered parameter is the position of its value, which float32 holds exactly up to 2^24. An
    enumeration, which may also be a flag, has a column for each value, because its order means
    nothing; a flag with numbers has one for its position and one for whether it is absent. Derived
    columns of inputs (`harness.models.encoding.columns`) that are all positive count by their
    logarithm.
    """

    def __init__(self, parameters: Sequence[Parameter], inputs: Sequence[Input]) -> None:
        """Derive the columns of the features from all inputs that will be seen."""
        features = _table(inputs)
        self._parameters = parameters
        self._derived = derive_columns(features)
        self._are_sizes: Flags = np.all(column_values(self._derived, features) > 0, axis=0)

    def of(self, pairs: Sequence[Measurement]) -> Array:
        """Encode the configuration and the input of each measurement, shape (pairs, columns)."""
        features = column_values(self._derived, _table([m.input for m in pairs]))
        configs = self._config_columns([m.config for m in pairs])
        logs = np.log2(np.where(self._are_sizes, features, 1.0))
        return np.hstack([*configs, np.where(self._are_sizes, logs, features)])

    def _config_columns(self, configs: Sequence[Config]) -> Iterator[Array]:
        for parameter in self._parameters:
            positions = _positions(parameter, configs)
            if parameter.is_optional_number:
                yield np.column_stack([positions == 0, positions]).astype(np.float64)
            elif parameter.kind == "enum":
                yield (positions[:, None] == np.arange(len(parameter.values))).astype(np.float64)
            else:
                yield positions[:, None].astype(np.float64)


def _positions(parameter: Parameter, configs: Sequence[Config]) -> Indices:
    found = [position_of(parameter, config[parameter.name]) for config in configs]
    assert None not in found
    return np.array(found, dtype=np.intp)


def _table(inputs: Sequence[Input]) -> pd.DataFrame:
    import pandas as pd  # here: it takes half a second to load

    table: pd.DataFrame = pd.DataFrame([dict(one) for one in inputs])
    return table


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
