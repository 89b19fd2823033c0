"""A comparison, or the error that prevented it, as JUnit XML and GitHub annotations.

JUnit has no official schema. This module writes the subset that Jenkins, GitLab and GitHub's report
actions all read. The standard library does it in a dozen lines, so no dependency is needed.
"""

from __future__ import annotations

import dataclasses
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from itertools import groupby

from harness.compare.comparison import ComparedRow, Comparison, Ending
from harness.compare.table import LARGE, kernel_and_environment, missed, sentence, summary
from harness.core.outputs import marked
from harness.core.text import counted

JUNIT_FILE = marked(
    "the comparison as JUnit XML", rb'\A(?:<\?xml [^>]*>\s*)?<testsuites name="harness\.compare"'
)


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
