"""The speed-ups over named baselines, and the baselines that failed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from harness.analysis.inputs import InputReport, headline, reason
from harness.core.config_diff import DEFAULT
from harness.display.formats import format_ratio


def baselines_rows(reports: Sequence[InputReport]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return a head that names the baselines, and for each input with a best configuration a row
    of its speed-ups over them, or of their outcomes. Without named baselines there are no rows."""
    names = list(dict.fromkeys(name for r in reports for name in _named(r)))
    known = [report for report in reports if report.best is not None] if names else []
    return ("input", *names), [(str(r.given), *(_over(r, name) for name in names)) for r in known]


def _named(report: InputReport) -> Iterator[str]:
    yield from report.over
    yield from (name for name in report.refused if name != DEFAULT)


def _over(report: InputReport, name: str) -> str:
    ratio, refused = report.over.get(name), report.refused.get(name)
    if ratio is None:
        return f"{refused.outcome}" if refused else "not measured"
    return "is the best" if ratio.low == ratio.high == 1 else format_ratio(ratio)


def baselines_table(reports: Sequence[InputReport]) -> Table | None:
    """Make a table of the rows; None without any."""
    head, rows = baselines_rows(reports)
    if not rows:
        return None
    table = Table(title="Speed-up over", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(head[0], no_wrap=True)
    for name in head[1:]:
        table.add_column(Text(name), justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def refused_lines(reports: Sequence[InputReport]) -> Iterator[str]:
    """Say why the default or a named baseline failed: a heading, then one line per reason."""
    groups: dict[tuple[str, str, str], list[InputReport]] = {}
    for report in reports:
        for name, found in report.refused.items():
            key = (name, str(found.outcome), reason(found.message))
            groups.setdefault(key, []).append(report)
    if groups:
        yield "Failed baselines:"
    for (name, outcome, _), alike in groups.items():
        first = alike[0]
        where = f"({first.given})"
        if len(alike) > 1:
            where = f"{len(alike)} inputs, such as {where}"
        yield f"    {name} on {where}: {outcome}: {headline(first.refused[name].message)}"
