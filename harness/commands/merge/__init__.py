"""python -m harness.merge OUT IN [IN ...]: merge results databases into one."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from harness.commands.run import add_kernel_version, run_command
from harness.core.invocation import command_line


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    return run_command(_parser(), arguments, _run)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=command_line("merge"),
        description="Add the measurements of results databases to OUT; those that OUT has already "
        "are not added again. The inputs do not change; OpenTuner may have made them without "
        "harness. OUT has OpenTuner's tables too, so a merged search can be continued there.",
    )
    where = "SQLite file or postgresql:// URL"
    parser.add_argument("out", metavar="OUT", help=f"database to add to ({where}); may be new")
    parser.add_argument("inputs", metavar="IN", nargs="+", help=f"database to add ({where})")
    add_kernel_version(parser, default="all")
    return parser


def _run(args: argparse.Namespace) -> int:
    from harness.commands.merge.command import run  # here: it takes a second to load

    return run(args)
