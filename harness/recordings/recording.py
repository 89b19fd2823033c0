"""`Recording`: the content of a recorded file of any format, packed so that a million rows fit."""

from __future__ import annotations

import statistics
from array import array
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.core.errors import RecordingError
from harness.core.records import (
    Config,
    Environment,
    Input,
    Measurement,
    Outcome,
    StopReason,
    Timing,
    Value,
)
from harness.core.text import MAX_SHOWN, printable
from harness.recordings.files import recording_name
from harness.space import PointArray, Points
from harness.space_file import Parameter

_NO_FEATURES = "recording"
"""The feature of the one input of a recording that has no features."""


def replay_environment(device: str, platform: str, sha256: str) -> Environment:
    """Mark an environment as a replay, so that stored results never mix with measured ones.

    The digest of the content makes each recording an environment of its own.
    """
    return Environment("replay", device, platform, f"recording {sha256[:12]}", compiler="recorded")


@dataclass(frozen=True)
class RecordedTable:
    """The configurations of one input in the file's order, each with its outcome.

    `positions` are indices into each parameter's values, shape (rows, parameters). A row whose
    outcome is not ok has no samples; it has a message instead.
    """

    positions: PointArray
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

    def rows_of(self, positions: PointArray) -> list[int | None]:
        """Find the row of each configuration, shape (configurations, parameters)."""
        return list(map(self._rows.get, self._keys(positions)))

    @cached_property
    def _rows(self) -> dict[bytes, int]:
        return dict(zip(self._keys(self.positions), range(len(self)), strict=True))

    def _keys(self, positions: PointArray) -> list[bytes]:
        packed = np.ascontiguousarray(positions, dtype=np.int32)
        keys: list[bytes] = packed.view(f"V{4 * packed.shape[1]}").ravel().tolist()
        return keys


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

    @cached_property
    def points(self) -> Points:
        """All configurations of the recorded values, recorded together or not."""
        return Points(self.parameters)

    def config(self, table: RecordedTable, row: int) -> Config:
        """Build the configuration of a row."""
        return self.points.decode(table.positions[row].tolist())

    def measurement(self, problem: Input, row: int) -> Measurement:
        """Build the measurement of a row."""
        table = self.tables[problem]
        config = self.config(table, row)
        outcome = table.outcomes[row]
        if outcome is not Outcome.OK:
            return Measurement(config, problem, outcome, message=table.messages[row])
        timing = Timing(tuple(table.samples_s[row]), StopReason.RECORDED)
        return Measurement(config, problem, outcome, timing)

    def optimum(self, problem: Input) -> Measurement | None:
        """Return the fastest measurement of an input; None where every row failed."""
        times_s = self.tables[problem].times_s
        works = np.isfinite(times_s).any()
        return self.measurement(problem, int(times_s.argmin())) if works else None

    @cached_property
    def measurements(self) -> Mapping[tuple[Input, Config], Measurement]:
        """Every measurement by input and configuration, built on access."""
        return _Measurements(self)


class _Measurements(Mapping[tuple[Input, Config], Measurement]):
    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def __getitem__(self, key: tuple[Input, Config]) -> Measurement:
        (problem, config) = key
        recording = self._recording
        if recording.points.why_no_point(config) is not None:
            raise KeyError(key)
        (row,) = recording.tables[problem].rows_of(recording.points.encode_all([config]))
        if row is None:
            raise KeyError(key)
        return recording.measurement(problem, row)

    def __iter__(self) -> Iterator[tuple[Input, Config]]:
        for problem, table in self._recording.tables.items():
            for row in range(len(table)):
                yield problem, self._recording.config(table, row)

    def __len__(self) -> int:
        return sum(map(len, self._recording.tables.values()))


# --------------------------------------------------------------------- rows of cells, in any order


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
            self.outcomes[row] = ended.outcome
            self.samples_s[row] = array("d")
        if ended.outcome is not Outcome.OK:
            self.messages.setdefault(row, ended.message)

    def table(self, moves: Sequence[PointArray]) -> RecordedTable:
        """Make the table; `moves` maps each parameter's codes to positions of its values."""
        codes = np.array(self.codes, np.int32).reshape(len(self.outcomes), len(moves))
        columns = [move[codes[:, axis]] for axis, move in enumerate(moves)]
        positions = np.stack(columns, axis=1)
        return RecordedTable(positions, self.outcomes, self.samples_s, self.messages)


class _ValueCodes(dict[Hashable, int]):
    """The cells of one column, each with a code; cells that mean the same value share one."""

    def __init__(self, read: Callable[[Any], Value]) -> None:
        super().__init__()
        self._read = read
        self._codes: dict[tuple[type, Value], int] = {}

    def __missing__(self, cell: Hashable) -> int:
        self[cell] = code = self._codes.setdefault(typed(self._read(cell)), len(self._codes))
        return code

    @property
    def distinct(self) -> list[Value]:
        """The values by their codes."""
        return [value for _, value in self._codes]


class RecordingBuilder:
    """Gathers rows of cells. Each distinct value of a column is kept once, by a code."""

    def __init__(
        self,
        path: Path,
        features: Sequence[str],
        parameters: Sequence[str],
        readers: Mapping[str, Callable[[Any], Value]],
    ) -> None:
        """`readers` read the cells of each column. Raises RecordingError for names that no search
        can work with."""
        self._path = path
        self._features = tuple(features)
        self._parameters = tuple(parameters)
        names = (*features, *parameters)
        _check_names(path, names)
        if not parameters:
            raise RecordingError(f"{path}: names no parameter; there is nothing to search")
        self._columns = [_ValueCodes(readers[name]) for name in names]
        self._inputs: dict[tuple[int, ...], _InputRows] = {}

    def add(self, cells: Sequence[Hashable], ended: RecordedOutcome) -> None:
        """Add a row: the cells of the features, then those of the parameters.

        Rows with equal values are samples of one measurement. Raises ValueError as the readers do.
        """
        codes = array("i", map(getitem, self._columns, cells))
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
        values_of: Callable[[str, list[Value]], Sequence[Value]] = lambda _, values: values,
    ) -> Recording:
        """Build the recording.

        `orders` has the values of parameters in the order that the file lists, and `values_of`
        may read all values of a column again together; see Recording for the rest. Raises
        RecordingError where no row was added, or a column makes no sense.
        """
        if not self._inputs:
            raise RecordingError(f"{self._path}: holds no measurement")
        width = len(self._features)
        orders = orders or {}
        name = recording_name(self._path)
        names = (*self._features, *self._parameters)
        pairs = zip(names, self._columns, strict=True)
        try:
            columns = [values_of(column, cells.distinct) for column, cells in pairs]
        except ValueError as error:
            raise RecordingError(f"{self._path}: {error}") from None
        parameters = []
        moves = []
        for column, seen in zip(self._parameters, columns[width:], strict=True):
            parameters.append(_parameter(column, seen, orders.get(column, ())))
            known = {typed(value): place for place, value in enumerate(parameters[-1].values)}
            moves.append(np.array([known[typed(value)] for value in seen], np.int32))
        tables: dict[Input, RecordedTable] = {}
        for codes, rows in self._inputs.items():
            cells = zip(self._features, columns, codes, strict=False)
            features = {feature: values[code] for feature, values, code in cells}
            tables[Input(features or {_NO_FEATURES: name})] = rows.table(moves)
        return Recording(
            path=self._path,
            name=name,
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


def _parameter(name: str, seen: Sequence[Value], listed: Sequence[Value]) -> Parameter:
    """Make a parameter of the values that occur.

    Numbers become a scale in ascending order. Other values keep the order in which the file lists
    them, or else in which they occur.
    """
    cells = dict.fromkeys(map(typed, seen))
    if not isinstance(listed, range):
        order = [cell for cell in map(typed, listed) if cell in cells]
        cells = dict.fromkeys([*order, *cells])
    values = [value for _, value in cells]
    if len(values) == 2 and set(map(type, values)) == {bool}:
        return Parameter(name, "boolean", (False, True), "source", False)
    numbers = sorted(v for v in values if isinstance(v, (int, float)) and not isinstance(v, bool))
    # 64 and 64.0 are two values, but no scale.
    if len(set(numbers)) == len(values):
        return Parameter(name, "ordered", tuple(numbers), "source", numbers[0])
    return Parameter(name, "enum", tuple(values), "source", values[0])


def _with_defaults(
    parameters: Sequence[Parameter], tables: Mapping[Input, RecordedTable]
) -> tuple[Parameter, ...]:
    """Take the first configuration that worked as the default; a recording has none of its own."""
    for table in tables.values():
        if Outcome.OK in table.outcomes:
            first = table.positions[table.outcomes.index(Outcome.OK)].tolist()
            pairs = zip(parameters, first, strict=True)
            return tuple(replace(p, default=p.values[position]) for p, position in pairs)
    return tuple(parameters)
