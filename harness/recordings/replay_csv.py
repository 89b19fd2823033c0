"""Recorded measurements from a CSV file, such as a spreadsheet or pandas writes.

The columns, in any order: the space's features and parameters, `time_s` in seconds and, if
it likes, `outcome` and `message`; others are passed over, with a warning where they tell rows
apart that are taken for samples of one measurement: those with equal features and parameters.
The flags of a compiler are all there or all missing. An absent flag is `absent` or an empty
cell.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.core.errors import RecordingError
from harness.core.records import Config, Input, Measurement, Outcome, StopReason, Timing
from harness.recordings.cells import CsvFile, check_columns, listed_value, whole_or_real
from harness.recordings.files import read_bounded
from harness.recordings.unread_columns import LeftOut
from harness.space_file import Spec

_OWN = ("time_s", "outcome", "message")


@dataclass(frozen=True)
class CsvRecording:
    """What a CSV file holds of a space: measurements, the compiler whose flags they have, None
    without flags, and what may be wrong with them."""

    measurements: dict[tuple[Input, Config], Measurement]
    compiler: str | None
    warnings: tuple[str, ...]


@dataclass
class _Point:
    """What the rows of one input and configuration say, and its place among them."""

    ordinal: int
    samples_s: list[float] = field(default_factory=list)
    failure: Outcome | None = None
    message: str = ""


def read_csv(path: Path, spec: Spec) -> CsvRecording:
    """The measurements of a recording.

    Raises RecordingError with the line that does not fit the space.
    """
    file = CsvFile(path, read_bounded(path))
    header = file.header
    compiler = _compiler(path, header, spec)
    parameters = spec.tuned_for(compiler)
    point = [*spec.features, *(p.name for p in parameters)]
    check_columns(path, header, [*point, "time_s"])
    left_out = LeftOut(header, [*point, *_OWN])
    inputs = {tuple(given[name] for name in spec.features): given for given in spec.inputs}
    points: dict[tuple[Input, Config], _Point] = {}
    for line, cells in file.rows():
        row = dict(zip(header, cells, strict=True))
        try:
            features = tuple(whole_or_real(name, row[name]) for name in spec.features)
            given = inputs.get(features) or Input(dict(zip(spec.features, features, strict=True)))
            config = Config({p.name: listed_value(p, row[p.name]) for p in parameters})
            held = points.setdefault((given, config), _Point(len(points)))
            _add(held, row)
        except ValueError as error:
            raise RecordingError(f"{path}:{line}: {error}") from None
        left_out.note(held.ordinal, line, cells)
    if not points:
        raise RecordingError(f"{path}: holds no measurement, only a header")
    measurements = {key: _measurement(*key, held) for key, held in points.items()}
    return CsvRecording(measurements, compiler, (*file.warnings(), *_told(path, left_out)))


def _told(path: Path, left_out: LeftOut) -> Iterator[str]:
    if left_out.differ:
        yield (
            f"{path}:{left_out.line}: is taken for another sample of a row above, from which it "
            f"differs in {left_out.shown}, which the space does not have"
        )


def _compiler(path: Path, header: Sequence[str], spec: Spec) -> str | None:
    found = sorted({p.compiler for p in spec.parameters if p.compiler and p.name in header})
    if len(found) > 1:
        raise RecordingError(f"{path}:1: has flags of {' and '.join(found)}; one at a time")
    return found[0] if found else None


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
