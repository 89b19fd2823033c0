"""A comparison as tables and sentences for people, and as JUnit XML.

JUnit has no official schema. This module writes the subset that Jenkins, GitLab and GitHub's report
actions all read. The standard library does it in a dozen lines, so no dependency is needed.
"""

from __future__ import annotations

import dataclasses
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from rich.console import Group, RenderableType

from harness.compare.comparison import ComparedRow, Comparison
from harness.compare.statistics import Verdict
from harness.core.files import WRITTEN_BY
from harness.core.records import Measurement
from harness.core.text import counted, first_few, format_factor, format_time
from harness.display.text import as_text, make_table
from harness.stats import Estimate

_LARGE = 1.1
"""The missed slowdown above which the advice is to measure more."""

_ADVICE = (
    "to find smaller ones, measure both sides again together with --rerun, or tune both with "
    "--fresh and more --repeats, and close other programs"
)
_RERUN_ADVICE = "to find smaller ones, use more --occasions, and close other programs"
_ROUND = 1000  # from this ratio on, decimals mean nothing
_MOST_LISTED = 4  # inputs that are not compared
_HEAD = ("input", "of", "base", "candidate", "ratio", "interval", "verdict")
_STYLES = {"slower": "bold red", "works no more": "bold red", "faster": "bold green"}


_kernel_and_environment = attrgetter("kernel", "environment")
"""The key that groups rows into tables."""


def comparison_table(comparison: Comparison) -> Group:
    """Render a table for each kernel and device, the legend, and the summary."""
    parts: list[RenderableType] = []
    for (kernel, environment), rows in groupby(comparison.rows, key=_kernel_and_environment):
        of_kernel = list(rows)
        cells = (_cells(row) for row in of_kernel if row.verdict is not Verdict.MISSING)
        table = make_table(_HEAD, cells, left=(0, 1, 6), wrap=(0, 6))
        parts += [as_text(f"{kernel} on {environment}", "bold"), table]
        parts += map(as_text, _missing(of_kernel))
    parts += map(as_text, comparison.notes)
    if comparison.tested:
        parts.append(as_text(_legend(comparison), "dim"))
    return Group(*parts, as_text(summary(comparison)))


def _cells(row: ComparedRow) -> Iterator[RenderableType]:
    yield str(row.problem)
    yield row.subject
    yield _time(row.base)
    yield _time(row.candidate)
    ratio = row.change.ratio if row.change else None
    yield times(ratio.value) if ratio else "-"
    yield _interval(ratio) if ratio else "-"
    words = "; ".join([row.verdict.value, *row.notes])
    yield as_text(words, _STYLES.get(row.verdict.value, ""))


def _missing(rows: Sequence[ComparedRow]) -> Iterator[str]:
    """Yield a line of the inputs that are not in the table, for each reason."""
    reasons: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        if row.verdict is Verdict.MISSING:
            reasons.setdefault(row.notes, []).append(f"({row.problem})")
    for notes, inputs in reasons.items():
        listed = first_few(inputs, ", ", _MOST_LISTED)
        yield f"{Verdict.MISSING}, {'; '.join(notes)}: {listed}"


def _time(measurement: Measurement | None) -> str:
    return format_time(measurement.time_s) if measurement and measurement.timing else "-"


def times(ratio: float) -> str:
    """Format a ratio of times: 1.050x takes 5 % longer."""
    return f"{ratio:.3f}x" if ratio < _ROUND else f"{format_factor(ratio)}x"


def _interval(ratio: Estimate) -> str:
    """Render the bounds of a ratio of times."""
    return f"[{times(ratio.low)}, {times(ratio.high)}]"


def _legend(comparison: Comparison) -> str:
    rules = comparison.rules
    return (
        f"Times are {_statistics(comparison)}. The ratio is CANDIDATE's time over BASE's, by mean "
        "logarithms, with its confidence interval. Slower and faster mean significantly, by more "
        f"than {times(1 + rules.threshold)}. Over all {counted(comparison.tested, 'test')}, the "
        f"probability of any false `slower` or `faster` is at most {rules.level:.3g} (Holm), and "
        "so is the probability that any true slowdown within noise exceeds the upper end of its "
        "interval (Bonferroni)."
    )


def _statistics(comparison: Comparison) -> str:
    """Say whether times are medians or means; of kernels that differ, both."""
    timings = (m.timing for row in comparison.rows for m in (row.base, row.candidate) if m)
    names = dict.fromkeys(f"{timing.statistic.value}s" for timing in timings if timing)
    return " or ".join(names)


def summary(comparison: Comparison) -> str:
    """Return the count of each verdict, regressions first, and the slowdown that may be missed."""
    counts = comparison.counts
    order = ("slower", "works no more", "faster", "within noise")
    words = [*order, *(word for word in counts if word not in order)]
    verdicts = ", ".join(f"{counts[word]} {word}" for word in words if counts[word])
    return "; ".join([verdicts, *_missed(comparison)])


def _missed(comparison: Comparison) -> Iterator[str]:
    """Yield the largest slowdown that may have been missed, its row, and advice if it is large."""
    if not comparison.tested:
        yield "nothing was tested"
    if comparison.least_certain is None:
        return
    row, limit = comparison.least_certain
    if limit <= 1:
        yield "no slowdown could have been missed"
        return
    missed = f"slowdowns of up to {times(limit)} could have been missed"
    yield f"{missed} ({row.kernel}, {row.problem}, {row.subject})"
    if limit > _LARGE:
        yield _RERUN_ADVICE if comparison.rules.is_rerun else _ADVICE


def sentence(row: ComparedRow) -> str:
    """Render a row in one line."""
    return f"{row.problem}: {row.subject} {'; '.join(_facts(row))}"


def _facts(row: ComparedRow) -> Iterator[str]:
    if row.change is not None:
        seconds = f"{_time(row.base)} -> {_time(row.candidate)}"
        ratio = row.change.ratio
        yield f"{row.verdict}, {times(ratio.value)} {_interval(ratio)}, {seconds}"
    else:
        yield str(row.verdict)
    if row.upper_limit is not None:
        yield f"not slower than {times(row.upper_limit)}"
    yield from row.notes


# ------------------------------------------------------------------------- JUnit


def as_junit(comparison: Comparison) -> str:
    """Render a suite for each kernel and device, with its summary, and a test case for each row.

    Regressions are failures.
    """
    root = ET.Element("testsuites", name="harness.compare")
    for (kernel, environment), group in groupby(comparison.rows, key=_kernel_and_environment):
        rows = list(group)
        counts = {
            "tests": len(rows),
            "failures": sum(row.is_regression for row in rows),
            "errors": 0,
            "skipped": sum(row.verdict is Verdict.MISSING for row in rows),
        }
        attributes = {name: str(number) for name, number in counts.items()}
        attributes["name"] = _clean(f"{kernel} on {environment}")
        suite = ET.SubElement(root, "testsuite", attributes)
        for row in rows:
            _add_case(suite, row)
        of_suite = summary(dataclasses.replace(comparison, rows=rows))
        ET.SubElement(suite, "system-out").text = _clean(of_suite)
    return _xml(root)


def error_junit(message: str) -> str:
    """Render the error as one test case."""
    root = ET.Element("testsuites", name="harness.compare")
    counts = {"tests": "1", "failures": "0", "errors": "1", "skipped": "0"}
    suite = ET.SubElement(root, "testsuite", {"name": "harness.compare", **counts})
    case = ET.SubElement(suite, "testcase", classname="harness", name="compare")
    ET.SubElement(case, "error", message=_clean(message.splitlines()[0])).text = _clean(message)
    return _xml(root)


def _add_case(suite: ET.Element, row: ComparedRow) -> None:
    name = _clean(f"{row.problem} ({row.subject})")
    case = ET.SubElement(suite, "testcase", classname=_clean(row.kernel), name=name)
    line = _clean(sentence(row))
    if row.candidate is not None and row.candidate.timing:
        case.set("time", f"{row.candidate.time_s:.9f}")
    if row.is_regression:
        ET.SubElement(case, "failure", message=line, type=row.verdict.value).text = line
    elif row.verdict is Verdict.MISSING:
        ET.SubElement(case, "skipped", message=line)
    else:
        ET.SubElement(case, "system-out").text = line


def _clean(text: str) -> str:
    """Replace the characters that XML 1.0 forbids, such as the colours of a compiler's log."""
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "?", text)


def _xml(root: ET.Element) -> str:
    ET.indent(root)
    head = f'<?xml version="1.0" encoding="UTF-8"?><!-- {WRITTEN_BY} -->'
    return f"{head}\n{ET.tostring(root, encoding='unicode')}\n"
