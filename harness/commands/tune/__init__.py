"""python -m harness.tune SPACE: tune a kernel over its inputs and say what came of it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from harness.commands.run import run_command
from harness.commands.tune.checks import check_line, check_recordings
from harness.commands.tune.options import make_parser


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = make_parser()
    parser.set_defaults(given=list(sys.argv[1:] if arguments is None else arguments))
    kept = ": what was measured is kept; the same command goes on from there"
    return run_command(parser, arguments, _tune, kept)


def _tune(args: argparse.Namespace) -> int:
    if not args.list_techniques:
        check_line(args)
        check_recordings(args)
    from harness.display import make_console

    with make_console().status("starting"):
        from harness.commands.tune.running import (
            tune,  # here: OpenTuner and others take seconds to load
        )
    return tune(args)
