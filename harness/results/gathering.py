"""Gather measurements into columns: from rows of the database, or from records."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.core.records import Build, Config, Input, Measurement, Outcome, Statistic, StopReason
from harness.results import schema
from harness.results.columns import (
    Coded,
    Coder,
    ConfigTable,
    MeasurementColumns,
    MeasurementRow,
    MeasurementRows,
    Numbers,
)
from harness.stats.samples import Ragged

T = TypeVar("T")

_WIDEST = 32  # characters of a uuid and of a moment, as in the schema

_NUMBERS = {"id": "q", "wall_s": "d"}
_TEXTS = ("uuid", "measured_at")
_LISTS = ("samples_s", "warmup_s")
_OBSERVED = "observed"
_OF_RESULT = ("input_id", "configuration_id", "tuning_run_id")

_CODED = {*schema.measurements.columns.keys(), *_OF_RESULT, "requestor"} - {
    *(*_NUMBERS, *_TEXTS, *_LISTS, _OBSERVED)
}
"""The columns of few distinct values."""

_STORED = tuple(f.name for f in fields(Measurement) if f.name in schema.measurements.columns)
_FIELDS = ("wall_s", *_STORED)
"""The fields of a measurement that are a column each."""


def measurement_cells(m: Measurement) -> dict[str, Any]:
    """Return the cells of a measurement by the names of our table, without what refers to other
    rows."""
    timing = m.timing
    return {
        **{name: getattr(m, name) for name in _STORED},
        "outcome": m.outcome.value,
        "observed": {name: float(value) for name, value in m.observed.items()},
        "samples_s": timing.samples_s if timing else (),
        "stopped": timing.stopped.value if timing else None,
        "occasions": timing.occasions or None if timing else None,
    }


class Gatherer:
    """Columns that grow, some thousand rows at a time."""

    def __init__(self) -> None:
        self._count = 0
        self._coders = {name: Coder() for name in _CODED}
        self._codes = {name: array("i") for name in _CODED}
        self._numbers = {name: array(kind) for name, kind in _NUMBERS.items()}
        self._texts = {name: bytearray() for name in _TEXTS}
        self._lists = {name: (array("d"), array("q")) for name in _LISTS}
        self._observed: dict[str, tuple[array[int], array[float]]] = {}

    def add(self, cells: Mapping[str, Sequence[Any]]) -> None:
        """Append rows by the cells of each column; raises ValueError where a text is too long."""
        for name, coder in self._coders.items():
            self._codes[name].extend([coder[value] for value in cells[name]])
        for name, column in self._numbers.items():
            column.extend(cells[name])
        for name, text in self._texts.items():
            text += _fixed_width(cells[name])
        for name, (values, counts) in self._lists.items():
            values.extend(chain.from_iterable(cells[name]))
            counts.extend(map(len, cells[name]))
        for row, observed in enumerate(cells[_OBSERVED], self._count):
            for name, value in observed.items():
                rows, numbers = self._observed.setdefault(name, (array("q"), array("d")))
                rows.append(row)
                numbers.append(value)
        self._count += len(cells["id"])

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
        coded = {
            name: Coded(np.array(codes, dtype=np.int32), tuple(self._coders[name]))
            for name, codes in self._codes.items()
        }
        lists = {name: Ragged.of(*cells) for name, cells in self._lists.items()}
        numbers = {name: Numbers(np.array(cells)) for name, cells in self._numbers.items()}
        others: dict[str, Any] = {**coded, **lists, **numbers}
        own = ("outcome", "shared_with", _OBSERVED)
        return MeasurementColumns(
            ids=np.array(self._numbers["id"], dtype=np.intp),
            uuids=self._text("uuid"),
            measured_at=self._text("measured_at"),
            inputs=_distinct(coded["input_id"], inputs),
            configs=Coded(configs.first_equal[coded["configuration_id"].codes], configs),
            config_table=configs,
            builds=_mapped(coded["build_id"], builds.get),
            stages=coded["stage"],
            groups=coded["group_uuid"],
            requestors=coded["requestor"],
            spaces=_distinct(coded["tuning_run_id"], spaces),
            outcomes=_mapped(coded["outcome"], Outcome),
            stopped=_mapped(coded["stopped"], lambda text: StopReason(text) if text else None),
            occasions=coded["occasions"],
            shared_with=coded["shared_with"],
            samples_s=lists["samples_s"],
            observed={name: self._sparse(*cells) for name, cells in self._observed.items()},
            others={name: others[name] for name in _FIELDS if name not in own},
        )

    def _text(self, name: str) -> npt.NDArray[np.bytes_]:
        return np.frombuffer(bytes(self._texts[name]), dtype=f"S{_WIDEST}")

    def _sparse(self, rows: array[int], numbers: array[float]) -> Array:
        column = np.full(self._count, np.nan)
        column[np.array(rows, dtype=np.intp)] = np.array(numbers)
        return column


def _fixed_width(texts: Sequence[str]) -> bytes:
    longest = max(texts, key=len, default="")
    if len(longest) > _WIDEST:
        raise ValueError(f"{longest!r} has more than {_WIDEST} characters")
    return "".join([text.ljust(_WIDEST, "\0") for text in texts]).encode("ascii")


def _mapped(column: Coded[Any], value_of: Callable[[Any], T]) -> Coded[T]:
    return Coded(column.codes, tuple(map(value_of, column.values)))


def _distinct(column: Coded[Any], values: Sequence[T]) -> Coded[T]:
    """Give equal values one code: spaces that share a program each have a row for an input, and
    many runs have one space."""
    coder = Coder()
    codes = np.array([coder[value] for value in values], dtype=np.int32)
    return Coded(codes[column.codes] if len(codes) else column.codes, tuple(coder))


def as_rows(measurement_rows: Iterable[MeasurementRow]) -> MeasurementRows:
    """Turn records into columns; columns stay as they are."""
    if isinstance(measurement_rows, MeasurementRows):
        return measurement_rows
    records = list(measurement_rows)
    rows = [
        {
            "id": row.id,
            "uuid": row.uuid,
            "measured_at": row.measured_at,
            "input_id": row.measurement.input,
            "configuration_id": row.measurement.config,
            "build_id": row.measurement.build,
            "stage": row.stage,
            "group_uuid": row.group,
            "requestor": row.requestor,
            "wall_s": row.measurement.wall_s,
            "tuning_run_id": row.space,
            **measurement_cells(row.measurement),
        }
        for row in records
    ]
    gatherer = Gatherer()
    if rows:
        gatherer.add({name: [row[name] for row in rows] for name in rows[0]})
    inputs: list[Input] = gatherer.keys("input_id")
    configs: list[Config] = gatherer.keys("configuration_id")
    builds = {build: build for build in gatherer.keys("build_id")}
    spaces: list[str] = gatherer.keys("tuning_run_id")
    columns = gatherer.columns(inputs, ConfigTable.of(configs), builds, spaces)
    timings = (row.measurement.timing for row in records)
    statistic = next((t.statistic for t in timings if t), Statistic.MEDIAN)
    return MeasurementRows(columns).by(statistic)
