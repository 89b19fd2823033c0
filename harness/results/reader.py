"""Read rows of a database, which may come from anywhere: every cell is parsed and checked.

Plain SQL reads them, some thousand rows at a time, so that no row can run code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import (
    JSON,
    Column,
    ColumnElement,
    Connection,
    Enum,
    Select,
    String,
    Table,
    cast,
    select,
    type_coerce,
)

from harness.core.errors import ResultsError
from harness.core.plain_pickle import UnsafePickle, load_compressed
from harness.core.text import printable
from harness.results import schema, stock
from harness.results.database import iso, shown_name
from harness.results.notes import Number

T = TypeVar("T")
Row = dict[str, Any]
Cells = dict[str, Sequence[Any]]
"""The cells of some rows by column."""

FETCHED = 10_000  # rows at a time
_MOST_SHOWN = 60  # characters of a refused cell


@contextmanager
def refusing_damage(connection: Connection) -> Iterator[None]:
    """Turn errors about rows that nobody can have written into ResultsError."""
    try:
        yield
    except UnsafePickle as error:
        raise ResultsError(
            f"OpenTuner's record in {shown_name(connection)} is refused: {error}. harness reads "
            "plain data and OpenTuner's own classes"
        ) from None
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        reason = str(error) if isinstance(error, ValueError) else repr(error)
        raise ResultsError(
            f"{shown_name(connection)} is damaged: {reason}; copy it again from the original"
        ) from error


def read_cells(
    connection: Connection,
    columns: Iterable[Column[Any]],
    chosen: Select[Any] | None = None,
    as_text: Column[Any] | None = None,
) -> Iterator[Cells]:
    """Yield the cells of these columns by name, rows in the order of the ids of the first column's
    table; the id is among the columns.

    `chosen` selects rows, perhaps by joins. Equal JSON texts become one object, which nobody may
    change; pickles stay bytes. Cells of the column `as_text` are texts, and not checked.

    Raises ValueError for a cell that cannot be there.
    """
    columns = list(columns)
    read: list[ColumnElement[Any]] = []
    for column in columns:
        if column is as_text:
            read.append(cast(column, String).label(column.name))
        elif isinstance(column.type, (JSON, Enum)):  # SQLAlchemy parses JSON, and refuses words
            read.append(type_coerce(column, String))
        else:
            read.append(column)
    query = select(*read) if chosen is None else chosen.with_only_columns(*read)
    row_id = columns[0].table.c.id
    streamed = query.order_by(row_id).execution_options(yield_per=FETCHED)
    for rows in connection.execute(streamed).partitions():
        cells: Cells = dict(zip((c.name for c in columns), zip(*rows, strict=True), strict=True))
        for column in columns:
            if column is not as_text:
                cells[column.name] = _checked(column, cells[column.name], cells["id"])
        yield cells


def read_rows(
    connection: Connection, table: Table, chosen: Select[Any] | None = None
) -> Iterator[Row]:
    """Yield the rows of a table as `read_cells` reads them."""
    return rows_of(read_cells(connection, table.columns, chosen))


def rows_of(parts: Iterable[Cells]) -> Iterator[Row]:
    """Yield the rows of cells."""
    for cells in parts:
        for row in zip(*cells.values(), strict=True):
            yield dict(zip(cells, row, strict=True))


_OF_TUNING_RUN = ("uuid", "name", "state", "start_date", "end_date")
_RUN_STATES = {"COMPLETE": "complete", "RUNNING": "running"}


def read_run_rows(connection: Connection, chosen: Select[Any] | None = None) -> Iterator[Row]:
    """Yield the rows of runs, with what `tuning_run` has of them in our words; `chosen` selects
    rows of both."""
    if chosen is None:
        chosen = select(schema.runs).join(stock.tuning_run)
    columns = [*schema.runs.columns, *(stock.tuning_run.c[name] for name in _OF_TUNING_RUN)]
    return map(run_row, rows_of(read_cells(connection, columns, chosen)))


def run_row(row: Row) -> Row:
    """Add to the row of a run the label, state and dates of its `tuning_run`, in our words."""
    ended = row["end_date"]
    return {
        **row,
        "label": row["name"] or "",
        "state": _RUN_STATES.get(row["state"], "interrupted"),
        "started_at": iso(row["start_date"]),
        "ended_at": ended and iso(ended),
    }


def referred(table: str, rows: Mapping[int, T], row_id: int) -> T:
    """Return what was read of the row that another one refers to; raises ValueError where it is
    missing."""
    if row_id not in rows:
        raise ValueError(f"a row refers to row {row_id} of {table}, which is missing")
    return rows[row_id]


def _checked(column: Column[Any], cells: Sequence[Any], ids: Sequence[Any]) -> Sequence[Any]:
    """Check the cells of a column, and parse JSON, equal texts once."""
    parse = _parser(column)
    is_json = isinstance(column.type, JSON)
    distinct = cells
    if is_json:
        distinct = tuple(set(cells))
    try:
        parsed = parse(distinct)
    except ValueError:
        for row_id, cell in zip(ids, cells, strict=True):
            place = f"{column.table.name} {row_id!r}: {column.name}"
            try:
                parse((cell,))
            except UnsafePickle as error:
                raise UnsafePickle(f"{place}: {error}") from None
            except ValidationError as error:
                first = error.errors(include_url=False)[0]
                within = first["loc"] if is_json else ()
                why = printable(": ".join([*map(str, within), first["msg"]]))
                shown = repr(cell)
                if len(shown) > _MOST_SHOWN:
                    shown = f"{shown[:_MOST_SHOWN]}..."
                raise ValueError(f"{place} is {shown} ({why})") from None
        raise
    if not is_json:
        return cells
    value_of = dict(zip(distinct, parsed, strict=True))
    return list(map(value_of.__getitem__, cells))


@lru_cache(1_000)
def _parser(column: Column[Any]) -> Callable[[Sequence[Any]], Sequence[object]]:
    """Return what parses cells of a column, or raises ValueError; SQLite enforces no types."""
    kind = column.type.python_type
    if kind is bytes:
        return lambda cells: [cell and load_compressed(cell) for cell in cells]
    if kind is float and column.table.name not in stock.NAMES:  # OpenTuner stores infinities
        kind = Number
    shape = column.info.get("shape", kind)
    if column.nullable:
        shape |= None
    if not isinstance(column.type, JSON):
        batch = tuple[shape, ...]  # type: ignore[valid-type]
        return partial(TypeAdapter(batch).validate_python, strict=True)
    parse = TypeAdapter(shape).validator.validate_json
    return lambda cells: [parse("null" if cell is None else cell) for cell in cells]
