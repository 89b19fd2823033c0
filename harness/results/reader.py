"""Read rows of a database, which may come from anywhere: every cell is parsed and checked.

Plain SQL reads them, some thousand rows at a time, so that no row can run code.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from math import isfinite
from types import NoneType
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Connection,
    DateTime,
    Float,
    Integer,
    LargeBinary,
    Select,
    String,
    Table,
    select,
    type_coerce,
)

from harness.core.errors import ResultsError
from harness.core.plain_pickle import UnsafePickle, load_compressed
from harness.core.text import printable
from harness.results import schema
from harness.results.database import shown_name

T = TypeVar("T")
Row = dict[str, Any]
Cells = dict[str, Sequence[Any]]
"""The cells of some rows by column."""

_FETCHED = 10_000  # rows at a time

_TYPES: tuple[tuple[type, type], ...] = (
    (String, str),
    (Float, float),
    (Integer, int),
    (DateTime, datetime),
    (Boolean, bool),
    (LargeBinary, bytes),
)
"""The types of cells by the types of their columns; SQLite enforces none."""


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
    table: Table,
    chosen: Select[Any] | None = None,
    names: Collection[str] = (),
) -> Iterator[Cells]:
    """Yield the cells of rows of a table that has ids by column, in the order of their ids.

    `chosen` selects rows of the table, perhaps by joins; `names` are the columns that are read, the
    id among them; all where none is named. Equal JSON texts become one object, which
    nobody may change; pickles stay bytes. Raises ValueError for a cell that cannot be there.
    """
    read = [c for c in table.columns if not names or c.name in names]
    columns = [type_coerce(c, String) if _is_json(c) else c for c in read]
    query = select(*columns) if chosen is None else chosen.with_only_columns(*columns)
    streamed = query.order_by(table.c.id).execution_options(yield_per=_FETCHED)
    for rows in connection.execute(streamed).partitions():
        cells = dict(zip((c.name for c in read), zip(*rows, strict=True), strict=True))
        yield {c.name: _checked(c, cells[c.name], cells["id"]) for c in read}


def read_rows(
    connection: Connection, table: Table, chosen: Select[Any] | None = None
) -> Iterator[Row]:
    """Yield the rows of `read_cells` one by one."""
    for cells in read_cells(connection, table, chosen):
        names = tuple(cells)
        for row in zip(*cells.values(), strict=True):
            yield dict(zip(names, row, strict=True))


def referred(table: str, rows: Mapping[int, T], row_id: int) -> T:
    """Return what was read of the row that another one refers to; raises ValueError where it is
    missing."""
    if row_id not in rows:
        raise ValueError(f"a row refers to row {row_id} of {table}, which is missing")
    return rows[row_id]


def _is_json(column: Column[Any]) -> bool:
    return isinstance(column.type, JSON)


def _checked(column: Column[Any], cells: Sequence[Any], ids: Sequence[Any]) -> Sequence[Any]:
    """Check the cells of a column, and parse JSON; equal cells are looked at once."""
    kinds, parse = _check_of(column)
    try:
        if not kinds.issuperset(map(type, cells)):
            raise ValueError
        parsed = {cell: parse(cell) for cell in set(cells)} if parse else {}
    except (ValueError, TypeError):
        for row_id, cell in zip(ids, cells, strict=True):
            _check_cell(column, cell, row_id)
        raise
    return [parsed[cell] for cell in cells] if _is_json(column) else cells


def _check_cell(column: Column[Any], cell: object, row_id: object) -> None:
    kinds, parse = _check_of(column)
    place = f"{column.table.name} {row_id!r}: {column.name}"
    why = ""
    try:
        if type(cell) in kinds:
            if parse:
                parse(cell)
            return
    except UnsafePickle as error:
        raise UnsafePickle(f"{place}: {error}") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        why = printable(f" ({': '.join([*map(str, first['loc']), first['msg']])})")
    except (ValueError, TypeError):
        pass
    shown = repr(cell)
    raise ValueError(f"{place} is {shown if len(shown) <= 60 else f'{shown[:60]}...'}{why}")


@lru_cache(1_000)
def _check_of(column: Column[Any]) -> tuple[frozenset[type], Callable[[Any], object] | None]:
    """Return the types of a column's cells, and what parses a cell or refuses it by an error."""
    null = {NoneType} if column.nullable else set()
    if _is_json(column):
        shape = column.info["shape"]
        parse = TypeAdapter(shape).validate_json
        return frozenset({str} | null), lambda cell: None if cell is None else parse(cell)
    kind = next(kind for of_column, kind in _TYPES if isinstance(column.type, of_column))
    return frozenset({kind} | null), _plain_check(column, kind)


def _plain_check(column: Column[Any], kind: type) -> Callable[[Any], object] | None:
    """Return what refuses a cell of a column that is no JSON; None where each of its type fits."""
    words, pattern = column.info.get("words"), column.info.get("pattern")
    if words is not None:
        return _refusing(lambda cell: cell in words)
    if pattern is not None:
        return _refusing(lambda cell: pattern.fullmatch(cell) is not None)
    if kind is float and column.table.metadata is schema.metadata:  # OpenTuner stores infinities
        return _refusing(isfinite)
    return None if kind is not bytes else lambda cell: cell and load_compressed(cell)


def _refusing(fits: Callable[[Any], bool]) -> Callable[[Any], None]:
    def check(cell: Any) -> None:
        if cell is not None and not fits(cell):
            raise ValueError(cell)

    return check
