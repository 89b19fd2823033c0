"""harness tune SPACE: find the fastest configuration of a kernel for each input."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

from harness.api.tune_options import TuneOptions
from harness.api.tuning import check_options
from harness.commands.run import main_of

main = main_of("tune")


def run(options: TuneOptions) -> int:
    """Tune; return the exit code."""
    if not options.list_techniques:
        check_options(options)
        options = _with_space(options)
    from harness.display.text import make_console

    with make_console(stderr=options.json).status("starting"):
        # Here, since OpenTuner and others take seconds to load.
        from harness.commands.tune.running import tune
    return tune(options)


def _with_space(options: TuneOptions) -> TuneOptions:
    """Read the space: its faults are printed before OpenTuner and others are loaded."""
    if not isinstance(options.space, Path):
        return options
    if options.progress:
        out = sys.stderr if options.json else sys.stdout
        print(f"{options.space}: reading the space", file=out, flush=True)
    from harness.space_file import load_spec  # here: it takes half a second to load

    return dataclasses.replace(options, space=load_spec(options.space))
