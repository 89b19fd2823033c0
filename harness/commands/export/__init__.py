"""python -m harness.export DATABASE: write measurements as T4 results or CSV for other tools."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from harness.commands.run import add_kernel_version, run_command
from harness.core.invocation import command_line

ENDINGS = {"t4": ".t4.json", "csv": ".csv"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(
        prog=command_line("export"),
        description="Write every sample and failure of a database's last campaign, as T4 results "
        "or as CSV with its mapping.",
    )
    parser.add_argument("database", metavar="DATABASE", help="SQLite file or postgresql:// URL")
    parser.add_argument(
        "--format", choices=tuple(ENDINGS), default="t4", help="format (default t4)"
    )
    parser.add_argument("--space", metavar="NAME", help="only the space of this name")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="file to write (default: the space's name, next to the database)",
    )
    add_kernel_version(parser)
    return run_command(parser, arguments, _run)


def _run(args: argparse.Namespace) -> int:
    from harness.commands.export.command import run  # here: it takes a second to load

    return run(args)
