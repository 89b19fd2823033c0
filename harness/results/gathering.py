"""Gather measurements, chunk by chunk, into columns."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.core.records import Build, Input, Outcome, Statistic, StopReason
from harness.core.worst_element import WorstElement
from harness.results.columns import Coded, MeasurementColumns, MeasurementRow, MeasurementRows
from harness.results.config_table import Coder, ConfigTable
from harness.stats.samples import Ragged

T = TypeVar("T")

_WIDEST = 32  # characters of a uuid and of a moment, as in the schema


@dataclass
class Chunk:
    """Some measurements, a list for each column.

    `inputs`, `configs` and `builds` are keys, equal for equal ones; None for no build. `samples_s`
    are the samples of all rows, `sample_counts` their numbers. `worst` is by the index of the row,
    `observed` by name and then by the index.
    """

    ids: Sequence[int]
    uuids: Sequence[str]
    measured_at: Sequence[str]
    wall_s: Sequence[float]
    inputs: Sequence[Hashable]
    configs: Sequence[Hashable]
    builds: Sequence[Hashable]
    stages: Sequence[str]
    groups: Sequence[str | None]
    requestors: Sequence[str | None]
    outcomes: Sequence[str]
    stopped: Sequence[str | None]
    messages: Sequence[str]
    shared_with: Sequence[str | None]
    host_read: Sequence[tuple[str, ...] | None]
    occasions: Sequence[tuple[int, ...]]
    warmup_s: Sequence[Sequence[float]]
    sample_counts: Sequence[int]
    samples_s: array[float]
    worst: Mapping[int, WorstElement] = field(default_factory=dict)
    observed: Mapping[str, Mapping[int, float]] = field(default_factory=dict)


_CODED = (
    "inputs",
    "configs",
    "builds",
    "stages",
    "groups",
    "requestors",
    "outcomes",
    "stopped",
    "messages",
    "shared_with",
    "host_read",
    "occasions",
)


class Gatherer:
    """MeasurementColumns that grow by chunks."""

    def __init__(self) -> None:
        self._count = 0
        self._coders = {name: Coder() for name in _CODED}
        self._codes = {name: array("i") for name in _CODED}
        self._numbers: dict[str, array[Any]] = {"ids": array("q"), "wall_s": array("d")}
        self._texts = {"uuids": bytearray(), "measured_at": bytearray()}
        self._samples_s, self._warmup_s = array("d"), array("d")
        self._sample_counts, self._warmup_counts = array("q"), array("q")
        self._worst: dict[int, WorstElement] = {}
        self._observed: dict[str, tuple[array[int], array[float]]] = {}

    def add(self, chunk: Chunk) -> None:
        """Append the rows of a chunk; raises ValueError or TypeError where a value does not fit."""
        for name, coder in self._coders.items():
            self._codes[name].extend([coder[value] for value in getattr(chunk, name)])
        for name, numbers in self._numbers.items():
            numbers.extend(getattr(chunk, name))
        for name, text in self._texts.items():
            text += _fixed_width(getattr(chunk, name))
        self._samples_s.extend(chunk.samples_s)
        self._sample_counts.extend(chunk.sample_counts)
        self._warmup_s.extend(chain.from_iterable(chunk.warmup_s))
        self._warmup_counts.extend(map(len, chunk.warmup_s))
        self._worst |= {self._count + row: worst for row, worst in chunk.worst.items()}
        for name, values in chunk.observed.items():
            rows, numbers = self._observed.setdefault(name, (array("q"), array("d")))
            rows.extend(self._count + row for row in values)
            numbers.extend(values.values())
        self._count += len(chunk.ids)

    def keys(self, name: str) -> list[Any]:
        """Return the distinct keys of `inputs`, `configs` or `builds` so far."""
        return list(self._coders[name])

    def columns(
        self,
        inputs: Sequence[Input],
        configs: ConfigTable,
        builds: Callable[[Hashable], Build | None],
    ) -> MeasurementColumns:
        """Make the columns; `inputs` and `configs` are in the order of their keys."""
        coded = {name: self._coded(name) for name in _CODED}
        return MeasurementColumns(
            ids=np.array(self._numbers["ids"], dtype=np.intp),
            uuids=self._text("uuids"),
            measured_at=self._text("measured_at"),
            wall_s=np.array(self._numbers["wall_s"], dtype=np.float64),
            inputs=_distinct(coded.pop("inputs"), inputs),
            configs=Coded(coded.pop("configs").codes, configs),
            config_table=configs,
            builds=_mapped(coded.pop("builds"), builds),
            outcomes=_mapped(coded.pop("outcomes"), Outcome),
            stopped=_mapped(coded.pop("stopped"), lambda text: StopReason(text) if text else None),
            samples_s=Ragged.of(self._samples_s, self._sample_counts),
            warmup_s=Ragged.of(self._warmup_s, self._warmup_counts),
            worst=self._worst,
            observed={name: self._sparse(*found) for name, found in self._observed.items()},
            **coded,  # type: ignore[arg-type]
        )

    def _coded(self, name: str) -> Coded[Any]:
        return Coded(np.array(self._codes[name], dtype=np.int32), tuple(self._coders[name]))

    def _text(self, name: str) -> npt.NDArray[np.bytes_]:
        return np.frombuffer(bytes(self._texts[name]), dtype=f"S{_WIDEST}")

    def _sparse(self, rows: array[int], numbers: array[float]) -> Array:
        column = np.full(self._count, np.nan)
        column[np.array(rows, dtype=np.intp)] = np.array(numbers)
        return column


def _fixed_width(texts: Sequence[str]) -> bytes:
    encoded = [text.encode() for text in texts]
    if encoded and max(map(len, encoded)) > _WIDEST:
        longest = max(texts, key=len)
        raise ValueError(f"{longest!r} has more than {_WIDEST} characters")
    return b"".join([text.ljust(_WIDEST, b"\0") for text in encoded])


def _mapped(column: Coded[Any], value_of: Callable[[Any], T]) -> Coded[T]:
    return Coded(column.codes, tuple(map(value_of, column.values)))


def _distinct(column: Coded[Any], values: Sequence[Input]) -> Coded[Input]:
    """Give equal inputs one code: spaces that share a program each have a row for an input."""
    coder = Coder()
    codes = np.array([coder[value] for value in values], dtype=np.int32)
    return Coded(codes[column.codes] if len(codes) else column.codes, tuple(coder))


def as_rows(found: Iterable[MeasurementRow]) -> MeasurementRows:
    """Turn records into columns; columns stay as they are."""
    if isinstance(found, MeasurementRows):
        return found
    records = list(found)
    gatherer = Gatherer()
    gatherer.add(_chunk(records))
    keys = gatherer.keys("configs")
    rows = MeasurementRows(
        gatherer.columns(gatherer.keys("inputs"), ConfigTable.of(keys), lambda build: build)  # type: ignore[arg-type,return-value]
    )
    timings = (row.measurement.timing for row in records)
    return rows.by(next((t.statistic for t in timings if t), Statistic.MEDIAN))


def _chunk(rows: Sequence[MeasurementRow]) -> Chunk:
    found = [row.measurement for row in rows]
    timings = [m.timing for m in found]
    names = dict.fromkeys(name for m in found for name in m.observed)
    return Chunk(
        ids=[row.id for row in rows],
        uuids=[row.uuid for row in rows],
        measured_at=[row.measured_at for row in rows],
        wall_s=[m.wall_s for m in found],
        inputs=[m.input for m in found],
        configs=[m.config for m in found],
        builds=[m.build for m in found],
        stages=[row.stage for row in rows],
        groups=[row.group for row in rows],
        requestors=[row.requestor for row in rows],
        outcomes=[m.outcome.value for m in found],
        stopped=[timing.stopped.value if timing else None for timing in timings],
        messages=[m.message for m in found],
        shared_with=[m.shared_with for m in found],
        host_read=[m.host_read for m in found],
        occasions=[timing.occasions if timing else () for timing in timings],
        warmup_s=[m.warmup_s for m in found],
        sample_counts=[timing.count if timing else 0 for timing in timings],
        samples_s=array("d", chain.from_iterable(t.samples_s for t in timings if t)),
        worst={row: m.worst for row, m in enumerate(found) if m.worst},
        observed={
            name: {row: m.observed[name] for row, m in enumerate(found) if name in m.observed}
            for name in names
        },
    )
