"""A comparison, or the error that prevented it, as JUnit XML.

JUnit has no official schema. This module writes the subset that Jenkins, GitLab and GitHub's report
actions all read. The standard library does it in a dozen lines, so no dependency is needed.
"""

from __future__ import annotations

import dataclasses
import re
import xml.etree.ElementTree as ET
from itertools import groupby

from harness.compare.comparison import ComparedRow, Comparison, Ending
from harness.compare.table import kernel_and_environment, sentence, summary
from harness.core.files import WRITTEN_BY


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
    head = f'<?xml version="1.0" encoding="UTF-8"?><!-- {WRITTEN_BY} -->'
    return f"{head}\n{ET.tostring(root, encoding='unicode')}\n"
