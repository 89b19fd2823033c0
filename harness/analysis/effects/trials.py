"""All tests of a results database as tables, including failures."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from harness.core.arrays import Indices
from harness.core.records import Measurement, Value
from harness.results import SEARCHED
from harness.results.view import Results

if TYPE_CHECKING:
    import pandas as pd


TypedValue = tuple[type, Value]


def key_of(value: Value) -> TypedValue:
    """Return a key that keeps 1, 1.0 and True apart."""
    return type(value), value


@dataclass(frozen=True)
class Trials:
    """Two tables with one row per test.

    `settings` has the features and parameters, as Python values. `ends` has `outcome`, `message`,
    `time_s` (NaN for a failure), `unbiased`, and numbers that identify the `input`, the
    `configuration` and the `measurement`; configurations with the same machine code share a
    measurement. Effects of parameters are relative to `defaults`.
    """

    settings: pd.DataFrame
    ends: pd.DataFrame
    features: tuple[str, ...]
    parameters: tuple[str, ...]
    defaults: Mapping[str, Value]


def trials(results: Results) -> Trials:
    """Make the tables from the search and the measurements across inputs.

    Finals are left out, because they have many samples of few configurations. Only features and
    parameters that vary get a column.
    """
    import pandas as pd  # here: it takes half a second to load

    rows = [row for row in results.rows if row.stage in SEARCHED]
    found = [row.measurement for row in rows]
    features = _columns([m.input for m in found])
    parameters = _columns([m.config for m in found])
    ends = {
        "outcome": [m.outcome.value for m in found],
        "message": [m.message for m in found],
        "time_s": [m.time_s if m.timing else math.nan for m in found],
        "unbiased": [results.is_unbiased(row) for row in rows],
        "input": _numbered([m.input for m in found]),
        "configuration": _numbered([m.config for m in found]),
        "measurement": measurement_numbers(found),
    }
    columns = {
        name: pd.Series(values, dtype=object) for name, values in {**features, **parameters}.items()
    }
    return Trials(
        pd.DataFrame(columns),
        pd.DataFrame(ends),
        tuple(features),
        tuple(parameters),
        results.default,
    )


def independent_clusters(ends: pd.DataFrame) -> Indices:
    """Number the independent clusters of rows of `Trials.ends`, shape (rows,).

    Rows with the same configuration or the same measurement are in one cluster, directly or through
    other rows.
    """
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
    found: Indices = connected_components(links, directed=False)[1][configurations]
    return found


def measurement_numbers(found: Sequence[Measurement]) -> list[int]:
    """Number the measurements that were really made.

    Of configurations with the same machine code, one was measured on an input; the others have its
    samples and its number.
    """
    return _numbered([(m.input, m.shared_with or m.config.digest) for m in found])


def _columns(rows: Sequence[Mapping[str, Value]]) -> dict[str, list[Value]]:
    """Return the values of each name that takes more than one; None where a row lacks it."""
    names = dict.fromkeys(name for values in rows for name in values)
    columns = {name: [values.get(name) for values in rows] for name in names}
    return {name: values for name, values in columns.items() if len(set(map(key_of, values))) > 1}


def _numbered(keys: Sequence[Hashable]) -> list[int]:
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]
