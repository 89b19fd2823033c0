"""A comparison, or the error that prevented it, as JSON, JUnit XML and GitHub annotations.

JUnit has no official schema. This module writes the subset that Jenkins, GitLab and GitHub's report
actions all read. The standard library does it in a dozen lines, so no dependency is needed.
"""

from __future__ import annotations

import dataclasses
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from harness.compare.comparison import ComparedRow, Comparison, Ending
from harness.compare.table import LARGE, kernel_and_environment, missed, sentence, summary
from harness.core.outputs import marked
from harness.core.records import Measurement
from harness.core.text import counted

VERSION = 1

JSON_FILE = marked(
    "the comparison as JSON", rb'\A\{\n "version": \d+,\n "status": \d+,\n "(level|error)": '
)
JUNIT_FILE = marked(
    "the comparison as JUnit XML", rb'\A(?:<\?xml [^>]*>\s*)?<testsuites name="harness\.compare"'
)


def as_json(comparison: Comparison, status: int) -> str:
    """Render everything as JSON, times in seconds; `version` rises when a key changes its meaning.

    A row's `upper_limit` is the largest slowdown that may have been missed, as a ratio; null where
    the verdict is clear. The top-level one is the largest of all rows. `tested` is the number of
    rows that were measured on both sides.
    """
    rules = comparison.rules
    data = {
        "version": VERSION,
        "status": status,
        "level": rules.level,
        "threshold": rules.threshold,
        "tested": comparison.tested,
        "upper_limit": comparison.least_certain[1] if comparison.least_certain else None,
        "summary": summary(comparison),
        "counts": dict(comparison.counts),
        "notes": list(comparison.notes),
        "comparisons": [_row(row) for row in comparison.rows],
    }
    return json.dumps(data, indent=1) + "\n"


def error_json(message: str, status: int) -> str:
    """Render the error as JSON."""
    return json.dumps({"version": VERSION, "status": status, "error": message}, indent=1) + "\n"


def _row(row: ComparedRow) -> dict[str, Any]:
    data: dict[str, Any] = {
        "kernel": row.kernel,
        "device": row.environment.device,
        "cache": row.environment.cache,
        "input": dict(row.problem),
        "of": row.subject,
        "verdict": row.verdict.value,
        "base": _measured(row.base),
        "candidate": _measured(row.candidate),
        "notes": list(row.notes),
    }
    if row.change is not None:
        ratio, p_value = row.change.ratio, row.change.p_value
        data |= {"ratio": ratio.value, "low": ratio.low, "high": ratio.high}
        data |= {"p_value": p_value, "upper_limit": row.upper_limit}
    return data


def _measured(measurement: Measurement | None) -> dict[str, Any] | None:
    if measurement is None or measurement.timing is None:
        return None
    timing = measurement.timing
    return {
        "configuration": dict(measurement.config),
        "median_s": timing.median_s,
        "time_s": timing.time_s,
        "statistic": timing.statistic.value,
        "samples": timing.count,
    }


def as_junit(comparison: Comparison) -> str:
    """Render a suite for each kernel and device, with its summary, and a test case for each row.

    Regressions are failures.
    """
    root = ET.Element("testsuites", name="harness.compare")
    for (kernel, environment), group in groupby(comparison.rows, key=kernel_and_environment):
        rows = list(group)
        counts = {
            "tests": len(rows),
            "failures": sum(row.is_regression for row in rows),
            "errors": 0,
            "skipped": sum(row.verdict is Ending.MISSING for row in rows),
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
    elif row.verdict is Ending.MISSING:
        ET.SubElement(case, "skipped", message=line)
    else:
        ET.SubElement(case, "system-out").text = line


def _clean(text: str) -> str:
    """Replace the characters that XML 1.0 forbids, such as the colours of a compiler's log."""
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "?", text)


def _xml(root: ET.Element) -> str:
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def github(comparison: Comparison, files: Mapping[str, str]) -> Iterator[str]:
    """Render GitHub's workflow commands: an error for each kernel with regressions, else a notice.

    There is one a kernel, since GitHub shows ten errors in a step. `files` has the kernels' files
    in the repository.
    """
    for kernel, group in groupby(comparison.regressions, key=lambda row: row.kernel):
        rows = list(group)
        title = f"{kernel}: {counted(len(rows), 'regression')}"
        yield _command("error", "\n".join(map(sentence, rows)), title, files.get(kernel))
    if not comparison.regressions:
        yield _command("notice", summary(comparison), _notice_title(comparison))


def _notice_title(comparison: Comparison) -> str:
    """Return a title that claims no more than was measured."""
    limit = comparison.least_certain[1] if comparison.least_certain else 0.0
    if limit <= LARGE:
        return "no performance regression"
    return f"no performance regression found, {missed(limit)}"


def error_annotation(message: str) -> str:
    """Render the error as a GitHub annotation."""
    return _command("error", message, "performance cannot be compared")


def _command(kind: str, message: str, title: str, file: str | None = None) -> str:
    named = {"file": file, "title": title}
    properties = ",".join(f"{k}={_property(v)}" for k, v in named.items() if v)
    return f"::{kind} {properties}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
