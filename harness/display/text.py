"""Print lines, tables and sections of plain text, which may come from a file of anybody; format
times, shares, ratios and counts.

A section is data: a console and the report's page show the same.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from harness.core.records import Outcome, Timing
from harness.core.text import escaped, format_time
from harness.stats.timing import TimeRatio, half_width_of


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


def say(text: str) -> None:
    """Print a text on standard error."""
    print_line(make_console(stderr=True), text)


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
    """A heading with paragraphs, a picture, which only the page shows, a table and plain lines."""

    anchor: str
    title: str
    texts: Sequence[str] = ()
    picture: str = ""
    table: SectionTable | None = None
    lines: Sequence[str] = ()

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


# ------------------------------------------------------------------------------- the console


_PLAIN_WIDTH = 140


class _PlainConsole(Console):
    """A console whose lines do not end in the spaces that fill a table's last column."""

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        return re.sub(" +(?=\n)", "", super()._render_buffer(buffer))

    def on_broken_pipe(self) -> None:
        """Leave it to the caller: rich would end the process with 1."""
        raise BrokenPipeError


def make_console(stderr: bool = False) -> Console:
    """Make a console that does not cut tables where neither a terminal nor COLUMNS sets a width."""
    console = _PlainConsole(stderr=stderr, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = _PlainConsole(stderr=stderr, highlight=False, width=_PLAIN_WIDTH)
    return console


# ----------------------------------------------------------------------------------- numbers


def format_share(share: float, digits: int = 2) -> str:
    """Format a share in percent with so many significant digits and no exponent: 0.28 %."""
    percent = float(f"{100 * share:.{digits - 1}e}")
    if percent == 0 or not math.isfinite(percent):
        return f"{percent:.0f} %"
    after_point = digits - 1 - math.floor(math.log10(abs(percent)))
    return f"{percent:,.{max(0, after_point)}f} %"


def format_timing(timing: Timing, confidence: float = 0.95) -> str:
    """Format the median or the mean; with several samples, +- half the confidence interval of the
    mean (Student's t). A few outliers widen the interval but do not move the median."""
    if timing.count == 1:
        return format_time(timing.time_s)
    spread = format_time(half_width_of(timing, confidence), digits=2)
    return f"{format_time(timing.time_s)} +- {spread}"


def format_ratio(ratio: TimeRatio) -> str:
    """Format a speed-up with its interval, marked `within noise` where it may be chance."""
    return ratio.text(".2f", "x") + ("" if ratio.is_significant else " within noise")


def format_outcomes(outcomes: Mapping[Outcome, int]) -> str:
    """Format counts by outcome, ok first."""
    order = sorted(outcomes, key=lambda outcome: outcome is not Outcome.OK)
    return ", ".join(f"{outcomes[outcome]} {outcome}" for outcome in order if outcomes[outcome])
