"""All that was tried, failures included, as tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.records import Value
from harness.results import SEARCHED

if TYPE_CHECKING:  # harness.tables tells reductions, which are of this package
    import pandas as pd

    from harness.tables import Results


TypedValue = tuple[type, Value]


def key_of(value: Value) -> TypedValue:
    """What tells values apart: 1, 1.0 and True are three."""
    return type(value), value


@dataclass(frozen=True)
class Trials:
    """Two tables with a row a measurement. `settings` has the features and parameters, as
    Python's own values; `ends` has `outcome`, `message`, `time_s` (NaN for a failure), `unbiased`,
    and `input` and `configuration`: numbers that tell inputs and configurations apart.

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


def _columns(told: Sequence[Mapping[str, Value]]) -> dict[str, list[Value]]:
    """Of each name that takes more than one value its values; None where there is none."""
    names = dict.fromkeys(name for values in told for name in values)
    columns = {name: [values.get(name) for values in told] for name in names}
    return {name: values for name, values in columns.items() if len(set(map(key_of, values))) > 1}


def _numbered(keys: Sequence[Mapping[str, Value]]) -> list[int]:
    numbers: dict[Mapping[str, Value], int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]
