"""Print lines, tables and sections of plain text, which may come from a file of anybody.

A section is data: a console and the report's page show the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from harness.core.text import escaped


def as_text(text: str, style: str = "") -> Text:
    """Make rich text of a text as it is: brackets are no markup, and what could control a terminal
    is escaped."""
    return Text(escaped(text, "\n\t"), style=style)


def print_line(console: Console, text: str, style: str = "") -> None:
    """Print a text; the terminal wraps long lines."""
    console.print(as_text(text, style), soft_wrap=True)


def print_lines(console: Console, lines: Iterable[str]) -> None:
    """Print each text on its own line."""
    for line in lines:
        print_line(console, line)


def make_table(
    head: Sequence[str],
    rows: Iterable[Iterable[RenderableType]],
    *,
    title: str | None = None,
    left: Collection[int] = (0,),
    wrap: Collection[int] = (),
) -> Table:
    """Make a table whose cells are no markup, unless they are rich text. Columns are aligned right
    and do not wrap, except those whose indices are in `left` and `wrap`."""
    text = None if title is None else as_text(title)
    table = Table(title=text, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for index, name in enumerate(head):
        table.add_column(
            as_text(name),
            justify="left" if index in left else "right",
            no_wrap=index not in wrap,
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(as_text(cell) if isinstance(cell, str) else cell for cell in row))
    return table


@dataclass(frozen=True)
class SectionTable:
    """Rows under a head. On a console, the columns `left` are aligned left and wrap."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: Sequence[int] = (0,)


@dataclass(frozen=True)
class Section:
    """A heading with paragraphs, a picture, a table and plain lines; `in_full` lists whole
    configurations, which the page shows on demand. A console shows neither these nor pictures."""

    anchor: str
    title: str
    texts: Sequence[str] = ()
    picture: str = ""
    table: SectionTable | None = None
    lines: Sequence[str] = ()
    in_full: Sequence[str] = ()

    def print(self, console: Console) -> None:
        """Print the section, and a blank line after it."""
        print_line(console, self.title, "bold")
        print_lines(console, self.texts)
        table = self.table
        if table is not None:
            console.print(make_table(table.head, table.rows, left=table.left, wrap=table.left))
        print_lines(console, self.lines)
        if self.lines or table is None:  # a table ends in a blank line
            print_line(console, "")
