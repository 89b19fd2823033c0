"""A comparison, or the reason why there is none, for machines: JSON, JUnit XML, annotations.

JUnit has no official schema; what is written is the part that Jenkins, GitLab and GitHub's report
actions read alike. It is a dozen lines of the standard library, which need no dependency.
"""

from __future__ import annotations

import dataclasses
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from harness.compare.comparison import Comparison, Ending, Row
from harness.compare.table import LARGE, missed, sentence, summary
from harness.core.records import Measurement

VERSION = 1


# -------------------------------------------------------------------------- JSON


def as_json(comparison: Comparison, status: int) -> str:
    """Everything, times in seconds; `version` rises when what is there changes its meaning.

    `upper_limit` of a row within noise is the largest slowdown that may have been missed, a ratio;
    that of all is the largest of them. Where there is none it is null. `tested` is how many rows
    were measured on both sides.
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
    """The reason why nothing could be compared."""
    return json.dumps({"version": VERSION, "status": status, "error": message}, indent=1) + "\n"


def _row(row: Row) -> dict[str, Any]:
    told: dict[str, Any] = {
        "kernel": row.kernel,
        "device": row.where.device,
        "input": dict(row.given),
        "of": row.of,
        "verdict": row.verdict.value,
        "base": _measured(row.base),
        "candidate": _measured(row.candidate),
        "notes": list(row.notes),
    }
    if row.change is not None:
        ratio, p_value = row.change.ratio, row.change.p_value
        told |= {"ratio": ratio.value, "low": ratio.low, "high": ratio.high}
        told |= {"p_value": p_value, "upper_limit": row.upper_limit}
    return told


def _measured(measurement: Measurement | None) -> dict[str, Any] | None:
    if measurement is None or measurement.timing is None:
        return None
    timing = measurement.timing
    return {
        "configuration": dict(measurement.config),
        "median_s": timing.median_s,
        "samples": timing.count,
    }


# ------------------------------------------------------------------------- JUnit


def as_junit(comparison: Comparison) -> str:
    """A suite for each kernel and device, with its summary, and a test case for each row;
    regressions are failures."""
    root = ET.Element("testsuites", name="harness.compare")
    for (kernel, where), group in groupby(comparison.rows, key=lambda r: (r.kernel, r.where)):
        rows = list(group)
        counts = {
            "tests": len(rows),
            "failures": sum(row.is_regression for row in rows),
            "errors": 0,
            "skipped": sum(row.verdict is Ending.MISSING for row in rows),
        }
        told = {name: str(number) for name, number in counts.items()}
        suite = ET.SubElement(root, "testsuite", {"name": _clean(f"{kernel} on {where}"), **told})
        for row in rows:
            _add_case(suite, row)
        of_suite = summary(dataclasses.replace(comparison, rows=rows))
        ET.SubElement(suite, "system-out").text = _clean(of_suite)
    return _xml(root)


def error_junit(message: str) -> str:
    """One test case, which is an error."""
    root = ET.Element("testsuites", name="harness.compare")
    counts = {"tests": "1", "failures": "0", "errors": "1", "skipped": "0"}
    suite = ET.SubElement(root, "testsuite", {"name": "harness.compare", **counts})
    case = ET.SubElement(suite, "testcase", classname="harness", name="compare")
    ET.SubElement(case, "error", message=_clean(message.splitlines()[0])).text = _clean(message)
    return _xml(root)


def _add_case(suite: ET.Element, row: Row) -> None:
    name = _clean(f"{row.given} ({row.of})")
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
    """Without what XML 1.0 cannot hold, such as the colours of a compiler's log."""
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "?", text)


def _xml(root: ET.Element) -> str:
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


# -------------------------------------------------------------------- annotations


def github(comparison: Comparison, files: Mapping[str, str]) -> Iterator[str]:
    """GitHub's workflow commands: an error for each kernel with regressions (of each kind GitHub
    shows ten in a step), else a notice. `files` are the kernels' files, in the repository."""
    for kernel, group in groupby(comparison.regressions, key=lambda row: row.kernel):
        rows = list(group)
        title = f"{kernel}: {len(rows)} regression{'s' if len(rows) > 1 else ''}"
        yield _command("error", "\n".join(map(sentence, rows)), title, files.get(kernel))
    if not comparison.regressions:
        yield _command("notice", summary(comparison), _green(comparison))


def _green(comparison: Comparison) -> str:
    """A title that promises no more than was measured."""
    limit = comparison.least_certain[1] if comparison.least_certain else 0.0
    if limit <= LARGE:
        return "no performance regression"
    return f"no performance regression found, {missed(limit)}"


def error_annotation(message: str) -> str:
    """The reason why nothing could be compared."""
    return _command("error", message, "performance cannot be compared")


def _command(kind: str, message: str, title: str, file: str | None = None) -> str:
    told = {"file": file, "title": title}
    properties = ",".join(f"{k}={_property(v)}" for k, v in told.items() if v)
    return f"::{kind} {properties}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
