"""python -m harness.worker ADDRESS: measure on this machine for tuning runs elsewhere."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from harness.commands.run import run_command, whole_number
from harness.core.invocation import command_line


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    return run_command(_parser(), arguments, _run)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=command_line("worker"),
        description="Build and measure on this machine for `harness.tune --cluster ADDRESS`, until "
        "the scheduler ends. Whoever reaches the scheduler runs kernels here as you.",
    )
    parser.add_argument("address", metavar="ADDRESS", help="the Dask scheduler's, tls://HOST:PORT")
    parser.add_argument(
        "--device",
        action="append",
        default=[],
        metavar="NAME",
        help="offer this device, as `harness.tune --device` names it; may be repeated "
        "(default: all equal ones)",
    )
    parser.add_argument(
        "--builders",
        type=whole_number(1),
        metavar="N",
        help="builds at once (default: as many as there are spare cores)",
    )
    parser.add_argument(
        "--insecure", action="store_true", help="allow an address without encryption"
    )
    parser.add_argument("--quiet", action="store_true", help="print errors alone")
    return parser


def _run(args: argparse.Namespace) -> int:
    from harness.commands.worker.command import run  # here: it takes a second to load

    return run(args)
