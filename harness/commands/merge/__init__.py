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
        description="Merge the results databases of several machines into one. Measurements that "
        "OUT already has are not added again, so the same databases can be merged each time they "
        "have grown. The inputs are only read. OpenTuner's own tables stay behind: they hold "
        "pickles, which can run code. Merged runs can be analysed like any other. To continue a "
        "search, use the database that it comes from.",
    )
    where = "SQLite file or SQLAlchemy URL"
    parser.add_argument("out", metavar="OUT", help=f"the database to add to ({where}); may be new")
    parser.add_argument("inputs", metavar="IN", nargs="+", help=f"a database to add ({where})")
    add_kernel_version(parser, default="all")
    return parser


def _run(args: argparse.Namespace) -> int:
    from harness.commands.merge.command import run  # here: it takes a second to load

    return run(args)
