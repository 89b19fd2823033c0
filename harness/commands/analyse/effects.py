"""Print failures with their causes, and the effects of parameters on the time."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from harness.analysis.effects import causes, effects_on_time, trials
from harness.analysis.effects.text import (
    EFFECTS_HEAD,
    FAILURES_HEAD,
    causes_lines,
    effects_lines,
    effects_rows,
    failures_rows,
    pairs_lines,
)
from harness.display.text import make_table, print_line, print_lines
from harness.results.view import Results


def print_effects(console: Console, results: Results) -> None:
    """Print failures by kind with their causes, and the effect of each value on the time."""
    found = trials(results)
    rows = failures_rows(results)
    if rows:
        console.print(_table(FAILURES_HEAD, rows))
        print_lines(console, [*causes_lines(causes(found)), ""])
    if not found.parameters:
        return
    effects = effects_on_time(trials(results, unbiased=True))
    title, *notes = effects_lines(effects, results)
    print_line(console, title)
    rows = effects_rows(effects)
    if rows:
        console.print(_table(EFFECTS_HEAD, rows))
    print_lines(console, [*notes, *pairs_lines(effects.pairs), ""])


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    columns = range(len(head))
    return make_table(head, rows, left=columns, wrap=columns)
