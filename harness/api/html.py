"""Results as the HTML that a notebook shows."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence

from harness.analysis.inputs import InputReport
from harness.core.records import Config
from harness.core.text import counted, escaped
from harness.display.inputs import best_configuration, best_time, default_time, format_speedup

_SHOWN = 50
_HEAD = ("input", "best configuration", "best", "default", "speed-up", "measured")


def describe_as_html(title: str, reports: Sequence[InputReport], default: Config) -> str:
    """Render a table with a row for each input, under its title."""
    rows = "".join(_row(_cells(report, default), "td") for report in reports[:_SHOWN])
    rest = len(reports) - _SHOWN
    more = f"<p>and {counted(rest, 'more input')}; see .table()</p>" if rest > 0 else ""
    head = _row(_HEAD, "th")
    return (
        f"<div><p><b>{_text(title)}</b></p>"
        f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>{more}</div>"
    )


def _cells(report: InputReport, default: Config) -> Iterator[str]:
    yield str(report.problem)
    yield best_configuration(report, default)
    yield best_time(report)
    yield default_time(report)
    yield format_speedup(report)
    yield f"{report.measured:,}"


def _row(cells: Iterable[str], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{_text(cell)}</{tag}>' for cell in cells)}</tr>"


def _text(text: str) -> str:
    return html.escape(escaped(text))
