"""Measurements -> CSV with its mapping, as `csv_reader` reads them back."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from harness.core.errors import UsageError
from harness.core.outputs import marked
from harness.core.records import Environment, Measurement, Value, shown
from harness.recordings.builder import typed
from harness.recordings.cells import listed_value
from harness.recordings.recording import FACTS

_OWN = ("time_s", "outcome", "message")
_HEAD = "# Written by harness.export; the next export to this name replaces it.\n"
CSV_FILE = marked("an export", rb"\A[^\r]*time_s,outcome,message\r\n")
MAPPING_FILE = marked("the mapping of an export", rb"\A# Written by harness\.export")
MAX_MESSAGE = 50_000
"""Characters of a message; Python's csv module refuses fields of more than 131,072."""


def write_csv(file: TextIO, measurements: Sequence[Measurement]) -> None:
    """Write one row per sample or failure; raises UsageError for values that CSV confuses."""
    features, parameters = list(measurements[0].input), list(measurements[0].config)
    for name in _OWN:
        if name in (*features, *parameters):
            raise UsageError(f"a column {name} is there already; export with --format t4")
    _check_cells(measurements, parameters)
    writer = csv.writer(file)
    writer.writerow([*features, *parameters, *_OWN])
    for m in measurements:
        point = [*(m.input[name] for name in features), *(m.config[name] for name in parameters)]
        cells = [shown(value) for value in point]
        if m.timing is None:
            writer.writerow([*cells, "", m.outcome.value, m.message[:MAX_MESSAGE]])
        for sample_s in m.timing.samples_s if m.timing else ():
            writer.writerow([*cells, repr(sample_s), m.outcome.value, ""])


def write_mapping(
    file: TextIO,
    name: str,
    environment: Environment,
    default: Mapping[str, Value],
    measurements: Sequence[Measurement],
) -> None:
    """Write the mapping of `write_csv`'s file, as JSON, which is valid YAML 1.2.

    `default` is empty where it is unknown.
    """
    keys: Mapping[str, Any] = {
        "name": name,
        "device": environment.device,
        **{fact: getattr(environment, fact) for fact in FACTS},
        "parameters": {n: _values_of(measurements, n) for n in measurements[0].config},
        "default": dict(default),
        "features": list(measurements[0].input),
        "times": {"columns": ["time_s"], "unit": "s"},
        "outcome": {"column": "outcome", "message": "message"},
    }
    file.write(_HEAD)
    for key, value in keys.items():
        file.write(f"{key}: {json.dumps(value, ensure_ascii=False)}\n")


def _values_of(measurements: Sequence[Measurement], name: str) -> list[Value]:
    """Return the values of a parameter that occur, in order of appearance."""
    return list({typed(m.config[name]): m.config[name] for m in measurements}.values())


def _check_cells(measurements: Sequence[Measurement], parameters: Sequence[str]) -> None:
    """Raise UsageError where a parameter's value would be read back as another value."""
    for name in parameters:
        values = _values_of(measurements, name)
        for value in values:
            read = listed_value(name, values, shown(value))
            if typed(read) != typed(value):
                raise UsageError(
                    f"{name} has the values {value!r} and {read!r}, which look alike in CSV; "
                    "export with --format t4"
                )
