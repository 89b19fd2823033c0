"""python -m harness.tune SPACE: find the fastest configuration of a kernel for each input."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.api.checks import check_options
from harness.commands.run import run_command
from harness.commands.tune.options import TuneCommand, make_parser
from harness.core.files import check_output


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = make_parser()
    words = list(sys.argv[1:] if arguments is None else arguments)
    parser.set_defaults(arguments=words)
    without = " without --fresh" if "--fresh" in words else ""
    kept = f": all measurements are kept; run the same command again{without} to continue"
    return run_command(parser, arguments, _tune, kept)


def _tune(args: argparse.Namespace) -> int:
    options = TuneCommand.of(args)
    if not options.list_techniques:
        check_options(options)
        if options.report is not None:
            check_output(options.report)
        options = _with_space(options)
    from harness.display.formats import make_console

    with make_console(stderr=options.json).status("starting"):
        # Here, since OpenTuner and others take seconds to load.
        from harness.commands.tune.running import print_techniques, tune
    return print_techniques() if options.list_techniques else tune(options)


def _with_space(options: TuneCommand) -> TuneCommand:
    """Read the space: its faults are printed before OpenTuner and others are loaded."""
    if not isinstance(options.space, Path):
        return options
    if not options.quiet:
        out = sys.stderr if options.json else sys.stdout
        print(f"{options.space}: reading the space", file=out, flush=True)
    from harness.space_file import load_spec  # here: it takes half a second to load

    return dataclasses.replace(options, space=load_spec(options.space))
