"""Report results databases as one self-contained HTML page."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.core.files import write_output

if TYPE_CHECKING:
    from harness.results.view import Results


def write_report(
    path: Path, all_results: Sequence[Results], *, weights: Path | None = None
) -> None:
    """Write the page whole or not at all. `weights` is a workload, by which inputs count.

    Raises UsageError where there is nothing to report, the file cannot be written, or another file
    is there.
    """
    from harness.report.page import page  # here: it takes seconds to load

    text = page(all_results, datetime.datetime.now(datetime.timezone.utc), weights)
    write_output(path, text)
