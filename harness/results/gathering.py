"""Gather measurements into columns: from rows of the database, or from records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.core.records import Build, Input, Measurement, Outcome, Statistic, StopReason
from harness.results import schema
from harness.results.columns import (
    Coded,
    Coder,
    ConfigTable,
    MeasurementColumns,
    MeasurementRow,
    MeasurementRows,
)
from harness.stats.samples import Ragged

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
        self._parts: dict[str, list[npt.NDArray[Any]]] = {}
        self._observed: dict[str, dict[int, float]] = {}
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
                self._observed.setdefault(name, {})[row] = value
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
            observed={name: self._sparse(cells) for name, cells in self._observed.items()},
            others=others,
        )

    def _sparse(self, cells: Mapping[int, float]) -> Array:
        column = np.full(self._count, np.nan)
        column[list(cells)] = list(cells.values())
        return column


def as_rows(measurement_rows: Iterable[MeasurementRow]) -> MeasurementRows:
    """Turn records into columns; columns stay as they are."""
    if isinstance(measurement_rows, MeasurementRows):
        return measurement_rows
    records = list(measurement_rows)
    rows = [
        {
            "id": row.id,
            "uuid": row.uuid,
            "measured_at": row.measured_at[: len("2026-01-01T00:00:00.000")],  # without its zone
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
    configs = ConfigTable.of(gatherer.keys("configuration_id"))
    builds = {build: build for build in gatherer.keys("build_id")}
    inputs, spaces = gatherer.keys("input_id"), gatherer.keys("tuning_run_id")
    columns = gatherer.columns(inputs, configs, builds, spaces)
    timings = (row.measurement.timing for row in records)
    statistic = next((t.statistic for t in timings if t), Statistic.MEDIAN)
    return MeasurementRows(columns).by(statistic)
