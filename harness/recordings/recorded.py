"""`Recorded`: what a file holds, whatever its format, packed so that a million rows fit."""

from __future__ import annotations

import statistics
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.core.records import Config, Input, Measurement, Outcome, StopReason, Timing
from harness.space_file import Parameter

Places = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Table:
    """One input's configurations, in the file's order, and how each of them ended.

    `places` holds the position of each parameter's value, shape (rows, parameters); `samples_s`
    is empty where the outcome is not ok, and a message is there instead.
    """

    places: Places
    outcomes: Sequence[Outcome]
    samples_s: Sequence[array[float]]
    messages: Mapping[int, str]

    def __len__(self) -> int:
        return len(self.outcomes)

    @cached_property
    def legal(self) -> npt.NDArray[np.intp]:
        """The rows of the configurations that may be proposed: failed ones cost a test, too."""
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
        """The row with the least median; None where nothing worked."""
        return int(self.times_s.argmin()) if np.isfinite(self.times_s).any() else None


FACTS = ("backend", "platform", "driver", "compiler")
"""What a recording may tell of where it was measured, beside the device; as in an Environment."""


def index_of(places: Places) -> dict[bytes, int]:
    """The row of each line of positions, by their bytes."""
    data, width = np.ascontiguousarray(places).tobytes(), places.shape[1] * places.itemsize
    return {data[row * width : (row + 1) * width]: row for row in range(len(places))}


@dataclass(frozen=True)
class Recorded:
    """A recording: parameters with their values in search order, and of each input a table.

    `kind` names the format, `sha256` identifies the content, `notes` say what a person has to
    know of how it was read, `warnings` what may be wrong with it. `facts` are what else than the
    device is told of where it was measured (FACTS); `default` is that of the space that was
    tuned, where it is told.
    """

    path: Path
    name: str
    title: str
    kind: str
    device: str
    sha256: str
    parameters: tuple[Parameter, ...]
    features: tuple[str, ...]
    tables: Mapping[Input, Table]
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    default: Config | None = None

    def config(self, table: Table, row: int) -> Config:
        """The configuration of a row."""
        places = table.places[row].tolist()
        return Config({p.name: p.values[k] for p, k in zip(self.parameters, places, strict=True)})

    def measurement(self, given: Input, row: int) -> Measurement:
        """A row as a measurement."""
        table = self.tables[given]
        config, outcome = self.config(table, row), table.outcomes[row]
        if outcome is Outcome.OK:
            timing = Timing(tuple(table.samples_s[row]), StopReason.RECORDED)
            return Measurement(config, given, outcome, timing)
        return Measurement(config, given, outcome, message=table.messages[row])

    def optimum(self, given: Input) -> Measurement | None:
        """The fastest measurement of an input; None where nothing worked."""
        row = self.tables[given].best
        return None if row is None else self.measurement(given, row)

    @cached_property
    def measurements(self) -> Mapping[tuple[Input, Config], Measurement]:
        """Every measurement, made when it is asked for."""
        return _Measurements(self)


class _Measurements(Mapping[tuple[Input, Config], Measurement]):
    def __init__(self, recorded: Recorded) -> None:
        self._recorded = recorded
        self._rows: dict[Input, dict[bytes, int]] = {}
        self._places = [
            {(type(value), value): place for place, value in enumerate(p.values)}
            for p in recorded.parameters
        ]

    def __getitem__(self, key: tuple[Input, Config]) -> Measurement:
        given, config = key
        parameters = self._recorded.parameters
        if given not in self._rows:
            self._rows[given] = index_of(self._recorded.tables[given].places)
        values = [config[parameter.name] for parameter in parameters]
        pairs = zip(self._places, values, strict=True)
        places = np.array([known[type(value), value] for known, value in pairs], np.int32)
        if len(config) != len(parameters):
            raise KeyError(key)
        return self._recorded.measurement(given, self._rows[given][places.tobytes()])

    def __iter__(self) -> Iterator[tuple[Input, Config]]:
        for given, table in self._recorded.tables.items():
            for row in range(len(table)):
                yield given, self._recorded.config(table, row)

    def __len__(self) -> int:
        return sum(map(len, self._recorded.tables.values()))
