"""python -m harness.report DATABASE -o FILE: report results as one self-contained HTML page."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.commands.run import add_json, add_kernel_version, print_json, report_file, run_command
from harness.core.files import check_output
from harness.core.invocation import command_line

if TYPE_CHECKING:
    from harness.api.documents import ReportDocument
    from harness.results.view import Results


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(
        prog=command_line("report"),
        description="Write the results of databases as one HTML page, which needs no network.",
    )
    parser.add_argument("database", nargs="+", metavar="DATABASE", help="results database")
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        type=report_file,
        metavar="FILE",
        help="the page (.html)",
    )
    parser.add_argument("--space", metavar="NAME", help="only the space of this name")
    parser.add_argument(
        "--weights",
        type=Path,
        metavar="FILE",
        help="a workload: judge the choice by how often inputs come, and show how many calls the "
        "tuned range covers",
    )
    add_kernel_version(parser)
    add_json(parser)
    return run_command(parser, arguments, _report)


def _report(args: argparse.Namespace) -> int:
    check_output(args.output)
    # Here, since they take seconds to load.
    from harness.display.formats import make_console
    from harness.display.text import print_line
    from harness.report import write_report
    from harness.results.view import read_results

    found = read_results(
        args.database, args.space, builds=False, kernel_version=args.kernel_version
    )
    write_report(args.output, found, weights=args.weights)
    if args.json:
        print_json(_document(args.output, found))
    else:
        print_line(make_console(), f"{args.output}: the report")
    return 0


def _document(path: Path, found: Sequence[Results]) -> ReportDocument:
    from harness.api.documents import ReportDocument, ReportedDocument

    parts = [
        ReportedDocument(
            results.campaign.space_name,
            results.campaign.environment.device,
            len(results.measured),
        )
        for results in found
    ]
    return ReportDocument(report=str(path), results=parts)
