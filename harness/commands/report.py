"""harness report DATABASE -o FILE: report results as one self-contained HTML page."""

from __future__ import annotations

from harness.api.documents import ReportDocument
from harness.commands.run import print_json
from harness.display.text import make_console, print_line
from harness.options.others import ReportOptions
from harness.report import write_report
from harness.results.view import read_results


def run(options: ReportOptions) -> int:
    """Write the page; return the exit code."""
    results = read_results(options.database, options.space, builds=False)
    write_report(options.output, results, weights=options.weights)
    if not options.json:
        print_line(make_console(), f"{options.output}: the report")
        return 0
    print_json(ReportDocument.describe(report=options.output, results=results))
    return 0
