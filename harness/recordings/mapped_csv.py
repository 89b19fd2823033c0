"""CSV recordings of any layout: a mapping file says what the columns are.

Rows with equal features and parameters are samples of one measurement, as are several columns
of times.
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from harness.core.errors import RecordingError, UsageError
from harness.core.records import Environment, Measurement, Outcome, Value, shown
from harness.core.text import printable
from harness.recordings.advice import draft_of
from harness.recordings.builder import Builder, name_of
from harness.recordings.cells import (
    CsvFile,
    Row,
    check_columns,
    column_values,
    listed_value,
    shown_columns,
)
from harness.recordings.files import beginning_of, known_as, printable_lines, read_bounded
from harness.recordings.mapping import Columns, read_mapping
from harness.recordings.recorded import FACTS, Recorded
from harness.recordings.unread_columns import LeftOut
from harness.space_file import Parameter

KIND = "CSV"


def mapping_beside(path: Path) -> Path:
    """Where the mapping of a CSV file is looked for: the same name, ending in .yaml."""
    return path.with_name(path.name.removesuffix(".gz")).with_suffix(".yaml")


def check_mapped_csv(path: Path, mapping: Path | None) -> None:
    """What a CSV file's header and its mapping tell without the rest of the file: raises what
    `read_mapped_csv` raises for them."""
    _columns_of(CsvFile(path, beginning_of(path)), mapping)


def read_mapped_csv(path: Path, mapping: Path | None) -> Recorded:
    """The recording of a CSV file.

    Raises RecordingError with the line that does not fit, SpecError for faults of the mapping,
    and UsageError for one that is missing, or is something else.
    """
    content = read_bounded(path)
    file = CsvFile(path, content)
    columns = _columns_of(file, mapping)
    builder = Builder(path, columns.features, list(columns.parameters))
    _add_rows(file, columns, builder)
    digest = hashlib.sha256(content + read_bounded(mapping or mapping_beside(path)))
    return builder.finish(
        lambda name, cells: _values(columns, name, cells),
        title=columns.title or name_of(path),
        kind=KIND,
        device=columns.device,
        sha256=digest.hexdigest(),
        warnings=file.warnings(),
        orders=columns.parameters,
        facts=columns.facts,
        default=columns.default,
    )


def _columns_of(file: CsvFile, mapping: Path | None) -> Columns:
    """What the mapping says of the file's columns, each of which is there."""
    place = mapping or mapping_beside(file.path)
    if not place.is_file():
        raise UsageError(_missing(file, mapping, place))
    other = known_as(place)
    if other is not None:
        raise UsageError(
            f"{place} is {other}, not a mapping. A mapping is a small YAML file that says what "
            f"the columns of {file.path} are, like this:\n\n{_draft(file)}"
        )
    columns = read_mapping(place)
    check_columns(file.path, file.header, columns.named)
    return columns


def _missing(file: CsvFile, mapping: Path | None, place: Path) -> str:
    """Where no mapping is: what to write, and where."""
    told = f"{file.path} needs a mapping, a small YAML file that says what its columns are"
    if mapping is None:
        todo = f"write {place}, or another file that --mapping names"
    else:
        todo = f"--mapping {mapping} does not exist; write it"
    return f"{told}; {todo}:\n\n{_draft(file)}"


def _draft(file: CsvFile) -> str:
    return (
        f"{draft_of(file.header)}\nThis is guessed from the names alone: the columns are "
        f"{shown_columns(file.header)}. docs/recordings.md explains each key."
    )


def _add_rows(file: CsvFile, columns: Columns, builder: Builder) -> None:
    """Each row is split by position: looking columns up by name would take half of the time.

    Raises RecordingError where columns that are left out tell rows apart that would be repeats.
    """
    places = [file.header.index(name) for name in (*columns.features, *columns.parameters)]
    ended, left_out = _outcomes(file.header, columns), LeftOut(file.header, columns.named)
    for line, row in file.rows():
        try:
            outcome, samples_s, message = ended(row)
        except ValueError as error:
            raise RecordingError(f"{file.path}:{line}: {error}") from None
        cells = [row[place].strip() for place in places]
        left_out.note(builder.add(cells, outcome, samples_s, message), line, row)
    if left_out.differ:
        names = left_out.shown
        raise RecordingError(
            f"{file.path}:{left_out.line}: has the parameters and features of a row above, but "
            f"differs in {names}, which the mapping does not name. Add what tells measurements "
            f"apart to its `parameters` or `features`, and what differs between repeats to "
            f"`ignore: [{names}]`"
        )


def _outcomes(
    header: Sequence[str], columns: Columns
) -> Callable[[Row], tuple[Outcome, list[float], str]]:
    """What tells how a row ended."""
    times = [(name, header.index(name)) for name in columns.times]
    word_at = header.index(columns.outcome) if columns.outcome else None
    message_at = header.index(columns.message) if columns.message else None

    def ended(row: Row) -> tuple[Outcome, list[float], str]:
        if word_at is not None:
            outcome = _outcome(columns, row[word_at].strip())
            if outcome is not Outcome.OK:
                message = printable_lines(row[message_at]) if message_at is not None else ""
                return outcome, [], message or f"{printable(row[word_at])}, as recorded"
        samples = [_seconds(columns, name, row[place]) for name, place in times]
        missing = next((k for k, sample in enumerate(samples) if sample is None), None)
        if missing is not None:
            name, place = times[missing]
            told = printable(row[place].strip()) or "empty"
            return Outcome.LAUNCH_FAILED, [], f"{name} is {told}, which is no time"
        return Outcome.OK, [sample for sample in samples if sample is not None], ""

    return ended


def _outcome(columns: Columns, word: str) -> Outcome:
    if word not in columns.words:
        there = ", ".join(repr(known) for known in columns.words)
        raise ValueError(f"{columns.outcome} is {printable(word)!r}; there are {there}")
    return columns.words[word]


def _seconds(columns: Columns, name: str, text: str) -> float | None:
    """The seconds of a cell; None for what says that there is no time: nothing, nan, and what
    the mapping puts out of bounds."""
    try:
        time = float(text) if text.strip() else math.nan
    except ValueError:
        raise ValueError(f"{name} is {printable(text)!r}; it must be a time") from None
    if not columns.least <= time <= columns.most:  # as is nan
        return None
    if 0 < time < math.inf:
        return time / columns.per_s
    raise ValueError(
        f"{name} is {printable(text)!r}; a time must be above 0, unless times.least and "
        "times.most of the mapping put it out of bounds"
    )


def _values(columns: Columns, name: str, cells: Sequence[str]) -> list[Value]:
    listed = columns.parameters.get(name)
    if not listed:
        return column_values(name, cells)
    parameter = Parameter(name, "enum", listed, "source", listed[0])
    values = [listed_value(parameter, cell) for cell in cells]
    if len({(type(value), value) for value in values}) < len(values):
        raise ValueError(f"{name} has values that are written in several ways; write each in one")
    return values


# --------------------------------------------------------------------- writing

_OWN = ("time_s", "outcome", "message")
MAX_MESSAGE = 50_000
"""Characters: the csv module of Python refuses fields of more than 131,072."""


def write_csv(file: TextIO, measurements: Sequence[Measurement]) -> None:
    """One row a sample, or a failure; raises UsageError for values that CSV cannot tell apart."""
    features, parameters = list(measurements[0].input), list(measurements[0].config)
    for name in _OWN:
        if name in (*features, *parameters):
            raise UsageError(f"a column {name} is there already; export with --format t4")
    check_cells(measurements, parameters)
    writer = csv.writer(file)
    writer.writerow([*features, *parameters, *_OWN])
    for m in measurements:
        point = [*(m.input[name] for name in features), *(m.config[name] for name in parameters)]
        cells = [shown(value) for value in point]
        if m.timing is None:
            writer.writerow([*cells, "", m.outcome.value, m.message[:MAX_MESSAGE]])
        for sample_s in m.timing.samples_s if m.timing else ():
            writer.writerow([*cells, repr(sample_s), m.outcome.value, ""])


def values_of(measurements: Sequence[Measurement], name: str) -> list[Value]:
    """The values of a parameter that occur, in order of appearance."""
    found = {(type(m.config[name]), m.config[name]): m.config[name] for m in measurements}
    return list(found.values())


def check_cells(measurements: Sequence[Measurement], parameters: Sequence[str]) -> None:
    """Raise UsageError where a parameter's value would be read back as another."""
    for name in parameters:
        values = tuple(values_of(measurements, name))
        parameter = Parameter(name, "enum", values, "source", values[0])
        for value in values:
            read = listed_value(parameter, shown(value))
            if (type(read), read) != (type(value), value):
                raise UsageError(
                    f"{name} has the values {value!r} and {read!r}, which look alike in CSV; "
                    "export with --format t4"
                )


def write_mapping(
    file: TextIO,
    name: str,
    where: Environment,
    default: Mapping[str, Value],
    measurements: Sequence[Measurement],
) -> None:
    """The mapping of what `write_csv` writes; JSON, which YAML 1.2 contains. The `default` is
    empty where it is not known."""
    parameters = {n: values_of(measurements, n) for n in measurements[0].config}
    told: Mapping[str, Any] = {
        "name": name,
        "device": where.device,
        **{fact: getattr(where, fact) for fact in FACTS},
        "parameters": parameters,
        "default": dict(default),
        "features": list(measurements[0].input),
        "times": {"columns": ["time_s"], "unit": "s"},
        "outcome": {"column": "outcome", "message": "message"},
    }
    for key, value in told.items():
        file.write(f"{key}: {json.dumps(value, ensure_ascii=False)}\n")
