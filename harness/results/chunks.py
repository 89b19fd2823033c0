"""Read rows by their ids, some thousands at a time, each checked."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, Connection, Select, Table, null, select

from harness.core.arrays import Indices
from harness.core.records import Outcome, WorstElement
from harness.results import schema
from harness.results.cells import names_read, worst_element_of
from harness.results.config_table import Coder
from harness.results.connect import has_column, has_table
from harness.results.gathering import Chunk
from harness.results.validate_many import Cells, check_many_numbers, check_rows
from harness.stats.samples import Ragged

CHUNK = 10_000
"""The most ids of a query."""

_FETCHED = 50_000  # rows at a time
_SPREAD = 4  # a range of ids that holds this many times more rows than are wanted is not read whole


def plain_rows(connection: Connection, query: Select[Any]) -> Iterator[Sequence[Any]]:
    """Yield rows of numbers and texts as the driver returns them, many at a time; SQLAlchemy's rows
    take three times as long."""
    cursor = connection.execute(query).cursor
    assert cursor is not None  # a SELECT has one
    while rows := cursor.fetchmany(_FETCHED):
        yield rows


def cells_by_id(
    connection: Connection, table: Table, ids: Sequence[int], key: str = "id"
) -> Iterator[Cells]:
    """Yield the checked cells of the rows with these sorted ids in a column, by the name of the
    column, some thousands at a time, sorted by their ids; None in columns that an older database
    lacks.

    Raises what `check_row` raises where a row is damaged.
    """
    columns = [c if has_column(connection, c) else null().label(c.name) for c in table.columns]
    place = table.columns.keys().index(key)
    for first in range(0, len(ids), CHUNK):
        part = ids[first : first + CHUNK]
        wanted = set(part)
        query = select(*columns).where(among(table.c[key], part)).order_by(table.c.id)
        rows = [row for row in connection.execute(query).all() if row[place] in wanted]
        names = table.columns.keys()
        found = zip(*rows, strict=True) if rows else ((),) * len(names)
        cells = dict(zip(names, found, strict=True))
        check_rows(table, cells)
        yield cells


def values_by_id(
    connection: Connection, table: Table, name: str, ids: Sequence[int]
) -> Iterator[Any]:
    """Yield a cell of each of the rows with these ids, in the order of the ids.

    Raises ValueError for an id without a row.
    """
    for first in range(0, len(ids), CHUNK):
        part = ids[first : first + CHUNK]
        found: dict[int, Any] = {}
        for cells in cells_by_id(connection, table, sorted(part)):
            found |= zip(cells["id"], cells[name], strict=True)
        for row_id in part:
            if row_id not in found:
                raise ValueError(f"a row refers to row {row_id} of {table.name}, which is missing")
            yield found[row_id]


def among(column: ColumnElement[int], ids: Sequence[int]) -> ColumnElement[bool]:
    """Select at least the rows with these ids: all of their range if it holds few others."""
    low, high = min(ids), max(ids)
    is_dense = high - low < _SPREAD * len(ids)
    return column.between(low, high) if is_dense else column.in_(ids)


@dataclass(frozen=True, eq=False)
class Requestors:
    """The technique that asked first for each measurement; `ids` are sorted."""

    ids: Indices
    codes: Indices
    names: tuple[str, ...]

    @classmethod
    def read(cls, connection: Connection, test_ids: Sequence[int]) -> Requestors:
        """Read the first of each measurement's tests."""
        ids, codes, names = array("q"), array("q"), Coder()
        for cells in cells_by_id(connection, schema.tests, test_ids):
            ids.extend(cells["measurement_id"])
            codes.extend([names[name] for name in cells["requestor"]])
        known, first = np.unique(np.array(ids, dtype=np.intp), return_index=True)
        return cls(known, np.array(codes, dtype=np.intp)[first], tuple(names))

    def of_measurements(self, ids: Sequence[int]) -> list[str | None]:
        """Return the name of each measurement; None where no search asked for it."""
        if not len(self.ids):
            return [None] * len(ids)
        wanted = np.array(ids, dtype=np.intp)
        found = np.minimum(np.searchsorted(self.ids, wanted), len(self.ids) - 1)
        names = (*self.names, None)
        codes = np.where(self.ids[found] == wanted, self.codes[found], len(self.names))
        return [names[code] for code in codes.tolist()]


def read_chunks(
    connection: Connection, ids: Sequence[int], requestors: Requestors
) -> Iterator[Chunk]:
    """Read the measurements with these sorted ids, with their samples.

    Raises what `check_row` and `check_numbers` raise where a measurement is damaged.
    """
    for cells in cells_by_id(connection, schema.measurements, ids):
        samples_s, counts = read_samples(connection, cells["id"])
        observed = _observed(connection, cells["id"])
        check_many_numbers(cells, Ragged.of(samples_s, counts), observed)
        yield Chunk(
            ids=cells["id"],
            uuids=cells["uuid"],
            measured_at=cells["measured_at"],
            wall_s=cells["wall_s"],
            inputs=cells["input_id"],
            configs=cells["configuration_id"],
            builds=cells["build_id"],
            stages=cells["stage"],
            groups=cells["turn"],
            requestors=requestors.of_measurements(cells["id"]),
            outcomes=cells["outcome"],
            stopped=_stopped(cells),
            messages=cells["message"],
            shared_with=cells["shared_with"],
            host_read=[names_read({"host_read": names}) for names in cells["host_read"]],
            occasions=[tuple(sizes or ()) for sizes in cells["occasions"]],
            warmup_s=cells["warmup_s"],
            sample_counts=counts,
            samples_s=samples_s,
            worst=_worst(cells),
            observed=observed,
        )


def _stopped(cells: Cells) -> list[str | None]:
    pairs = zip(cells["outcome"], cells["stopped"], strict=True)
    return [stopped if outcome == Outcome.OK.value else None for outcome, stopped in pairs]


def _worst(cells: Cells) -> dict[int, WorstElement]:
    stored = enumerate(cells["worst_element"])
    found = ((row, worst_element_of({"worst_element": one})) for row, one in stored)
    return {row: worst for row, worst in found if worst is not None}


def samples_by_id(connection: Connection, ids: Sequence[int]) -> dict[int, Sequence[float]]:
    """Return the samples in seconds of the measurements with these sorted ids.

    Raises ValueError where one is missing or is no time.
    """
    samples_s, counts = read_samples(connection, ids) if ids else (array("d"), [])
    samples = iter(samples_s)
    return {row_id: [*islice(samples, n)] for row_id, n in zip(ids, counts, strict=True)}


def read_samples(connection: Connection, ids: Sequence[int]) -> tuple[array[float], list[int]]:
    """Return the samples of the measurements with these sorted ids, one after another, and their
    numbers.

    Raises ValueError where one is missing or is no time.
    """
    table = schema.samples
    query = (
        select(table.c.measurement_id, table.c.ordinal, table.c.time_s)
        .where(among(table.c.measurement_id, ids))
        .order_by(table.c.measurement_id, table.c.ordinal)
    )
    owners, ordinals, samples_s = array("q"), array("q"), array("d")
    for batch in plain_rows(connection, query):
        owner, ordinal, time_s = zip(*batch, strict=True)
        if {*map(type, time_s)} != {float}:
            _refuse_first(batch)
        owners.extend(owner)
        ordinals.extend(ordinal)
        samples_s.extend(time_s)
    own, wanted = np.array(owners, dtype=np.intp), np.array(ids, dtype=np.intp)
    index = np.minimum(np.searchsorted(wanted, own), len(wanted) - 1)
    is_wanted = wanted[index] == own
    counts = np.bincount(index[is_wanted], minlength=len(wanted))
    expected = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    missing = np.flatnonzero(np.array(ordinals, dtype=np.intp)[is_wanted] != expected)
    if len(missing):
        raise ValueError(
            f"measurement {own[is_wanted][missing[0]]}: sample {expected[missing[0]]} is missing"
        )
    if is_wanted.all():
        return samples_s, counts.tolist()
    return array("d", np.array(samples_s)[is_wanted].tobytes()), counts.tolist()


def _refuse_first(batch: Sequence[tuple[Any, Any, Any]]) -> None:
    for owner, ordinal, time_s in batch:
        if type(ordinal) is not int or type(time_s) is not float:
            raise ValueError(f"measurement {owner}: sample {ordinal!r} is {time_s!r}")


def _observed(connection: Connection, ids: Sequence[int]) -> dict[str, dict[int, float]]:
    """Return the observations by name, and by the index of the measurement."""
    table = schema.observations
    if not has_table(connection, table):
        return {}
    index_of = {measurement_id: index for index, measurement_id in enumerate(ids)}
    found: dict[str, dict[int, float]] = {}
    for cells in cells_by_id(connection, table, ids, "measurement_id"):
        rows = zip(cells["measurement_id"], cells["name"], cells["value"], strict=True)
        for measurement_id, name, value in rows:
            found.setdefault(name, {})[index_of[measurement_id]] = value
    return found
