"""The speed-ups over named baselines, and the baselines that failed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.analysis.failures import group_failures
from harness.analysis.inputs import InputReport
from harness.core.config_diff import DEFAULT
from harness.display.formats import format_ratio


def baselines_rows(reports: Sequence[InputReport]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return a head that names the baselines, and for each input with a best configuration a row
    of its speed-ups over them, or of their outcomes. Without named baselines there are no rows."""
    names = list(dict.fromkeys(name for r in reports for name in _named(r)))
    known = [report for report in reports if report.best is not None] if names else []
    return ("input", *names), [(str(r.problem), *(_over(r, name) for name in names)) for r in known]


def _named(report: InputReport) -> Iterator[str]:
    yield from report.baseline_speedups
    yield from (name for name in report.failed_baselines if name != DEFAULT)


def _over(report: InputReport, name: str) -> str:
    ratio, failed = report.baseline_speedups.get(name), report.failed_baselines.get(name)
    if ratio is None:
        return f"{failed.outcome}" if failed else "not measured"
    return "is the best" if ratio.low == ratio.high == 1 else format_ratio(ratio)


def refused_lines(reports: Sequence[InputReport]) -> Iterator[str]:
    """Say why the default or a named baseline failed: a heading, then one line per reason."""
    failed = [(r, name, found) for r in reports for name, found in r.failed_baselines.items()]
    groups = group_failures(
        failed, lambda one: one[2].message, lambda one: (one[1], one[2].outcome)
    )
    if groups:
        yield "Failed baselines:"
    for group in groups:
        report, name, found = group.members[0]
        where = f"({report.problem})"
        if len(group.members) > 1:
            where = f"{len(group.members)} inputs, such as {where}"
        yield f"    {name} on {where}: {found.outcome}: {group.headline}"
