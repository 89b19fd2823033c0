"""Report results databases as one self-contained HTML page."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.core.files import write_file

if TYPE_CHECKING:
    from harness.report.reproducing import Origin
    from harness.results.view import Results


def write_report(path: Path, found: Sequence[Results], origin: Origin | None = None) -> None:
    """Write the page whole or not at all.

    Raises UsageError where there is nothing to report or the file cannot be written.
    """
    from harness.report.page import page  # here: it takes seconds to load

    text = page(found, datetime.datetime.now(datetime.timezone.utc), origin)
    write_file(path, text)
