"""Read rows of the plain tables, some thousands at a time, each checked."""

from __future__ import annotations

import contextlib
import secrets
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from operator import itemgetter
from typing import Any, TypeVar

import numpy as np
from sqlalchemy import JSON, ColumnElement, Connection, Select, Table, select

from harness.core.arrays import Indices
from harness.core.errors import ResultsError
from harness.core.records import Outcome
from harness.core.worst_element import WorstElement
from harness.results import schema
from harness.results.cells import worst_element_of
from harness.results.config_table import Coder
from harness.results.connect import shown_name
from harness.results.engine import from_json
from harness.results.gathering import Chunk
from harness.results.validate import Cells, check_rows, check_samples
from harness.stats.samples import Ragged

T = TypeVar("T")
StoredRow = dict[str, Any]

CHUNK = 10_000
"""The most ids of a query."""

_FETCHED = 50_000  # rows at a time
_SPREAD = 4  # a range of ids that holds this many times more rows than are wanted is not read whole


def plain_rows(connection: Connection, query: Select[Any]) -> Iterator[Sequence[Any]]:
    """Yield rows of numbers and texts as the driver returns them, many at a time; SQLAlchemy's rows
    take three times as long. Raises ResultsError where the driver cannot read one."""
    cursor = connection.execute(query).cursor
    assert cursor is not None  # a SELECT has one
    try:
        while rows := cursor.fetchmany(_FETCHED):
            yield rows
    except connection.dialect.loaded_dbapi.Error as error:
        raise ResultsError(f"{shown_name(connection)} cannot be read: {error}") from None


def checked_cells(connection: Connection, table: Table, query: Select[Any]) -> Iterator[Cells]:
    """Yield the checked cells of a query of all columns of a table, some thousand rows at a time.

    Equal JSON texts of some rows are one object, which nobody may change. Raises ValueError where a
    row is damaged.
    """
    is_sqlite = connection.dialect.name == "sqlite"
    found = plain_rows(connection, query) if is_sqlite else _partitions(connection, query)
    for rows in found:
        columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
        yield _checked(table, dict(zip(table.columns.keys(), columns, strict=True)), is_sqlite)


def _partitions(connection: Connection, query: Select[Any]) -> Iterator[Sequence[Any]]:
    yield from connection.execute(query).partitions(_FETCHED)


def _checked(table: Table, cells: dict[str, Sequence[Any]], is_sqlite: bool) -> Cells:
    """Parse and check cells; SQLite's driver returns JSON as text."""
    if is_sqlite:
        cells |= {c.name: _parsed(cells[c.name]) for c in table.c if isinstance(c.type, JSON)}
    check_rows(table, cells)
    return cells


def read_rows(
    connection: Connection, table: Table, chosen: Select[Any] | None = None
) -> Iterator[StoredRow]:
    """Yield the rows of a table that has ids, checked, in the order of their ids.

    `chosen` selects rows of the table, perhaps by joins. Raises ValueError for a row that harness
    cannot have written.
    """
    query = select(table) if chosen is None else chosen.with_only_columns(*table.columns)
    for cells in checked_cells(connection, table, query.order_by(table.c.id)):
        names = tuple(cells)
        for row in zip(*cells.values(), strict=True):
            yield dict(zip(names, row, strict=True))


def rows_by_id(
    connection: Connection, table: Table, chosen: Select[Any] | None = None
) -> dict[int, StoredRow]:
    """Return the rows of `read_rows` by their ids."""
    return {row["id"]: row for row in read_rows(connection, table, chosen)}


def cells_by_id(
    connection: Connection, table: Table, ids: Sequence[int], key: str = "id"
) -> Iterator[Cells]:
    """Yield the checked cells of the rows with these sorted ids in a column, by the name of the
    column, some thousands at a time, sorted by their ids.

    Raises ValueError where a row is damaged.
    """
    place = table.columns.keys().index(key)
    for first in range(0, len(ids), CHUNK):
        part = ids[first : first + CHUNK]
        query = select(table).where(among(table.c[key], part)).order_by(table.c.id)
        found = _columns_of(connection, query, place, part)
        cells = dict(zip(table.columns.keys(), found, strict=True))
        yield _checked(table, cells, connection.dialect.name == "sqlite")


def _columns_of(
    connection: Connection, query: Select[Any], place: int, wanted: Sequence[int]
) -> list[Sequence[Any]]:
    """Return the columns of the rows of a query whose cell at `place` is wanted."""
    if connection.dialect.name == "sqlite":
        rows = list(chain.from_iterable(plain_rows(connection, query)))
    else:
        rows = [tuple(row) for row in connection.execute(query)]
    found: list[Sequence[Any]] = list(zip(*rows, strict=True))
    if rows and found[place] != tuple(wanted):
        known = set(wanted)
        found = list(zip(*(row for row in rows if row[place] in known), strict=True))
    return found or [()] * len(query.selected_columns)


def _parsed(texts: Sequence[Any]) -> Sequence[Any]:
    """Parse a column of JSON; cells that hold no text stay as they are.

    All are parsed at once, since a call for each takes far longer. Between them stands a text that
    no database can know, so that damaged cells, such as `[1` and `2]`, never make up for each
    other.
    """
    found = dict.fromkeys(text for text in texts if type(text) is str)
    between = secrets.token_hex()
    values: list[Any] = []
    with contextlib.suppress(ValueError):
        together = from_json("[" + f',"{between}",'.join(found) + "]")
        values = together if isinstance(together, list) else []
    if len(values) != max(0, 2 * len(found) - 1) or any(v != between for v in values[1::2]):
        values = [value for text in found for value in (from_json(text), between)]  # or the error
    by_text = dict(zip(found, values[::2], strict=True))
    return [by_text[text] if type(text) is str else text for text in texts]


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

    Raises ValueError where a measurement is damaged.
    """
    for cells in cells_by_id(connection, schema.measurements, ids):
        samples_s, counts = read_samples(connection, cells["id"])
        check_samples(cells, Ragged.of(samples_s, counts))
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
            host_read=_each(cells["host_read"], lambda n: None if n is None else tuple(n)),
            occasions=_each(cells["occasions"], lambda sizes: tuple(sizes or ())),
            warmup_s=cells["warmup_s"],
            sample_counts=counts,
            samples_s=samples_s,
            worst=_worst(cells),
            observed=_observed(connection, cells["id"]),
        )


def _each(values: Sequence[Any], make: Callable[[Any], T]) -> list[T]:
    """Make something of each value; equal texts were parsed to one object, which is looked at
    once."""
    made = {key: make(value) for key, value in {id(value): value for value in values}.items()}
    return [made[id(value)] for value in values]


def _stopped(cells: Cells) -> list[str | None]:
    ok, pairs = Outcome.OK.value, zip(cells["outcome"], cells["stopped"], strict=True)
    return [stopped if outcome == ok else None for outcome, stopped in pairs]


def _worst(cells: Cells) -> dict[int, WorstElement]:
    stored = ((row, one) for row, one in enumerate(cells["worst_element"]) if one is not None)
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
    read = [np.empty((0, 3))]
    for batch in plain_rows(connection, query):
        if {*map(type, map(itemgetter(2), batch))} != {float}:
            _refuse_first(batch)
        numbers = np.fromiter(chain.from_iterable(batch), np.float64, 3 * len(batch))
        read.append(numbers.reshape(-1, 3))
    own, ordinals, samples_s = np.concatenate(read).T
    wanted = np.array(ids, dtype=np.intp)
    index = np.minimum(np.searchsorted(wanted, own), len(wanted) - 1)
    is_wanted = wanted[index] == own
    counts = np.bincount(index[is_wanted], minlength=len(wanted))
    expected = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    missing = np.flatnonzero(ordinals[is_wanted] != expected)
    if len(missing):
        owner, ordinal = own[is_wanted][missing[0]], expected[missing[0]]
        raise ValueError(f"measurement {owner:.0f}: sample {ordinal} is missing")
    return array("d", samples_s[is_wanted].tobytes()), counts.tolist()


def _refuse_first(batch: Sequence[tuple[Any, Any, Any]]) -> None:
    for owner, ordinal, time_s in batch:
        if type(ordinal) is not int or type(time_s) is not float:
            raise ValueError(f"measurement {owner}: sample {ordinal!r} is {time_s!r}")


def _observed(connection: Connection, ids: Sequence[int]) -> dict[str, dict[int, float]]:
    """Return the observations by name, and by the index of the measurement."""
    table = schema.observations
    index_of = {measurement_id: index for index, measurement_id in enumerate(ids)}
    found: dict[str, dict[int, float]] = {}
    for cells in cells_by_id(connection, table, ids, "measurement_id"):
        rows = zip(cells["measurement_id"], cells["name"], cells["value"], strict=True)
        for measurement_id, name, value in rows:
            found.setdefault(name, {})[index_of[measurement_id]] = value
    return found
