"""Detect repeats that differ in a column that is not read.

Rows with equal features and parameters are samples of one measurement. If they differ in an unread
column, such as a layout or a second device, they are different measurements, and joining their
samples silently would be wrong.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from harness.core.text import printable


class UnreadColumns:
    """The unread columns of a file, with the cells of each measurement's first row there.

    Only the hash of a cell is kept: a million rows with a date each have a million distinct cells.
    """

    def __init__(self, header: Sequence[str], named: Sequence[str]) -> None:
        self._columns = [
            (name, index) for index, name in enumerate(header) if name not in set(named)
        ]
        self._first = array("q")
        self.differ: dict[str, int] = {}
        """The columns in which repeats differ, each with the first line that does."""

    def note(self, ordinal: int, line: int, row: Sequence[str]) -> None:
        """Compare a row of the `ordinal`-th measurement with that measurement's first row."""
        width = len(self._columns)
        if not width:
            return
        cells = array("q", [hash(row[index].strip()) for _, index in self._columns])
        first = self._first[ordinal * width : (ordinal + 1) * width]
        if not first:
            self._first.extend(cells)
        elif first != cells:
            for (name, _), one, other in zip(self._columns, first, cells, strict=True):
                if one != other:
                    self.differ.setdefault(name, line)

    @property
    def line(self) -> int:
        """The first line that differs in any column."""
        return min(self.differ.values())

    @property
    def shown(self) -> str:
        """The columns that differ, for a message."""
        return ", ".join(map(printable, self.differ))
