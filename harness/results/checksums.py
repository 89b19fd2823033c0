"""Checksums of rows: a flipped bit, or a change by another program, does not go unnoticed.

A checksum is a CRC-32, which finds accidents; it does not prove who wrote a row. It covers the
cells of a row but its id, which is not known before the row is added, and a command's arguments,
which older rows lack. Databases before schema version 6 have none, and a row whose checksum is null
is not checked.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import chain, repeat
from typing import Any
from zlib import crc32

from sqlalchemy import Float, Integer, Table

CHECKSUM, NUMBERS_CHECKSUM = "checksum", "numbers_checksum"
"""The columns of the checksums of a row's cells, and of a measurement's samples and
observations."""

_NOT_COVERED = ("id", CHECKSUM, "arguments")
_BEHIND = "\0row"  # a stored text has no NUL
_OPENED = crc32(b"[")
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


def row_checksum(table: Table, row: Mapping[str, Any]) -> int | None:
    """Return the checksum of a row; a column that it lacks is null. None for a table without."""
    if CHECKSUM not in table.c:
        return None
    cells = [
        value if value is None or make is None else make(value)
        for value, make in ((row.get(name), make) for name, make in _covered(table))
    ]
    return crc32(_encode(cells).encode())


def checksums_of(table: Table, cells: Mapping[str, Sequence[Any]]) -> list[int]:
    """Return the checksums of rows, given their cells by column; each has its column's type."""
    columns = [cells[name] for name, _ in _covered(table)]
    count = len(columns[0])
    # All rows at once, each with a text behind it that no cell contains: a call for each row takes
    # several times as long.
    flat = list(chain.from_iterable(zip(*columns, repeat(_BEHIND, count), strict=True)))
    behind, text = _encode(_BEHIND), _encode(flat)[1:-1]
    if not count or text.count(behind) != count:  # a cell contains it
        return [crc32(_encode(row).encode()) for row in zip(*columns, strict=True)]
    rows = text.removesuffix(f",{behind}").encode().split(f",{behind},".encode())
    return [crc32(b"]", crc32(row, _OPENED)) for row in rows]


def numbers_checksum(samples_s: Sequence[float], observed: Mapping[str, float]) -> int:
    """Return the checksum of a measurement's samples, in order, and of its observations."""
    named = [[name, float(observed[name])] for name in sorted(observed)]
    return crc32(_encode(named).encode(), crc32(struct.pack(f"<{len(samples_s)}d", *samples_s)))


@cache
def _covered(table: Table) -> list[tuple[str, Callable[[Any], Any] | None]]:
    """Return the columns that a checksum covers, each with the type that the database gives it."""
    kinds: tuple[tuple[type, Callable[[Any], Any]], ...] = ((Float, float), (Integer, int))
    return [
        (column.name, next((make for kind, make in kinds if isinstance(column.type, kind)), None))
        for column in table.columns
        if column.name not in _NOT_COVERED
    ]
