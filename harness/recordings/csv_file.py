"""CSV recordings: read with a mapping or under a space, and written.

Rows with equal features and parameters are samples of one measurement. So are several time
columns.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

from harness.core.errors import RecordingError, UsageError
from harness.core.records import Measurement, Value, shown
from harness.core.text import first_few, printable
from harness.recordings.csv_mapping import (
    TECHNIQUE,
    ColumnMapping,
    OutcomeColumns,
    OutcomeReader,
    TimeColumns,
)
from harness.recordings.files import (
    FileKind,
    file_kind,
    mapping_beside,
    read_bounded,
    recording_name,
)
from harness.recordings.recording import Recording, RecordingBuilder, typed
from harness.space_file import Parameter, Spec, read_document
from harness.space_file.messages import validated

MAX_ROWS = 2_000_000
MAX_MESSAGE = 50_000
"""Characters of a message; Python's csv module refuses fields of more than 131,072."""

_MAX_DIGITS = 20
_MAX_LISTED = 10
_OWN = (TECHNIQUE, "time_s", "outcome", "message")

Row = list[str]

# --------------------------------------------------------------------------------- cells

_WORDS: Mapping[str, Value] = {"true": True, "false": False, "absent": None, "": None}


def _literal(text: str) -> Value:
    """Return the word or finite number that a text is; other texts as they are."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        number = float(text)
        if text.lstrip("+-").isdecimal() and len(text) <= _MAX_DIGITS:
            return int(text)
    except ValueError:
        return text
    return number if math.isfinite(number) else text


def _readings(text: str) -> Iterator[Value]:
    """Yield the values that a cell can mean: first the text, then a word or numbers."""
    value = _literal(text)
    yield text
    if isinstance(value, float) and value.is_integer():
        yield int(value)
    if not isinstance(value, str):
        yield value
    if type(value) is int:
        yield float(value)


def _listed_value(parameter: Parameter, text: str) -> Value:
    """Return the listed value that a cell means; 64 may also be written 64.0.

    Raises ValueError where no value matches.
    """
    for reading in _readings(text.strip()):
        if parameter.allows(reading):
            return reading
    values = parameter.values
    if isinstance(values, range):
        listed = f"{values[0]} to {values[-1]} by {values.step}"
    else:
        listed = first_few(map(shown, values), ", ", _MAX_LISTED)
    raise ValueError(f"{parameter.name} is {text[:60]!r}, which is none of its values: {listed}")


def _listed(name: str, values: Sequence[Value]) -> Parameter:
    return Parameter(name, "enum", tuple(values), "source", values[0])


def _feature(name: str, known: Set[tuple[type, Value]], text: str) -> Value:
    """Return the value that a cell means; `known` are those of the space's inputs, which need not
    have it. Raises ValueError where it is a word and all of theirs are numbers."""
    readings = list(_readings(text.strip()))
    _check_printable(name, readings[:1])
    for reading in readings:
        if typed(reading) in known:
            return reading
    for reading in readings:
        if type(reading) in (int, float):
            return reading
    if all(kind is not str for kind, _ in known):
        raise ValueError(f"{name} is {text[:60]!r}; it must be a number")
    return readings[0]


def _column_values(name: str, texts: Sequence[Any]) -> Sequence[Value]:
    """Convert the distinct cells of a column to values.

    The column holds numbers and words such as `true` only if all of its cells are such: `12e4`
    in a column with `9f0c` is text. 64 and 64.0 are two values. Raises ValueError where two cells
    mean the same value, or a cell is not printable.
    """
    _check_printable(name, texts)
    values = [_literal(text) for text in texts]
    if any(isinstance(value, str) for value in values):
        return texts
    first: dict[tuple[type, Value], str] = {}
    for text, value in zip(texts, values, strict=True):
        other = first.setdefault(typed(value), text)
        if other != text:
            raise ValueError(f"{name} has {other!r} and {text!r}, which mean the same; write one")
    return values


def _check_printable(name: str, texts: Iterable[Value]) -> None:
    for text in texts:
        if not str(text).isprintable():
            raise ValueError(f"{name} is {str(text)[:60]!r}; texts must be printable")


# ------------------------------------------------------------------------------- reading


class _CsvFile:
    """A CSV file whose rows are split on demand. Empty lines are skipped."""

    def __init__(self, path: Path, content: bytes) -> None:
        """Raises RecordingError for a header that is not CSV."""
        self.path = path
        self._content = content
        self._lines = self._split()
        self.header = [name.strip() for name in next(self._lines, (1, []))[1]]

    def rows(self) -> Iterator[tuple[int, Row]]:
        """Yield each row below the header with its line number. Can be called once.

        Raises RecordingError with the line that is not CSV, or that has more or fewer cells than
        the header.
        """
        width = len(self.header)
        for count, (line, row) in enumerate(self._lines, start=1):
            if len(row) != width:
                cut = "; is the file cut short?" if len(row) < width else ""
                found = f"has {len(row)} cells, the header has {width}{cut}"
                raise RecordingError(f"{self.path}:{line}: {found}")
            if count > MAX_ROWS:
                raise RecordingError(f"{self.path}: holds more than {MAX_ROWS:,} rows; split it")
            yield line, row

    def _split(self) -> Iterator[tuple[int, Row]]:
        # utf-8-sig, since spreadsheets put a byte order mark first.
        file = io.TextIOWrapper(io.BytesIO(self._content), encoding="utf-8-sig", newline="")
        reader = csv.reader(file, strict=True)
        try:
            for row in reader:
                if row:
                    yield reader.line_num, row
        except (csv.Error, UnicodeDecodeError) as error:
            where = f"{self.path}:{reader.line_num}"
            raise RecordingError(f"{where}: is not CSV text, or cut short: {error}") from None

    def check_columns(self, wanted: Sequence[str]) -> None:
        """Raise RecordingError unless the header has each of these columns once."""
        for name in wanted:
            if self.header.count(name) > 1:
                raise RecordingError(f"{self.path}:1: has the column {printable(name)} twice")
        missing = printable(", ".join(name for name in wanted if name not in self.header))
        if missing:
            columns = printable(", ".join(self.header)) or "(none)"
            raise RecordingError(
                f"{self.path}:1: lacks {missing} among the columns {columns}. The first line must "
                "name the columns, separated by commas"
            )


def read_mapped_csv(path: Path, mapping: Path | None) -> Recording:
    """Read a CSV file whose columns a mapping describes.

    Raises RecordingError with the line that does not fit, SpecError for faults of the mapping,
    and UsageError where the mapping is missing or is another kind of file.
    """
    content = read_bounded(path)
    file = _CsvFile(path, content)
    meaning = _mapping_of(file, mapping)
    return _read(file, meaning, content + read_bounded(mapping or mapping_beside(path)))


def read_space_csv(path: Path, spec: Spec) -> Recording:
    """Read a CSV file whose columns are the features and parameters of a space.

    The columns, in any order, are the features, the parameters, `time_s` and optionally `outcome`
    and `message`. Flags of one compiler may be among the parameters. Raises RecordingError with
    the line that does not fit the space.
    """
    content = read_bounded(path)
    file = _CsvFile(path, content)
    compilers = {p.compiler for p in spec.parameters if p.compiler and p.name in file.header}
    if len(compilers) > 1:
        flags = " and ".join(sorted(compilers))
        raise RecordingError(f"{path}:1: has flags of {flags}; keep those of one compiler")
    compiler = next(iter(compilers), None)
    optional = {"column": "outcome", "message": "message"}
    outcome = {key: name for key, name in optional.items() if name in file.header}
    mapping = ColumnMapping(
        name=spec.title,
        device=path.name,
        parameters=dict.fromkeys(p.name for p in spec.tuned_for(compiler)),
        features=list(spec.features),
        times=TimeColumns(columns=["time_s"]),
        outcome=OutcomeColumns.model_validate(outcome),
    )
    file.check_columns(mapping.used())
    return _read(file, mapping, content, spec, compiler)


def _mapping_of(file: _CsvFile, mapping: Path | None) -> ColumnMapping:
    """Read the mapping, and check that the file has each column that it names."""
    path = mapping or mapping_beside(file.path)
    kind = file_kind(path).value if path.is_file() else "missing"
    if kind != FileKind.YAML.value:
        raise UsageError(
            f"{file.path} needs a mapping, a small YAML file that describes its columns, but "
            f"{path} is {kind}. Write it, or name another file with --mapping:\n\n"
            f"{_example_mapping(file.header)}"
        )
    given = validated(read_document(path), ColumnMapping)
    named = [*given.used(), *given.ignore]
    file.check_columns(named)
    unnamed = [name for name in file.header if name not in named]
    if unnamed:  # it may tell measurements apart that would else count as samples of one
        raise RecordingError(
            f"{path} does not say what the column {printable(unnamed[0])} of {file.path} is; name "
            "it among `parameters` or `features`, or in `ignore` if it may be left out"
        )
    return given


def _example_mapping(header: Sequence[str]) -> str:
    """Write a mapping as YAML for a person to complete, with all columns of a file."""
    columns = json.dumps([printable(name) for name in header], ensure_ascii=False)
    return (
        f"    parameters: {columns}  # keep here what was tuned\n"
        "    features: []  # move here what distinguishes inputs, such as sizes\n"
        "    times: {columns: [], unit: ms}  # move here the times; the unit may be s, us or ns\n"
        "    outcome: {column: null}  # move here the column that says what failed\n"
        "    ignore: []  # move here all other columns\n"
        "\ndocs/reference/recordings.md explains each key."
    )


def _read(
    file: _CsvFile,
    mapping: ColumnMapping,
    identity: bytes,
    spec: Spec | None = None,
    compiler: str | None = None,
) -> Recording:
    """Read the rows. The digest of `identity` identifies the recording.

    `spec` is a space that implies the mapping; for `compiler` see Recording.
    """
    names = (*mapping.features, *mapping.parameters)
    readers: dict[str, Callable[[str], Value]] = dict.fromkeys(names, str.strip)
    if spec is None:
        listed = [_listed(name, values) for name, values in mapping.parameters.items() if values]
    else:
        listed = list(spec.tuned_for(compiler))
        for name in spec.features:
            known = {typed(problem[name]) for problem in spec.inputs}
            readers[name] = partial(_feature, name, known)
    readers |= {parameter.name: partial(_listed_value, parameter) for parameter in listed}
    inferred = {name for name in names if readers[name] is str.strip}
    builder = RecordingBuilder(file.path, mapping.features, list(mapping.parameters), readers)
    cells_at = [file.header.index(name) for name in names]
    outcomes = OutcomeReader(file.header, mapping, is_mapped=spec is None)
    for line, row in file.rows():
        try:
            builder.add([row[k] for k in cells_at], outcomes.read(row))
        except ValueError as error:
            raise RecordingError(f"{file.path}:{line}: {error}") from None
    return builder.finish(
        title=mapping.name or recording_name(file.path),
        kind="CSV",
        device=mapping.device or "unknown",
        sha256=hashlib.sha256(identity).hexdigest(),
        orders={p.name: p.values for p in listed},
        compiler=compiler,
        values_of=lambda name, cells: _column_values(name, cells) if name in inferred else cells,
    )


# ------------------------------------------------------------------------------- writing


class _Echo:
    """A file that returns what is written to it."""

    def write(self, text: str) -> str:
        return text


def csv_lines(
    measurements: Iterable[Measurement],
    features: Sequence[str],
    values: Mapping[str, Sequence[Value]],
    techniques: Iterable[str] = repeat(""),
) -> Iterator[str]:
    """Yield the header, and one line per sample or failure, each measurement as it comes.

    `values` are those of each parameter that occur, `techniques` what asked for each measurement.
    Raises UsageError for values that CSV confuses.
    """
    for name in _OWN:
        if name in (*features, *values):
            raise UsageError(f"a column {name} is there already; export with --format t4")
    _check_cells(values)
    line: Callable[[Iterable[object]], str] = csv.writer(_Echo()).writerow
    yield line([*features, *values, *_OWN])
    for m, technique in zip(measurements, techniques, strict=False):
        cells = [shown(m.input[name]) for name in features]
        cells += [shown(m.config[name]) for name in values]
        cells.append(technique)
        if m.timing is None:
            yield line([*cells, "", m.outcome.value, m.message[:MAX_MESSAGE]])
            continue
        for sample_s in m.timing.samples_s:
            yield line([*cells, repr(sample_s), m.outcome.value, ""])


def _check_cells(values: Mapping[str, Sequence[Value]]) -> None:
    """Raise UsageError where a parameter's value would be read back as another value."""
    for name, known in values.items():
        for value in known:
            read = _listed_value(_listed(name, known), shown(value))
            if typed(read) != typed(value):
                raise UsageError(
                    f"{name} has the values {value!r} and {read!r}, which look alike in CSV; "
                    "export with --format t4"
                )
