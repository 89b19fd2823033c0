"""Measurements as columns, so that millions fit into memory; a record is made when it is read."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array, Codes, Flags, Indices
from harness.core.observations import CLOCK_ERROR
from harness.core.records import (
    Build,
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

T = TypeVar("T")

_MOST_KEPT = 20_000  # records; beyond, those not used for longest are made again


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

    `layouts` are the names of configurations, in their order, and `layout`, shape
    (configurations,), each one's. `codes`, shape (configurations, names), are the indices of the
    values in `values`, by name in the order of `names`; -1 where a configuration lacks the name.
    """

    names: tuple[str, ...]
    values: tuple[tuple[Value, ...], ...]
    codes: Codes
    layouts: tuple[tuple[str, ...], ...]
    layout: Codes

    @classmethod
    def of(cls, configs: Iterable[Mapping[str, Value]]) -> ConfigTable:
        """Code the configurations.

        Raises TypeError or ValueError where one cannot be a configuration, as Config does.
        """
        names, layouts = Coder(), Coder()
        coders: list[Coder] = []
        values: list[list[Value]] = []
        layout: list[int] = []
        rows: list[list[int]] = []
        for config in configs:
            layout.append(layouts[tuple(config)])
            row = [-1] * len(names)
            for name, value in config.items():
                column = names[name]
                if column == len(coders):
                    coders.append(Coder())
                    values.append([])
                    row.append(-1)
                row[column] = code = coders[column][_value_key(value)]
                if code == len(values[column]):
                    values[column].append(Config({name: value})[name])  # which checks it
            rows.append(row)
        for row in rows:
            row += [-1] * (len(names) - len(row))
        return cls(
            tuple(names),
            tuple(map(tuple, values)),
            np.array(rows, dtype=np.int32).reshape(len(rows), len(names)),
            tuple(layouts),
            np.array(layout, dtype=np.int32),
        )

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, index: Any) -> Any:
        return self._made(range(len(self))[index])

    @cached_property
    def _made(self) -> Any:
        return lru_cache(_MOST_KEPT)(self._make)

    def _make(self, index: int) -> Config:
        row = self.codes[index].tolist()
        config: dict[str, Value] = {}
        for name in self.layouts[self.layout[index]]:
            column = self._columns[name]
            config[name] = self.values[column][row[column]]
        return Config(config)

    @cached_property
    def _columns(self) -> Mapping[str, int]:
        return {name: column for column, name in enumerate(self.names)}

    @cached_property
    def _code_of(self) -> tuple[Mapping[Hashable, int], ...]:
        codes: list[Mapping[Hashable, int]] = []
        for values in self.values:
            codes.append({_value_key(value): code for code, value in enumerate(values)})
        return tuple(codes)

    def find(self, config: Config) -> int | None:
        """Return the index of a configuration; None if it is not here."""
        if not set(config) <= self._columns.keys():
            return None
        wanted = np.full(len(self.names), -1, dtype=np.int32)
        for name, value in config.items():
            column = self._columns[name]
            wanted[column] = self._code_of[column].get(_value_key(value), len(self))
        return self._index_of.get(wanted.tobytes())

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
        columns = zip(self.values, self.codes[indices].T, strict=True)
        return dict(zip(self.names, columns, strict=True))


# ------------------------------------------------------------------------ measurements


@dataclass(frozen=True, eq=False)
class Coded(Generic[T]):
    """A column of few distinct values: `codes`, shape (rows,), are indices of `values`."""

    codes: Codes
    values: Sequence[T]

    @classmethod
    def of(cls, codes: Codes, values: Iterable[T]) -> Coded[T]:
        """Give equal values one code."""
        coder = Coder()
        new_codes = np.array([coder[value] for value in values], dtype=np.int32)
        return cls(new_codes[codes], tuple(coder))

    def at(self, row: int) -> T:
        """Return the value of a row."""
        value: T = self.values[self.codes.item(row)]  # a fourth of the time of codes[row]
        return value

    def code(self, value: T) -> int:
        """Return the code of a value; -1, which no row has, where no row has the value."""
        return next((code for code, one in enumerate(self.values) if one == value), -1)


@dataclass(frozen=True, eq=False)
class MeasurementColumns:
    """The columns of measurements, each of shape (rows,).

    `observed` has the observations by name: NaN where a row has none. Some of the `samples_s` are
    shared by configurations of equal machine code. `others` has the columns of other fields of a
    measurement.
    """

    ids: Indices
    uuids: npt.NDArray[np.bytes_]
    measured_at: npt.NDArray[np.datetime64]
    wall_s: Array
    inputs: Coded[Input]
    configs: Coded[Config]
    config_table: ConfigTable
    stages: Coded[str]
    groups: Coded[str | None]
    requestors: Coded[str | None]
    spaces: Coded[str]
    outcomes: Coded[Outcome]
    stopped: Coded[StopReason | None]
    occasions: Coded[tuple[int, ...] | None]
    shared_with: Coded[str | None]
    data_sha256: Coded[str | None]
    builds: Coded[Build | None]
    samples_s: Ragged
    observed: Mapping[str, Array]
    others: Mapping[str, Any]
    statistic: Statistic = Statistic.MEDIAN

    @cached_property
    def statistics(self) -> SampleStatistics:
        """The statistics of each row's samples."""
        statistics = SampleStatistics.of(self.samples_s, self.statistic)
        return replace(statistics, clock_error_s=self.clock_error_s)

    @cached_property
    def clock_error_s(self) -> Array:
        """By how much the clock may put the times of each row off."""
        errors_s = self.observed.get(CLOCK_ERROR, np.zeros(len(self.ids)))
        return np.maximum(np.nan_to_num(errors_s), 0)

    @cached_property
    def works(self) -> Flags:
        """Which rows have the outcome ok."""
        works: Flags = self.outcomes.codes == self.outcomes.code(Outcome.OK)
        return works

    @cached_property
    def time_s(self) -> Array:
        """The medians, or the means by the statistic; infinity for a failure."""
        time_s: Array = np.where(self.works, self.statistics.time, np.inf)
        return time_s

    @property
    def has_shared(self) -> bool:
        """Whether any configuration has the measurement of another one."""
        return any(digest is not None for digest in self.shared_with.values)

    @cached_property
    def origins(self) -> Codes:
        """A number that rows share if their configurations have the same machine code on an input,
        as far as that is known: that of the configuration that was measured."""
        digests = self.shared_with.values
        if not self.has_shared:
            return self.configs.codes
        code_of = {config.digest: code for code, config in enumerate(self.config_table)}
        measured: list[int] = []
        for code, digest in enumerate(digests):
            absent = len(self.config_table) + code  # the code of a configuration that is not here
            measured.append(code_of.get(digest, absent) if digest else -1)
        origins = np.array(measured, dtype=np.int32)[self.shared_with.codes]
        codes: Codes = np.where(origins >= 0, origins, self.configs.codes)
        return codes

    def row(self, row: int) -> MeasurementRow:
        """Make the record of a row."""
        date = self.measured_at[row]
        measured_at = "" if np.isnat(date) else f"{date}+00:00"
        return MeasurementRow(
            int(self.ids[row]),
            self.stages.at(row),
            self.measurement(row),
            self.groups.at(row),
            self.uuids[row].decode(),
            self.requestors.at(row),
            measured_at,
            self.spaces.at(row),
        )

    def measurement(self, row: int) -> Measurement:
        """Make the measurement of a row."""
        return Measurement(
            self.configs.at(row),
            self.inputs.at(row),
            self.outcomes.at(row),
            self.timing(row),
            self.builds.at(row),
            wall_s=self.wall_s.item(row),
            observed=self._observed(row),
            shared_with=self.shared_with.at(row),
            data_sha256=self.data_sha256.at(row),
            **{name: column.at(row) for name, column in self.others.items()},
        )

    def timing(self, row: int) -> Timing | None:
        """Make the timing of a row; None for a failure."""
        stopped = self.stopped.at(row)
        if stopped is None:
            return None
        samples_s, occasions = self.samples_s.at(row), self.occasions.at(row) or ()
        clock_error_s: float = self.clock_error_s.item(row)
        return Timing(samples_s, stopped, occasions, self.statistic, clock_error_s)

    def _observed(self, row: int) -> dict[str, float]:
        numbers = {name: column.item(row) for name, column in self.observed.items()}
        return {name: number for name, number in numbers.items() if not math.isnan(number)}


class MeasurementRows(Sequence[MeasurementRow]):
    """Some rows of columns, in an order; each record is made when it is read."""

    def __init__(self, columns: MeasurementColumns, selected: Indices | None = None) -> None:
        self.columns = columns
        self.selected: Indices = np.arange(len(columns.ids)) if selected is None else selected

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

    def where(self, kept: Flags) -> MeasurementRows:
        """Keep the rows that are marked, shape (rows,)."""
        return self.take(self.selected[kept])

    def of_stages(self, stages: Sequence[str]) -> MeasurementRows:
        """Keep the rows of some stages."""
        wanted = [code for code, stage in enumerate(self.columns.stages.values) if stage in stages]
        return self.where(np.isin(self.columns.stages.codes[self.selected], wanted))

    def measurements(self) -> Iterator[Measurement]:
        """Make the measurement of each row."""
        return map(self.columns.measurement, self.selected.tolist())

    def values_of(self, name: str) -> list[Value]:
        """Return the values of a parameter that these rows have, in order of appearance."""
        table = self.columns.config_table
        if name not in table.names:
            return []
        column = table.names.index(name)
        codes = table.codes[self.of(self.columns.configs.codes), column]
        values, first = np.unique(codes, return_index=True)
        known = table.values[column]
        return [known[code] for code in values[np.argsort(first)].tolist() if code >= 0]

    @property
    def outcomes(self) -> Counter[Outcome]:
        """The number of rows by outcome."""
        outcomes = self.columns.outcomes
        counts = np.bincount(self.of(outcomes.codes), minlength=len(outcomes.values)).tolist()
        return Counter({o: n for o, n in zip(outcomes.values, counts, strict=True) if n})

    @property
    def is_shared(self) -> Flags:
        """Which rows have the measurement of another configuration, shape (rows,)."""
        shared = self.columns.shared_with
        flags: Flags = self.of(shared.codes) != shared.code(None)
        return flags

    def of(self, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return these rows of a column, shape (rows,)."""
        return column[self.selected]


# --------------------------------------------------------------------------- to gather columns

_NUMBERS: Mapping[str, npt.DTypeLike] = {
    "id": np.intp,
    "wall_s": np.float64,
    "uuid": "S32",
    "measured_at": "datetime64[ms]",
}
"""The columns of which every cell may differ, with their types."""

_LISTS = ("samples_s", "warmup_s")
_OF_RESULT = ("input_id", "configuration_id", "tuning_run_id")

_CODED = {*schema.measurements.columns.keys(), *_OF_RESULT, "requestor"} - {
    *(*_NUMBERS, *_LISTS, "observed")
}
"""The columns of few distinct values."""

_STORED = tuple(f.name for f in fields(Measurement) if f.name in schema.measurements.columns)
"""The fields of a measurement that are a column each."""

_OTHERS = ("worst_element", "message", "host_read")


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


class Gatherer:
    """Columns that grow, some thousand rows at a time."""

    def __init__(self) -> None:
        self._count = 0
        self._coders = {name: Coder() for name in _CODED}
        self._parts: dict[str, list[npt.NDArray[Any]]] = {}
        self._observed: dict[str, tuple[array[int], array[float]]] = {}
        self.add(dict.fromkeys((*_NUMBERS, *_LISTS, *_CODED, "observed"), ()))

    def add(self, cells: Mapping[str, Any]) -> None:
        """Append rows by the cells of each column."""
        for name, kind in _NUMBERS.items():
            self._append(name, np.array(cells[name], dtype=kind))
        for name, coder in self._coders.items():
            codes = [coder[value] for value in cells[name]]
            self._append(name, np.array(codes, dtype=np.int32))
        for name in _LISTS:
            values = chain.from_iterable(cells[name])
            self._append(name, np.fromiter(values, dtype=np.float64))
            self._append(f"{name} count", np.array(list(map(len, cells[name])), dtype=np.intp))
        for row, observed in enumerate(cells["observed"], self._count):
            for name, value in observed.items():
                rows, numbers = self._observed.setdefault(name, (array("q"), array("d")))
                rows.append(row)
                numbers.append(value)
        self._count += len(cells["id"])

    def _append(self, name: str, cells: npt.NDArray[Any]) -> None:
        self._parts.setdefault(name, []).append(cells)

    def keys(self, name: str) -> list[Any]:
        """Return the distinct cells of a column so far."""
        return list(self._coders[name])

    def columns(
        self,
        inputs: Sequence[Input],
        configs: ConfigTable,
        builds: Mapping[Any, Build],
        spaces: Sequence[str],
    ) -> MeasurementColumns:
        """Make the columns; `inputs`, `configs` and `spaces`, the digests of the runs' spaces, are
        in the order of their keys."""
        whole = {name: np.concatenate(parts) for name, parts in self._parts.items()}
        coded = {name: Coded(whole[name], tuple(self._coders[name])) for name in _CODED}
        lists = {name: Ragged(whole[name], whole[f"{name} count"].cumsum()) for name in _LISTS}
        others: dict[str, Any] = {name: coded[name] for name in _OTHERS}
        others["warmup_s"] = lists["warmup_s"]
        stopped = [text and StopReason(text) for text in coded["stopped"].values]
        return MeasurementColumns(
            ids=whole["id"],
            uuids=whole["uuid"],
            measured_at=whole["measured_at"],
            wall_s=whole["wall_s"],
            # Spaces that share a program each have a row for an input, and for a configuration.
            inputs=Coded.of(whole["input_id"], inputs),
            configs=Coded(configs.first_equal[whole["configuration_id"]], configs),
            config_table=configs,
            builds=Coded(whole["build_id"], list(map(builds.get, coded["build_id"].values))),
            stages=coded["stage"],
            groups=coded["group_uuid"],
            requestors=coded["requestor"],
            spaces=Coded.of(whole["tuning_run_id"], spaces),
            outcomes=Coded(whole["outcome"], list(map(Outcome, coded["outcome"].values))),
            stopped=Coded(whole["stopped"], stopped),
            occasions=coded["occasions"],
            shared_with=coded["shared_with"],
            data_sha256=coded["data_sha256"],
            samples_s=lists["samples_s"],
            observed={name: self._sparse(*cells) for name, cells in self._observed.items()},
            others=others,
        )

    def _sparse(self, rows: array[int], numbers: array[float]) -> Array:
        column = np.full(self._count, np.nan)
        column[np.array(rows, dtype=np.intp)] = np.array(numbers)
        return column


def as_rows(measurement_rows: Iterable[MeasurementRow]) -> MeasurementRows:
    """Turn records into columns; columns stay as they are."""
    if isinstance(measurement_rows, MeasurementRows):
        return measurement_rows
    rows: list[dict[str, Any]] = []
    statistics: list[Statistic] = []
    for row in measurement_rows:
        m = row.measurement
        cells = measurement_cells(m)
        cells["id"] = row.id
        cells["uuid"] = row.uuid
        cells["measured_at"] = row.measured_at[: len("2026-01-01T00:00:00.000")]  # without its zone
        cells["input_id"] = m.input
        cells["configuration_id"] = m.config
        cells["build_id"] = m.build
        cells["stage"] = row.stage
        cells["group_uuid"] = row.group
        cells["requestor"] = row.requestor
        cells["wall_s"] = m.wall_s
        cells["tuning_run_id"] = row.space
        rows.append(cells)
        if m.timing is not None:
            statistics.append(m.timing.statistic)
    gatherer = Gatherer()
    if rows:
        gatherer.add({name: [row[name] for row in rows] for name in rows[0]})
    configs = ConfigTable.of(gatherer.keys("configuration_id"))
    builds = {build: build for build in gatherer.keys("build_id")}
    inputs, spaces = gatherer.keys("input_id"), gatherer.keys("tuning_run_id")
    columns = gatherer.columns(inputs, configs, builds, spaces)
    return MeasurementRows(columns).by(statistics[0] if statistics else Statistic.MEDIAN)
