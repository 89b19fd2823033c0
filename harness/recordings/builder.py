"""Rows of cells, in any order -> `Recorded`."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.errors import RecordingError
from harness.core.records import Config, Input, Outcome, Value
from harness.core.text import MAX_SHOWN, printable
from harness.recordings.files import printable_lines
from harness.recordings.recorded import Places, Recorded, Table
from harness.space_file import Parameter

ColumnValues = Callable[[str, Sequence[Any]], Sequence[Value]]
"""From a column's name and its different cells to what they mean; ValueError where that fails."""


@dataclass
class _Rows:
    index: dict[bytes, int] = field(default_factory=dict)
    codes: array[int] = field(default_factory=lambda: array("i"))
    outcomes: list[Outcome] = field(default_factory=list)
    samples_s: list[array[float]] = field(default_factory=list)
    messages: dict[int, str] = field(default_factory=dict)

    ordinals: array[int] = field(default_factory=lambda: array("q"))  # over all inputs

    def add(
        self, codes: array[int], outcome: Outcome, samples_s: Sequence[float], message: str
    ) -> int:
        """Returns the row: a new one, or that of the same configuration."""
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
        return row


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
        self._distinct = 0

    def add(
        self,
        cells: Sequence[Hashable],
        outcome: Outcome,
        samples_s: Sequence[float] = (),
        message: str = "",
    ) -> int:
        """A row: the cells of the features, then of the parameters. The samples of rows with
        equal cells are those of one measurement; returns its ordinal, from 0."""
        try:
            codes = array("i", map(getitem, self._cells, cells))
        except KeyError:  # a cell that is new
            pairs = zip(self._cells, cells, strict=True)
            codes = array("i", [known.setdefault(cell, len(known)) for known, cell in pairs])
        width = len(self._features)
        given = tuple(codes[:width])
        rows = self._inputs.get(given) or self._inputs.setdefault(given, _Rows())
        row = rows.add(codes[width:], outcome, samples_s, message)
        if row == len(rows.ordinals):
            rows.ordinals.append(self._distinct)
            self._distinct += 1
        return rows.ordinals[row]

    def finish(
        self,
        values: ColumnValues,
        *,
        title: str,
        kind: str,
        device: str,
        sha256: str,
        notes: Sequence[str] = (),
        warnings: Sequence[str] = (),
        orders: Mapping[str, Sequence[Value]] | None = None,
        facts: Mapping[str, str] | None = None,
        default: Mapping[str, Value] | None = None,
    ) -> Recorded:
        """The recording; `orders` has the values of parameters in the order that was told. For
        `facts` and `default` see Recorded.

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
            warnings=tuple(warnings),
            facts={name: printable_lines(text) for name, text in (facts or {}).items()},
            default=Config(default) if default else None,
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
