"""Tables of several programs on several devices: failures, and speed-ups over each baseline."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from rich.console import Console

from harness.analysis.summary import MeanSpeedup, ProgramSummary, Summary
from harness.core.config_diff import DEFAULT
from harness.core.records import Statistic
from harness.core.text import counted
from harness.display.formats import format_share
from harness.display.text import make_table, print_line

HEADING = "Programs and devices"
_SPEEDUPS = (
    "Speed-ups are of the best configuration of each input, judged by other launches than those "
    "that chose it, with their 95 % interval; over several inputs, geometric means."
)


def speedups_note(summary: Summary) -> str:
    """Explain the speed-ups, and name what was compared by means; empty without any."""
    if not summary.baselines:
        return ""
    means = [f"{c.program} on {c.device}" for c in summary.cells if c.statistic is Statistic.MEAN]
    named = "all programs" if len(means) == len(summary.cells) else "; ".join(means)
    return f"{_SPEEDUPS} By means of samples, not medians: {named}." if means else _SPEEDUPS


class SummaryTable(NamedTuple):
    """A row for each program, a column for each device."""

    title: str
    head: tuple[str, ...]
    rows: list[tuple[str, ...]]


def summary_tables(summary: Summary) -> Iterator[SummaryTable]:
    """Make the table of failed tests, and one of speed-ups for each baseline, -O2 first."""
    yield _table("Failed tests", summary, _failures)
    for name in summary.baselines:
        over = "the default" if name == DEFAULT else name
        yield _table(f"Speed-up over {over}", summary, partial(_speedup, name))


def print_summary(console: Console, summary: Summary) -> None:
    """Print the tables."""
    print_line(console, HEADING, "bold")
    for title, head, rows in summary_tables(summary):
        columns = range(len(head))
        console.print(make_table(head, rows, title=title, left=columns, wrap=columns))
    if note := speedups_note(summary):
        print_line(console, note)


def _table(title: str, summary: Summary, text: Callable[[ProgramSummary], str]) -> SummaryTable:
    rows = []
    for program in summary.programs:
        cells = (summary.at(program, device) for device in summary.devices)
        rows.append((program, *("not tuned" if cell is None else text(cell) for cell in cells)))
    return SummaryTable(title, ("program", *summary.devices), rows)


def _failures(cell: ProgramSummary) -> str:
    failed = sum(cell.failures.values())
    if not failed:
        return f"none of {cell.tests:,}"
    kinds = ", ".join(f"{count:,} {outcome}" for outcome, count in cell.failures.items())
    return f"{failed:,} of {cell.tests:,} ({format_share(failed / cell.tests)}): {kinds}"


def _speedup(name: str, cell: ProgramSummary) -> str:
    found = cell.speedups.get(name)
    return "not measured" if found is None else format_mean_speedup(found)


def format_mean_speedup(found: MeanSpeedup) -> str:
    """Format a speed-up with its interval, and the number of inputs where there are several."""
    noise = "" if found.is_significant else " within noise"
    inputs = "" if found.count == 1 else f", {counted(found.count, 'input')}"
    return f"{found.text('.2f', 'x')}{noise}{inputs}"
