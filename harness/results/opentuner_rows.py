"""Read rows of OpenTuner's tables, each checked: they may come from anywhere.

A pickle is read as plain data (`harness.core.plain_pickle`). One that holds anything else than
OpenTuner's own classes, lists, dictionaries, numbers and texts is refused by its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from sqlalchemy import (
    Boolean,
    Connection,
    DateTime,
    Float,
    Integer,
    LargeBinary,
    Select,
    String,
    Table,
    select,
)

from harness.core.plain_pickle import UnsafePickle, load_compressed
from harness.core.records import Config, Value

Row = dict[str, Any]

_TYPES: tuple[tuple[type, tuple[type, ...]], ...] = (
    (String, (str,)),
    (Integer, (int,)),
    (Float, (float, int)),
    (DateTime, (datetime,)),
    (Boolean, (bool,)),
    (LargeBinary, (bytes,)),
)
"""The types of a cell's value by its column's type; every cell but an id may also be null."""

_MOST_VALUES = 10_000
"""The most values of one configuration."""


def read_opentuner(
    connection: Connection, table: Table, chosen: Select[Any] | None = None
) -> Iterator[Row]:
    """Yield the rows of a table of OpenTuner's in the order of their ids; pickles stay bytes, but
    each was read once.

    Raises ValueError for a cell that has not its column's type, UnsafePickle for a pickle that is
    not plain data.
    """
    query = select(table) if chosen is None else chosen
    for found in connection.execute(query.order_by(table.c.id)).mappings():
        row = dict(found)
        _check(table, row)
        yield row


def _check(table: Table, row: Row) -> None:
    for column in table.columns:
        value = row[column.name]
        if value is None and column.nullable:
            continue
        kinds = next(kinds for kind, kinds in _TYPES if isinstance(column.type, kind))
        if type(value) not in kinds:
            raise ValueError(f"{table.name} {row['id']!r}: {column.name} is {repr(value)[:60]}")
        if kinds == (bytes,):
            _check_pickle(table, row, column.name)


def _check_pickle(table: Table, row: Row, name: str) -> None:
    try:
        load_compressed(row[name])
    except UnsafePickle as error:
        raise UnsafePickle(f"{table.name} {row['id']}: {name}: {error}") from None


def config_of(row: Row) -> Config:
    """Read the configuration of a row of `configuration`. The elements of a list, such as the order
    of a permutation, become parameters of their own: `order_0`. Names are made identifiers, which
    generated code needs: `unroll-loops` becomes `unroll_loops`.

    Raises ValueError or TypeError for one that is no mapping from names to plain values.
    """
    data = load_compressed(row["data"])
    if not isinstance(data, dict) or not all(type(name) is str for name in data):
        raise ValueError(f"configuration {row['id']} is no mapping from names to values")
    values: dict[str, Value] = {}
    for name, value in _flat("", data):
        if identifier(name) in values:
            raise ValueError(f"configuration {row['id']} has two values of {identifier(name)}")
        values[identifier(name)] = value
        if len(values) > _MOST_VALUES:
            raise ValueError(f"configuration {row['id']} has more than {_MOST_VALUES:,} values")
    try:
        return Config(values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"configuration {row['id']}: {error}") from None


def identifier(name: str) -> str:
    """Turn a name into an identifier; a flag's dashes become underscores."""
    text = re.sub(r"\W", "_", name, flags=re.ASCII)
    return f"_{text}" if text[:1].isdigit() or not text else text


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _flat(f"{name}_{key}" if name else str(key), one)
    elif isinstance(value, (list, tuple)):
        for index, one in enumerate(value):
            yield from _flat(f"{name}_{index}", one)
    else:
        yield name, value
