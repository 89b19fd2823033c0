"""Recorded measurements in place of a device: the search runs for real, nothing is launched.

A recording is a results database of ours, or a CSV file with a header. Its columns are the
space's features and parameters, `time_s`, and, if it likes, `outcome` and `message`; rows
with equal features and parameters are samples of one measurement.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import RecordingError
from harness.records import (
    Config,
    DeviceLimits,
    Environment,
    Input,
    Measurement,
    Outcome,
    StopReason,
    Timing,
    Value,
    shown,
)
from harness.results import campaigns, read_measurements, reading
from harness.space import Space
from harness.spec import Spec

Recorded = Mapping[tuple[Input, Config], Measurement]


@dataclass(frozen=True)
class Recording:
    """Measurements by input and configuration, and where they come from."""

    environment: Environment
    measurements: Recorded


class ReplayMeasurer:
    """Serves a recording; what it does not hold fails to launch, with a message that says so."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    @property
    def environment(self) -> Environment:
        """The recording's, marked as a replay: its numbers never mix with measured ones."""
        return self._recording.environment

    @property
    def limits(self) -> DeviceLimits | None:
        """Not recorded: the recording itself tells what could run."""
        return None

    def expect(self, space: Space, configs: Iterable[Config]) -> None:
        """Nothing is compiled."""

    def measure(
        self, space: Space, given: Input, config: Config, best_s: float | None
    ) -> Measurement:
        """The recorded measurement."""
        found = self._recording.measurements.get((given, config))
        if found is not None:
            return found
        message = f"the recording holds nothing of ({config}) on the input ({given})"
        return Measurement(config, given, Outcome.LAUNCH_FAILED, message=message)

    def measure_interleaved(
        self, space: Space, given: Input, configs: Sequence[Config], rounds: int
    ) -> list[Measurement]:
        """The recorded measurements: there are no others."""
        return [self.measure(space, given, config, None) for config in configs]

    def close(self) -> None:
        """Nothing is open."""


def read_recording(path: Path, spec: Spec) -> Recording:
    """Read a recording of a space; raises RecordingError that says where it does not fit."""
    if not path.is_file():
        raise RecordingError(f"{path}: no such recording; give a results database or a CSV file")
    with path.open("rb") as file:
        is_database = file.read(16).startswith(b"SQLite format 3")
    return _from_database(path, spec) if is_database else _from_csv(path, spec)


def _from_database(path: Path, spec: Spec) -> Recording:
    with reading(str(path)) as engine, engine.connect() as connection:
        there = campaigns(connection)
        found = next((c for c in there if c.key.program_sha256 == spec.program_sha256), None)
        if found is None:
            names = ", ".join(sorted({c.space_name for c in there})) or "nothing"
            raise RecordingError(
                f"{path} holds measurements of {names}, none of {spec.name} with this very "
                "source, host module, launch and tolerance"
            )
        rows = read_measurements(connection, found.key, stages=("search", "cross"))
    measured = {(r.measurement.input, r.measurement.config): r.measurement for r in rows}
    return Recording(_replayed(found.environment.device, found.environment.platform), measured)


def _replayed(device: str, platform: str) -> Environment:
    return Environment("replay", device, platform, driver="recorded", compiler="recorded")


def _from_csv(path: Path, spec: Spec) -> Recording:
    groups: dict[tuple[Input, Config], list[Mapping[str, str]]] = {}
    for line, row in _rows(path, spec):
        groups.setdefault(_point(path, line, row, spec), []).append(row)
    if not groups:
        raise RecordingError(f"{path}: holds no measurement")
    measured = {key: _measurement(path, key, rows) for key, rows in groups.items()}
    return Recording(_replayed(path.name, "CSV"), measured)


def _rows(path: Path, spec: Spec) -> Iterator[tuple[int, Mapping[str, str]]]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            wanted = [*spec.features, *(p.name for p in spec.parameters), "time_s"]
            missing = [name for name in wanted if name not in (reader.fieldnames or ())]
            if missing:
                raise RecordingError(f"{path}:1: needs the columns {', '.join(missing)}")
            for row in reader:
                if None in row or None in row.values():
                    raise RecordingError(
                        f"{path}:{reader.line_num}: has another number of cells than the header"
                    )
                yield reader.line_num, row
    except (csv.Error, UnicodeDecodeError) as error:
        raise RecordingError(f"{path}: is not CSV text: {error}") from None


def _point(path: Path, line: int, row: Mapping[str, str], spec: Spec) -> tuple[Input, Config]:
    given = Input({name: _number(path, line, name, row[name]) for name in spec.features})
    values: dict[str, Value] = {}
    for parameter in spec.parameters:
        by_text = _by_text(parameter.values, row[parameter.name])
        if by_text is _NO_VALUE:
            raise RecordingError(
                f"{path}:{line}: {parameter.name} is {row[parameter.name]!r}, which is not one "
                f"of its values in {spec.path}"
            )
        values[parameter.name] = by_text
    return given, Config(values)


_NO_VALUE = "\x00"


def _by_text(values: Sequence[Value], text: str) -> Value:
    if isinstance(values, range):
        return int(text) if text.lstrip("-").isdigit() and int(text) in values else _NO_VALUE
    return next((value for value in values if shown(value) == text.strip()), _NO_VALUE)


def _number(path: Path, line: int, name: str, text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise RecordingError(f"{path}:{line}: {name} is {text!r}, not a number") from None


def _measurement(
    path: Path, key: tuple[Input, Config], rows: Sequence[Mapping[str, str]]
) -> Measurement:
    given, config = key
    outcomes = {row.get("outcome") or Outcome.OK.value for row in rows}
    if outcomes != {Outcome.OK.value}:
        failed = sorted(outcomes - {Outcome.OK.value})[0]
        if failed not in {outcome.value for outcome in Outcome}:
            there = ", ".join(outcome.value for outcome in Outcome)
            raise RecordingError(f"{path}: {failed!r} is no outcome; there are {there}")
        message = next((row["message"] for row in rows if row.get("message")), "as recorded")
        return Measurement(config, given, Outcome(failed), message=message)
    samples_s = tuple(_seconds(path, config, row["time_s"]) for row in rows)
    return Measurement(config, given, Outcome.OK, Timing(samples_s, StopReason.RECORDED))


def _seconds(path: Path, config: Config, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds > 0):
        raise RecordingError(f"{path}: time_s of ({config}) is {text!r}; it must be above 0")
    return seconds
