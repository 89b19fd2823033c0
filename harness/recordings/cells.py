"""CSV files: rows of cells, and the values that cells mean."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from harness.core.errors import RecordingError
from harness.core.records import Value, shown
from harness.core.text import printable

MAX_ROWS = 2_000_000
_MAX_DIGITS = 20
_MAX_LISTED = 10

WORDS: Mapping[str, Value] = {"true": True, "false": False, "absent": None, "": None}


Row = list[str]


class CsvFile:
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
        for count, (line, row) in enumerate(self._lines, start=1):
            if len(row) != len(self.header):
                raise RecordingError(f"{self.path}:{line}: {self._unlike_header(row)}")
            if count > MAX_ROWS:
                raise RecordingError(f"{self.path}: holds more than {MAX_ROWS:,} rows; split it")
            yield line, row

    def _unlike_header(self, row: Row) -> str:
        found = f"has {len(row)} cells, the header has {len(self.header)}"
        if self._is_ended or next(self._lines, None) is not None:
            return found
        return f"{found}. The file ends there without a newline: it is cut short; fetch it again"

    @property
    def _is_ended(self) -> bool:
        return self._content.endswith((b"\n", b"\r"))

    def _split(self) -> Iterator[tuple[int, Row]]:
        try:
            # utf-8-sig, since spreadsheets put a byte order mark first.
            content = io.BytesIO(self._content)
            file = io.TextIOWrapper(content, encoding="utf-8-sig", newline="")
            reader = csv.reader(_text_lines(self.path, file), strict=True)
            yield from ((reader.line_num, row) for row in reader if row)
        except (csv.Error, UnicodeDecodeError) as error:
            cut = "" if self._is_ended else ", or cut short"
            raise RecordingError(f"{self.path}: is not CSV text{cut}: {error}") from None


def _text_lines(path: Path, file: Iterable[str]) -> Iterator[str]:
    """Yield the lines unchanged. Refuse NUL bytes, which csv accepts only from Python 3.11 on."""
    for number, line in enumerate(file, start=1):
        if "\0" in line:
            raise RecordingError(
                f"{path}:{number}: is not CSV text: it holds a NUL byte; save the recording as "
                "UTF-8 text"
            )
        yield line


def check_columns(path: Path, header: Sequence[str], wanted: Sequence[str]) -> None:
    """Raise RecordingError unless the header has each of these columns once."""
    twice = [name for name in wanted if header.count(name) > 1]
    if twice:
        raise RecordingError(f"{path}:1: has the column {printable(twice[0])} twice")
    missing = [name for name in wanted if name not in header]
    if missing:
        raise RecordingError(
            f"{path}:1: lacks {shown_columns(missing)} among the columns {shown_columns(header)}. "
            "The first line must name the columns, separated by commas"
        )


def shown_columns(header: Sequence[str]) -> str:
    """Format the names of columns for a message."""
    return printable(", ".join(header)) or "(none)"


def whole_or_real(name: str, text: str) -> int | float:
    """Parse a finite number, as int where it is whole.

    Spaces write the sizes of their inputs as whole numbers. Raises ValueError for anything else.
    """
    try:
        number = float(text)
        if math.isfinite(number):
            return int(number) if number == int(number) else number
    except ValueError:
        pass
    raise ValueError(f"{name} is {text[:60]!r}; it must be a number")


def column_values(name: str, texts: Sequence[str]) -> list[Value]:
    """Convert the distinct cells of a column to values.

    The column holds numbers and words such as `true` only if all of its cells are such: `12e4`
    in a column with `9f0c` is text. 64 and 64.0 are two values. Raises ValueError where two cells
    mean the same value, or a cell is not printable.
    """
    odd = next((text for text in texts if not text.isprintable()), None)
    if odd is not None:
        raise ValueError(f"{name} is {odd[:60]!r}; texts must be printable")
    values = [_literal(text) for text in texts]
    if any(isinstance(value, str) for value in values):
        return list(texts)
    first: dict[tuple[type, Value], str] = {}
    for text, value in zip(texts, values, strict=True):
        other = first.setdefault((type(value), value), text)
        if other != text:
            raise ValueError(f"{name} has {other!r} and {text!r}, which mean the same; write one")
    return values


def _literal(text: str) -> Value:
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    try:
        return int(text) if len(text) <= _MAX_DIGITS and "_" not in text else text
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) else text


def listed_value(name: str, values: Sequence[Value], text: str) -> Value:
    """Return the listed value that a cell means; 64 may also be written 64.0.

    Raises ValueError where no value matches.
    """
    for reading in readings(text.strip()):
        if isinstance(values, range):
            if type(reading) is int and reading in values:
                return reading
            continue
        for value in values:
            if type(value) is type(reading) and value == reading:
                return value
    raise ValueError(f"{name} is {text[:60]!r}, which is none of its values: {_listed(values)}")


def _listed(values: Sequence[Value]) -> str:
    if isinstance(values, range):
        return f"{values[0]} to {values[-1]} by {values.step}"
    more = ", ..." if len(values) > _MAX_LISTED else ""
    return ", ".join(map(shown, values[:_MAX_LISTED])) + more


def readings(text: str) -> Iterator[Value]:
    """Yield the values that a cell can mean: first the text, then a word, then a number."""
    yield text
    if text.lower() in WORDS:
        yield WORDS[text.lower()]
    try:
        number = float(text)
    except ValueError:
        return
    if math.isfinite(number):
        if number == int(number):
            yield int(number)
        yield number
