"""Measurements -> CSV with its mapping, as `csv_reader` reads them back."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, TextIO

from harness.core.errors import UsageError
from harness.core.files import WRITTEN_BY
from harness.core.records import Measurement, Value, shown
from harness.recordings.cells import listed_value
from harness.recordings.recording import typed

TECHNIQUE = "technique"
_OWN = (TECHNIQUE, "time_s", "outcome", "message")
_HEAD = f"# {WRITTEN_BY}; the next export to this name replaces it.\n"
MAX_MESSAGE = 50_000
"""Characters of a message; Python's csv module refuses fields of more than 131,072."""


def write_csv(
    file: TextIO,
    measurements: Iterable[Measurement],
    features: Sequence[str],
    values: Mapping[str, Sequence[Value]],
    techniques: Iterable[str] = repeat(""),
) -> None:
    """Write one row per sample or failure, each measurement as it comes.

    `values` are those of each parameter that occur, `techniques` what asked for each measurement.
    Raises UsageError for values that CSV confuses.
    """
    for name in _OWN:
        if name in (*features, *values):
            raise UsageError(f"a column {name} is there already; export with --format t4")
    _check_cells(values)
    writer = csv.writer(file)
    writer.writerow([*features, *values, *_OWN])
    for m, technique in zip(measurements, techniques, strict=False):
        point = [*(m.input[name] for name in features), *(m.config[name] for name in values)]
        cells = [*map(shown, point), technique]
        if m.timing is None:
            writer.writerow([*cells, "", m.outcome.value, m.message[:MAX_MESSAGE]])
        for sample_s in m.timing.samples_s if m.timing else ():
            writer.writerow([*cells, repr(sample_s), m.outcome.value, ""])


def write_mapping(
    file: TextIO,
    name: str,
    device: str,
    features: Sequence[str],
    values: Mapping[str, Sequence[Value]],
) -> None:
    """Write the mapping of `write_csv`'s file, as JSON, which is valid YAML 1.2."""
    keys: Mapping[str, Any] = {
        "name": name,
        "device": device,
        "parameters": {name: list(found) for name, found in values.items()},
        "features": list(features),
        "times": {"columns": ["time_s"], "unit": "s"},
        "outcome": {"column": "outcome", "message": "message"},
        "ignore": [TECHNIQUE],
    }
    file.write(_HEAD)
    for key, value in keys.items():
        file.write(f"{key}: {json.dumps(value, ensure_ascii=False)}\n")


def _check_cells(values: Mapping[str, Sequence[Value]]) -> None:
    """Raise UsageError where a parameter's value would be read back as another value."""
    for name, known in values.items():
        for value in known:
            read = listed_value(name, known, shown(value))
            if typed(read) != typed(value):
                raise UsageError(
                    f"{name} has the values {value!r} and {read!r}, which look alike in CSV; "
                    "export with --format t4"
                )
