"""Tests of a results database as tables, including failures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.analysis.sampling import MOST_ROWS, measurement_numbers, numbered, sampled
from harness.core.arrays import Indices
from harness.core.records import Value
from harness.results import MeasurementRows
from harness.results.columns import Coded
from harness.results.config_table import ConfigTable
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


def trials(results: Results, unbiased: bool = False) -> Trials:
    """Make the tables from the search and the measurements across inputs, or from a sample of them.

    Finals are left out, because they have many samples of few configurations. Only features and
    parameters that vary get a column. With `unbiased`, a sample is drawn from the unbiased
    measurements, if there are any.
    """
    import pandas as pd  # here: it takes half a second to load

    rows = results.searched
    if unbiased and len(rows) > MOST_ROWS and (marked := results.unbiased(rows)).any():
        rows = rows.where(marked)
    rows = sampled(rows)
    columns = rows.columns
    inputs, configs = rows.of(columns.inputs.codes), rows.of(columns.configs.codes)
    features = _varying(ConfigTable.of(columns.inputs.values), inputs)
    parameters = _varying(columns.config_table, configs)
    ends = {
        "outcome": _words(columns.outcomes, rows),
        "message": _words(columns.messages, rows),
        "time_s": np.where(rows.of(columns.works), rows.of(columns.time_s), np.nan),
        "unbiased": results.unbiased(rows),
        "input": numbered(inputs),
        "configuration": numbered(configs),
        "measurement": measurement_numbers(rows),
    }
    settings = {name: pd.Series(values, dtype=object) for name, values in features.items()}
    settings |= {name: pd.Series(values, dtype=object) for name, values in parameters.items()}
    return Trials(
        pd.DataFrame(settings),
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


def _varying(table: ConfigTable, rows: Indices) -> dict[str, list[Value]]:
    """Return the values of each name that takes more than one; None where a row lacks it."""
    found = {}
    for name, values, codes in zip(table.names, table.values, table.codes.T, strict=True):
        here, known = codes[rows].tolist(), (*values, None)
        if len({key_of(known[code]) for code in set(here)}) > 1:
            found[name] = [known[code] for code in here]
    return found


def _words(column: Coded[Any], rows: MeasurementRows) -> list[str]:
    texts = [str(value) for value in column.values]
    return [texts[code] for code in rows.of(column.codes).tolist()]
