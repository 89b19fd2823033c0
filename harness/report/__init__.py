"""Report results databases as one self-contained HTML page."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.core.outputs import marked, write_output

if TYPE_CHECKING:
    from harness.results.view import Results


REPORT = marked(
    "a report",
    rb'\A<!doctype html>\s<html lang="en">\s<head>\s(?:<meta [^>]*>\s)*?'
    rb'(?:<meta name="generator" content="harness'
    rb'|<meta name="color-scheme" content="light dark">\s<title>[^<]*: tuning report</title>)',
)
"""The second alternative is the head of reports before they named their generator."""


def write_report(
    path: Path,
    found: Sequence[Results],
    *,
    weights: Path | None = None,
    option: str = "--output",
) -> None:
    """Write the page whole or not at all. `weights` is a workload, by which inputs count.

    Raises UsageError where there is nothing to report, the file cannot be written, or another file
    is there; `option` is the one that named it.
    """
    from harness.report.page import page  # here: it takes seconds to load

    text = page(found, datetime.datetime.now(datetime.timezone.utc), weights)
    write_output(path, text, REPORT, option)
