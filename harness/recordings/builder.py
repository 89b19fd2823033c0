"""Rows of cells, in any order -> `Recording`."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.errors import RecordingError
from harness.core.records import Input, Outcome, Value
from harness.core.text import MAX_SHOWN, printable
from harness.recordings.cells import column_values
from harness.recordings.files import recording_name
from harness.recordings.recording import Positions, RecordedTable, Recording
from harness.space_file import Parameter


@dataclass(frozen=True)
class RecordedOutcome:
    """The end of one recorded test: samples where it is ok, a message where it is not."""

    outcome: Outcome
    samples_s: Sequence[float] = ()
    message: str = ""


def typed(value: Value) -> tuple[type, Value]:
    """Return the cell of a value, so that 1, 1.0 and true are three cells."""
    return type(value), value


@dataclass
class _InputRows:
    """The rows of one input."""

    index: dict[bytes, int] = field(default_factory=dict)
    codes: array[int] = field(default_factory=lambda: array("i"))
    outcomes: list[Outcome] = field(default_factory=list)
    samples_s: list[array[float]] = field(default_factory=list)
    messages: dict[int, str] = field(default_factory=dict)

    def add(self, codes: array[int], ended: RecordedOutcome) -> None:
        """Add a row, or samples to the row of the same configuration."""
        row = self.index.setdefault(codes.tobytes(), len(self.outcomes))
        if row == len(self.outcomes):
            self.codes.extend(codes)
            self.outcomes.append(ended.outcome)
            self.samples_s.append(array("d", ended.samples_s))
        elif self.outcomes[row] is Outcome.OK and ended.outcome is Outcome.OK:
            self.samples_s[row].extend(ended.samples_s)
        elif self.outcomes[row] is Outcome.OK:
            # One failed row makes the measurement a failure.
            self.outcomes[row], self.samples_s[row] = ended.outcome, array("d")
        if ended.outcome is not Outcome.OK:
            self.messages.setdefault(row, ended.message)


class RecordingBuilder:
    """Gathers rows of cells. Each distinct cell of a column is kept once, by a code."""

    def __init__(self, path: Path, features: Sequence[str], parameters: Sequence[str]) -> None:
        """Raises RecordingError for names that no search can work with."""
        self._path = path
        self._features, self._parameters = tuple(features), tuple(parameters)
        _check_names(path, (*features, *parameters))
        if not parameters:
            raise RecordingError(f"{path}: names no parameter; there is nothing to search")
        self._cells: list[dict[Any, int]] = [{} for _ in (*features, *parameters)]
        self._inputs: dict[tuple[int, ...], _InputRows] = {}

    def add(self, cells: Sequence[Hashable], ended: RecordedOutcome) -> None:
        """Add a row: the cells of the features, then those of the parameters.

        A cell is either `typed(value)` or text, throughout its column. Rows with equal cells are
        samples of one measurement.
        """
        try:
            codes = array("i", map(getitem, self._cells, cells))
        except KeyError:  # a cell that is new
            pairs = zip(self._cells, cells, strict=True)
            codes = array("i", [known.setdefault(cell, len(known)) for known, cell in pairs])
        width = len(self._features)
        problem = tuple(codes[:width])
        rows = self._inputs.get(problem) or self._inputs.setdefault(problem, _InputRows())
        rows.add(codes[width:], ended)

    def finish(
        self,
        *,
        title: str,
        kind: str,
        device: str,
        sha256: str,
        notes: Sequence[str] = (),
        orders: Mapping[str, Sequence[Value]] | None = None,
        compiler: str | None = None,
    ) -> Recording:
        """Build the recording.

        `orders` has the values of parameters in the order that the file lists; see Recording for
        the rest. Raises RecordingError where no row was added, or a column makes no sense.
        """
        columns = self._values()
        width, orders = len(self._features), orders or {}
        parameters = [
            _parameter(name, column, orders.get(name, ()))
            for name, column in zip(self._parameters, columns[width:], strict=True)
        ]
        pairs = zip(columns[width:], parameters, strict=True)
        moves = [_positions_of(column, parameter.values) for column, parameter in pairs]
        tables = {self._input(key, columns): _table(r, moves) for key, r in self._inputs.items()}
        return Recording(
            path=self._path,
            name=recording_name(self._path),
            title=printable(title),
            kind=kind,
            device=printable(device),
            sha256=sha256,
            parameters=_with_defaults(parameters, tables),
            features=self._features or (_NO_FEATURES,),
            tables=tables,
            notes=tuple(notes),
            compiler=compiler,
        )

    def _values(self) -> list[list[Value]]:
        """Return each column's values, by the codes of its cells."""
        if not self._inputs:
            raise RecordingError(f"{self._path}: holds no measurement")
        pairs = zip((*self._features, *self._parameters), self._cells, strict=True)
        try:
            return [_column(name, list(cells)) for name, cells in pairs]
        except ValueError as error:
            raise RecordingError(f"{self._path}: {error}") from None

    def _input(self, codes: tuple[int, ...], columns: Sequence[Sequence[Value]]) -> Input:
        if not self._features:
            return Input({_NO_FEATURES: recording_name(self._path)})
        triples = zip(self._features, columns, codes, strict=False)
        return Input({name: values[code] for name, values, code in triples})


_NO_FEATURES = "recording"
"""The feature of the one input of a recording that has no features."""


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


def _column(name: str, cells: Sequence[Any]) -> list[Value]:
    """Unpack typed cells; infer what texts mean from the whole column."""
    if isinstance(cells[0], tuple):
        return [value for _, value in cells]
    return column_values(name, cells)


def _parameter(name: str, found: Sequence[Value], listed: Sequence[Value]) -> Parameter:
    """Make a parameter of the values that occur.

    Numbers become a scale in ascending order. Other values keep the order in which the file lists
    them, or else in which they occur.
    """
    values = _in_order(found, listed)
    if len(values) == 2 and set(map(type, values)) == {bool}:
        return Parameter(name, "boolean", (False, True), "source", False)
    numbers = sorted(v for v in values if isinstance(v, (int, float)) and not isinstance(v, bool))
    ascends = all(one < other for one, other in itertools.pairwise(numbers))
    if len(numbers) == len(values) and ascends:
        return Parameter(name, "ordered", tuple(numbers), "source", numbers[0])
    return Parameter(name, "enum", tuple(values), "source", values[0])


def _in_order(found: Sequence[Value], listed: Sequence[Value]) -> list[Value]:
    """Return the found values, the listed ones first and in their order."""
    keys = set(map(typed, found))
    first = {} if isinstance(listed, range) else {typed(v): v for v in listed if typed(v) in keys}
    return [*first.values(), *(v for v in found if typed(v) not in first)]


def _positions_of(column: Sequence[Value], values: Sequence[Value]) -> Positions:
    """Map a column's codes to positions among the parameter's values."""
    known = {typed(value): position for position, value in enumerate(values)}
    return np.array([known[typed(value)] for value in column], np.int32)


def _table(rows: _InputRows, moves: Sequence[Positions]) -> RecordedTable:
    codes = np.array(rows.codes, np.int32).reshape(len(rows.outcomes), len(moves))
    positions = np.empty_like(codes)
    for column, move in enumerate(moves):
        positions[:, column] = move[codes[:, column]]
    return RecordedTable(positions, rows.outcomes, rows.samples_s, rows.messages)


def _with_defaults(
    parameters: Sequence[Parameter], tables: Mapping[Input, RecordedTable]
) -> tuple[Parameter, ...]:
    """Take the first configuration that worked as the default; a recording has none of its own."""
    for table in tables.values():
        for row, outcome in enumerate(table.outcomes):
            if outcome is Outcome.OK:
                positions = table.positions[row].tolist()
                pairs = zip(parameters, positions, strict=True)
                return tuple(replace(p, default=p.values[position]) for p, position in pairs)
    return tuple(parameters)
