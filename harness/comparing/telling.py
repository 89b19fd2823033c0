"""A comparison as a table for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from harness.comparing.comparison import Comparison, Ending, Row
from harness.comparing.statistics import Change, Verdict
from harness.display import format_time
from harness.records import Measurement

_SHOWN = 4  # inputs that are not compared
_STYLES = {"slower": "bold red", "works no more": "bold red", "faster": "bold green"}


def told(comparison: Comparison) -> Group:
    """A table for each kernel and device, what the words mean, and the sum of all."""
    parts: list[RenderableType] = []
    for (kernel, where), rows in groupby(comparison.rows, key=lambda r: (r.kernel, r.where)):
        of_kernel = list(rows)
        parts += [Text(f"{kernel} on {where}", style="bold"), _table(of_kernel)]
        parts += [Text(line) for line in _missing(of_kernel)]
    parts += [Text(line) for line in comparison.notes]
    return Group(*parts, Text(_legend(comparison), style="dim"), Text(summary(comparison)))


def _table(rows: Sequence[Row]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("input")
    table.add_column("of", no_wrap=True)
    for heading in ("base", "candidate", "change of time", "interval"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict")
    for row in rows:
        if row.verdict is Ending.MISSING:
            continue
        change = (percent(row.change.ratio), interval(row.change)) if row.change else ("-", "-")
        cells = [str(row.given), row.of, _time(row.base), _time(row.candidate), *change]
        words = "; ".join([row.verdict.value, *row.notes])
        table.add_row(*map(Text, cells), Text(words, style=_STYLES.get(row.verdict.value, "")))
    return table


def _missing(rows: Sequence[Row]) -> Iterator[str]:
    """What is not in the table, by the reason."""
    reasons: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        if row.verdict is Ending.MISSING:
            reasons.setdefault(row.notes, []).append(f"({row.given})")
    for why, inputs in reasons.items():
        more = f" and {len(inputs) - _SHOWN} others" if len(inputs) > _SHOWN else ""
        yield f"{Ending.MISSING}, {'; '.join(why)}: {', '.join(inputs[:_SHOWN])}{more}"


def _time(measurement: Measurement | None) -> str:
    return format_time(measurement.time_s) if measurement and measurement.timing else "-"


def percent(ratio: float) -> str:
    """A ratio of times as a change: 1.05 is +5.00 %."""
    return f"{ratio - 1:+.2%}" if ratio < 10 else f"{ratio:.3g} x"


def interval(change: Change) -> str:
    """The bounds of a change."""
    return f"[{percent(change.low)}, {percent(change.high)}]"


def _legend(comparison: Comparison) -> str:
    threshold, level = (100 * p for p in (comparison.rules.threshold, comparison.rules.level))
    return (
        "times: medians; change: mean logarithms, CANDIDATE over BASE, with the interval that the "
        f"verdict rests on; slower, faster: for certain by more than {threshold:.3g} %. "
        f"The probability of any false one among the {comparison.tested} that were tested is at "
        f"most {level:.3g} % (Holm)."
    )


def summary(comparison: Comparison) -> str:
    """How often each verdict came, the regressions first."""
    counts = comparison.counts
    order = ("slower", "works no more", "faster", "within noise")
    words = [*order, *(word for word in counts if word not in order)]
    return ", ".join(f"{counts[word]} {word}" for word in words if counts[word])


def sentence(row: Row) -> str:
    """A row in one line: what became of which input."""
    return f"{row.given}: {row.of} {'; '.join(_facts(row))}"


def _facts(row: Row) -> Iterator[str]:
    if row.change is not None:
        times = f"{_time(row.base)} -> {_time(row.candidate)}"
        by = f" by {percent(row.change.ratio)}" if row.verdict is not Verdict.WITHIN_NOISE else ""
        yield f"{row.verdict}{by}, {times}, interval {interval(row.change)}"
    else:
        yield str(row.verdict)
    yield from row.notes
