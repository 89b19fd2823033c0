"""Columns that nobody reads: where rows that are taken for repeats differ in them.

Rows with equal features and parameters are samples of one measurement. If a column that is left
out tells them apart, such as a layout or a second device, they are measurements of different
things, and their samples must not be put together unseen.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from harness.core.text import printable


class LeftOut:
    """The columns of a file that are left out, and what the first row of each configuration on
    an input has there.

    Of a cell its hash is kept: a million rows with a date each have a million different cells.
    """

    def __init__(self, header: Sequence[str], named: Sequence[str]) -> None:
        self._columns = [
            (name, place) for place, name in enumerate(header) if name not in set(named)
        ]
        self._first = array("q")
        self.differ: dict[str, int] = {}
        """The columns in which repeats differ, each with the first line where it shows."""

    def note(self, ordinal: int, line: int, row: Sequence[str]) -> None:
        """A row of the `ordinal`-th configuration and input, in order of appearance."""
        width = len(self._columns)
        if not width:
            return
        cells = array("q", [hash(row[place].strip()) for _, place in self._columns])
        first = self._first[ordinal * width : (ordinal + 1) * width]
        if not first:
            self._first.extend(cells)
        elif first != cells:
            for (name, _), one, other in zip(self._columns, first, cells, strict=True):
                if one != other:
                    self.differ.setdefault(name, line)

    @property
    def line(self) -> int:
        """The first line where any of them shows."""
        return min(self.differ.values())

    @property
    def shown(self) -> str:
        """The columns that differ, as a message names them."""
        return ", ".join(map(printable, self.differ))
