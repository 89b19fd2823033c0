"""The cells of a CSV file: its rows, and what a cell means."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from harness.core.errors import RecordingError
from harness.core.records import Value, shown
from harness.core.text import printable
from harness.space_file import Parameter

MAX_ROWS = 2_000_000
_MAX_DIGITS = 20

WORDS: Mapping[str, Value] = {"true": True, "false": False, "absent": None, "": None}


Row = list[str]


class CsvFile:
    """A CSV file, its rows split as they are asked for; empty lines are left out."""

    def __init__(self, path: Path, content: bytes) -> None:
        """Raises RecordingError for a header that is not CSV."""
        self.path = path
        self._content = content
        self._lines = self._split()
        self.header = [name.strip() for name in next(self._lines, (1, []))[1]]
        self._last: Row = []

    def rows(self) -> Iterator[tuple[int, Row]]:
        """Each row below the header with its line, once.

        Raises RecordingError with the line that is not CSV, or has more or fewer cells than the
        header.
        """
        for count, (line, row) in enumerate(self._lines, start=1):
            if len(row) != len(self.header):
                raise RecordingError(f"{self.path}:{line}: {self._unlike_header(row)}")
            if count > MAX_ROWS:
                raise RecordingError(f"{self.path}: holds more than {MAX_ROWS:,} rows; split it")
            self._last = row
            yield line, row

    def _unlike_header(self, row: Row) -> str:
        told = f"has {len(row)} cells, the header has {len(self.header)}"
        if self._ends_whole or next(self._lines, None) is not None:
            return told
        return f"{told}, and the file ends there without a newline: it is cut short; fetch it again"

    def warnings(self) -> list[str]:
        """What is doubtful of the rows, once all of them were asked for.

        Most writers end the last line, too. Where it is not ended, nothing but the writer knows
        whether its last cell is whole: 17.79 may be what is left of 17.793.
        """
        if self._ends_whole or not self._last:
            return []
        name, cell = printable(self.header[-1]), printable(self._last[-1])
        return [
            f"{self.path}: the last line has no newline; if the file was cut short, its last "
            f"cell, {name} = {cell or '(empty)'}, is not whole: compare it with the original"
        ]

    @property
    def _ends_whole(self) -> bool:
        return self._content.endswith((b"\n", b"\r"))

    def _split(self) -> Iterator[tuple[int, Row]]:
        try:
            # utf-8-sig, since spreadsheets put a byte order mark first.
            content = io.BytesIO(self._content)
            file = io.TextIOWrapper(content, encoding="utf-8-sig", newline="")
            reader = csv.reader(_text_lines(self.path, file), strict=True)
            yield from ((reader.line_num, row) for row in reader if row)
        except (csv.Error, UnicodeDecodeError) as error:
            cut = "" if self._ends_whole else ", or cut short"
            raise RecordingError(f"{self.path}: is not CSV text{cut}: {error}") from None


def _text_lines(path: Path, file: Iterable[str]) -> Iterator[str]:
    """The lines as they are; a NUL byte, which only newer versions of csv take, is refused."""
    for number, line in enumerate(file, start=1):
        if "\0" in line:
            raise RecordingError(
                f"{path}:{number}: is not CSV text: it holds a NUL byte; save the recording as "
                "UTF-8 text"
            )
        yield line


def check_columns(path: Path, header: Sequence[str], wanted: Sequence[str]) -> None:
    """Raise RecordingError unless each of these columns is there, once."""
    twice = [name for name in wanted if header.count(name) > 1]
    if twice:
        raise RecordingError(f"{path}:1: has the column {twice[0]} twice")
    missing = [name for name in wanted if name not in header]
    if missing:
        raise RecordingError(
            f"{path}:1: lacks {', '.join(missing)} among the columns {shown_columns(header)}; "
            "columns are separated by commas, the first line names them"
        )


def shown_columns(header: Sequence[str]) -> str:
    """The columns as a message names them."""
    there = printable(", ".join(header))
    return there or "(none)"


def whole_or_real(name: str, text: str) -> int | float:
    """A finite number; the whole ones as integers, as spaces give their inputs."""
    try:
        number = float(text)
        if math.isfinite(number):
            return int(number) if number == int(number) else number
    except ValueError:
        pass
    raise ValueError(f"{name} is {text[:60]!r}; it must be a number")


def column_values(name: str, texts: Sequence[str]) -> list[Value]:
    """What the different cells of a column mean: numbers and words such as `true` only where
    all of them are, since `12e4` among `9f0c` is no number.

    64 and 64.0 are two values, as they are of a parameter. Raises ValueError where two cells
    are one value, or one cannot be printed.
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


def listed_value(parameter: Parameter, text: str) -> Value:
    """The parameter's value that a cell means: 64 may also be written 64.0."""
    for value in _readings(text.strip()):
        if isinstance(parameter.values, range):
            if type(value) is int and value in parameter.values:
                return value
            continue
        for candidate in parameter.values:
            if type(candidate) is type(value) and candidate == value:
                return candidate
    there = parameter.values
    told = (
        f"{there[0]} to {there[-1]} by {there.step}"
        if isinstance(there, range)
        else ", ".join(map(shown, there[:10])) + (", ..." if len(there) > 10 else "")
    )
    raise ValueError(f"{parameter.name} is {text[:60]!r}, which is none of its values: {told}")


def _readings(text: str) -> Iterator[Value]:
    """What a cell can mean, as itself before as a number or a word."""
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
