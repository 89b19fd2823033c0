"""`Recording`: the content of a recorded file of any format, packed so that a million rows fit."""

from __future__ import annotations

import statistics
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.core.records import (
    Config,
    Environment,
    Input,
    Measurement,
    Outcome,
    StopReason,
    Timing,
)
from harness.space_file import Parameter

Positions = npt.NDArray[np.int32]
"""Indices into each parameter's values, shape (rows, parameters)."""


def replay_environment(device: str, platform: str, sha256: str) -> Environment:
    """Mark an environment as a replay, so that stored results never mix with measured ones.

    The digest of the content makes each recording an environment of its own.
    """
    return Environment("replay", device, platform, f"recording {sha256[:12]}", compiler="recorded")


@dataclass(frozen=True)
class RecordedTable:
    """The configurations of one input in the file's order, each with its outcome.

    `positions` has shape (rows, parameters). A row whose outcome is not ok has no samples; it has
    a message instead.
    """

    positions: Positions
    outcomes: Sequence[Outcome]
    samples_s: Sequence[array[float]]
    messages: Mapping[int, str]

    def __len__(self) -> int:
        return len(self.outcomes)

    @cached_property
    def legal(self) -> npt.NDArray[np.intp]:
        """The rows that a search may propose. Failed ones are among them: they cost a test."""
        legal = [outcome is not Outcome.ILLEGAL for outcome in self.outcomes]
        return np.flatnonzero(np.array(legal, dtype=bool))

    @cached_property
    def times_s(self) -> npt.NDArray[np.float64]:
        """The median seconds of every row; infinite where it failed."""
        pairs = zip(self.outcomes, self.samples_s, strict=True)
        medians = (statistics.median(s) if o is Outcome.OK else np.inf for o, s in pairs)
        return np.fromiter(medians, dtype=np.float64, count=len(self))

    @cached_property
    def best(self) -> int | None:
        """The row with the least median; None where every row failed."""
        return int(self.times_s.argmin()) if np.isfinite(self.times_s).any() else None


def index_of(positions: Positions) -> dict[bytes, int]:
    """Map the bytes of each row of positions to the row's number."""
    data, width = np.ascontiguousarray(positions).tobytes(), positions.shape[1] * positions.itemsize
    return {data[row * width : (row + 1) * width]: row for row in range(len(positions))}


@dataclass(frozen=True)
class Recording:
    """Parameters with their values in search order, and one table for each input.

    `kind` names the format. `sha256` identifies the content. `notes` say how the file was read.
    `compiler` is the compiler whose flags are among the parameters, None without flags; only a
    recording that was read under its own space knows it.
    """

    path: Path
    name: str
    title: str
    kind: str
    device: str
    sha256: str
    parameters: tuple[Parameter, ...]
    features: tuple[str, ...]
    tables: Mapping[Input, RecordedTable]
    notes: tuple[str, ...] = ()
    compiler: str | None = None

    @property
    def environment(self) -> Environment:
        """The environment of measurements that are replayed from here."""
        return replay_environment(self.device, self.kind, self.sha256)

    def config(self, table: RecordedTable, row: int) -> Config:
        """Build the configuration of a row."""
        positions = table.positions[row].tolist()
        pairs = zip(self.parameters, positions, strict=True)
        return Config({p.name: p.values[position] for p, position in pairs})

    def measurement(self, problem: Input, row: int) -> Measurement:
        """Build the measurement of a row."""
        table = self.tables[problem]
        config, outcome = self.config(table, row), table.outcomes[row]
        if outcome is Outcome.OK:
            timing = Timing(tuple(table.samples_s[row]), StopReason.RECORDED)
            return Measurement(config, problem, outcome, timing)
        return Measurement(config, problem, outcome, message=table.messages[row])

    def optimum(self, problem: Input) -> Measurement | None:
        """Return the fastest measurement of an input; None where every row failed."""
        row = self.tables[problem].best
        return None if row is None else self.measurement(problem, row)

    @cached_property
    def measurements(self) -> Mapping[tuple[Input, Config], Measurement]:
        """Every measurement by input and configuration, built on access."""
        return _Measurements(self)


class _Measurements(Mapping[tuple[Input, Config], Measurement]):
    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._rows: dict[Input, dict[bytes, int]] = {}
        self._positions = [
            {(type(value), value): position for position, value in enumerate(p.values)}
            for p in recording.parameters
        ]

    def __getitem__(self, key: tuple[Input, Config]) -> Measurement:
        problem, config = key
        parameters = self._recording.parameters
        if problem not in self._rows:
            self._rows[problem] = index_of(self._recording.tables[problem].positions)
        values = [config[parameter.name] for parameter in parameters]
        pairs = zip(self._positions, values, strict=True)
        positions = np.array([known[type(value), value] for known, value in pairs], np.int32)
        if len(config) != len(parameters):
            raise KeyError(key)
        return self._recording.measurement(problem, self._rows[problem][positions.tobytes()])

    def __iter__(self) -> Iterator[tuple[Input, Config]]:
        for problem, table in self._recording.tables.items():
            for row in range(len(table)):
                yield problem, self._recording.config(table, row)

    def __len__(self) -> int:
        return sum(map(len, self._recording.tables.values()))
