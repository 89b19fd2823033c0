"""`Recorded`: what a file holds, whatever its format, packed so that a million rows fit."""

from __future__ import annotations

import itertools
import statistics
from array import array
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.errors import RecordingError
from harness.recordings.files import MAX_SHOWN, printable
from harness.records import Config, Input, Measurement, Outcome, StopReason, Timing, Value
from harness.spec import Parameter

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
    def best(self) -> int | None:
        """The row with the least median; None where nothing worked."""
        ok = [row for row, outcome in enumerate(self.outcomes) if outcome is Outcome.OK]
        return min(ok, key=lambda row: statistics.median(self.samples_s[row]), default=None)


def index_of(places: Places) -> dict[bytes, int]:
    """The row of each line of positions, by their bytes."""
    data, width = np.ascontiguousarray(places).tobytes(), places.shape[1] * places.itemsize
    return {data[row * width : (row + 1) * width]: row for row in range(len(places))}


@dataclass(frozen=True)
class Recorded:
    """A recording: parameters with their values in search order, and of each input a table.

    `kind` names the format, `sha256` identifies the content, `notes` say what a person has to
    know of how it was read.
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


# -------------------------------------------------------------------- building

ColumnValues = Callable[[str, Sequence[Any]], Sequence[Value]]
"""From a column's name and its different cells to what they mean; ValueError where that fails."""


@dataclass
class _Rows:
    index: dict[bytes, int] = field(default_factory=dict)
    codes: array[int] = field(default_factory=lambda: array("i"))
    outcomes: list[Outcome] = field(default_factory=list)
    samples_s: list[array[float]] = field(default_factory=list)
    messages: dict[int, str] = field(default_factory=dict)

    def add(
        self, codes: array[int], outcome: Outcome, samples_s: Sequence[float], message: str
    ) -> None:
        row = self.index.setdefault(codes.tobytes(), len(self.outcomes))
        if row == len(self.outcomes):
            self.codes.extend(codes)
            self.outcomes.append(outcome)
            self.samples_s.append(array("d", samples_s))
        elif self.outcomes[row] is Outcome.OK and outcome is Outcome.OK:
            self.samples_s[row].extend(samples_s)
        elif self.outcomes[row] is Outcome.OK:
            # One failed row makes the measurement a failure.
            self.outcomes[row], self.samples_s[row] = outcome, array("d")
        if outcome is not Outcome.OK:
            self.messages.setdefault(row, message)


class Builder:
    """Gathers rows of cells; each different cell of a column is kept once."""

    def __init__(self, path: Path, features: Sequence[str], parameters: Sequence[str]) -> None:
        """Raises RecordingError for names that no search can work with."""
        self._path = path
        self._features, self._parameters = tuple(features), tuple(parameters)
        _check_names(path, (*features, *parameters))
        if not parameters:
            raise RecordingError(f"{path}: names no parameter; there is nothing to search")
        self._cells: list[dict[Hashable, int]] = [{} for _ in (*features, *parameters)]
        self._inputs: dict[tuple[int, ...], _Rows] = {}

    def add(
        self,
        cells: Sequence[Hashable],
        outcome: Outcome,
        samples_s: Sequence[float] = (),
        message: str = "",
    ) -> None:
        """A row: the cells of the features, then of the parameters. The samples of rows with
        equal cells are those of one measurement."""
        try:
            codes = array("i", map(getitem, self._cells, cells))
        except KeyError:  # a cell that is new
            pairs = zip(self._cells, cells, strict=True)
            codes = array("i", [known.setdefault(cell, len(known)) for known, cell in pairs])
        width = len(self._features)
        given = tuple(codes[:width])
        rows = self._inputs.get(given) or self._inputs.setdefault(given, _Rows())
        rows.add(codes[width:], outcome, samples_s, message)

    def finish(
        self,
        values: ColumnValues,
        *,
        title: str,
        kind: str,
        device: str,
        sha256: str,
        notes: Sequence[str] = (),
        orders: Mapping[str, Sequence[Value]] | None = None,
    ) -> Recorded:
        """The recording; `orders` has the values of parameters in the order that was told.

        Raises RecordingError where nothing was added, or a column cannot be understood.
        """
        columns = self._meant(values)
        width = len(self._features)
        told = orders or {}
        ordered = [
            _ordered(name, column, told.get(name, ()))
            for name, column in zip(self._parameters, columns[width:], strict=True)
        ]
        pairs = zip(columns[width:], ordered, strict=True)
        moves = [_moves(column, parameter.values) for column, parameter in pairs]
        tables = {self._input(key, columns): _table(r, moves) for key, r in self._inputs.items()}
        return Recorded(
            path=self._path,
            name=name_of(self._path),
            title=printable(title),
            kind=kind,
            device=printable(device),
            sha256=sha256,
            parameters=_with_defaults(ordered, tables),
            features=self._features or (_NO_FEATURES,),
            tables=tables,
            notes=tuple(notes),
        )

    def _meant(self, values: ColumnValues) -> list[list[Value]]:
        """Of every column what its cells mean, by their codes."""
        if not self._inputs:
            raise RecordingError(f"{self._path}: holds no measurement")
        pairs = zip((*self._features, *self._parameters), self._cells, strict=True)
        try:
            return [list(values(name, list(cells))) for name, cells in pairs]
        except ValueError as error:
            raise RecordingError(f"{self._path}: {error}") from None

    def _input(self, key: tuple[int, ...], columns: Sequence[Sequence[Value]]) -> Input:
        if not self._features:
            return Input({_NO_FEATURES: name_of(self._path)})
        told = zip(self._features, columns, key, strict=False)
        return Input({name: values[code] for name, values, code in told})


_NO_FEATURES = "recording"
"""The feature of the one input of a recording that tells nothing of inputs."""


def name_of(path: Path) -> str:
    """The file's name without its endings, as spaces are named."""
    stem = path.name.split(".")[0]
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in stem)[:100] or "recording"


def _check_names(path: Path, names: Sequence[str]) -> None:
    for name in names:
        # OpenTuner reads a slash as nesting.
        if not name or len(name) > MAX_SHOWN or not name.isprintable() or "/" in name:
            raise RecordingError(
                f"{path}: {printable(name)!r} cannot be a parameter's or feature's name: it must "
                f"be printable, of 1 to {MAX_SHOWN} characters, without a slash"
            )
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise RecordingError(f"{path}: names {twice} twice among parameters and features")


def _ordered(name: str, found: Sequence[Value], told: Sequence[Value]) -> Parameter:
    """Numbers ascend, and are then a scale; all else keeps the order that was told or found."""
    keys = {(type(value), value) for value in found}
    listed = {(type(value), value): value for value in told if (type(value), value) in keys}
    values = [*listed.values(), *(v for v in found if (type(v), v) not in listed)]
    if len(values) == 2 and set(map(type, values)) == {bool}:
        return Parameter(name, "boolean", (False, True), "source", False)
    numbers = sorted(v for v in values if isinstance(v, (int, float)) and not isinstance(v, bool))
    ascends = all(one < other for one, other in itertools.pairwise(numbers))
    if len(numbers) == len(values) and ascends:
        return Parameter(name, "ordered", tuple(numbers), "source", numbers[0])
    return Parameter(name, "enum", tuple(values), "source", values[0])


def _moves(column: Sequence[Value], values: Sequence[Value]) -> Places:
    """From a column's codes to positions among the parameter's values."""
    place = {(type(value), value): k for k, value in enumerate(values)}
    return np.array([place[type(value), value] for value in column], np.int32)


def _table(rows: _Rows, moves: Sequence[Places]) -> Table:
    codes = np.array(rows.codes, np.int32).reshape(len(rows.outcomes), len(moves))
    places = np.empty_like(codes)
    for column, move in enumerate(moves):
        places[:, column] = move[codes[:, column]]
    return Table(places, rows.outcomes, rows.samples_s, rows.messages)


def _with_defaults(
    parameters: Sequence[Parameter], tables: Mapping[Input, Table]
) -> tuple[Parameter, ...]:
    """A recording has no default: the first configuration that worked stands in for it."""
    for table in tables.values():
        for row, outcome in enumerate(table.outcomes):
            if outcome is Outcome.OK:
                places = table.places[row].tolist()
                return tuple(
                    Parameter(p.name, p.kind, p.values, p.role, p.values[place])
                    for p, place in zip(parameters, places, strict=True)
                )
    return tuple(parameters)
