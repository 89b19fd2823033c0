"""CSV recordings: a mapping file, or a space, gives the columns their meaning.

Rows with equal features and parameters are samples of one measurement. So are several time
columns.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path

from harness.core.errors import RecordingError, UsageError
from harness.core.records import Outcome, Value
from harness.core.text import printable
from harness.recordings.cells import CsvFile, Row, check_columns, column_values
from harness.recordings.columns import (
    Columns,
    columns_of_space,
    example_mapping,
    read_mapping,
)
from harness.recordings.files import (
    beginning_of,
    known_as,
    mapping_beside,
    printable_lines,
    read_bounded,
    recording_name,
)
from harness.recordings.recording import RecordedOutcome, Recording, RecordingBuilder, typed
from harness.space_file import Spec

KIND = "CSV"


def check_mapped_csv(path: Path, mapping: Path | None) -> None:
    """Check the header and the mapping, without the rows; raises what `read_mapped_csv` does."""
    _mapped_columns(CsvFile(path, beginning_of(path)), mapping)


def read_mapped_csv(path: Path, mapping: Path | None) -> Recording:
    """Read a CSV file whose columns a mapping describes.

    Raises RecordingError with the line that does not fit, SpecError for faults of the mapping,
    and UsageError where the mapping is missing or is another kind of file.
    """
    content = read_bounded(path)
    file = CsvFile(path, content)
    columns = _mapped_columns(file, mapping)
    return _read(file, columns, content + read_bounded(mapping or mapping_beside(path)))


def read_space_csv(path: Path, spec: Spec) -> Recording:
    """Read a CSV file whose columns are the features and parameters of a space.

    Raises RecordingError with the line that does not fit the space.
    """
    content = read_bounded(path)
    file = CsvFile(path, content)
    columns = columns_of_space(file, spec)
    check_columns(path, file.header, columns.used)
    return _read(file, columns, content)


def _mapped_columns(file: CsvFile, mapping: Path | None) -> Columns:
    """Read the mapping, and check that the file has each column that it names."""
    path = mapping or mapping_beside(file.path)
    if not path.is_file():
        raise UsageError(_missing_mapping(file, mapping, path))
    other = known_as(path)
    if other is not None:
        raise UsageError(
            f"{path} is {other}, not a mapping. A mapping is a small YAML file that describes the "
            f"columns of {file.path}, for example:\n\n{example_mapping(file.header)}"
        )
    columns = read_mapping(path)
    check_columns(file.path, file.header, [*columns.used, *columns.ignored])
    unnamed = [name for name in file.header if name not in {*columns.used, *columns.ignored}]
    if unnamed:  # it may tell measurements apart that would else count as samples of one
        raise RecordingError(
            f"{path} does not say what the column {printable(unnamed[0])} of {file.path} is; name "
            "it among `parameters` or `features`, or in `ignore` if it may be left out"
        )
    return columns


def _missing_mapping(file: CsvFile, mapping: Path | None, path: Path) -> str:
    need = f"{file.path} needs a mapping, a small YAML file that describes its columns"
    if mapping is None:
        advice = f"Write {path}, or another file that --mapping names:"
    else:
        advice = f"--mapping {mapping} does not exist. Write it:"
    return f"{need}. {advice}\n\n{example_mapping(file.header)}"


def _read(file: CsvFile, columns: Columns, identity: bytes) -> Recording:
    """Read the rows. The digest of `identity` identifies the recording."""
    builder = RecordingBuilder(file.path, columns.features, list(columns.parameters), column_values)
    _add_rows(file, columns, builder)
    return builder.finish(
        title=columns.title or recording_name(file.path),
        kind=KIND,
        device=columns.device,
        sha256=hashlib.sha256(identity).hexdigest(),
        orders=columns.parameters,
        compiler=columns.compiler,
    )


class _Cells(dict[str, Hashable]):
    """The cells of one column as the builder takes them, each text converted once."""

    def __init__(self, read: Callable[[str], Value] | None) -> None:
        super().__init__()
        self._read = read

    def __missing__(self, text: str) -> Hashable:
        self[text] = typed(self._read(text)) if self._read else text.strip()
        return self[text]


def _add_rows(file: CsvFile, columns: Columns, builder: RecordingBuilder) -> None:
    """Add every row.

    Cells are looked up by index: by column name, reading would take twice as long.
    """
    names = (*columns.features, *columns.parameters)
    cells_at = [(_Cells(columns.readers.get(name)), file.header.index(name)) for name in names]
    outcome_of = _outcome_reader(file.header, columns)
    for line, row in file.rows():
        try:
            builder.add([cells[row[k]] for cells, k in cells_at], outcome_of(row))
        except ValueError as error:
            raise RecordingError(f"{file.path}:{line}: {error}") from None


def _outcome_reader(header: Sequence[str], columns: Columns) -> Callable[[Row], RecordedOutcome]:
    """Return a function from a row to its outcome."""
    times = [(printable(name), header.index(name)) for name in columns.times]
    word_at = header.index(columns.outcome) if columns.outcome else None
    message_at = header.index(columns.message) if columns.message else None

    def read(row: Row) -> RecordedOutcome:
        if word_at is not None:
            outcome = _outcome(columns, row[word_at].strip())
            if outcome is not Outcome.OK:
                message = printable_lines(row[message_at]) if message_at is not None else ""
                message = message or f"{printable(row[word_at])}, as recorded"
                return RecordedOutcome(outcome, message=message)
        samples_s = []
        for name, index in times:
            time_s = _seconds(columns, name, row[index])
            if time_s is None:
                cell = printable(row[index].strip()) or "empty"
                message = f"{name} is {cell}, which is no time"
                return RecordedOutcome(Outcome.LAUNCH_FAILED, message=message)
            samples_s.append(time_s)
        return RecordedOutcome(Outcome.OK, samples_s)

    return read


def _outcome(columns: Columns, word: str) -> Outcome:
    if word not in columns.words:
        known = ", ".join(map(repr, columns.words))
        raise ValueError(
            f"{printable(columns.outcome or '')} is {printable(word)!r}; it must be one of {known}"
        )
    return columns.words[word]


def _seconds(columns: Columns, name: str, text: str) -> float | None:
    """Parse a time; None where it marks a failure.

    With a mapping, an empty cell, nan and a time outside the mapping's bounds mark failures.
    Raises ValueError for everything else that is no time.
    """
    try:
        time = float(text) if text.strip() else math.nan
    except ValueError:
        raise ValueError(f"{name} is {printable(text)!r}; it must be a time above 0") from None
    if columns.is_mapped and not columns.least <= time <= columns.most:  # nan is never within
        return None
    if 0 < time < math.inf:
        return time / columns.per_s
    hint = ", unless times.least and times.most of the mapping exclude it"
    needed = f"a time above 0{hint if columns.is_mapped else ''}"
    raise ValueError(f"{name} is {printable(text)!r}; it must be {needed}")
