"""harness example NAME: write an example to tune, as the package has it."""

from __future__ import annotations

import sys
from pathlib import Path

from harness.commands.options import EXAMPLES, ExampleOptions
from harness.commands.run import main_of
from harness.core.files import write_file
from harness.core.text import command_line

_FILES = Path(__file__).resolve().parents[1] / "examples"
"""Links to folders of the repository; copies of a few of their files in a wheel."""

main = main_of("example")


def run(options: ExampleOptions) -> int:
    """Write the files of the example; return the exit code."""
    files = EXAMPLES[options.name].files
    targets = {options.output / file: _FILES / file for file in files}
    for target, file in targets.items():
        write_file(target, file.read_bytes(), parents=True, replace=False)
        print(f"wrote {target}", file=sys.stderr)
    print(f"to tune it: {command_line('tune', str(options.output / files[0]))}")
    return 0
