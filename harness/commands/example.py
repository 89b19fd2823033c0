"""harness example NAME: write an example to tune."""

from __future__ import annotations

import sys
from pathlib import Path

from harness.core.files import write_file
from harness.core.text import command_line
from harness.options.others import EXAMPLES, ExampleOptions

_FILES = Path(__file__).resolve().parents[1] / "examples"
"""Links to folders of the repository; copies of a few of their files in a wheel."""


def run(options: ExampleOptions) -> int:
    """Write the files of the example; return the exit code."""
    files = EXAMPLES[options.name]
    for file in files:
        path, content = options.output / file, (_FILES / file).read_bytes()
        write_file(path, content, parents=True, replace=False)
        print(f"wrote {path}", file=sys.stderr)
    print(f"to tune it: {command_line('tune', str(options.output / files[0]))}")
    return 0
