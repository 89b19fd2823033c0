"""Read rows of the plain tables, each checked: what harness cannot have written is an error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, Select, Table, select

from harness.results.chunks import checked_cells

StoredRow = dict[str, Any]


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
