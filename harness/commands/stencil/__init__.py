"""python -m harness.stencil explore STENCIL.py: write the space of a stencil's variants."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from harness.commands.run import options_of, run_command, whole_number
from harness.core.invocation import command_line

_EPILOG = """\
A stencil is a Python file that defines an expression and a reference; see docs/stencil.md.
Exit code: 0 if the space is written, 2 for an error in the stencil or in the command.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    return run_command(_parser(), arguments, _run)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=command_line("stencil"),
        description="Write the space of a stencil: variants of its kernel, each with several\n"
        "thread configurations.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=("explore",))
    parser.add_argument("stencil", type=Path, metavar="STENCIL.py",
                        help="a Python file; kernels/stencils has eight")  # fmt: skip
    parser.add_argument("--size", type=whole_number(1), required=True, metavar="N",
                        help="length of a side, the argument of expression()")  # fmt: skip
    parser.add_argument("--count", type=whole_number(1), default=1000, metavar="K",
                        help="points in the space (default 1000)")  # fmt: skip
    parser.add_argument("--threads", type=whole_number(1), default=10, metavar="K",
                        help="most thread configurations of a variant (default 10)")  # fmt: skip
    parser.add_argument("-o", "--output", dest="folder", type=Path, metavar="FOLDER",
                        help="a new folder (default NAME_SIZE)")  # fmt: skip
    parser.add_argument("--seed", type=int, default=0,
                        help="seed of the random draws (default 0)")  # fmt: skip
    parser.add_argument("--designs", choices=("own", "shared"), default="own",
                        help="draw other points than for other stencils (own, the default), or the "
                        "same tiles, mappings and threads for all (shared)")  # fmt: skip
    return parser


def _run(args: argparse.Namespace) -> int:
    from harness.commands.stencil.command import (  # here: it takes a second to load
        ExploreOptions,
        explore_stencil,
    )

    return explore_stencil(options_of(ExploreOptions, args))
