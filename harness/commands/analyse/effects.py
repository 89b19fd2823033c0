"""Print failures with their causes."""

from __future__ import annotations

from rich.console import Console

from harness.analysis.effects import causes, trials
from harness.analysis.effects.text import FAILURES_HEAD, causes_lines, failures_rows
from harness.display.text import make_table, print_lines
from harness.results.view import Results


def print_failures(console: Console, results: Results) -> None:
    """Print failures by kind with their causes."""
    rows = failures_rows(results)
    if rows:
        columns = range(len(FAILURES_HEAD))
        console.print(make_table(FAILURES_HEAD, rows, left=columns, wrap=columns))
        print_lines(console, [*causes_lines(causes(trials(results))), ""])
