"""Recorded measurements from a CSV file, such as a spreadsheet or pandas writes.

The columns, in any order: the space's features and parameters, `time_s` in seconds and, if
it likes, `outcome` and `message`; others are passed over. Rows with equal features and
parameters are samples of one measurement. The flags of a compiler are all there or all
missing. An absent flag is `absent` or an empty cell.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import RecordingError
from harness.recordings.cells import check_columns, csv_rows, listed_value, whole_or_real
from harness.records import Config, Input, Measurement, Outcome, StopReason, Timing
from harness.spec import Spec


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
    rows = csv_rows(path)
    header = next(rows)[1]
    compiler = _compiler(path, header, spec)
    parameters = spec.tuned_for(compiler)
    check_columns(path, header, [*spec.features, *(p.name for p in parameters), "time_s"])
    inputs = {tuple(given[name] for name in spec.features): given for given in spec.inputs}
    points: dict[tuple[Input, Config], _Point] = {}
    for line, cells in rows:
        row = dict(zip(header, cells, strict=True))
        try:
            features = tuple(whole_or_real(name, row[name]) for name in spec.features)
            given = inputs.get(features) or Input(dict(zip(spec.features, features, strict=True)))
            config = Config({p.name: listed_value(p, row[p.name]) for p in parameters})
            _add(points.setdefault((given, config), _Point()), row)
        except ValueError as error:
            raise RecordingError(f"{path}:{line}: {error}") from None
    if not points:
        raise RecordingError(f"{path}: holds no measurement, only a header")
    return {key: _measurement(*key, point) for key, point in points.items()}, compiler


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
