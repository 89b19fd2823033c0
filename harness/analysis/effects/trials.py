"""Tests of a results database as tables, including failures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.analysis.sampling import numbered, sampled
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

    `settings` has the features and parameters, as Python values. `ends` has `outcome` and the
    number of the `configuration`.
    """

    settings: pd.DataFrame
    ends: pd.DataFrame
    features: tuple[str, ...]
    parameters: tuple[str, ...]


def trials(results: Results) -> Trials:
    """Make the tables from the search and the measurements across inputs, or from a sample of them.

    Finals are left out, because they have many samples of few configurations. Only features and
    parameters that vary get a column.
    """
    import pandas as pd  # here: it takes half a second to load

    rows = sampled(results.searched)
    columns = rows.columns
    inputs, configs = rows.of(columns.inputs.codes), rows.of(columns.configs.codes)
    features = _varying(ConfigTable.of(columns.inputs.values), inputs)
    parameters = _varying(columns.config_table, configs)
    ends = {
        "outcome": _words(columns.outcomes, rows),
        "configuration": numbered(configs),
    }
    settings = {name: pd.Series(values, dtype=object) for name, values in features.items()}
    settings |= {name: pd.Series(values, dtype=object) for name, values in parameters.items()}
    return Trials(
        pd.DataFrame(settings),
        pd.DataFrame(ends),
        tuple(features),
        tuple(parameters),
    )


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
