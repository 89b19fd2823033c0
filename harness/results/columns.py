"""Measurements as columns, so that millions fit into memory; a record is made when it is read."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array, Codes, Flags, Indices
from harness.core.observations import CLOCK_ERROR
from harness.core.records import (
    Config,
    Input,
    Measurement,
    Outcome,
    Statistic,
    StopReason,
    Timing,
    Value,
)
from harness.results import schema
from harness.stats.samples import Ragged, SampleStatistics

Objects = npt.NDArray[np.object_]

_MOST_MADE = 20_000  # records; beyond, those not used for longest are made again


@dataclass(frozen=True)
class MeasurementRow:
    """One measurement as stored.

    Measurements that were interleaved share a `group`. `uuid` is the same in every copy of a row.
    `requestor` is the first technique that asked for it, None where no search did. `measured_at`
    is ISO 8601 in UTC. `space` is the digest of the version of the space that it was measured for.
    """

    id: int
    stage: str
    measurement: Measurement
    group: str | None = None
    uuid: str = ""
    requestor: str | None = None
    measured_at: str = ""
    space: str = ""


class Coder(dict[Any, int]):
    """Numbers for keys, in the order in which they were first asked for."""

    def __missing__(self, key: Hashable) -> int:
        self[key] = code = len(self)
        return code


def _value_key(value: Value) -> Hashable:
    """Return a key that keeps 1, 1.0 and True apart, and 0.0 and -0.0."""
    return type(value), repr(value) if type(value) is float else value


@dataclass(frozen=True, eq=False)
class ConfigTable(Sequence[Config]):
    """Distinct configurations; a record is made when it is asked for.

    `values` are the different values by name, and `code_of` has their indices by `_value_key`.
    `codes`, shape (configurations, names), are these indices; -1 where a configuration lacks the
    name. `layouts` are the different orders of names, and `layout`, shape (configurations,), has
    the index of each configuration's.
    """

    values: Mapping[str, Sequence[Value]]
    code_of: Mapping[str, Mapping[Hashable, int]]
    codes: Codes
    layouts: tuple[tuple[str, ...], ...]
    layout: Codes

    @classmethod
    def of(cls, configs: Iterable[Mapping[str, Value]]) -> ConfigTable:
        """Code the configurations.

        Raises TypeError or ValueError where one cannot be a configuration, as Config does.
        """
        layouts = Coder()
        code_of: dict[str, Coder] = {}
        values: dict[str, list[Value]] = {}
        layout: list[int] = []
        rows: list[list[int]] = []
        for config in configs:
            layout.append(layouts[tuple(config)])
            codes = dict.fromkeys(values, -1)
            for name, value in config.items():
                if name not in values:
                    code_of[name] = Coder()
                    values[name] = []
                codes[name] = code = code_of[name][_value_key(value)]
                if code == len(values[name]):
                    values[name].append(Config({name: value})[name])  # which checks it
            rows.append(list(codes.values()))
        for row in rows:
            row += [-1] * (len(values) - len(row))
        return cls(
            values=values,
            code_of=code_of,
            codes=np.array(rows, dtype=np.int32).reshape(len(rows), len(values)),
            layouts=tuple(layouts),
            layout=np.array(layout, dtype=np.int32),
        )

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, index: Any) -> Any:
        return self._made(range(len(self))[index])

    @cached_property
    def _made(self) -> Any:
        return lru_cache(_MOST_MADE)(self._make)

    def _make(self, index: int) -> Config:
        codes = dict(zip(self.values, self.codes[index].tolist(), strict=True))
        names = self.layouts[self.layout[index]]
        return Config({name: self.values[name][codes[name]] for name in names})

    def find(self, config: Config) -> int | None:
        """Return the index of a configuration; None if it is not here."""
        if not config.keys() <= self.values.keys():
            return None
        wanted = dict.fromkeys(self.values, -1)
        for name, value in config.items():
            wanted[name] = self.code_of[name].get(_value_key(value), len(self))
        return self._index_of.get(np.array([*wanted.values()], dtype=np.int32).tobytes())

    @cached_property
    def _index_of(self) -> Mapping[bytes, int]:
        # of equal ones the first counts
        return {self.codes[i].tobytes(): i for i in reversed(range(len(self)))}

    @cached_property
    def first_equal(self) -> Codes:
        """The index of the first configuration that is equal to each, shape (configurations,):
        spaces that share a program each have a row for a configuration."""
        first = [self._index_of[row.tobytes()] for row in self.codes]
        return np.array(first, dtype=np.int32)

    def settings(self, indices: Indices | Codes) -> dict[str, tuple[Sequence[Value], Codes]]:
        """Return, by the names of parameters, the values, and which of them each of these
        configurations has: -1 where it has none."""
        columns = zip(self.values.values(), self.codes[indices].T, strict=True)
        return dict(zip(self.values, columns, strict=True))


# ------------------------------------------------------------------------ measurements

_NUMBERS: Mapping[str, npt.DTypeLike] = {
    "id": np.intp,
    "uuid": "S32",
    "measured_at": "datetime64[ms]",
    "wall_s": np.float64,
    "input_codes": np.int32,
    "config_codes": np.int32,
}
"""The columns of numbers, with their types."""

_LISTS = ("samples_s", "warmup_s")

_OBJECTS = (
    "stage",
    "group_uuid",
    "requestor",
    "space",
    "outcome",
    "stopped",
    "occasions",
    "shared_with",
    "data_sha256",
    "worst_element",
    "message",
    "host_read",
    "build",
)
"""The columns of objects; in one column, equal objects are one."""

_COLUMNS = (*_NUMBERS, *_LISTS, *_OBJECTS, "observations")


@dataclass(frozen=True, eq=False)
class MeasurementColumns:
    """The columns of measurements, each of shape (rows,).

    `input_codes` and `config_codes` are indices of `inputs` and `configs`. `space` has the digests
    of versions of the space. Some of the `samples_s` are shared by configurations of equal machine
    code. Each of the `observations` has numbers by name.
    """

    inputs: Sequence[Input]
    configs: ConfigTable
    input_codes: Codes
    config_codes: Codes
    id: Indices
    uuid: npt.NDArray[np.bytes_]
    measured_at: npt.NDArray[np.datetime64]
    wall_s: Array
    stage: Objects
    group_uuid: Objects
    requestor: Objects
    space: Objects
    outcome: Objects
    stopped: Objects
    occasions: Objects
    shared_with: Objects
    data_sha256: Objects
    worst_element: Objects
    message: Objects
    host_read: Objects
    build: Objects
    observations: Objects
    samples_s: Ragged
    warmup_s: Ragged
    statistic: Statistic = Statistic.MEDIAN

    @cached_property
    def statistics(self) -> SampleStatistics:
        """The statistics of each row's samples."""
        statistics = SampleStatistics.of(self.samples_s, self.statistic)
        return replace(statistics, clock_error_s=self.clock_error_s)

    @cached_property
    def observed(self) -> Mapping[str, Array]:
        """The observations by name; NaN where a row has none."""
        observed: dict[str, Array] = {}
        for name in dict.fromkeys(chain.from_iterable(self.observations)):
            numbers = (observations.get(name, math.nan) for observations in self.observations)
            observed[name] = np.fromiter(numbers, np.float64, len(self.id))
        return observed

    @cached_property
    def clock_error_s(self) -> Array:
        """By how much the clock may put the times of each row off."""
        errors_s = self.observed.get(CLOCK_ERROR, np.zeros(len(self.id)))
        return np.maximum(np.nan_to_num(errors_s), 0)

    @cached_property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The outcomes of all rows, in the order in which they appear."""
        return tuple(dict.fromkeys(self.outcome.tolist()))

    @cached_property
    def works(self) -> Flags:
        """Which rows have the outcome ok."""
        works: Flags = self.outcome == Outcome.OK
        return works

    @cached_property
    def time_s(self) -> Array:
        """The medians, or the means by the statistic; infinity for a failure."""
        time_s: Array = np.where(self.works, self.statistics.time, np.inf)
        return time_s

    @cached_property
    def is_shared(self) -> Flags:
        """Which rows have the measurement of another configuration."""
        return self.shared_with.astype(np.bool_)

    @cached_property
    def origins(self) -> Codes:
        """A number that rows share if their configurations have the same machine code on an input,
        as far as that is known: that of the configuration that was measured."""
        if not self.is_shared.any():
            return self.config_codes
        code_of = {config.digest: code for code, config in enumerate(self.configs)}
        origins: Codes = self.config_codes.copy()
        for row in np.flatnonzero(self.is_shared).tolist():
            absent = len(self.configs) + len(code_of)  # the code of a configuration not here
            origins[row] = code_of.setdefault(self.shared_with[row], absent)
        return origins

    def row(self, row: int) -> MeasurementRow:
        """Make the record of a row."""
        date = self.measured_at[row]
        return MeasurementRow(
            id=self.id.item(row),
            stage=self.stage[row],
            measurement=self.measurement(row),
            group=self.group_uuid[row],
            uuid=self.uuid[row].decode(),
            requestor=self.requestor[row],
            measured_at="" if np.isnat(date) else f"{date}+00:00",
            space=self.space[row],
        )

    def measurement(self, row: int) -> Measurement:
        """Make the measurement of a row."""
        return Measurement(
            config=self.config(row),
            input=self.input(row),
            outcome=self.outcome[row],
            timing=self.timing(row),
            build=self.build[row],
            wall_s=self.wall_s.item(row),
            observed=self.observations[row],
            shared_with=self.shared_with[row],
            data_sha256=self.data_sha256[row],
            worst_element=self.worst_element[row],
            message=self.message[row],
            host_read=self.host_read[row],
            warmup_s=self.warmup_s.at(row),
        )

    def config(self, row: int) -> Config:
        """Return the configuration of a row."""
        config: Config = self.configs[self.config_codes.item(row)]
        return config

    def input(self, row: int) -> Input:
        """Return the input of a row."""
        return self.inputs[self.input_codes.item(row)]

    def timing(self, row: int) -> Timing | None:
        """Make the timing of a row; None for a failure."""
        if self.stopped[row] is None:
            return None
        return Timing(
            samples_s=self.samples_s.at(row),
            stopped=self.stopped[row],
            occasions=self.occasions[row] or (),
            statistic=self.statistic,
            clock_error_s=self.clock_error_s.item(row),
        )


class MeasurementRows(Sequence[MeasurementRow]):
    """Some rows of columns, in an order; each record is made when it is read."""

    def __init__(self, columns: MeasurementColumns, selected: Indices | None = None) -> None:
        self.columns = columns
        self.selected: Indices = np.arange(len(columns.id)) if selected is None else selected

    def __len__(self) -> int:
        return len(self.selected)

    def __iter__(self) -> Iterator[MeasurementRow]:
        return map(self.columns.row, self.selected.tolist())

    def __getitem__(self, index: Any) -> Any:
        chosen = self.selected[index]
        return self.take(chosen) if isinstance(index, slice) else self.columns.row(int(chosen))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self):,} measurements>"

    def by(self, statistic: Statistic) -> MeasurementRows:
        """Return the same samples with another statistic."""
        if self.columns.statistic is statistic:
            return self
        return MeasurementRows(replace(self.columns, statistic=statistic), self.selected)

    def take(self, index: Indices) -> MeasurementRows:
        """Take rows by their indices into the columns."""
        return MeasurementRows(self.columns, index)

    def where(self, marked: Flags) -> MeasurementRows:
        """Take the rows that are marked, shape (rows,)."""
        return self.take(self.selected[marked])

    def of(self, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return these rows of a column, shape (rows,)."""
        return column[self.selected]

    def of_stages(self, stages: Sequence[str]) -> MeasurementRows:
        """Take the rows of some stages."""
        return self.where(np.isin(self.of(self.columns.stage), stages))

    def measurements(self) -> Iterator[Measurement]:
        """Make the measurement of each row."""
        return map(self.columns.measurement, self.selected.tolist())

    def values_of(self, name: str) -> list[Value]:
        """Return the values of a parameter that these rows have, in order of appearance."""
        settings = self.columns.configs.settings(self.of(self.columns.config_codes))
        if name not in settings:
            return []
        values, codes = settings[name]
        return [values[code] for code in dict.fromkeys(codes.tolist()) if code >= 0]

    @property
    def outcomes(self) -> Counter[Outcome]:
        """The number of rows by outcome, in the order in which outcomes appear in the columns."""
        counts = Counter(self.of(self.columns.outcome).tolist())
        return Counter({o: counts[o] for o in self.columns.outcomes if o in counts})

    @property
    def is_shared(self) -> Flags:
        """Which rows have the measurement of another configuration, shape (rows,)."""
        flags: Flags = self.of(self.columns.is_shared)
        return flags


# --------------------------------------------------------------------------- to gather columns

_STORED = tuple(f.name for f in fields(Measurement) if f.name in schema.measurements.columns)
"""The fields of a measurement that are a column each."""


def measurement_cells(m: Measurement) -> dict[str, Any]:
    """Return the cells of a measurement by the names of our table, without what refers to other
    rows."""
    cells: dict[str, Any] = {name: getattr(m, name) for name in _STORED}
    cells["outcome"] = m.outcome.value
    cells["observed"] = {name: float(value) for name, value in m.observed.items()}
    cells["samples_s"] = ()
    cells["stopped"] = cells["occasions"] = None
    if m.timing is not None:
        cells["samples_s"] = m.timing.samples_s
        cells["stopped"] = m.timing.stopped.value
        cells["occasions"] = m.timing.occasions or None
    return cells


class _Parsed(dict[Any, Any]):
    """By cell, its object: one for all equal cells."""

    def __init__(self, parse: Callable[[Any], object]) -> None:
        self._parse = parse

    def __missing__(self, cell: Any) -> object:
        self[cell] = parsed = None if cell is None else self._parse(cell)
        return parsed


class Gatherer:
    """Columns that grow, some thousand rows at a time."""

    def __init__(self) -> None:
        self._objects = {name: _Parsed(lambda cell: cell) for name in _OBJECTS}
        self._objects["outcome"] = _Parsed(Outcome)
        self._objects["stopped"] = _Parsed(StopReason)
        self._parts: list[dict[str, Any]] = []
        self.add(dict.fromkeys(_COLUMNS, ()))

    def add(self, cells: Mapping[str, Sequence[Any]]) -> None:
        """Append rows by the cells of each column."""
        part: dict[str, Any] = {}
        for name, kind in _NUMBERS.items():
            part[name] = np.array(cells[name], dtype=kind)
        for name in _LISTS:
            numbers = np.fromiter(chain.from_iterable(cells[name]), dtype=np.float64)
            counts = np.array(list(map(len, cells[name])), dtype=np.intp)
            part[name] = Ragged(numbers, counts.cumsum())
        for name, objects in self._objects.items():
            part[name] = as_objects(map(objects.__getitem__, cells[name]))
        part["observations"] = as_objects(cells["observations"])
        self._parts.append(part)

    def columns(self, inputs: Iterable[Input], configs: ConfigTable) -> MeasurementColumns:
        """Make the columns; their codes are indices of these inputs and configurations."""
        return _stacked(self._parts, inputs, configs)


def as_objects(cells: Iterable[object]) -> Objects:
    """Make a column of objects, which may be sequences."""
    return np.fromiter(cells, dtype=np.object_)


def _stacked(
    parts: Sequence[Mapping[str, Any]], inputs: Iterable[Input], configs: ConfigTable
) -> MeasurementColumns:
    """Put columns of one name one below the other. Spaces that share a program each have a row for
    an input, and for a configuration: equal ones get one code."""
    stacked: dict[str, Any] = {}
    for name in _COLUMNS:
        columns = [part[name] for part in parts]
        stacked[name] = Ragged.joined(columns) if name in _LISTS else np.concatenate(columns)
    distinct = Coder()
    first_equal = np.array([distinct[problem] for problem in inputs], dtype=np.int32)
    stacked["input_codes"] = first_equal[stacked["input_codes"]]
    stacked["config_codes"] = configs.first_equal[stacked["config_codes"]]
    return MeasurementColumns(inputs=tuple(distinct), configs=configs, **stacked)


def joined(parts: Sequence[MeasurementRows]) -> MeasurementRows:
    """Put rows of several tables one below the other."""
    columns: list[dict[str, Any]] = []
    selected: list[Indices] = []
    inputs: list[Input] = []
    configs: list[Config] = []
    count = 0
    for part in parts:
        table = part.columns
        moved = vars(table).copy()
        moved["input_codes"] = table.input_codes + len(inputs)
        moved["config_codes"] = table.config_codes + len(configs)
        columns.append(moved)
        selected.append(part.selected + count)
        inputs += table.inputs
        configs += table.configs
        count += len(table.id)
    rows = MeasurementRows(_stacked(columns, inputs, ConfigTable.of(configs)))
    return rows.take(np.concatenate(selected)).by(parts[0].columns.statistic)


def as_rows(measurement_rows: Iterable[MeasurementRow]) -> MeasurementRows:
    """Turn records into columns; columns stay as they are."""
    if isinstance(measurement_rows, MeasurementRows):
        return measurement_rows
    inputs, configs = Coder(), Coder()
    cells: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
    statistic = Statistic.MEDIAN
    for row in measurement_rows:
        m = row.measurement
        of_row = measurement_cells(m)
        of_row["id"] = row.id
        of_row["uuid"] = row.uuid
        of_row["measured_at"] = row.measured_at.removesuffix("+00:00")
        of_row["wall_s"] = m.wall_s
        of_row["input_codes"] = inputs[m.input]
        of_row["config_codes"] = configs[m.config]
        of_row["stage"] = row.stage
        of_row["group_uuid"] = row.group
        of_row["requestor"] = row.requestor
        of_row["space"] = row.space
        of_row["build"] = m.build
        of_row["observations"] = of_row["observed"]
        for name, column in cells.items():
            column.append(of_row[name])
        if m.timing is not None:
            statistic = m.timing.statistic
    gatherer = Gatherer()
    gatherer.add(cells)
    return MeasurementRows(gatherer.columns(tuple(inputs), ConfigTable.of(configs))).by(statistic)
