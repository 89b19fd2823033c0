"""Read rows of the plain tables, each checked: what harness cannot have written is an error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Select, Table, null, select

from harness.results import schema
from harness.results.chunks import checked_cells
from harness.results.connect import has_column, has_table

StoredRow = dict[str, Any]


def read_rows(
    connection: Connection, table: Table, chosen: Select[Any] | None = None
) -> Iterator[StoredRow]:
    """Yield the rows of a table that has ids, checked, in the order of their ids.

    `chosen` selects rows of the table, perhaps by joins. An older database yields no rows of a
    newer table, and None in newer columns. Raises ValueError, TypeError, KeyError or AttributeError
    for a row that harness cannot have written.
    """
    if not has_table(connection, table):
        return
    columns = [c if has_column(connection, c) else null().label(c.name) for c in table.columns]
    query = select(*columns) if chosen is None else chosen.with_only_columns(*columns)
    for cells in checked_cells(connection, table, query.order_by(table.c.id)):
        names = tuple(cells)
        for row in zip(*cells.values(), strict=True):
            yield dict(zip(names, row, strict=True))


def rows_by_id(
    connection: Connection, table: Table, chosen: Select[Any] | None = None
) -> dict[int, StoredRow]:
    """Return the rows of `read_rows` by their ids."""
    return {row["id"]: row for row in read_rows(connection, table, chosen)}


def read_observed(
    connection: Connection, ids: Select[Any] | Sequence[int]
) -> dict[int, dict[str, float]]:
    """Return the observations, by name, of the measurements with these ids."""
    table = schema.observations
    observed: dict[int, dict[str, float]] = {}
    for row in read_rows(connection, table, select(table).where(table.c.measurement_id.in_(ids))):
        observed.setdefault(row["measurement_id"], {})[row["name"]] = row["value"]
    return observed
