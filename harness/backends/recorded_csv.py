"""Recorded measurements from a CSV file, such as a spreadsheet or pandas writes.

The columns, in any order: the space's features and parameters, `time_s` in seconds and, if
it likes, `outcome` and `message`; others are passed over. Rows with equal features and
parameters are samples of one measurement. The flags of a compiler are all there or all
missing. An absent flag is `absent` or an empty cell.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import RecordingError
from harness.records import Config, Input, Measurement, Outcome, StopReason, Timing, Value, shown
from harness.spec import Parameter, Spec

MAX_ROWS = 2_000_000
"""About a gigabyte in memory."""

_WORDS: Mapping[str, Value] = {"true": True, "false": False, "absent": None, "": None}


@dataclass
class _Point:
    """What the rows of one input and configuration say."""

    samples_s: list[float] = field(default_factory=list)
    failure: Outcome | None = None
    message: str = ""


def read_csv(path: Path, spec: Spec) -> tuple[dict[tuple[Input, Config], Measurement], str | None]:
    """The measurements of a recording, and the compiler whose flags it has, if any.

    Raises RecordingError with the line that does not fit the space.
    """
    rows = _rows(path)
    header = next(rows)[1]
    compiler = _compiler(path, header, spec)
    parameters = spec.tuned_for(compiler)
    _check_columns(path, header, [*spec.features, *(p.name for p in parameters), "time_s"])
    inputs = {tuple(given[name] for name in spec.features): given for given in spec.inputs}
    points: dict[tuple[Input, Config], _Point] = {}
    for line, cells in rows:
        row = dict(zip(header, cells, strict=True))
        try:
            features = tuple(_number(name, row[name]) for name in spec.features)
            given = inputs.get(features) or Input(dict(zip(spec.features, features, strict=True)))
            config = Config({p.name: _value(p, row[p.name]) for p in parameters})
            _add(points.setdefault((given, config), _Point()), row)
        except ValueError as error:
            raise RecordingError(f"{path}:{line}: {error}") from None
    if not points:
        raise RecordingError(f"{path}: holds no measurement, only a header")
    return {key: _measurement(*key, point) for key, point in points.items()}, compiler


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The lines of the file, split, the header first; empty lines are left out."""
    try:
        # utf-8-sig, since spreadsheets put a byte order mark first.
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(_text_lines(path, file), strict=True)
            header = [name.strip() for name in next(reader, [])]
            yield 1, header
            for count, cells in enumerate(filter(None, reader), start=1):
                if len(cells) != len(header):
                    raise RecordingError(
                        f"{path}:{reader.line_num}: has {len(cells)} cells, the header has "
                        f"{len(header)}"
                    )
                if count > MAX_ROWS:
                    raise RecordingError(f"{path}: holds more than {MAX_ROWS:,} rows; split it")
                yield reader.line_num, cells
    except (csv.Error, UnicodeDecodeError) as error:
        raise RecordingError(f"{path}: is not CSV text: {error}") from None


def _text_lines(path: Path, file: Iterable[str]) -> Iterator[str]:
    """The lines as they are; a NUL byte, which only newer versions of csv take, is refused."""
    for number, line in enumerate(file, start=1):
        if "\0" in line:
            raise RecordingError(
                f"{path}:{number}: is not CSV text: it holds a NUL byte; save the recording as "
                "UTF-8 text"
            )
        yield line


def _compiler(path: Path, header: Sequence[str], spec: Spec) -> str | None:
    found = sorted({p.compiler for p in spec.parameters if p.compiler and p.name in header})
    if len(found) > 1:
        raise RecordingError(f"{path}:1: has flags of {' and '.join(found)}; one at a time")
    return found[0] if found else None


def _check_columns(path: Path, header: Sequence[str], wanted: Sequence[str]) -> None:
    twice = [name for name in wanted if header.count(name) > 1]
    if twice:
        raise RecordingError(f"{path}:1: has the column {twice[0]} twice")
    missing = [name for name in wanted if name not in header]
    if missing:
        there = ", ".join(header)
        there = there if len(there) <= 200 else f"{there[:200]}..."
        raise RecordingError(
            f"{path}:1: lacks {', '.join(missing)} among the columns {there or '(none)'}; "
            "columns are separated by commas, the first line names them"
        )


def _number(name: str, text: str) -> int | float:
    """A finite number; the whole ones as integers, as spaces give their inputs."""
    try:
        number = float(text)
        if math.isfinite(number):
            return int(number) if number == int(number) else number
    except ValueError:
        pass
    raise ValueError(f"{name} is {text[:60]!r}; it must be a number")


def _value(parameter: Parameter, text: str) -> Value:
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
    if text.lower() in _WORDS:
        yield _WORDS[text.lower()]
    try:
        number = float(text)
    except ValueError:
        return
    if math.isfinite(number):
        if number == int(number):
            yield int(number)
        yield number


def _add(point: _Point, row: Mapping[str, str]) -> None:
    outcome = row.get("outcome", "").strip() or Outcome.OK.value
    if outcome == Outcome.OK.value:
        point.samples_s.append(_seconds(row["time_s"]))
        return
    if outcome not in {known.value for known in Outcome}:
        there = ", ".join(known.value for known in Outcome)
        raise ValueError(f"outcome is {outcome[:60]!r}; there are {there}")
    point.failure = point.failure or Outcome(outcome)
    point.message = point.message or row.get("message", "")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds > 0):
        raise ValueError(f"time_s is {text[:60]!r}; it must be seconds, above 0")
    return seconds


def _measurement(given: Input, config: Config, point: _Point) -> Measurement:
    """One failed row makes the measurement a failure."""
    if point.failure is not None:
        message = point.message or "as recorded"
        return Measurement(config, given, point.failure, message=message)
    timing = Timing(tuple(point.samples_s), StopReason.RECORDED)
    return Measurement(config, given, Outcome.OK, timing)
