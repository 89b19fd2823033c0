"""Tables of several programs on several devices: failures, and speed-ups over each baseline."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from harness.analysis.summary import ProgramSummary, Summary
from harness.core.config_diff import DEFAULT
from harness.core.records import Statistic
from harness.core.text import counted
from harness.display.formats import format_share
from harness.display.text import Section, SectionTable

_SPEEDUPS = (
    "Speed-ups are of the best configuration of each input, judged by other launches than those "
    "that chose it, with their 95 % interval; over several inputs, geometric means."
)


def _speedups_note(summary: Summary) -> str:
    """Explain the speed-ups, and name what was compared by means; empty without any."""
    if not summary.baselines:
        return ""
    means = [f"{c.program} on {c.device}" for c in summary.cells if c.statistic is Statistic.MEAN]
    named = "all programs" if len(means) == len(summary.cells) else "; ".join(means)
    return f"{_SPEEDUPS} By means of samples, not medians: {named}." if means else _SPEEDUPS


def summary_sections(summary: Summary) -> Iterator[Section]:
    """Show a row for each program and a column for each device: failed tests, and speed-ups over
    each baseline, -O2 first."""
    note = _speedups_note(summary)
    yield Section("summary", "Programs and devices", [note] if note else [])
    yield _section("Failed tests", summary, _failures)
    for name in summary.baselines:
        over = "the default" if name == DEFAULT else name
        yield _section(f"Speed-up over {over}", summary, partial(_speedup, name))


def _section(title: str, summary: Summary, text: Callable[[ProgramSummary], str]) -> Section:
    rows = []
    for program in summary.programs:
        cells = (summary.at(program, device) for device in summary.devices)
        rows.append((program, *("not tuned" if cell is None else text(cell) for cell in cells)))
    head = ("program", *summary.devices)
    return Section("", title, table=SectionTable(head, rows, range(len(head))))


def _failures(cell: ProgramSummary) -> str:
    failed = sum(cell.failures.values())
    if not failed:
        return f"none of {cell.tests:,}"
    kinds = ", ".join(f"{count:,} {outcome}" for outcome, count in cell.failures.items())
    return f"{failed:,} of {cell.tests:,} ({format_share(failed / cell.tests)}): {kinds}"


def _speedup(name: str, cell: ProgramSummary) -> str:
    """Format a speed-up with its interval, and the number of inputs where there are several."""
    speedup = cell.speedups.get(name)
    if speedup is None:
        return "not measured"
    noise = "" if speedup.is_significant else " within noise"
    inputs = "" if speedup.count == 1 else f", {counted(speedup.count, 'input')}"
    return f"{speedup.text('.2f', 'x')}{noise}{inputs}"
