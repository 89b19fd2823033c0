"""All that was tried, failures included, as tables."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from harness.core.records import Measurement, Value
from harness.results import SEARCHED

if TYPE_CHECKING:  # harness.results.view tells reductions, which are of this package
    import pandas as pd

    from harness.results.view import Results


TypedValue = tuple[type, Value]


def key_of(value: Value) -> TypedValue:
    """What tells values apart: 1, 1.0 and True are three."""
    return type(value), value


@dataclass(frozen=True)
class Trials:
    """Two tables with a row a measurement. `settings` has the features and parameters, as
    Python's own values; `ends` has `outcome`, `message`, `time_s` (NaN for a failure), `unbiased`,
    and `input`, `configuration` and `measurement`: numbers that tell inputs, configurations and
    the measurements that were really made apart. Configurations of equal machine code share one.

    `defaults` are what the parameters' effects are told against.
    """

    settings: pd.DataFrame
    ends: pd.DataFrame
    features: tuple[str, ...]
    parameters: tuple[str, ...]
    defaults: Mapping[str, Value]


def trials(results: Results) -> Trials:
    """What the search measured, and what was measured across inputs; not the finals, of which
    there are many of few configurations. Only what varies is a feature or a parameter."""
    import pandas as pd  # here: it takes half a second to load

    rows = [row for row in results.rows if row.stage in SEARCHED]
    found = [row.measurement for row in rows]
    features = _columns([m.input for m in found])
    parameters = _columns([m.config for m in found])
    told = {
        "outcome": [m.outcome.value for m in found],
        "message": [m.message for m in found],
        "time_s": [m.time_s if m.timing else math.nan for m in found],
        "unbiased": [results.is_unbiased(row) for row in rows],
        "input": _numbered([m.input for m in found]),
        "configuration": _numbered([m.config for m in found]),
        "measurement": measurements_made(found),
    }
    columns = {
        name: pd.Series(values, dtype=object) for name, values in {**features, **parameters}.items()
    }
    return Trials(
        pd.DataFrame(columns),
        pd.DataFrame(told),
        tuple(features),
        tuple(parameters),
        results.default,
    )


def independent(ends: pd.DataFrame) -> npt.NDArray[np.intp]:
    """Of each row of `Trials.ends` its cluster: rows of one configuration, or of one measurement,
    are in the same, and so is what these have in common with others."""
    from scipy.sparse import coo_array  # here: it takes time to load
    from scipy.sparse.csgraph import connected_components

    configurations, measurements = (
        np.unique(ends[name].to_numpy(), return_inverse=True)[1]
        for name in ("configuration", "measurement")
    )
    first = int(configurations.max(initial=-1)) + 1
    size = first + int(measurements.max(initial=-1)) + 1
    ones = np.ones(len(ends), dtype=np.int8)
    links = coo_array((ones, (configurations, first + measurements)), shape=(size, size))
    found: npt.NDArray[np.intp] = connected_components(links, directed=False)[1][configurations]
    return found


def measurements_made(found: Sequence[Measurement]) -> list[int]:
    """Of each the number of the measurement that was really made: of configurations that share
    their machine code one was measured on an input, and the others have its samples."""
    return _numbered([(m.input, m.shared_with or m.config.digest) for m in found])


def _columns(told: Sequence[Mapping[str, Value]]) -> dict[str, list[Value]]:
    """Of each name that takes more than one value its values; None where there is none."""
    names = dict.fromkeys(name for values in told for name in values)
    columns = {name: [values.get(name) for values in told] for name in names}
    return {name: values for name, values in columns.items() if len(set(map(key_of, values))) > 1}


def _numbered(keys: Sequence[Hashable]) -> list[int]:
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]
