"""A comparison as a table for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from harness.compare.comparison import Comparison, Ending, Row
from harness.core.records import Measurement
from harness.display import format_time
from harness.stats import Estimate

LARGE = 1.1
"""Of slowdowns that may be missed: more than this asks for other measurements."""

_ADVICE = (
    "to find smaller ones, tune both sides again with --fresh and more --repeats, on a machine "
    "that does nothing else"
)
_ROUND = 1000  # a ratio from which on its digits after the point say nothing
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
    if comparison.tested:
        parts.append(Text(_legend(comparison), style="dim"))
    return Group(*parts, Text(summary(comparison)))


def _table(rows: Sequence[Row]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("input")
    table.add_column("of", no_wrap=True)
    for heading in ("base", "candidate", "ratio", "interval"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict")
    for row in rows:
        if row.verdict is Ending.MISSING:
            continue
        ratio = row.change.ratio if row.change else None
        change = (times(ratio.value), interval(ratio)) if ratio else ("-", "-")
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


def times(ratio: float) -> str:
    """A ratio of times: 1.050x takes 5 % longer."""
    return f"{ratio:.3f}x" if ratio < _ROUND else f"{ratio:.3g}x"


def interval(ratio: Estimate) -> str:
    """Render the bounds of a ratio of times."""
    return f"[{times(ratio.low)}, {times(ratio.high)}]"


def _legend(comparison: Comparison) -> str:
    rules = comparison.rules
    return (
        "times: medians; ratio: CANDIDATE over BASE, by mean logarithms, with its confidence "
        f"interval; slower, faster: for certain by more than {times(1 + rules.threshold)}. Among "
        f"the {comparison.tested} that were tested the probability of any false one is at most "
        f"{rules.level:.3g} (Holm), and so is that of any true slowdown above the upper limit of "
        "an interval that is within noise (Bonferroni)."
    )


def summary(comparison: Comparison) -> str:
    """How often each verdict came, the regressions first, and what may have been missed."""
    counts = comparison.counts
    order = ("slower", "works no more", "faster", "within noise")
    words = [*order, *(word for word in counts if word not in order)]
    told = ", ".join(f"{counts[word]} {word}" for word in words if counts[word])
    return "; ".join([told, *_missed(comparison)])


def _missed(comparison: Comparison) -> Iterator[str]:
    """The largest slowdown that may have been missed, where, and what helps if it is large."""
    if not comparison.tested:
        yield "nothing was tested"
    if comparison.least_certain is None:
        return
    row, limit = comparison.least_certain
    if limit <= 1:
        yield "no slowdown could have been missed"
        return
    where = f"{row.kernel}, {row.given}, {row.of}"
    yield f"{missed(limit)} ({where})"
    if limit > LARGE:
        yield _ADVICE


def missed(limit: float) -> str:
    """What the largest upper confidence limit of a ratio of times says."""
    return f"slowdowns of up to {times(limit)} could have been missed"


def sentence(row: Row) -> str:
    """A row in one line: what became of which input."""
    return f"{row.given}: {row.of} {'; '.join(_facts(row))}"


def _facts(row: Row) -> Iterator[str]:
    if row.change is not None:
        seconds = f"{_time(row.base)} -> {_time(row.candidate)}"
        ratio = row.change.ratio
        yield f"{row.verdict}, {times(ratio.value)} {interval(ratio)}, {seconds}"
    else:
        yield str(row.verdict)
    if row.upper_limit is not None:
        yield f"not slower than {times(row.upper_limit)}"
    yield from row.notes
